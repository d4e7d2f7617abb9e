package files_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/files"
	"github.com/spindleloop/spindle/internal/leak"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/sim"
)

func TestMain(m *testing.M) { leak.Main(m) }

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	err = spindle.Run(context.Background(), func(ctx context.Context) error {
		name := filepath.Join(dir, "fruit")
		if err := files.WriteFile(ctx, name, []byte("apple\npear\n"), 0o600); err != nil {
			return err
		}
		f, err := files.Open(ctx, name)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			fmt.Println("a", lines.Text())
		}
		return lines.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// a apple
	// a pear
}

// inTask runs program as a task with a temporary directory.
func inTask(t *testing.T, program func(ctx context.Context, dir string) error) {
	t.Helper()
	dir := t.TempDir()
	if err := spindle.Run(t.Context(), func(ctx context.Context) error { return program(ctx, dir) }); err != nil {
		t.Error(err)
	}
}

func TestFileBehavesLikeAnOSFile(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		name := filepath.Join(dir, "f")
		f, err := files.Create(ctx, name)
		if err != nil {
			return err
		}
		content := bytes.Repeat([]byte("0123456789"), 10_000)
		if n, err := io.Copy(f, bytes.NewReader(content)); n != int64(len(content)) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		if _, err := f.WriteAt([]byte("abc"), 5); err != nil {
			t.Error(err)
		}
		if at, err := f.Seek(5, io.SeekStart); at != 5 || err != nil {
			t.Errorf("at %d, %v", at, err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(f, got); string(got) != "abc89" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := f.ReadAt(got, 3); string(got) != "34abc" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if n, err := f.ReadAt(got, int64(len(content))); n != 0 || err != io.EOF {
			t.Errorf("ReadAt at the end: %d, %v, want io.EOF", n, err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != int64(len(content)) {
			t.Errorf("%v, %v", info, err)
		}
		if got := f.OSFile().Name(); got != name {
			t.Error(got)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Error(err)
		}
		if _, err := f.Read(got); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Read after Close: %v, want os.ErrClosed", err)
		}
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("second Close: %v, want os.ErrClosed", err)
		}
		text, err := files.ReadFile(ctx, name)
		if len(text) != len(content) || err != nil {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		if err := files.Remove(ctx, name); err != nil {
			t.Error(err)
		}
		if _, err := files.Stat(ctx, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat after Remove: %v, want fs.ErrNotExist", err)
		}
		_, err = files.Open(ctx, name)
		if path := (*fs.PathError)(nil); !errors.As(err, &path) || path.Path != name {
			t.Errorf("Open of a missing file: %v, want an *fs.PathError", err)
		}
		return nil
	})
}

// Opening a named pipe blocks until its other end is opened. Another task of the same
// loop opens it.
func TestCallsDoNotBlockTheLoop(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		name := filepath.Join(dir, "fifo")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(ctx context.Context) error {
				for range 100 {
					if err := spindle.Yield(ctx); err != nil {
						return err
					}
				}
				return files.WriteFile(ctx, name, []byte("at last"), 0)
			})
			text, err := files.ReadFile(ctx, name)
			if string(text) != "at last" {
				t.Errorf("read %q", text)
			}
			return err
		})
	})
}

// TestTasksOfAnotherLoopMayUseAFile: one of them reads a named pipe until the next one writes.
func TestTasksOfAnotherLoopMayUseAFile(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		name := filepath.Join(dir, "fifo")
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			return err
		}
		f, err := files.OpenFile(ctx, name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		_, err = spindle.Blocking(ctx, func() (any, error) {
			return nil, spindle.Run(context.Background(), func(ctx context.Context) error {
				defer f.Close()
				return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
					n.Go(func(context.Context) error {
						_, err := f.Write([]byte("hello"))
						return err
					})
					text := make([]byte, 5)
					if _, err := io.ReadFull(f, text); string(text) != "hello" {
						t.Errorf("read %q, %v", text, err)
					}
					return nil
				})
			})
		})
		if _, stat := f.OSFile().Stat(); !errors.Is(stat, os.ErrClosed) {
			t.Errorf("the file is still open: %v", stat)
		}
		return err
	})
}

