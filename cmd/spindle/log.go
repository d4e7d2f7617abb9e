package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// terminalLog is a slog.Handler for a terminal. It writes records as slog.TextHandler does,
// but prints the second and further lines of a message, such as a stack, unquoted.
type terminalLog struct {
	slog.Handler // writes to line
	shared       *terminal
}

type terminal struct {
	mu   sync.Mutex
	line bytes.Buffer // guarded by mu
	out  io.Writer    // guarded by mu
}

func newTerminalLog(out io.Writer) *slog.Logger {
	t := &terminal{out: out}
	return slog.New(terminalLog{slog.NewTextHandler(&t.line, nil), t})
}

func (h terminalLog) Handle(ctx context.Context, r slog.Record) error {
	first, rest, more := strings.Cut(r.Message, "\n")
	r.Message = first
	t := h.shared
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	if more {
		t.line.WriteString(strings.Trim(rest, "\n") + "\n")
	}
	_, err := t.out.Write(t.line.Bytes())
	return err
}

func (h terminalLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return terminalLog{h.Handler.WithAttrs(attrs), h.shared}
}

func (h terminalLog) WithGroup(name string) slog.Handler {
	return terminalLog{h.Handler.WithGroup(name), h.shared}
}
