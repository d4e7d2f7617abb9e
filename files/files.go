// Package files provides files for tasks. The system does not report the readiness of
// a file, so a loop cannot wait for one. Here another goroutine makes every call, and only the
// calling task waits.
//
//	f, err := files.Open(ctx, "words.txt")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	words := bufio.NewScanner(f)
//
// A call costs some microseconds more than the same call of package os: read and
// write through bufio, or whole files at once. For many small operations in a row,
// use package os inside one spindle.Blocking.
//
// A worker's call cannot be interrupted. If the task is cancelled before a worker has
// begun the call, the call does nothing. Otherwise it runs to its end, and the
// cancellation takes effect at the task's next wait.
//
// A simulated run has no files: every call fails with an error that matches
// errors.ErrUnsupported.
package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/internal/coro"
	"github.com/spindleloop/spindle/internal/onloop"
	"github.com/spindleloop/spindle/loop"
)

// File is an open file, like an os.File. Its methods suspend a task, of any loop, and
// block another goroutine. A callback of a loop must not call them.
type File struct {
	f *os.File
	l *loop.Loop
}

var (
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.Closer          = (*File)(nil)
)

// Open opens a file for reading.
func Open(ctx context.Context, name string) (*File, error) {
	return OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create creates a file, or truncates an existing one, for reading and writing.
func Create(ctx context.Context, name string) (*File, error) {
	return OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile is like os.OpenFile. Its errors have type *fs.PathError.
func OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	f := &File{l: spindle.LoopOf(ctx)}
	err := work(ctx, "open", name, func() (err error) {
		f.f, err = os.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a file.
func ReadFile(ctx context.Context, name string) (data []byte, err error) {
	err = work(ctx, "read", name, func() (err error) {
		data, err = os.ReadFile(name)
		return err
	})
	return data, err
}

// WriteFile writes data to a file. It creates the file or replaces its content. Data
// must not change until WriteFile returns.
func WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	return work(ctx, "write", name, func() error { return os.WriteFile(name, data, perm) })
}

// Stat returns information about the named file.
func Stat(ctx context.Context, name string) (info fs.FileInfo, err error) {
	err = work(ctx, "stat", name, func() (err error) {
		info, err = os.Stat(name)
		return err
	})
	return info, err
}

// Remove removes a file or an empty directory.
func Remove(ctx context.Context, name string) error {
	return work(ctx, "remove", name, func() error { return os.Remove(name) })
}

// work calls fn on a worker and waits for it.
func work(ctx context.Context, op, name string, fn func() error) error {
	if !spindle.LoopOf(ctx).Internal().Kernel().Real() {
		err := fmt.Errorf("a simulated run has no files: %w", errors.ErrUnsupported)
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// taskContext returns the context of the calling task, of any loop, or nil for another goroutine.
func (f *File) taskContext(op string) context.Context {
	ctx, ok := onloop.Caller(f.l)
	if !ok {
		panic("files: File." + op + " called from a callback of a loop; start a task")
	}
	if coro.Calling(ctx) == nil {
		return nil
	}
	return ctx
}

// call calls fn on a worker for a task, and directly for another goroutine.
func (f *File) call(op string, fn func() error) error {
	if ctx := f.taskContext(op); ctx != nil {
		return work(ctx, op, f.f.Name(), fn)
	}
	return fn()
}

// Read reads up to len(p) bytes. At the end of the file it returns io.EOF.
func (f *File) Read(p []byte) (n int, err error) {
	err = f.call("read", func() (err error) { n, err = f.f.Read(p); return err })
	return n, err
}

// ReadAt reads len(p) bytes from an offset, as io.ReaderAt describes.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.call("read", func() (err error) { n, err = f.f.ReadAt(p, off); return err })
	return n, err
}

// Write writes all of p.
func (f *File) Write(p []byte) (n int, err error) {
	err = f.call("write", func() (err error) { n, err = f.f.Write(p); return err })
	return n, err
}

// WriteAt writes p at an offset.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.call("write", func() (err error) { n, err = f.f.WriteAt(p, off); return err })
	return n, err
}

// Seek sets the offset for the next Read or Write, as io.Seeker describes.
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	err = f.call("seek", func() (err error) { at, err = f.f.Seek(offset, whence); return err })
	return at, err
}

// Stat returns information about the file.
func (f *File) Stat() (info fs.FileInfo, err error) {
	err = f.call("stat", func() (err error) { info, err = f.f.Stat(); return err })
	return info, err
}

// Sync commits the content of the file to stable storage.
func (f *File) Sync() error { return f.call("sync", f.f.Sync) }

// Close closes the file, even if the task is cancelled. It ends a Read or Write of another task
// that waits, if os.File.Close does.
func (f *File) Close() error {
	ctx := f.taskContext("Close")
	if ctx == nil {
		return f.f.Close()
	}
	// Close again in case the task exits. A second close does nothing.
	defer f.f.Close()
	// A worker cannot do it: all may be in calls that only Close ends.
	closed := spindle.NewFuture[error](ctx)
	l := spindle.LoopOf(ctx)
	l.Internal().Kernel().Start(func() {
		err := f.f.Close()
		_ = l.PostDroppable(func() { closed.Resolve(err) }) // a closed loop has no task that waits
	})
	return spindle.Shield(ctx, func(ctx context.Context) error {
		result, err := closed.Await(ctx)
		return cmp.Or(err, result)
	})
}

// OSFile returns the underlying os.File, for operations that this package lacks, such as Name. Use it
// inside spindle.Blocking.
func (f *File) OSFile() *os.File { return f.f }