func TestCancelledCallsDoNothingExceptClose(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		name := filepath.Join(dir, "f")
		f, err := files.Create(ctx, name)
		if err != nil {
			return err
		}
		spindle.WithScope(ctx, func(ctx context.Context, s *spindle.Scope) error {
			s.Cancel(nil)
			if n, err := f.Write([]byte("x")); n != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("Write: %d, %v", n, err)
			}
			if _, err := files.Create(ctx, name+"2"); !errors.Is(err, context.Canceled) {
				t.Errorf("Create: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return nil
		})
		if _, err := f.OSFile().Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the file is still open: %v", err)
		}
		entries, err := os.ReadDir(dir)
		if info, _ := os.Stat(name); len(entries) != 1 || info.Size() != 0 {
			t.Errorf("the directory has %v, the file has %d bytes, want one empty file", entries, info.Size())
		}
		return err
	})
}

// TestCloseEndsAReadThatHasTheLastWorker: Close needs no worker, because the one that reads may
// wait for Close.
func TestCloseEndsAReadThatHasTheLastWorker(t *testing.T) {
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	o := spindle.Options{Loop: loop.Options{Workers: 1}}
	err := o.Run(t.Context(), func(ctx context.Context) error {
		f, err := files.OpenFile(ctx, name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
			n.Go(func(context.Context) error {
				if _, err := f.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
					t.Errorf("Read: %v", err)
				}
				return nil
			})
			for spindle.LoopOf(ctx).Stats().Jobs == 0 {
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			closed := spindle.Spawn(n, func(context.Context) (bool, error) { return true, f.Close() })
			late, err := spindle.MoveOnAfter(ctx, 10*time.Second, func(ctx context.Context) error {
				_, err := closed.Await(ctx)
				return err
			})
			if late {
				t.Error("Close waits for the worker that reads")
				_, err = f.OSFile().Write([]byte("x")) // ends the read
			}
			if err := f.Close(); !late && !errors.Is(err, os.ErrClosed) {
				t.Errorf("a second Close: %v", err)
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOtherGoroutinesMayUseAFile(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		f, err := files.Create(ctx, filepath.Join(dir, "f"))
		if err != nil {
			return err
		}
		_, err = spindle.Blocking(ctx, func() (int, error) {
			n, err := f.Write([]byte("from a goroutine"))
			return n, errors.Join(err, f.Close())
		})
		return err
	})
}

func TestCallFromALoopCallbackPanics(t *testing.T) {
	inTask(t, func(ctx context.Context, dir string) error {
		f, err := files.Create(ctx, filepath.Join(dir, "f"))
		if err != nil {
			return err
		}
		defer f.Close()
		var recovered any
		spindle.LoopOf(ctx).CallSoon(func() {
			defer func() { recovered = recover() }()
			f.Read(nil)
		})
		err = spindle.Yield(ctx)
		if text, ok := recovered.(string); !ok || !strings.HasPrefix(text, "files: ") {
			t.Errorf("panic %v, want a message of package files", recovered)
		}
		return err
	})
}

// A simulated run must never touch the machine's files.
func TestCallsFailInASimulatedRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	sim.Test(t, func(ctx context.Context) error {
		_, open := files.Open(ctx, name)
		_, create := files.Create(ctx, name)
		_, read := files.ReadFile(ctx, name)
		_, stat := files.Stat(ctx, name)
		write := files.WriteFile(ctx, name, nil, 0o600)
		for _, err := range []error{open, create, read, stat, write, files.Remove(ctx, name)} {
			var path *fs.PathError
			if !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, &path) {
				t.Errorf("error %v, want an *fs.PathError with errors.ErrUnsupported", err)
			}
		}
		return nil
	})
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the simulated run created the file")
	}
}
