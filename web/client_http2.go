package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/http2"
	"github.com/spindleloop/spindle/loop"
)

// h2Client is a connection of HTTP/2 to a server. Any number of requests share it. One task
// reads from it; another one writes while there is something to write, so what the requests of
// one turn send goes out together. Loop goroutine only.
//
//	open ──GOAWAY, idle, Close──▶ leaving ──no stream is left──▶ ended
//	  ├──the run ends──▶ orphaned ──no stream is left──────────────▲
//	  └──error─────────────────────────────────────────────────────┘
//
// A run cancels the two tasks when it ends. Of the requests that are shielded then, one at a
// time reads, and one writes.
type h2Client struct {
	p    *pool
	to   endpoint
	conn wireConn
	tls  *tls.ConnectionState
	fc   *http2.Conn

	sending  []*h2Call // have data that windows, or the server, do not take yet
	drained  spindle.Lot
	spare    []byte // a buffer for frames
	writing  bool   // a task writes, or will
	reading  bool   // a request reads, after the run has ended
	leaving  bool   // takes no more requests
	orphaned bool
	isIdle   bool  // counts as idle in the pool
	ended    error // why the connection has ended
	answered bool  // a response
	used     bool  // a request has begun

	idleTimer, pingTimer loop.Timer
	lastRead             time.Duration // on the loop's clock
}

var (
	errServerLeft  = errors.New("web: the server closed the connection")
	errPingTimeout = timeoutError("web: the server does not answer a ping")
)

func (p *pool) newH2Client(to endpoint, conn wireConn, state *tls.ConnectionState) *h2Client {
	hc := &h2Client{p: p, to: to, conn: conn, tls: state, lastRead: p.l.Time()}
	hc.fc = p.h2Shared().NewConn(nil)
	p.addShared(hc)
	if p.ends() { // the request that it is for begins next
		hc.orphaned = true
		return hc
	}
	p.nursery.GoWith(hc.task("HTTP/2 connection to "), hc.read)
	hc.flush()
	if o := p.c.HTTP2; o != nil && o.SendPingTimeout > 0 {
		hc.pingTimer = p.l.CallLater(o.SendPingTimeout, hc.checkHealth)
	}
	return hc
}

// task returns the options of a task of the connection.
func (hc *h2Client) task(name string) spindle.TaskOptions {
	return spindle.TaskOptions{Name: name + hc.to.address, Eager: true, Values: coro.Helper{Context: context.Background()}}
}

// outLimit is how much waits to be written before bodies wait too.
const outLimit = 64 << 10

// read is the task that reads.
func (hc *h2Client) read(ctx context.Context) error {
	for hc.ended == nil {
		// Answers to what the server sends would only add to what it does not read.
		if len(hc.fc.Out) > 4*outLimit {
			if hc.drained.Wait(ctx, "the server to read") != nil {
				break
			}
			continue
		}
		if hc.readOnce() != nil {
			break
		}
	}
	hc.orphan()
	return nil
}

// readOnce reads, and handles what was received. It fails if the calling task is cancelled.
func (hc *h2Client) readOnce() error {
	data, err := hc.conn.ReadBorrow()
	if canceled := (*spindle.Canceled)(nil); errors.As(err, &canceled) {
		return err
	}
	switch {
	case len(data) > 0:
		hc.receive(data)
	case err == io.EOF:
		hc.fail(errServerLeft)
	case err != nil:
		hc.fail(err)
	}
	return nil
}

