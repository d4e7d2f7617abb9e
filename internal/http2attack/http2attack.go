// Package http2attack has attacks on HTTP/2 servers, for tests of what they cost and for the
// benchmark that measures what other clients notice.
//
//	for _, a := range http2attack.All {
//		nc, err := net.Dial("tcp", addr)
//		…
//		code := a.Run(nc, 1000)
//	}
package http2attack

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/spindleloop/spindle/internal/http2"
)

// Attack is what one connection of an attacker sends.
type Attack struct {
	Name  string
	Start []byte             // follows the preface and empty SETTINGS, unless Raw is set
	Next  func(i int) []byte // what the step with number i sends; nil for nothing
	Pause time.Duration      // between steps
	Raw   bool               // Start is the beginning of the connection
	Deaf  bool               // the attacker does not read what the server sends
}

// None is the code of a connection that did not end with a GOAWAY.
const None = http2.Code(1 << 20)

// Run attacks until the server ends the connection, or until that many steps were sent. It
// closes the connection, and returns the code of the server's last GOAWAY.
func (a *Attack) Run(nc net.Conn, steps int) http2.Code {
	codes := make(chan http2.Code, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !a.Deaf {
			codes <- lastCode(nc)
		}
	}()
	a.send(nc, steps, ended)
	if a.Deaf {
		codes <- None
	}
	nc.Close()
	<-ended
	return <-codes
}

func (a *Attack) send(nc net.Conn, steps int, ended <-chan struct{}) {
	var first []byte
	if !a.Raw {
		first = frame([]byte(http2.Preface), settings, 0, 0, nil)
	}
	if _, err := nc.Write(append(first, a.Start...)); err != nil {
		return
	}
	for i := range steps {
		b := a.Next(i)
		if b == nil && a.Pause == 0 { // the server's time-outs end the rest
			<-ended
			return
		}
		if _, err := nc.Write(b); err != nil {
			if !a.Deaf {
				<-ended // the GOAWAY may be unread
			}
			return
		}
		if a.Pause > 0 {
			select {
			case <-ended:
				return
			case <-time.After(a.Pause):
			}
		}
	}
}

// lastCode reads frames to the end of the connection.
func lastCode(nc net.Conn) http2.Code {
	code := None
	var head [frameHeadSize]byte
	var payload [8]byte
	for {
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			return code
		}
		n := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if head[3] == goAway && n >= 8 {
			if _, err := io.ReadFull(nc, payload[:]); err != nil {
				return code
			}
			code, n = http2.Code(binary.BigEndian.Uint32(payload[4:])), n-8
		}
		if _, err := io.CopyN(io.Discard, nc, n); err != nil {
			return code
		}
	}
}
