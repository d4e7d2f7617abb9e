package tlsio

import (
	"context"
	"errors"
	"iter"
	"net"

	"github.com/spindleloop/spindle/internal/goid"
)

// handshake is the state of a Session until it is Open.
type handshake struct {
	wait func() error // returns once there is input, or with the reason why there is none

	// For Step.
	resume  func() (struct{}, bool) // resumes the coroutine; nil before the first Step
	yield   func(struct{}) bool
	err     error // the result
	aborted bool
}

// Handshake performs the handshake on the caller's stack. It calls wait where it needs
// input: wait waits until all records are sent and input has arrived, and feeds it.
// Callbacks of the tls.Config get ctx. If wait fails, so does the handshake, but its
// error need not wrap that of wait.
func (s *Session) Handshake(ctx context.Context, wait func() error) error {
	s.handshake.wait = wait
	s.state = Handshaking
	err := s.conn.HandshakeContext(ctx)
	if s.conn.ConnectionState().HandshakeComplete {
		err = nil
	}
	s.conclude(err)
	return err
}

// conclude ends the handshake.
func (s *Session) conclude(err error) {
	s.handshake.err = err
	if s.state = Failed; err == nil {
		s.state, s.buffered, s.handshake = Open, true, nil
	}
}

// Step performs the handshake until it needs more input than was fed, or has ended. It
// reports whether the handshake has ended. Steps may run on any goroutine, one at a
// time. Callbacks of the tls.Config run in Step; if one panics, Step panics.
//
// The owner must end a handshake that it began with Step, if necessary by Abort: a
// suspended coroutine is never collected.
func (s *Session) Step() (ended bool) {
	h := s.handshake
	if h.resume == nil {
		s.state = Handshaking
		h.wait = h.suspend
		h.resume, _ = iter.Pull(s.stepping)
	}
	h.resume()
	return s.state != Handshaking
}

// Abort ends a handshake begun by Step. Like Step, it must not run on a locked thread.
func (s *Session) Abort() {
	if h := s.handshake; h != nil && h.resume != nil && s.state == Handshaking {
		h.aborted = true
		h.resume()
	}
}

// Result returns the error of a handshake that Step reported as ended.
func (s *Session) Result() error {
	if s.state == Open {
		return nil
	}
	return s.handshake.err
}

// stepping is the body of the coroutine.
func (s *Session) stepping(yield func(struct{}) bool) {
	s.handshake.yield = yield
	err := errors.New("tls: the handshake panicked")
	defer func() { // deferred because callbacks of the tls.Config may panic
		s.conclude(err)
		goid.ThreadLock{}.Restore() // the runtime requires a coroutine to end with the thread lock it began with
	}()
	err = s.conn.Handshake()
}

// ErrLockedThread ends a handshake that would switch on a locked thread, which would
// crash the process.
var ErrLockedThread = errors.New("tls: a function of the tls.Config left its thread locked (runtime.LockOSThread)")

// suspend waits for input in a coroutine.
func (h *handshake) suspend() error {
	if h.aborted {
		return net.ErrClosed
	}
	if *goid.LockWord(goid.Current()) != 0 {
		return ErrLockedThread
	}
	h.yield(struct{}{})
	return nil
}
