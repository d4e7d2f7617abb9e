package proc

import (
	"os"

	"github.com/spindleloop/spindle/internal/atclose"
	"github.com/spindleloop/spindle/loop"
)

// exitWatch detects the exit of a child. The loop watches the child's pidfd. Without
// one, a goroutine waits for the child. It is not one of the loop's workers:
// children might occupy all of them, and then no other child could be started and
// nothing could be read that the children wait for. Loop goroutine only.
type exitWatch struct {
	fd     int
	watch  loop.Watch
	active bool // fd is watched
}

func (w *exitWatch) start(p *Process) {
	if fd, ok := p.pidfd(); ok {
		watch, err := p.l.Watch(fd, loop.Readable, loop.OneShot, func(loop.Ready) {
			w.stop(p.l)
			p.onExit(p.child.Wait()) // returns at once, because the child has exited
		})
		if err == nil {
			*w = exitWatch{fd, watch, true}
			return
		}
		p.l.Internal().Kernel().CloseFD(fd)
	}
	p.l.Internal().Kernel().Start(func() {
		state, err := p.child.Wait()
		_ = p.l.Internal().Post(atclose.Drop, func() { p.onExit(state, err) })
	})
}

// stop ends the watch. It reports whether there was one.
func (w *exitWatch) stop(l *loop.Loop) bool {
	if !w.active {
		return false
	}
	w.active = false
	w.watch.Cancel()
	l.Internal().Kernel().CloseFD(w.fd)
	return true
}

// detach lets a goroutine reap the child, without telling the Process.
func (w *exitWatch) detach(l *loop.Loop, child *os.Process) {
	if w.stop(l) {
		l.Internal().Kernel().Start(func() { child.Wait() })
	}
}

func (p *Process) pidfd() (fd int, ok bool) {
	if p.cmd.noPidfd {
		return -1, false
	}
	return openPidfd(p.child)
}
