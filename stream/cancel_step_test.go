package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/short"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// role is one task of a small program. The test cancels one role at some step and
// restarts it; the program must still complete.
type role struct {
	play func(ctx context.Context, s *stage) error
	ends bool // once all of these have ended, nothing more is written
}

var (
	reads   = role{play: reading}
	borrows = role{play: borrowing}
	writes  = role{play: writing, ends: true}
	accepts = role{play: accepting}
	dials   = role{play: dialling}
)

// stage is the state that the roles share.
type stage struct {
	from, to *stream.Conn
	ln       *stream.Listener

	writers   int
	lines     byte
	remaining int    // bytes still to be written
	sent      []byte // bytes that Write reported as written
	got       []byte

	accepted, dialled int
}

// interference says which role is cancelled, and when.
type interference struct {
	victim, step int
	lane         loop.Priority
}

// TestCancelAtEveryStep cancels each role of each program in its first step, in its
// second, and so on, on real sockets, before, among and after the other callbacks of
// the turn. Every byte that Write reports arrives once and in order.
func TestCancelAtEveryStep(t *testing.T) {
	programs := []struct {
		name  string
		roles []role
		waits []string // each of these must have been cancelled at least once
	}{
		{"transfer", []role{reads, writes}, []string{"Conn.Read", "Conn.Write"}},
		{"borrow", []role{borrows, writes}, []string{"Conn.Read", "Conn.Write"}},
		{"queue", []role{reads, borrows, writes, writes}, []string{"Conn.Read", "Conn.Write"}},
		{"connect", []role{accepts, dials}, []string{"Listener.Accept", "Dial"}},
	}
	for _, backend := range short.Backends() {
		for _, p := range programs {
			t.Run(backend+"/"+p.name, func(t *testing.T) {
				met := map[string]bool{}
				for victim := range p.roles {
					lanes, stride := []loop.Priority{loop.Normal, loop.High, loop.Low}, 1
					switch {
					case testing.Short():
						lanes, stride = lanes[:1], 3
					case !short.Full():
						lanes = lanes[:2]
					}
					for _, lane := range lanes {
						for step, over := 0, false; !over; step += stride {
							over = perform(t, backend, p.roles, interference{victim, step, lane}, met)
							if t.Failed() {
								t.Fatalf("victim %d, cancelled at step %d, lane %d", victim, step, lane)
							}
						}
					}
				}
				for _, wait := range p.waits {
					if !met[wait] {
						t.Errorf("no %s was cancelled", wait)
					}
				}
			})
		}
	}
}

// perform runs the program once. It reports whether the victim had ended before its
// step.
func perform(t *testing.T, backend string, roles []role, at interference, met map[string]bool) (over bool) {
	o := spindle.Options{Loop: loop.Options{Backend: backend, Watchdog: -1}}
	over = true
	err := o.Run(t.Context(), func(ctx context.Context) error {
		s := &stage{ln: listen(t, ctx, "unix"), remaining: freight}
		s.to, s.from = pair(t, ctx, "unix")
		check(t, s.to.SetWriteBuffer(1))
		var scope *spindle.Scope
		err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.GoWith(spindle.TaskOptions{Name: "injector", Priority: at.lane}, func(ctx context.Context) error {
				for range at.step {
					for before := s.look(ctx); before != "" && before == s.look(ctx); {
						if err := spindle.Yield(ctx); err != nil {
							return err
						}
					}
				}
				over = interfere(ctx, scope, met)
				return nil
			})
			for i, r := range roles {
				if r.ends {
					s.writers++
				}
				n.GoWith(spindle.TaskOptions{Name: fmt.Sprint("role ", i == at.victim)}, func(ctx context.Context) error {
					if i == at.victim {
						if err := spindle.WithScope(ctx, func(ctx context.Context, sc *spindle.Scope) error {
							scope = sc
							return r.play(ctx, s)
						}); err != nil {
							return err
						}
					}
					if err := r.play(ctx, s); err != nil { // restarts the role
						return err
					}
					return s.ended(r)
				})
			}
			return nil
		})
		s.from.Close()
		s.to.Close()
		s.ln.Close()
		if stats := spindle.LoopOf(ctx).Stats(); stats.FDs != 0 || stats.Timers != 0 {
			t.Errorf("loop is not idle: %+v", stats)
		}
		same(t, s.got, s.sent)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return over
}

// look describes everything that changes between two steps. It returns "" when all
// roles have ended.
func (s *stage) look(ctx context.Context) string {
	var b strings.Builder
	for _, task := range spindle.TasksOf(ctx) {
		if strings.HasPrefix(task.Name, "role") {
			b.WriteString(task.State + task.WaitsFor)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return b.String() + fmt.Sprint(s.lines, len(s.sent), len(s.got), s.accepted, s.dialled)
}

// interfere cancels the victim and records what it waited for.
func interfere(ctx context.Context, victim *spindle.Scope, met map[string]bool) (over bool) {
	if victim == nil || victim.Err() != nil {
		return victim != nil
	}
	for _, task := range spindle.TasksOf(ctx) {
		if task.Name == "role true" && task.State == "waiting" {
			met[task.WaitsFor] = true
		}
	}
	victim.Cancel(nil)
	return false
}

func (s *stage) ended(r role) error {
	if r.ends {
		if s.writers--; s.writers == 0 {
			return s.to.CloseWrite()
		}
	}
	return nil
}

const (
	freight  = 16 << 10
	lineSize = 6 << 10 // more than the socket accepts at once
)

func writing(_ context.Context, s *stage) error {
	for s.remaining > 0 {
		s.remaining -= lineSize
		s.lines++
		line := bytes.Repeat([]byte{s.lines}, lineSize)
		n, err := s.to.Write(line)
		s.sent = append(s.sent, line[:n]...)
		if err != nil {
			s.remaining += lineSize
			return err
		}
	}
	return nil
}

func reading(_ context.Context, s *stage) error {
	p := make([]byte, 3000)
	return s.read(func() ([]byte, error) { n, err := s.from.Read(p); return p[:n], err })
}

func borrowing(_ context.Context, s *stage) error { return s.read(s.from.ReadBorrow) }

func (s *stage) read(read func() ([]byte, error)) error {
	for {
		p, err := read()
		s.got = append(s.got, p...)
		if err != nil {
			return notEOF(err)
		}
	}
}

const calls = 3

func accepting(_ context.Context, s *stage) error {
	for s.accepted < calls {
		c, err := s.ln.AcceptConn()
		if err != nil {
			return err
		}
		s.accepted++
		c.Close()
	}
	return nil
}

func dialling(ctx context.Context, s *stage) error {
	for s.dialled < calls {
		c, err := stream.Dial(ctx, "unix", s.ln.Addr().String())
		if err != nil {
			return err
		}
		s.dialled++
		c.Close()
	}
	return nil
}
