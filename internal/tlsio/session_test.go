package tlsio_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/spindleloop/spindle/internal/tlsio"
	"github.com/spindleloop/spindle/internal/tlstest"
)

// side is one side of a connection in memory: a Session and its Socket.
type side struct {
	tlsio.Session
	in   []byte // arrived, and not received
	out  []byte // sent; see take
	err  error  // of Receive when in is empty; nil means ErrNoInput
	most int    // bytes that one Receive returns; 0 means no limit
}

func (s *side) Receive(p []byte) (int, error) {
	if len(s.in) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		return 0, tlsio.ErrNoInput
	}
	if s.most > 0 {
		p = p[:min(len(p), s.most)]
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

func (s *side) Send(p []byte) { s.out = append(s.out, p...) }

// take returns what was sent since the last call.
func (s *side) take() []byte {
	p := s.out
	s.out = nil
	return p
}

func (s *side) LocalAddr() net.Addr  { return &net.TCPAddr{Port: 1} }
func (s *side) RemoteAddr() net.Addr { return &net.TCPAddr{Port: 2} }

func newServer(config *tls.Config) *side {
	s := &side{}
	s.Init(tls.Server, config, s)
	return s
}

func newClient(config *tls.Config) *side {
	c := &side{}
	c.Init(tls.Client, config, c)
	return c
}

// shake performs the handshakes of both sides by steps. Each step gets at most piece
// bytes of input.
func shake(t *testing.T, c, s *side, piece int) {
	t.Helper()
	var toServer, toClient []byte
	clientEnded, serverEnded := c.Step(), false
	toServer = c.take()
	for !clientEnded || !serverEnded {
		if len(toServer) == 0 && len(toClient) == 0 {
			t.Fatal("both sides wait for input")
		}
		if n := min(piece, len(toServer)); n > 0 && !serverEnded {
			s.Feed(toServer[:n])
			toServer = toServer[n:]
			serverEnded = s.Step()
			toClient = append(toClient, s.take()...)
		}
		if n := min(piece, len(toClient)); n > 0 && !clientEnded {
			c.Feed(toClient[:n])
			toClient = toClient[n:]
			clientEnded = c.Step()
			toServer = append(toServer, c.take()...)
		}
	}
	if err := errors.Join(c.Result(), s.Result()); err != nil {
		t.Fatal(err)
	}
	s.in = append(s.in, toServer...)
	c.in = append(c.in, toClient...) // session tickets
}

// pair returns the two sides of an open connection.
func pair(t *testing.T) (c, s *side) {
	t.Helper()
	c, s = newClient(tlstest.Identity().Client), newServer(tlstest.Identity().Server)
	shake(t, c, s, 1<<20)
	return c, s
}

// encrypt sends p from one side to the other.
func encrypt(t *testing.T, from, to *side, p string) {
	t.Helper()
	if n, err := from.Encrypt([]byte(p)); n != len(p) || err != nil {
		t.Fatal(n, err)
	}
	to.in = append(to.in, from.take()...)
}

func wantDecrypted(t *testing.T, s *side, want string) {
	t.Helper()
	buf := make([]byte, 100)
	if n, err := s.Decrypt(buf); string(buf[:n]) != want || err != nil {
		t.Fatalf("decrypted %q, %v; want %q", buf[:n], err, want)
	}
}

func wantFailure(t *testing.T, s *side, want error, input tlsio.Input) {
	t.Helper()
	n, err := s.Decrypt(make([]byte, 100))
	if n != 0 || !errors.Is(err, want) || s.Input() != input {
		t.Fatalf("decrypted %d bytes, %v, input %d; want %v, input %d", n, err, s.Input(), want, input)
	}
}

// TestPartialRecords: Decrypt continues a record that arrives in pieces.
func TestPartialRecords(t *testing.T) {
	c, s := pair(t)
	s.Encrypt([]byte("hello"))
	records := s.take()
	for i, b := range records {
		if i > 0 {
			wantFailure(t, c, tlsio.ErrNoInput, tlsio.More)
		}
		c.in = append(c.in, b)
	}
	wantDecrypted(t, c, "hello")
	wantFailure(t, c, tlsio.ErrNoInput, tlsio.More)
	if c.Buffered() {
		t.Error("Buffered after everything was read")
	}
}

// TestBuffered: a small Decrypt leaves the rest of a record in the session.
func TestBuffered(t *testing.T) {
	c, s := pair(t)
	encrypt(t, s, c, "abcde")
	buf := make([]byte, 2)
	for _, want := range []string{"ab", "cd"} {
		if n, err := c.Decrypt(buf); string(buf[:n]) != want || err != nil || !c.Buffered() {
			t.Fatalf("%q, %v", buf[:n], err)
		}
	}
	wantDecrypted(t, c, "e")
}

func TestEncryptTakesALimitedNumberOfBytes(t *testing.T) {
	c, s := pair(t)
	sent, got := make([]byte, tlsio.MaxPlaintext+1), []byte(nil)
	if n, err := c.Encrypt(sent); n != tlsio.MaxPlaintext || err != nil {
		t.Fatal(n, err)
	}
	s.in = append(s.in, c.take()...)
	for buf := make([]byte, 1<<20); len(got) < tlsio.MaxPlaintext; {
		n, err := s.Decrypt(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if !bytes.Equal(got, sent[:tlsio.MaxPlaintext]) {
		t.Error("the plaintexts differ")
	}
}

func TestCloseNotify(t *testing.T) {
	c, s := pair(t)
	if made, err := s.CloseWrite(); !made || err != nil {
		t.Fatal(made, err)
	}
	c.in = append(c.in, s.take()...)
	c.err = io.EOF
	wantFailure(t, c, io.EOF, tlsio.Ended)
	if made, err := s.CloseWrite(); made || err != nil || len(s.take()) > 0 {
		t.Error("close_notify was made twice")
	}
	if _, err := s.Encrypt([]byte("late")); err == nil {
		t.Error("Encrypt after CloseWrite")
	}
	encrypt(t, c, s, "the other direction is open")
	wantDecrypted(t, s, "the other direction is open")
}

// TestEndWithoutCloseNotify: between two records it is io.EOF, and Input distinguishes
// it from close_notify. Within a record it is io.ErrUnexpectedEOF.
func TestEndWithoutCloseNotify(t *testing.T) {
	c, s := pair(t)
	encrypt(t, s, c, "hello")
	c.err = io.EOF
	wantDecrypted(t, c, "hello")
	wantFailure(t, c, io.EOF, tlsio.Truncated)

	c, s = pair(t)
	wantFailure(t, c, tlsio.ErrNoInput, tlsio.More) // after the session tickets
	s.Encrypt([]byte("hello"))
	c.in, c.err = s.take()[:7], io.EOF
	wantFailure(t, c, io.ErrUnexpectedEOF, tlsio.Broken)
}

func TestReceiveFails(t *testing.T) {
	c, _ := pair(t)
	c.err = io.ErrClosedPipe
	wantFailure(t, c, io.ErrClosedPipe, tlsio.Broken)
	wantFailure(t, c, io.ErrClosedPipe, tlsio.Broken)
}

func TestBadRecordSendsAnAlert(t *testing.T) {
	c, s := pair(t)
	wantFailure(t, c, tlsio.ErrNoInput, tlsio.More)
	s.Encrypt([]byte("hello"))
	c.in = s.take()
	c.in[9] ^= 1
	if _, err := c.Decrypt(make([]byte, 100)); err == nil || c.Input() != tlsio.Broken {
		t.Error(err, c.Input())
	}
	s.in = append(s.in, c.take()...)
	var alert *net.OpError
	if _, err := s.Decrypt(make([]byte, 100)); !errors.As(err, &alert) || alert.Op != "remote error" {
		t.Errorf("the peer got %v", err)
	}
}

// forging returns an open server session, and its client's keys.
func forging(t *testing.T) (*side, *tlstest.Forger) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	peer := tlstest.NewPeer(raw.(*net.TCPConn), tls.Client, tlstest.Identity().Client)
	shaken := make(chan error, 1)
	go func() { shaken <- peer.Handshake() }()
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	s := newServer(tlstest.Identity().Server)
	buf := make([]byte, 1<<16)
	err = s.Handshake(t.Context(), func() error {
		near.Write(s.take())
		n, err := near.Read(buf)
		s.Feed(buf[:n])
		return err
	})
	s.take()
	if err := errors.Join(err, <-shaken); err != nil {
		t.Fatal(err)
	}
	return s, peer.Forge13()
}

// TestKeyUpdates: each request is answered. The answers that the owner has not sent are
// limited.
func TestKeyUpdates(t *testing.T) {
	s, forger := forging(t)
	for range 1000 {
		s.in = append(s.in, forger.RequestKeyUpdate()...)
		s.in = append(s.in, forger.Record(tlstest.DataRecord, 'x')...)
		wantDecrypted(t, s, "x")
		if len(s.take()) == 0 {
			t.Fatal("a key update was not answered")
		}
		s.Drained()
	}
	unsent, err := 0, error(nil)
	for err == nil {
		s.in = append(s.in, forger.RequestKeyUpdate()...)
		s.in = append(s.in, forger.Record(tlstest.DataRecord, 'x')...)
		_, err = s.Decrypt(make([]byte, 100))
		if unsent += len(s.take()); unsent > tlsio.MaxUnreadReplies+100 {
			t.Fatalf("%d bytes of answers", unsent)
		}
	}
	if err != tlsio.ErrNotReading || s.Input() != tlsio.Broken {
		t.Error(err, s.Input())
	}
}

// TestRandomTraffic compares what two sessions exchange in random pieces.
func TestRandomTraffic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c, s := pair(t)
	for _, x := range []struct{ from, to *side }{{c, s}, {s, c}} {
		sent, got, flight := []byte(nil), []byte(nil), []byte(nil)
		for round := 0; round < 500 || len(got) < len(sent); round++ {
			if p := make([]byte, r.IntN(40_000)); round < 500 && r.IntN(4) == 0 {
				for i := range p {
					p[i] = byte(r.Uint32())
				}
				n, err := x.from.Encrypt(p)
				if err != nil {
					t.Fatal(err)
				}
				sent = append(sent, p[:n]...)
				flight = append(flight, x.from.take()...)
			}
			n := min(len(flight), 1+r.IntN(30_000))
			x.to.in, flight = append(x.to.in, flight[:n]...), flight[n:]
			x.to.most = r.IntN(2000)
			buf := make([]byte, 1+r.IntN(30_000))
			n, err := x.to.Decrypt(buf)
			if err != nil && err != tlsio.ErrNoInput {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		if !bytes.Equal(sent, got) {
			t.Error("the plaintexts differ")
		}
	}
}
