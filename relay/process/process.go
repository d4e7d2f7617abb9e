// Package process serves requests of package relay with worker processes, in any language.
// It is for work that must not share a process with the web plane: code that blocks, that
// holds a lock of its runtime, that may crash or use too much memory.
//
//	err := process.Serve(ctx, bus, "resize", process.Options{
//		Command: []string{"python3", "worker.py"}, Processes: 4,
//	})
//
// # The worker's side
//
// A worker reads frames from its standard input and writes frames to its standard output, in the form
// below. It gets one request at a time, and answers with any
// number of items, if the request has a "seq", and then a reply, or a
// failure with the text of the error as its body. All of them have
// the "id" of the request; items are numbered by "seq" from 1, and the reply has the number of
// items as its "seq". It ends when its input ends. Output for people goes to standard error.
//
// In Python, with the package of the directory python of this module:
//
//	from spindle import relay
//
//	def upper(request):
//	    return request.body.upper()
//
//	relay.work(upper)
//
// # Frames
//
// A worker in another language reads and writes frames:
//
//	4 bytes   the length of the rest, big-endian
//	4 bytes   the length of the header, big-endian
//	header    a JSON object
//	body      the rest, as it is
//
// The header has the fields "kind" (such as "request", "reply", "item", "failure" and
// "cancel"), "id" (a string of digits, and with a Token "-" and its digits), "seq", "attempt",
// "subject", "reply_to", "deadline_us" (the remaining time in microseconds), "traceparent",
// "tracestate" and "headers". Fields that are zero are
// left out, except for the "id" of a request, and unknown ones are ignored. Both sides of this
// package send that form only. They also accept a header in the binary form of package pyapp, which
// other programs must not send: any release may change it.
//
// # Workers with a socket
//
// With Options.Socket a worker uses a Unix socket, and may print to its standard output. It
// connects once, to the path in the environment variable SPINDLE_RELAY_SOCKET, reads and writes the
// same frames there, and ends when the connection does. In Go:
//
//	conn, err := net.Dial("unix", os.Getenv("SPINDLE_RELAY_SOCKET"))
//	…
//	err = process.Work(conn, conn, handle)
//
// A worker that does not connect within Options.StartTimeout is killed. Serve fails with
// an error if it was the first worker. Later, the call that waits for the worker fails;
// the *relay.RemoteError has the text of that error. If a call is cancelled before its
// worker has connected, the worker goes on to start, for a later call.
//
// Each worker has its own socket, in a directory that only this user can enter. The socket is
// removed when the worker has connected or ended, and the directory when Serve returns. On
// Linux, only connections from the worker's process group are accepted; others are closed. So
// the command may be a shell that starts the worker. A worker that leaves the group is refused,
// because it could not be killed. On other systems the mode of the directory is the only
// protection.
//
// # The life of a process
//
// Each process is the leader of a process group. When a call is cancelled or its deadline
// passes, the process gets a cancel frame with the "id" of the request. If it does not answer
// within Options.Grace, the group is killed, and another process takes its place. So it does
// when a process exits or writes something else than frames; the call then fails, and is not
// repeated. A process is also killed if a frame from or to it was cut by a cancellation. A
// process may answer both the request and the cancel frame: one answer is ignored. A process that
// answers a request twice is replaced; no other call fails. If processes end before they get a
// request, or do not connect, the next one starts after a growing pause. If a process has got a
// request and failed before it has answered anything, the pause is short and does not grow: the
// request may be the reason. A request waits for the end of the pause, or for a process that
// becomes free before.
//
// # Goroutines
//
// Serve is for tasks. In a simulated run it fails, because there are no processes.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/backoff"
	"github.com/spindleloop/spindle/internal/frame"
	"github.com/spindleloop/spindle/internal/intask"
	"github.com/spindleloop/spindle/internal/workerproc"
	"github.com/spindleloop/spindle/relay"
)

// Options configures Serve.
type Options struct {
	// Command is the program and its arguments.
	Command []string

	// Dir and Env are the working directory and the environment, as in package proc.
	Dir string
	Env []string

	// Stderr receives the standard error of all processes. Nil means os.Stderr, so that the
	// reason why a worker ended is seen.
	Stderr io.Writer

	// Socket makes each process use a Unix socket instead of its standard input and output.
	// The path is in the environment variable SPINDLE_RELAY_SOCKET. Standard output then goes
	// where standard error goes.
	Socket bool

	// StartTimeout is how long a process may take to connect to its socket. Zero means 10
	// seconds. Without Socket it has no effect.
	StartTimeout time.Duration

	// Group is the queue group, as in relay.ServeOptions.
	Group string

	// Processes is how many processes there may be. They start when they are first
	// needed, except for the first. Zero means 1.
	Processes int

	// Ready, if set, is called once, when requests reach the processes.
	Ready func()

	// MaxMemory limits the address space of each process in bytes. Zero means no limit.
	MaxMemory int64

	// MaxTime limits the time for a request, besides its deadline. A request that takes
	// longer fails as one that is cancelled does. Zero means no limit.
	MaxTime time.Duration

	// MaxBody limits the body of an answer in bytes. Zero means 16 MB.
	MaxBody int

	// Grace is how long a process may take to answer after its call was cancelled. Zero
	// means 100 milliseconds.
	Grace time.Duration

	// Backoff is the pause after a process has failed without an answer. It doubles with
	// each process in a row that fails before it gets a request, up to MaxBackoff. Zero means
	// 100 milliseconds and 10 seconds.
	Backoff, MaxBackoff time.Duration

	// Drain is how long Serve waits for running requests when it is stopped, as in
	// relay.ServeOptions.
	Drain time.Duration

	clock clock // for tests; the zero clock is the loop's
}

