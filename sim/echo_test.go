package sim_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/transport"
)

// echo sends back what it receives.
type echo struct{}

func (echo) ConnectionMade(*transport.Conn)              {}
func (echo) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }
func (echo) ConnectionLost(*transport.Conn, error)       {}
func (echo) PauseWriting(c *transport.Conn)              { c.PauseReading() }
func (echo) ResumeWriting(c *transport.Conn)             { c.ResumeReading() }

// serveEcho returns a program that is an echo server until it is cancelled.
func serveEcho(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		s, err := transport.Listen(spindle.LoopOf(ctx), "tcp", address, transport.Options{
			Protocol: func() transport.Protocol { return echo{} },
		})
		if err != nil {
			return err
		}
		defer s.Close()
		var forever spindle.Lot
		return forever.Wait(ctx, "the end")
	}
}

// asker sends messages one after the other, each when the one before has come back
// completely.
type asker struct {
	messages []string
	got      string
	conn     *transport.Conn
	done     func(error)
}

func (a *asker) ConnectionMade(c *transport.Conn) {
	a.conn = c
	a.next()
}

func (a *asker) next() {
	if len(a.messages) == 0 {
		a.conn.Close()
		return
	}
	io.WriteString(a.conn, a.messages[0])
}

func (a *asker) DataReceived(c *transport.Conn, data []byte) {
	a.got += string(data)
	switch want := a.messages[0]; {
	case len(a.got) < len(want):
	case a.got != want:
		a.done(fmt.Errorf("got %.40q, want %.40q", a.got, want))
		c.Abort()
	default:
		a.got, a.messages = "", a.messages[1:]
		a.next()
	}
}

func (a *asker) ConnectionLost(c *transport.Conn, err error) {
	if err == nil && len(a.messages) > 0 {
		err = io.ErrUnexpectedEOF
	}
	a.done(err)
}

// ask sends messages to an echo server and checks the answers.
func ask(ctx context.Context, address string, messages ...string) error {
	answer := spindle.NewFuture[struct{}](ctx)
	done := func(err error) { // the first call counts
		if err != nil {
			answer.Reject(err)
		} else {
			answer.Resolve(struct{}{})
		}
	}
	transport.Connect(context.Background(), spindle.LoopOf(ctx), "tcp", address, transport.ConnectOptions{Protocol: &asker{messages: messages, done: done}, OnError: done})
	_, err := answer.Await(ctx)
	return err
}

// loopback is an address of every host, with a free port.
var loopback = netip.MustParseAddrPort("127.0.0.1:0")