// receive handles received bytes.
func (hc *h2Client) receive(data []byte) {
	hc.lastRead = hc.p.l.Time()
	hc.fc.Now = hc.lastRead
	for hc.ended == nil {
		n, event, err := hc.fc.Parse(data)
		if err != nil {
			hc.fail(fmt.Errorf("%w: %w", errMalformedResponse, err))
			return
		}
		data = data[n:]
		switch event {
		case http2.More:
			hc.pump()
			hc.settle()
			return
		case http2.Head:
			callOf(hc.fc.Stream()).head(hc.fc.Head(), hc.fc.Ends())
		case http2.Data:
			callOf(hc.fc.Stream()).data(hc.fc.Data())
		case http2.End:
			callOf(hc.fc.Stream()).ended(hc.fc.Head())
		case http2.Reset:
			callOf(hc.fc.Stream()).reset(hc.fc.Code())
		case http2.Failed:
			callOf(hc.fc.Stream()).fail(fmt.Errorf("%w: %v", errMalformedResponse, hc.fc.Code()))
		case http2.Goodbye:
			hc.serverLeaves()
		}
	}
}

// serverLeaves handles a GOAWAY. The server has not processed the streams after the last one
// that it names, and answers the others.
func (hc *h2Client) serverLeaves() {
	hc.leaving = true
	hc.p.removeShared(hc)
	for _, s := range slices.Clone(hc.fc.Streams()) {
		if s.ID() > hc.fc.LastID() {
			c := callOf(s)
			hc.fc.Reject(s, http2.Cancel)
			c.fail(fmt.Errorf("%w: the server leaves: %v", errUnprocessed, hc.fc.Code()))
		}
	}
}

// settle ends a connection that has no streams and takes no more, and times an idle one.
func (hc *h2Client) settle() {
	hc.flush()
	switch {
	case hc.ended != nil:
	case len(hc.fc.Streams()) > 0:
		hc.wakeWaiting()
	case hc.leaving || hc.orphaned:
		hc.close()
	default:
		hc.wakeWaiting()
		hc.setIdle()
	}
}

// wakeWaiting lets a request begin that waits for the end of others.
func (hc *h2Client) wakeWaiting() {
	if s := hc.p.h2.sites[hc.to]; s != nil && !s.free.Empty() && hc.fc.CanRequest() {
		s.free.Wake(1)
	}
}

// setIdle keeps an idle connection, or closes it if there are enough.
func (hc *h2Client) setIdle() {
	p := hc.p
	if hc.isIdle || !hc.used { // the request that it is for begins next
		return
	}
	others := 0
	for _, o := range p.site(hc.to).conns {
		if o.isIdle {
			others++
		}
	}
	if p.idleCount >= orDefault(p.c.MaxIdle, 100) || others >= orDefault(p.c.MaxIdlePerHost, 8) {
		hc.leave()
		return
	}
	hc.isIdle, hc.spare = true, nil
	p.idleCount++
	if d := orDefault(p.c.IdleTimeout, 90*time.Second); d > 0 {
		hc.idleTimer = p.l.CallLater(d, hc.leave)
	}
}

func (hc *h2Client) unsetIdle() {
	if hc.isIdle {
		hc.isIdle = false
		hc.p.idleCount--
		hc.idleTimer.Cancel()
	}
}

// leave takes no more requests, and closes the connection when there are none.
func (hc *h2Client) leave() {
	if !hc.leaving {
		hc.leaving = true
		hc.p.removeShared(hc)
		hc.settle()
	}
}

// close ends the connection in order. A GOAWAY tells the server so.
func (hc *h2Client) close() {
	if !hc.fc.Over() {
		hc.fc.LeaveFinally(http2.NoError)
	}
	hc.fail(net.ErrClosed)
}

// fail ends the connection. What is in Out, mostly a GOAWAY, is written first.
func (hc *h2Client) fail(err error) {
	if hc.ended != nil {
		return
	}
	hc.ended, hc.leaving = err, true
	hc.p.removeShared(hc)
	hc.pingTimer.Cancel()
	hc.drained.Wake(1)
	for _, s := range slices.Clone(hc.fc.Streams()) {
		c := callOf(s)
		hc.fc.Reject(s, http2.Cancel)
		c.fail(err)
	}
	if hc.orphaned || hc.p.ends() || len(hc.fc.Out) == 0 && !hc.writing {
		hc.conn.Close()
		return
	}
	hc.idleTimer = hc.p.l.CallLater(lastWords, func() { hc.conn.Close() })
	hc.startWriting()
}

