package simkernel

import (
	"syscall"

	"github.com/spindleloop/spindle/internal/kernel"
)

// firstFD is the lowest descriptor. The three below it are standard input, output and
// error, which are not open in simulated programs.
const firstFD = 3

// maxFDs is the default limit of descriptors.
const maxFDs = 1 << 20

// files are a process's descriptors. As in Unix, a new one gets the lowest free number, so
// that numbers are soon used again.
type files struct {
	table []*file
	free  []int // a heap of numbers below the length of the table
	open  int
	limit int
}

func newFiles() *files { return &files{table: make([]*file, firstFD, 16), limit: maxFDs} }

// all returns the open files, ordered by number.
func (t *files) all() (open []*file) {
	for _, f := range t.table {
		if f != nil {
			open = append(open, f)
		}
	}
	return open
}

func (t *files) put(f *file) {
	t.open++
	if len(t.free) == 0 {
		f.fd = len(t.table)
		t.table = append(t.table, f)
		return
	}
	f.fd = t.free[0]
	t.table[f.fd] = f
	last := len(t.free) - 1
	moved := t.free[last]
	t.free = t.free[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			if last > 0 {
				t.free[i] = moved
			}
			return
		}
		if child+1 < last && t.free[child+1] < t.free[child] {
			child++
		}
		if moved <= t.free[child] {
			t.free[i] = moved
			return
		}
		t.free[i] = t.free[child]
		i = child
	}
}

func (t *files) remove(fd int) {
	t.open--
	t.table[fd] = nil
	i := len(t.free)
	t.free = append(t.free, fd)
	for i > 0 && fd < t.free[(i-1)/2] {
		t.free[i] = t.free[(i-1)/2]
		i = (i - 1) / 2
	}
	t.free[i] = fd
}

// SetFDLimit sets the limit of open descriptors.
func (p *Process) SetFDLimit(n int) { p.files.limit = n }

// OpenFDs returns the number of open descriptors.
func (p *Process) OpenFDs() int { return p.files.open }

// canOpen fails if the process may not open another descriptor.
func (p *Process) canOpen() error {
	switch {
	case p.killed != nil:
		return syscall.ENETDOWN
	case p.files.open >= p.files.limit:
		return syscall.EMFILE
	}
	return nil
}

// open makes a descriptor for an object.
func (p *Process) open(o object) *file {
	f := &file{p: p, object: o}
	p.files.put(f)
	return f
}

func (p *Process) file(fd int) (*file, error) {
	if fd < 0 || fd >= len(p.files.table) || p.files.table[fd] == nil {
		return nil, syscall.EBADF
	}
	return p.files.table[fd], nil
}

// CloseFD closes a descriptor.
func (p *Process) CloseFD(fd int) error {
	f, err := p.file(fd)
	if err != nil {
		return err
	}
	f.watched = false
	p.files.remove(fd)
	f.object.release()
	return nil
}

// byteStream is an object that transfers bytes: a connection or a pipe.
type byteStream interface {
	recv(b []byte) (int, error)
	send(b []byte) (int, error)
}

// Read reads from a connection, pipe or datagram socket.
func (p *Process) Read(fd int, b []byte) (int, error) {
	f, err := p.file(fd)
	if err != nil {
		return 0, err
	}
	switch o := f.object.(type) {
	case byteStream:
		return o.recv(b)
	case *dgram:
		n, _, _, err := o.recvFrom(b)
		return n, err
	}
	return 0, syscall.EINVAL
}

// Write writes to a connection, pipe or datagram socket.
func (p *Process) Write(fd int, b []byte) (int, error) {
	f, err := p.file(fd)
	if err != nil {
		return 0, err
	}
	switch o := f.object.(type) {
	case byteStream:
		return o.send(b)
	case *dgram:
		return o.sendTo(b, kernel.Addr{})
	}
	return 0, syscall.EINVAL
}
