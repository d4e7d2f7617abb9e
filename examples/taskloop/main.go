//go:build linux

// Taskloop is the loop of callbackloop for tasks: functions that pause.
package main

import (
	"fmt"
	"iter"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// wait is what a task hands to the loop when it pauses: a descriptor with events, or a time.
type wait struct {
	fd     int
	events uint32 // 0 for a time
	d      time.Duration
}

// pause suspends the task that calls it. It returns when the loop resumes the task.
type pause func(wait) bool

func (p pause) readable(fd int)       { p(wait{fd: fd, events: syscall.EPOLLIN}) }
func (p pause) writable(fd int)       { p(wait{fd: fd, events: syscall.EPOLLOUT}) }
func (p pause) sleep(d time.Duration) { p(wait{d: d}) }

// task runs until it pauses, and returns what it waits for; or false when it has ended.
type task func() (wait, bool)

type loop struct {
	epoll   int
	ready   []task
	timers  []timer
	waiting map[int32]task // by descriptor
}

type timer struct {
	at time.Time
	t  task
}

func (l *loop) start(fn func(pause)) {
	next, _ := iter.Pull(func(yield func(wait) bool) { fn(yield) })
	l.ready = append(l.ready, next)
}

// resume lets a task run until it pauses again, and files it under what it waits for.
func (l *loop) resume(t task) {
	switch w, ok := t(); {
	case !ok: // it has ended
	case w.events == 0:
		l.timers = append(l.timers, timer{time.Now().Add(w.d), t})
		slices.SortStableFunc(l.timers, func(a, b timer) int { return a.at.Compare(b.at) })
	default:
		l.waiting[int32(w.fd)] = t
		e := &syscall.EpollEvent{Events: w.events | syscall.EPOLLONESHOT, Fd: int32(w.fd)}
		if syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_MOD, w.fd, e) != nil { // it is not on the list yet
			syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, w.fd, e)
		}
	}
}

func (l *loop) turn(events []syscall.EpollEvent) {
	timeout := -1
	if len(l.ready) > 0 {
		timeout = 0
	} else if len(l.timers) > 0 {
		timeout = max(0, int(time.Until(l.timers[0].at).Milliseconds())+1)
	}
	n, _ := syscall.EpollWait(l.epoll, events, timeout)
	for _, e := range events[:max(n, 0)] {
		l.ready = append(l.ready, l.waiting[e.Fd])
	}
	for len(l.timers) > 0 && time.Until(l.timers[0].at) <= 0 {
		l.ready = append(l.ready, l.timers[0].t)
		l.timers = l.timers[1:]
	}
	batch := l.ready
	l.ready = nil
	for _, t := range batch {
		l.resume(t)
	}
}

func (l *loop) serve(p pause, listener int) {
	for {
		p.readable(listener)
		if fd, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC); err == nil {
			l.start(func(p pause) { echo(p, fd) })
		}
	}
}

func echo(p pause, fd int) {
	defer syscall.Close(fd)
	p.sleep(100 * time.Millisecond)
	for text := []byte("type something\n"); len(text) > 0; {
		for len(text) > 0 {
			p.writable(fd)
			n, err := syscall.Write(fd, text)
			if err != nil {
				return
			}
			text = text[n:]
		}
		text = make([]byte, 4096)
		p.readable(fd)
		n, _ := syscall.Read(fd, text)
		text = text[:max(n, 0)]
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: taskloop HOST:PORT")
		os.Exit(2)
	}
	ln, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "taskloop:", err)
		os.Exit(1)
	}
	listener, _ := ln.(*net.TCPListener).File()
	epoll, _ := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	l := &loop{epoll: epoll, waiting: map[int32]task{}}
	l.start(func(p pause) { l.serve(p, int(listener.Fd())) })
	fmt.Println("listening on", ln.Addr())
	for events := make([]syscall.EpollEvent, 64); ; {
		l.turn(events)
	}
}
