//go:build linux

// Callbackloop is an event loop and an echo server on it, made of nothing but epoll.
package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// loop calls functions, one at a time.
type loop struct {
	epoll   int
	ready   []func()         // to be called in the next turn
	timers  []timer          // sorted by time
	readers map[int32]func() // by descriptor
}

type timer struct {
	at time.Time
	fn func()
}

func (l *loop) callSoon(fn func()) { l.ready = append(l.ready, fn) }

func (l *loop) callLater(d time.Duration, fn func()) {
	l.timers = append(l.timers, timer{time.Now().Add(d), fn})
	slices.SortStableFunc(l.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

func (l *loop) addReader(fd int, fn func()) error {
	l.readers[int32(fd)] = fn
	return syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
}

func (l *loop) close(fd int) {
	delete(l.readers, int32(fd))
	syscall.Close(fd) // removes it from the kernel's lists, too
}

// turn waits until there is something to do, and does it.
func (l *loop) turn(events []syscall.EpollEvent) {
	timeout := -1 // no limit
	if len(l.ready) > 0 {
		timeout = 0
	} else if len(l.timers) > 0 {
		timeout = max(0, int(time.Until(l.timers[0].at).Milliseconds())+1)
	}
	n, _ := syscall.EpollWait(l.epoll, events, timeout) // n is -1 if a signal interrupts it
	for _, e := range events[:max(n, 0)] {
		l.callSoon(l.readers[e.Fd])
	}
	for len(l.timers) > 0 && time.Until(l.timers[0].at) <= 0 {
		l.callSoon(l.timers[0].fn)
		l.timers = l.timers[1:]
	}
	batch := l.ready
	l.ready = nil // what a callback adds is for the next turn
	for _, fn := range batch {
		fn()
	}
}

// accept serves the next client.
func (l *loop) accept(listener int) {
	if fd, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC); err == nil {
		l.callLater(100*time.Millisecond, func() {
			syscall.Write(fd, []byte("type something\n"))
			l.addReader(fd, func() { l.echo(fd) })
		})
	}
}

func (l *loop) echo(fd int) {
	buf := make([]byte, 4096)
	n, err := syscall.Read(fd, buf)
	if err == syscall.EAGAIN {
		return // it was not readable after all
	}
	if sent, _ := syscall.Write(fd, buf[:max(n, 0)]); n <= 0 || sent < n {
		l.close(fd) // the client has left, or does not read
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: callbackloop HOST:PORT")
		os.Exit(2)
	}
	ln, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "callbackloop:", err)
		os.Exit(1)
	}
	listener, _ := ln.(*net.TCPListener).File()
	epoll, _ := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	l := &loop{epoll: epoll, readers: map[int32]func(){}}
	l.addReader(int(listener.Fd()), func() { l.accept(int(listener.Fd())) })
	fmt.Println("listening on", ln.Addr())
	for events := make([]syscall.EpollEvent, 64); ; {
		l.turn(events)
	}
}