// clock measures the pauses before processes start.
type clock struct {
	now         func(ctx context.Context) time.Time
	moveOnAfter func(ctx context.Context, d time.Duration, fn func(context.Context) error) (expired bool, err error)
}

// socketVariable is the environment variable that has the path of a worker's socket, if
// Options.Socket is set.
const socketVariable = "SPINDLE_RELAY_SOCKET"

// errStartTimeout is the error of Serve, or of a request, when a process did not connect to its
// socket within Options.StartTimeout.
var errStartTimeout = errors.New("process: the worker process did not connect to its socket in time")

// errExited is the error of a request when its process ended or broke the protocol.
var errExited = errors.New("process: no valid answer from the worker process")

// Serve serves the requests of a subject with worker processes until ctx ends. Then it
// finishes the requests that run, and ends the processes. It must be called in a task. It
// fails if the first process cannot be started, or does not connect to its socket.
func Serve(ctx context.Context, bus relay.Bus, subject string, o Options) error {
	if bus == nil {
		panic("process: Serve: nil bus")
	}
	if len(o.Command) == 0 {
		panic("process: Serve without a command")
	}
	if spindle.Current(ctx) == nil {
		panic("process: Serve must be called in a task, with the task's context")
	}
	o = o.withDefaults()
	dir := ""
	if o.Socket {
		var err error
		if dir, err = workerproc.SocketDir(ctx); err != nil {
			return fmt.Errorf("process: Serve %s: %w", subject, err)
		}
		defer os.RemoveAll(dir)
	}
	// The processes outlive ctx, so that requests can be finished: relay waits twice for them.
	return intask.Shield(ctx, 2*o.drain(), func(shielded context.Context) error {
		return spindle.WithNursery(shielded, func(own context.Context, n *spindle.Nursery) error {
			defer n.Scope().Cancel(nil)
			p := &pool{o: o, ctx: own, n: n, dir: dir, backoff: backoff.Backoff{First: o.Backoff, Most: o.MaxBackoff}}
			defer p.close()
			first, err := p.start()
			if err == nil {
				err = p.connect(ctx, first)
			}
			if err != nil {
				return fmt.Errorf("process: Serve %s: %w", subject, err)
			}
			p.release(first)
			return relay.NewWorker(bus).Serve(ctx, subject, p.handle, relay.ServeOptions{
				Group: o.Group, Concurrency: o.Processes, InTasks: true, Ready: o.Ready, Drain: o.Drain,
			})
		})
	})
}

// drain returns how long relay waits for requests.
func (o Options) drain() time.Duration { return cmp.Or(o.Drain, 10*time.Second) }

func (o Options) withDefaults() Options {
	if o.Processes < 0 || o.MaxMemory < 0 || o.MaxTime < 0 || o.MaxBody < 0 || o.Grace < 0 ||
		o.Backoff < 0 || o.MaxBackoff < 0 || o.StartTimeout < 0 {
		panic("process: Serve with a negative limit")
	}
	if o.Processes == 0 {
		o.Processes = 1
	}
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
	if o.Grace == 0 {
		o.Grace = 100 * time.Millisecond
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = 10 * time.Second
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.clock.now == nil {
		o.clock = clock{now: spindle.Now, moveOnAfter: spindle.MoveOnAfter}
	}
	return o
}

// Work is the worker's side, for programs in Go: it serves requests from in until it ends.
// The handler may call send for items of a stream.
func Work(in io.Reader, out io.Writer, handle func(e *relay.Envelope, send func(body []byte) error) ([]byte, error)) error {
	const maxBody = 1 << 30
	for {
		e, err := frame.Read(in, maxBody)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Kind != relay.KindRequest {
			continue // a cancellation of a request that has been answered
		}
		answer := relay.Envelope{Kind: relay.KindItem, ID: e.ID, Trace: e.Trace}
		write := func() error {
			b, err := frame.Append(nil, &answer)
			if err == nil {
				_, err = out.Write(b)
			}
			return err
		}
		answer.Body, err = handle(e, func(body []byte) error {
			answer.Seq++
			answer.Body = body
			return write()
		})
		answer.Kind = relay.KindReply
		if err != nil {
			answer.Kind, answer.Body = relay.KindFailure, []byte(err.Error())
		}
		if err := write(); err != nil {
			return err
		}
	}
}
