//go:build spindle_python

package main

/*
#include "world.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"syscall"
	"time"

	"github.com/spindleloop/spindle/internal/simkernel"
)

// SpindleWorldControl changes a world, or answers a question about it. It sets *answer, and
// returns 0 or a negative errno.
//
//export SpindleWorldControl
func SpindleWorldControl(id C.int, c *C.SpindleControl, answer *C.longlong) (result C.int) {
	defer guard(&result)
	w := worldAt(id)
	if w.guest != nil {
		return w.guest.control(c, answer)
	}
	switch c.op {
	case C.SPINDLE_WORLD_HOST:
		w.hosts = append(w.hosts, w.core.AddHost(C.GoStringN(c.text, c.len)))
		*answer = C.longlong(len(w.hosts) - 1)
	case C.SPINDLE_WORLD_BOOT:
		*answer = C.longlong(w.boot(w.hosts[c.a]))
	case C.SPINDLE_WORLD_EXIT:
		w.processes[c.a].Exit()
	case C.SPINDLE_WORLD_PARK:
		w.processes[c.a].Park(time.Duration(c.x))
	case C.SPINDLE_WORLD_WAKE:
		w.processes[c.a].Rouse()
	case C.SPINDLE_WORLD_AFTER:
		token := int64(c.y)
		w.core.After(time.Duration(c.x), func() { w.calls = append(w.calls, token) })
	case C.SPINDLE_WORLD_HASH:
		*answer = C.longlong(w.core.Hash())
	case C.SPINDLE_WORLD_EVENTS:
		*answer = C.longlong(w.core.Events())
	case C.SPINDLE_WORLD_LEFT_OPEN:
		*answer = C.longlong(w.core.LeftOpen())
	case C.SPINDLE_WORLD_NOW:
		*answer = C.longlong(w.core.Now())
	case C.SPINDLE_WORLD_NAME_TASKS:
		w.core.NameTasks()
		w.core.KeepData(int(c.x))
	case C.SPINDLE_WORLD_RECORD:
		if c.a < 0 {
			w.core.Record(nil)
		} else {
			w.core.Record(worldAt(c.a).core.Journal())
		}
	default:
		return errno(w.fault(c))
	}
	return 0
}

// boot makes a process on a host and returns its number.
func (w *world) boot(h *simkernel.Host) int {
	h.Boot()
	p := h.NewProcess()
	p.ExecStepped()
	w.processes = append(w.processes, p) // its number is its ID, less one
	return len(w.processes) - 1
}

// fault is the part of SpindleWorldControl that changes hosts and links.
func (w *world) fault(c *C.SpindleControl) error {
	switch c.op {
	case C.SPINDLE_WORLD_CRASH:
		w.hosts[c.a].Crash()
	case C.SPINDLE_WORLD_PAUSE:
		w.hosts[c.a].Pause()
	case C.SPINDLE_WORLD_RESUME:
		w.hosts[c.a].Resume()
	case C.SPINDLE_WORLD_HEAL:
		w.core.Heal()
	case C.SPINDLE_WORLD_CLOCK:
		w.hosts[c.a].SetClock(time.Duration(c.x), int(c.y))
	case C.SPINDLE_WORLD_FAIL_CALL:
		w.hosts[c.a].FailCall(C.GoStringN(c.text, c.len), int(c.x), syscall.Errno(c.y))
	case C.SPINDLE_WORLD_NOTE:
		var h *simkernel.Host
		if c.a >= 0 {
			h = w.hosts[c.a]
		}
		w.core.Note(h, C.GoStringN(c.text, c.len))
	case C.SPINDLE_WORLD_DELAY:
		d := simkernel.Uniform(time.Duration(c.x), time.Duration(c.y))
		if c.y < 0 {
			d = simkernel.LongTail(time.Duration(c.x))
		}
		if c.a < 0 {
			w.core.SetDelay(d)
		} else {
			w.core.Link(w.hosts[c.a], w.hosts[c.b]).Delay = d
		}
	default:
		return w.setLink(c)
	}
	return nil
}

func (w *world) setLink(c *C.SpindleControl) error {
	l, share := w.core.Link(w.hosts[c.a], w.hosts[c.b]), float64(c.f)
	switch c.op {
	case C.SPINDLE_WORLD_CUT:
		l.Cut(c.x != 0)
	case C.SPINDLE_WORLD_RATE:
		l.Limit(int64(c.x))
	case C.SPINDLE_WORLD_LOSS:
		l.Loss = share
	case C.SPINDLE_WORLD_DUPLICATE:
		l.Duplicate = share
	case C.SPINDLE_WORLD_REORDER:
		l.Reorder = share
	case C.SPINDLE_WORLD_DRIBBLE:
		l.Dribble = share
	default:
		return syscall.ENOSYS
	}
	return nil
}

// SpindleWorldTrace returns the events of a world and the first difference from the run that
// it is compared with, as JSON. The caller frees the text. It returns nil after a panic.
//
//export SpindleWorldTrace
func SpindleWorldTrace(id C.int) (text *C.char) {
	defer guardText(nil, 0)
	type event struct {
		At             int64
		Kind, From, To string
		Text           string
	}
	w := worldAt(id).core
	all := struct {
		Events     []event
		Difference *simkernel.Difference
	}{Difference: w.Journal().Difference()}
	for _, e := range w.Trace() {
		all.Events = append(all.Events, event{int64(e.At), e.Kind, e.From, e.To, e.String()})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return C.CString(string(encoded))
}
