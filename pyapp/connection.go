package pyapp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/spindleloop/spindle/cosync"
	"github.com/spindleloop/spindle/relay"
)

// ServeConn serves a connection with a Python protocol: the program accepts the connection, and
// Python reads and writes it. Target names what asyncio calls a protocol factory, such as a
// subclass of asyncio.Protocol, as "module:factory". The factory is called without arguments, as
// loop.create_server would call it, on the loop of the worker with the fewest running requests.
//
//	for {
//		conn, err := ln.Accept()
//		if err != nil {
//			return err
//		}
//		go app.ServeConn(ctx, conn, "echo:Echo")
//	}
//
// ServeConn returns nil when the protocol's transport is closed, whichever side has closed it and
// for whatever reason; the protocol's connection_lost gets the reason. If ctx ends, ServeConn
// returns its cause at once, and the transport is aborted. If the worker process ends, the
// connection is closed, and ServeConn fails with ErrCrashed. If the factory does not exist or
// fails, ServeConn fails with an *Error. Shutdown and Restart wait for connections as for calls.
//
// Conn must have a descriptor of its own, as a *net.TCPConn, a *net.UnixConn and a *stream.Conn
// have. ServeConn fails with others. One of them is *tls.Conn: its keys are in this process.
// Python gets what the program has not read. ServeConn closes conn in any case.
func (a *App) ServeConn(ctx context.Context, conn net.Conn, target string) error {
	if conn == nil {
		panic("pyapp: ServeConn: nil connection")
	}
	file, err := duplicate(conn)
	_ = conn.Close() // the duplicate keeps the connection
	if err != nil {
		return fmt.Errorf("pyapp: ServeConn: %w", err)
	}
	defer file.Close()
	w, err := a.acquire(ctx)
	if err != nil {
		return err
	}
	defer a.release(w)
	err = w.serveConn(ctx, file, target)
	if failed := (*Error)(nil); errors.As(err, &failed) {
		failed.Target = target
	}
	return err
}

// errNoDescriptor is the error of ServeConn for a connection that another process cannot take over.
var errNoDescriptor = errors.New("the connection has no descriptor of its own; pass the connection below it, and let Python handle the layers above, such as TLS")

// duplicate returns a file with a duplicate of a connection's descriptor.
func duplicate(conn net.Conn) (*os.File, error) {
	of, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T: %w", conn, errNoDescriptor)
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, failed := -1, error(nil)
	err = raw.Control(func(from uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, failed = syscall.Dup(int(from)); failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err == nil && failed != nil {
		err = os.NewSyscallError("dup", failed)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "connection"), nil
}

// accepted is a connection that goes to the worker before the frame of its call.
type accepted struct {
	call uint64
	file *os.File
}

// serveConn passes a connection to the worker and waits for its end.
func (w *worker) serveConn(ctx context.Context, file *os.File, target string) error {
	id, waiting := w.a.newCall(w, 1)
	e := &relay.Envelope{Kind: relay.KindRequest, ID: id}
	chain(ctx, e)
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	e.Headers[opHeader] = opConnection
	f, err := newFrame(e, []byte(target))
	if err == nil {
		f.accepted = &accepted{id, file}
		err = w.out.put(ctx, f)
	}
	if err == nil {
		var end answer
		if end, err = waiting.Get(ctx); err == nil {
			return end.err
		}
		w.post(&relay.Envelope{Kind: relay.KindCancel, ID: id})
	}
	if errors.Is(err, cosync.ErrClosed) {
		err = ErrCrashed
	}
	w.forget(id)
	return err
}

// pass passes a connection to the process. It reports false if it has failed, and the call with it.
func (w *worker) pass(c *accepted) bool {
	err := w.process.Descriptors.Send(c.file, c.call)
	_ = c.file.Close() // now Python's closing closes the connection
	switch {
	case err == nil:
		return true
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, os.ErrClosed):
		err = ErrCrashed
	default:
		err = fmt.Errorf("pyapp: ServeConn: %w", err)
	}
	w.a.mu.Lock()
	waiting := w.calls[c.call]
	delete(w.calls, c.call)
	w.a.mu.Unlock()
	if waiting != nil {
		_ = waiting.TryPut(answer{err: err})
	}
	return false
}
