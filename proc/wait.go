package proc

import (
	"os"

	"github.com/spindleloop/spindle/loop"
)

// waiting is how a child's end is noticed: by its pidfd, which the loop watches, or
// where there is none by a goroutine that waits. That is not one of the loop's
// workers: children might take all of them, and then no other could be started, nor
// anything be read that the children wait for. Loop goroutine only.
type waiting struct {
	fd    int
	watch loop.Watch
	ready bool // fd is watched
}

func (w *waiting) begin(p *Process) {
	if fd, ok := p.handle(); ok {
		watch, err := p.l.Watch(fd, loop.Read, loop.OneShot, func(loop.Ready) {
			w.stop(p.l)
			p.ended(p.child.Wait()) // at once: it has ended
		})
		if err == nil {
			*w = waiting{fd, watch, true}
			return
		}
		p.l.Kernel().CloseFD(fd)
	}
	p.l.Kernel().Start(func() {
		state, err := p.child.Wait()
		_ = p.l.PostWith(loop.DropAtClose, func() { p.ended(state, err) })
	})
}

// stop ends the watch, and tells whether there was one.
func (w *waiting) stop(l *loop.Loop) bool {
	if !w.ready {
		return false
	}
	w.ready = false
	w.watch.Cancel()
	l.Kernel().CloseFD(w.fd)
	return true
}

// leave has the child waited for though nobody wants to know.
func (w *waiting) leave(l *loop.Loop, child *os.Process) {
	if w.stop(l) {
		l.Kernel().Start(func() { child.Wait() })
	}
}

func (p *Process) handle() (fd int, ok bool) {
	if p.cmd.noHandle {
		return -1, false
	}
	return handleOf(p.child)
}