// lastWords limits how long a connection that ends waits for the server to read.
const lastWords = 5 * time.Second

// checkHealth sends a PING if nothing was received for a while.
func (hc *h2Client) checkHealth() {
	o, l := hc.p.c.HTTP2, hc.p.l
	if quiet := l.Time() - hc.lastRead; quiet < o.SendPingTimeout {
		hc.pingTimer = l.CallLater(o.SendPingTimeout-quiet, hc.checkHealth)
		return
	}
	before := hc.lastRead
	hc.fc.Ping()
	hc.flush()
	timeout := o.PingTimeout
	if timeout <= 0 {
		timeout = 15 * time.Second
	}
	hc.pingTimer = l.CallLater(timeout, func() {
		if hc.lastRead == before {
			hc.fail(errPingTimeout)
			return
		}
		hc.checkHealth()
	})
}

// flush writes what is in Out, at the end of the turn.
func (hc *h2Client) flush() {
	if !hc.orphaned && hc.ended == nil && len(hc.fc.Out) > 0 {
		hc.startWriting()
	}
}

func (hc *h2Client) startWriting() {
	if hc.writing {
		return
	}
	hc.writing = true
	hc.p.l.Internal().CallSoon(atclose.Drop, func() {
		if hc.p.ends() {
			hc.handOver(&hc.writing)
			if hc.orphan(); hc.ended != nil {
				hc.conn.Close()
			}
			return
		}
		hc.p.nursery.GoWith(hc.task("write to HTTP/2 connection to "), hc.write)
	})
}

// write is the task that writes.
func (hc *h2Client) write(context.Context) error {
	defer hc.endWriting()
	for len(hc.fc.Out) > 0 {
		out := hc.fc.Out
		hc.fc.Out, hc.spare = hc.spare[:0], nil
		n, err := hc.writeTimed(out)
		if canceled := (*spindle.Canceled)(nil); errors.As(err, &canceled) {
			hc.fc.Out = append(out[n:len(out):len(out)], hc.fc.Out...)
			hc.orphan()
			break
		}
		if err != nil {
			hc.fc.Out = nil
			hc.fail(err)
			break
		}
		if cap(out) <= 2*outLimit && len(hc.fc.Streams()) > 0 {
			hc.spare = out
		}
		hc.pump()
		hc.settle() // pump may have ended the last stream
		hc.drained.Wake(1)
	}
	if hc.ended != nil {
		hc.idleTimer.Cancel()
		hc.conn.Close()
	} else if len(hc.fc.Streams()) == 0 && !hc.orphaned {
		hc.fc.Out, hc.spare = nil, nil // an idle connection needs none
	}
	return nil
}

// writeTimed writes out. WriteByteTimeout limits how long the server may take nothing of it.
func (hc *h2Client) writeTimed(out []byte) (n int, err error) {
	o := hc.p.c.HTTP2
	if o == nil || o.WriteByteTimeout <= 0 {
		return hc.conn.Write(out)
	}
	for len(out) > n && err == nil {
		hc.conn.SetWriteDeadline(hc.p.l.Internal().Kernel().Wall().Add(o.WriteByteTimeout))
		var some int
		some, err = hc.conn.Write(out[n:min(len(out), n+writeStep)])
		n += some
	}
	return n, err
}

// writeStep is how much is written before the time-out begins anew.
const writeStep = 4 << 10

// pump sends data of requests that wait, in turns.
func (hc *h2Client) pump() {
	for moved := true; moved && len(hc.fc.Out) < outLimit; {
		moved = false
		for _, c := range slices.Clone(hc.sending) {
			moved = c.sendSome() || moved
		}
	}
}
