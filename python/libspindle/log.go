//go:build spindle_python

package main

/*
#include "events.h"
*/
import "C"

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
)

// Python's logging gets the records of Go's log. A goroutine only queues a record, because it must not
// wait for the GIL. The next loop that polls passes the records on; see src/golog.c.

// logRecord is a record for one of Python's loggers.
type logRecord struct {
	logger, text string
	level        int // Python's
}

// recordsKept is how many records wait at most.
const recordsKept = 1000

// logQueue has the records that no loop has taken yet. Any goroutine.
type logQueue struct {
	mu      sync.Mutex
	records []logRecord // guarded by mu
	lost    int         // records beyond recordsKept; guarded by mu
	waits   *uint32     // C's; 1 while there are records; guarded by mu
}

var goLog logQueue

func (q *logQueue) add(r logRecord) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) == recordsKept {
		q.lost++
		return
	}
	q.records = append(q.records, r)
	if len(q.records) == 1 {
		atomic.StoreUint32(q.waits, 1)
		wakeLoops()
	}
}

// take removes the oldest record. The last one of a queue that was full says how many are lost.
func (q *logQueue) take() (r logRecord, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) == 0 {
		return r, false
	}
	r = q.records[0]
	q.records[0] = logRecord{}
	q.records = q.records[1:]
	if len(q.records) > 0 {
		return r, true
	}
	q.records = nil
	if q.lost > 0 {
		q.records = append(q.records, logRecord{r.logger, fmt.Sprintf("spindle: the log is too slow; lost %d records", q.lost), levelOf(slog.LevelWarn)})
		q.lost = 0
		return r, true
	}
	atomic.StoreUint32(q.waits, 0)
	return r, true
}

// wakeLoops ends the waits of all loops: any of them takes the records. It does so on a goroutine, because
// the caller may hold a lock of a loop.
func wakeLoops() {
	table := loops.Load()
	if table == nil {
		return
	}
	for _, p := range *table {
		if p != nil {
			p.l.Internal().Kernel().Start(func() { _ = p.l.PostDroppable(func() {}) }) // fails if the loop is closed
		}
	}
}

// levelOf returns Python's number of a level.
func levelOf(l slog.Level) int { return max(20+int(l)*10/4, 1) }

// pythonLog is a slog.Handler that queues records. Python decides which levels are logged.
type pythonLog struct {
	logger string
	fields slog.Handler // writes the attributes of a record to line
	line   *lineBuffer
}

// lineBuffer is shared by the handlers that WithAttrs and WithGroup make of one.
type lineBuffer struct {
	mu           sync.Mutex
	bytes.Buffer // guarded by mu
}

func newPythonLog(logger string) *slog.Logger {
	line := &lineBuffer{}
	onlyAttributes := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}
	options := &slog.HandlerOptions{Level: slog.Level(-1 << 20), ReplaceAttr: onlyAttributes}
	return slog.New(&pythonLog{logger, slog.NewTextHandler(line, options), line})
}

func (h *pythonLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *pythonLog) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.Reset()
	if err := h.fields.Handle(ctx, r); err != nil {
		return err
	}
	text, stack, _ := strings.Cut(r.Message, "\n")
	if attributes := strings.TrimSpace(h.line.String()); attributes != "" {
		text += ": " + attributes
	}
	if stack != "" {
		text += "\n" + stack
	}
	goLog.add(logRecord{h.logger, text, levelOf(r.Level)})
	return nil
}

func (h *pythonLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &pythonLog{h.logger, h.fields.WithAttrs(attrs), h.line}
}

func (h *pythonLog) WithGroup(name string) slog.Handler {
	return &pythonLog{h.logger, h.fields.WithGroup(name), h.line}
}

// logTo makes Python's logging the place of Go's log. *waits is 1 while there are records.
func logTo(waits *uint32) {
	*waits = 0
	goLog.mu.Lock()
	goLog.waits = waits
	goLog.mu.Unlock()
	slog.SetDefault(newPythonLog("spindle"))
}

// SpindleTakeLog takes a record. It returns 1, or 0 if there is none. The caller frees the texts.
//
//export SpindleTakeLog
func SpindleTakeLog(to *C.SpindleLogRecord) (result C.int) {
	defer guard(&result)
	to.level = 0
	r, ok := goLog.take()
	if !ok {
		return 0
	}
	*to = C.SpindleLogRecord{level: C.int(r.level), logger: C.CString(r.logger), text: C.CString(r.text)}
	return 1
}
