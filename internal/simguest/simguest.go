// Package simguest runs a program of a simulated host in a process of its own, in another
// language. The process runs in steps: it is told what is ready and which time it is, makes
// calls of its sockets, which the simulated kernel performs, and says how long it waits. Only
// one side works at a time, so that a seed determines the run.
package simguest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

// Call is a message of the program. Op is one of the constants below, or the number of a call in
// python/libspindle/world.h.
type Call struct {
	Op, FD, A, B int
	Address      Address
	Data         []byte `json:",omitempty"`
	Size         int    // of the buffer to receive into
	Text         string `json:",omitempty"`
	Wait         time.Duration
}

// Calls besides those of sockets.
const (
	Park   = 100 + iota // the step is over; Wait is how long it waits, -1 for no limit
	Exit                // the program has returned; Text is its error, "" for none
	Lookup              // resolves the name in Text
	Note                // adds Text to the trace
)

// Answer is the answer to a Call. That to Park begins the next step.
type Answer struct {
	N       int // the result of a call, or a negative errno
	Address Address
	Data    []byte       `json:",omitempty"`
	Found   []netip.Addr `json:",omitempty"` // by Lookup

	Events          []kernel.Event `json:",omitempty"`
	Now, Mono, Wall int64          // nanoseconds: of the world, and of the host
}

// Address is a kernel.Addr, for JSON.
type Address struct {
	IP   netip.AddrPort
	Path string `json:",omitempty"`
}

// Of returns an address for JSON.
func Of(a kernel.Addr) Address { return Address{a.AddrPort, a.Path} }

// Kernel returns the address for the kernel.
func (a Address) Kernel() kernel.Addr { return kernel.Addr{AddrPort: a.IP, Path: a.Path} }

// Pipe is a connection between the two processes.
type Pipe struct {
	in  *json.Decoder
	out *json.Encoder
}

// NewPipe makes one.
func NewPipe(in io.Reader, out io.Writer) *Pipe {
	return &Pipe{json.NewDecoder(in), json.NewEncoder(out)}
}

// Ask sends a call and returns its answer.
func (p *Pipe) Ask(c Call) (a Answer, err error) {
	if err = p.out.Encode(&c); err == nil {
		err = p.in.Decode(&a)
	}
	return a, err
}

// ErrFailed reports that the program has failed; the text is its traceback.
var ErrFailed = errors.New("the program has failed")

// Serve runs the program at the other end of the pipe as p, until it returns.
func (pipe *Pipe) Serve(p *simkernel.Process) error {
	events := make([]kernel.Event, 64)
	for {
		c, err := pipe.next(p)
		switch {
		case err != nil:
			return fmt.Errorf("the program has ended without a result: %w", err)
		case c.Op == Exit && c.Text != "":
			return fmt.Errorf("%w:\n%s", ErrFailed, c.Text)
		case c.Op == Exit:
			return nil
		}
		n, err := p.Wait(events, c.Wait)
		if err != nil {
			return err
		}
		now := Answer{Events: events[:n], Now: int64(p.World().Now()), Mono: int64(p.Mono()), Wall: p.Wall().UnixNano()}
		if err := pipe.out.Encode(&now); err != nil {
			return err
		}
	}
}

// next performs calls until the step or the program is over, and returns that call.
func (pipe *Pipe) next(p *simkernel.Process) (c Call, err error) {
	for {
		c = Call{}
		if err := pipe.in.Decode(&c); err != nil || c.Op == Park || c.Op == Exit {
			return c, err
		}
		a := perform(p, &c)
		if err := pipe.out.Encode(&a); err != nil {
			return c, err
		}
	}
}

func perform(p *simkernel.Process, c *Call) (a Answer) {
	var err error
	switch c.Op {
	case Lookup:
		a.Found, err = p.LookupNetIP(context.Background(), "ip", c.Text)
	case Note:
		p.World().Note(p.Host(), c.Text)
	default:
		a.N, err = call(p, c, &a)
	}
	if err != nil {
		a.N = -int(syscall.EIO)
		var number syscall.Errno
		if errors.As(err, &number) {
			a.N = -int(number)
		}
	}
	return a
}

// call performs a call of a socket. The numbers are those of python/libspindle/world.h.
func call(p *simkernel.Process, c *Call, a *Answer) (n int, err error) {
	switch c.Op {
	case 0:
		return p.Socket(kernel.Family(c.A), kernel.Type(c.B))
	case 1:
		return 0, p.Bind(c.FD, c.Address.Kernel())
	case 2:
		return 0, p.Listen(c.FD, c.A)
	case 3:
		if n, err = p.Accept(c.FD); err == nil {
			from, _ := p.PeerAddr(n)
			a.Address = Of(from)
		}
		return n, err
	case 4:
		return 0, p.Connect(c.FD, c.Address.Kernel())
	case 5:
		a.Data = make([]byte, c.Size)
		n, err = p.Recv(c.FD, a.Data)
		a.Data = a.Data[:max(n, 0)]
		return n, err
	case 6:
		return p.Send(c.FD, c.Data)
	case 7:
		a.Data = make([]byte, c.Size)
		n, from, _, err := p.RecvFrom(c.FD, a.Data)
		a.Data, a.Address = a.Data[:max(n, 0)], Of(from)
		return n, err
	case 8:
		return p.SendTo(c.FD, c.Data, c.Address.Kernel())
	case 9:
		return 0, p.Shutdown(c.FD, kernel.Side(c.A))
	case 10:
		of, err := p.LocalAddr(c.FD)
		a.Address = Of(of)
		return 0, err
	case 11:
		of, err := p.PeerAddr(c.FD)
		a.Address = Of(of)
		return 0, err
	case 12:
		return 0, p.SetOption(c.FD, kernel.Option(c.A), c.B)
	case 13:
		return p.Option(c.FD, kernel.Option(c.A))
	case 14:
		return 0, p.CloseFD(c.FD)
	case 15:
		return 0, Watch(p, c.FD, kernel.Interest(c.A))
	case 16:
		ready, err := p.Readiness(c.FD, kernel.Interest(c.A))
		return int(ready), err
	}
	return 0, syscall.ENOSYS
}

// Watch sets the interest in a descriptor, with its number as the token. An empty one ends the
// watch.
func Watch(p *simkernel.Process, fd int, in kernel.Interest) error {
	if in == 0 {
		return p.Delete(fd)
	}
	err := p.Add(fd, kernel.Token(fd), in, kernel.Level)
	if err == syscall.EEXIST {
		err = p.Modify(fd, kernel.Token(fd), in, kernel.Level)
	}
	return err
}
