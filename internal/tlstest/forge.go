package tlstest

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
)

// Peer is a connection of crypto/tls. It also has the socket, a record of the
// handshake and the keys, so that a test can forge records.
type Peer struct {
	*tls.Conn
	Raw  *Tap
	keys *bytes.Buffer
}

// NewPeer returns a peer on raw. Side is tls.Client or tls.Server.
func NewPeer(raw *net.TCPConn, side func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config) *Peer {
	p := &Peer{Raw: &Tap{TCPConn: raw}, keys: &bytes.Buffer{}}
	config = config.Clone()
	config.KeyLogWriter = p.keys
	p.Conn = side(p.Raw, config)
	return p
}

// Tap is a connection that records the bytes of the handshake.
type Tap struct {
	*net.TCPConn
	Sent, Received []byte
	First          []byte // sent in front of the first Write
	last           []byte // the last bytes received

	// If Rest is not nil, the next Write sends half of its bytes, closes Halved and
	// waits for Rest before it sends the other half.
	Halved, Rest chan struct{}
}

func (t *Tap) Read(p []byte) (int, error) {
	n, err := t.TCPConn.Read(p)
	if len(t.Received) < 16<<10 {
		t.Received = append(t.Received, p[:n]...)
	}
	t.last = append(t.last, p[:n]...)
	t.last = t.last[max(0, len(t.last)-64):]
	return n, err
}

// EndsWithAlert reports whether the last record received was an alert. Crypto/tls does
// not report that. In TLS 1.3 no other record is as short.
func (t *Tap) EndsWithAlert() bool {
	const size = 2 + 1 + 16 // the alert, its type and the authentication tag
	return bytes.HasPrefix(t.last[max(0, len(t.last)-5-size):], []byte{DataRecord, 3, 3, 0, size})
}

func (t *Tap) Write(p []byte) (int, error) {
	if len(t.Sent) < 16<<10 {
		t.Sent = append(t.Sent, p...)
	}
	if t.First != nil {
		n, err := t.TCPConn.Write(append(t.First, p...))
		n -= len(t.First)
		t.First = nil
		return n, err
	}
	if t.Rest == nil {
		return t.TCPConn.Write(p)
	}
	n, err := t.TCPConn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	close(t.Halved)
	<-t.Rest
	m, err := t.TCPConn.Write(p[n:])
	return n + m, err
}

// logged returns the secret with the given label from the key log.
func (p *Peer) logged(label string) []byte {
	for lines := bufio.NewScanner(bytes.NewReader(p.keys.Bytes())); lines.Scan(); {
		if word := strings.Fields(lines.Text()); word[0] == label {
			return must(hex.DecodeString(word[2]))
		}
	}
	panic("tlstest: no " + label + " in the key log")
}

// Types of records and of handshake messages.
const (
	AlertRecord     = 21
	HandshakeRecord = 22
	DataRecord      = 23

	HelloRequest = 0
	ClientHello  = 1
	ServerHello  = 2
	KeyUpdate    = 24
)

// Forger seals records of TLS 1.3 that crypto/tls would not send.
type Forger struct {
	secret []byte
	seq    uint64
	aead   cipher.AEAD
	iv     []byte
}

// Forge13 returns a Forger with the keys of p, a client that has sent nothing since
// the handshake.
func (p *Peer) Forge13() *Forger {
	if suite := p.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		panic("tlstest: Forge13 needs AES_128_GCM_SHA256, not " + tls.CipherSuiteName(suite))
	}
	f := &Forger{secret: p.logged("CLIENT_TRAFFIC_SECRET_0")}
	f.rekey()
	return f
}

func (f *Forger) expand(label string, n int) []byte {
	info := fmt.Appendf([]byte{0, byte(n), byte(len("tls13 " + label))}, "tls13 %s\x00", label)
	return must(hkdf.Expand(sha256.New, f.secret, string(info), n))
}

func (f *Forger) rekey() {
	f.aead = must(cipher.NewGCM(must(aes.NewCipher(f.expand("key", 16)))))
	f.iv = f.expand("iv", 12)
	f.seq = 0
}

// Update switches to the next keys.
func (f *Forger) Update() {
	f.secret = f.expand("traffic upd", sha256.Size)
	f.rekey()
}

// Record returns a sealed record of the given type.
func (f *Forger) Record(kind byte, text ...byte) []byte {
	nonce := bytes.Clone(f.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, f.seq) {
		nonce[4+i] ^= b
	}
	f.seq++
	text = append(bytes.Clone(text), kind)
	header := binary.BigEndian.AppendUint16([]byte{DataRecord, 3, 3}, uint16(len(text)+f.aead.Overhead()))
	return f.aead.Seal(header, nonce, text, header)
}

// RequestKeyUpdate returns a KeyUpdate message that requests one in return, and
// switches to the next keys.
func (f *Forger) RequestKeyUpdate() []byte {
	r := f.Record(HandshakeRecord, KeyUpdate, 0, 0, 1, 1)
	f.Update()
	return r
}

// Forge12 returns a record of TLS 1.2 with AES_128_GCM_SHA256, sealed as p would seal
// it. The last message of the handshake has number 0.
func (p *Peer) Forge12(server bool, number uint64, kind byte, text ...byte) []byte {
	hello, answer := p.Raw.Sent, p.Raw.Received
	if server {
		hello, answer = answer, hello
	}
	random := func(hello []byte, kind byte) []byte {
		if hello[5] != kind {
			panic("tlstest: the handshake does not start with a hello")
		}
		return hello[11:43] // after the headers of record and message, and the version
	}
	seed := "key expansion" + string(random(answer, ServerHello)) + string(random(hello, ClientHello))
	keys := prf12(p.logged("CLIENT_RANDOM"), seed, 40)
	key, salt := keys[:16], keys[32:36]
	if server {
		key, salt = keys[16:32], keys[36:40]
	}
	seq := binary.BigEndian.AppendUint64(nil, number)
	aead := must(cipher.NewGCM(must(aes.NewCipher(key))))
	with := append(bytes.Clone(seq), kind, 3, 3, byte(len(text)>>8), byte(len(text)))
	sealed := aead.Seal(bytes.Clone(seq), append(bytes.Clone(salt), seq...), text, with)
	return append(binary.BigEndian.AppendUint16([]byte{kind, 3, 3}, uint16(len(sealed))), sealed...)
}

func prf12(secret []byte, seed string, n int) (out []byte) {
	mac := func(parts ...string) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(strings.Join(parts, "")))
		return h.Sum(nil)
	}
	for a := mac(seed); len(out) < n; a = mac(string(a)) {
		out = append(out, mac(string(a), seed)...)
	}
	return out[:n]
}
