// Package files has files for tasks. The system cannot tell when a file is ready,
// so that a loop cannot wait for one; here every call is done by a worker, and only
// the task that calls waits.
//
//	f, err := files.Open(ctx, "words.txt")
//	if err != nil {
//		return err
//	}
//	defer f.Close()
//	words := bufio.NewScanner(f)
//
// A call costs some microseconds more than one of os: read and write through bufio,
// or whole files at once. For many small operations in a row, put them into one
// spindle.Blocking and use os there.
//
// Work of a worker cannot be stopped. A call that is cancelled before a worker has
// begun it has done nothing; otherwise it runs to its end, and the cancellation is
// there for the next one.
//
// In a simulated run there are no files: every call fails with an error that is
// errors.ErrUnsupported.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
)

// File is an open file, like an os.File. Called by a task of the loop it was opened
// on, its methods suspend the task; called by any other goroutine, they block it. A
// callback of the loop must not call them.
type File struct {
	f    *os.File
	l    *loop.Loop
	home *spindle.Nursery
}

var (
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.Closer          = (*File)(nil)
)

// Open opens a file to be read.
func Open(ctx context.Context, name string) (*File, error) {
	return OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create makes a file, or empties one that is there, to be read and written.
func Create(ctx context.Context, name string) (*File, error) {
	return OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile is os.OpenFile. It fails with an *fs.PathError, as that does.
func OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	f := &File{l: spindle.LoopOf(ctx), home: spindle.Background(ctx)}
	err := work(ctx, "open", name, func() (err error) {
		f.f, err = os.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadFile returns what is in a file.
func ReadFile(ctx context.Context, name string) (data []byte, err error) {
	err = work(ctx, "read", name, func() (err error) {
		data, err = os.ReadFile(name)
		return err
	})
	return data, err
}

// WriteFile makes a file, or replaces what is in it. Data must not change
// meanwhile.
func WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	return work(ctx, "write", name, func() error { return os.WriteFile(name, data, perm) })
}

// Stat tells what a file is, without opening it.
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

// work has a worker call fn.
func work(ctx context.Context, op, name string, fn func() error) error {
	if !spindle.LoopOf(ctx).Kernel().Real() {
		why := fmt.Errorf("no files where there is no real system below (a simulated run): %w", errors.ErrUnsupported)
		return &fs.PathError{Op: op, Path: name, Err: why}
	}
	_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, fn() })
	return err
}

// here is the context of the task that calls; nil for another goroutine.
func (f *File) here(op string) context.Context {
	ctx := f.home.Here()
	if ctx == nil && f.l.Owns() {
		panic("files: File." + op + " called from a callback of the loop; start a task")
	}
	return ctx
}

// call does fn where the caller is.
func (f *File) call(op string, fn func() error) error {
	if ctx := f.here(op); ctx != nil {
		return work(ctx, op, f.Name(), fn)
	}
	return fn()
}

// Name is the name that the file was opened by.
func (f *File) Name() string { return f.f.Name() }

// Read reads up to len(p) bytes; at the end it fails with io.EOF.
func (f *File) Read(p []byte) (n int, err error) {
	err = f.call("read", func() (err error) { n, err = f.f.Read(p); return err })
	return n, err
}

// ReadAt is Read from an offset.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.call("read", func() (err error) { n, err = f.f.ReadAt(p, off); return err })
	return n, err
}

// Write writes all of p.
func (f *File) Write(p []byte) (n int, err error) {
	err = f.call("write", func() (err error) { n, err = f.f.Write(p); return err })
	return n, err
}

// WriteAt is Write at an offset.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.call("write", func() (err error) { n, err = f.f.WriteAt(p, off); return err })
	return n, err
}

// Seek moves to where the next Read or Write begins, as io.Seeker says.
func (f *File) Seek(offset int64, whence int) (at int64, err error) {
	err = f.call("seek", func() (err error) { at, err = f.f.Seek(offset, whence); return err })
	return at, err
}

// Stat tells what the file is.
func (f *File) Stat() (info fs.FileInfo, err error) {
	err = f.call("stat", func() (err error) { info, err = f.f.Stat(); return err })
	return info, err
}

// Sync has what was written reach the disk.
func (f *File) Sync() error { return f.call("sync", f.f.Sync) }

// Close closes the file, also if the task is cancelled.
func (f *File) Close() error {
	ctx := f.here("Close")
	if ctx == nil {
		return f.f.Close()
	}
	// If there was no worker for it, or the task is made to exit. A second one does
	// nothing.
	defer f.f.Close()
	return spindle.Shield(ctx, func(ctx context.Context) error { return work(ctx, "close", f.Name(), f.f.Close) })
}

// OSFile is the file as package os has it, for what is not here: to be used by
// spindle.Blocking.
func (f *File) OSFile() *os.File { return f.f }
