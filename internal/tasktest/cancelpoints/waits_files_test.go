package cancelpoints_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/files"
	"github.com/spindleloop/spindle/proc"
)

// inDir prepares a directory with the file "data".
func inDir(call func(ctx context.Context, name string) error) prepareFunc {
	return func(_ context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		dir, err := os.MkdirTemp("", "waits")
		if err != nil {
			return nil, err
		}
		after(func() { os.RemoveAll(dir) })
		name := filepath.Join(dir, "data")
		return func(ctx context.Context) error { return call(ctx, name) }, os.WriteFile(name, []byte("x"), 0o600)
	}
}

// sleeper returns a command that does not end by itself.
func sleeper() *proc.Cmd { return proc.Command("sleep", "1000") }

// fileWaits are the waits of packages files and proc.
var fileWaits = []wait{
	{name: "files.Open files.OpenFile", ends: true, prepare: inDir(func(ctx context.Context, name string) error {
		return opened(func(ctx context.Context) (*files.File, error) { return files.Open(ctx, name) })(ctx)
	})},
	{name: "files.Create", ends: true, prepare: inDir(func(ctx context.Context, name string) error {
		return opened(func(ctx context.Context) (*files.File, error) { return files.Create(ctx, name) })(ctx)
	})},
	{name: "files.ReadFile", ends: true, prepare: inDir(func(ctx context.Context, name string) error {
		_, err := files.ReadFile(ctx, name)
		return err
	})},
	{name: "files.WriteFile", ends: true, prepare: inDir(func(ctx context.Context, name string) error {
		return files.WriteFile(ctx, name, nil, 0o600)
	})},
	{name: "files.Stat", ends: true, prepare: inDir(func(ctx context.Context, name string) error {
		_, err := files.Stat(ctx, name)
		return err
	})},
	{name: "files.Remove", ends: true, prepare: inDir(func(ctx context.Context, name string) error { return files.Remove(ctx, name) })},
	{name: "files.File.Read", ends: true, prepare: func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		f, err := files.Open(ctx, os.DevNull)
		if err != nil {
			return nil, err
		}
		after(func() { f.Close() })
		return func(context.Context) error {
			_, err := f.Read(make([]byte, 1))
			if err == io.EOF {
				err = nil
			}
			return err
		}, nil
	}},
	{name: "proc.Cmd.Run", prepare: ready(func(ctx context.Context) error { return sleeper().Run(ctx) })},
	{name: "proc.Cmd.Output", prepare: ready(func(ctx context.Context) error { _, err := sleeper().Output(ctx); return err })},
	{name: "proc.Cmd.CombinedOutput", prepare: ready(func(ctx context.Context) error { _, err := sleeper().CombinedOutput(ctx); return err })},
	{name: "proc.Cmd.Start", ends: true, prepare: ready(opened(func(ctx context.Context) (*proc.Process, error) { return sleeper().Start(ctx) }))},
	{name: "proc.Process.Wait", prepare: func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		p, err := sleeper().Start(ctx)
		if err != nil {
			return nil, err
		}
		after(func() { p.Close() })
		return p.Wait, nil
	}},
	{name: "proc.Signals", ends: true, prepare: ready(opened(func(ctx context.Context) (*proc.SignalReceiver, error) {
		return proc.Signals(ctx, syscall.SIGUSR1)
	}))},
	{name: "proc.SignalReceiver.Next proc.SignalReceiver.All", prepare: func(ctx context.Context, _ *spindle.Nursery, after func(func())) (func(context.Context) error, error) {
		r, err := proc.Signals(ctx, syscall.SIGUSR1)
		if err != nil {
			return nil, err
		}
		after(func() { r.Close() })
		return func(ctx context.Context) error { _, err := r.Next(ctx); return err }, nil
	}},
}
