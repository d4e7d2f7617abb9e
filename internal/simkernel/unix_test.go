package simkernel_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
)

func TestUnixDatagrams(t *testing.T) {
	b := newBench(t)
	p := b.near
	to, from := b.socket(p, kernel.Unix, kernel.Datagram), b.socket(p, kernel.Unix, kernel.Datagram)
	at := kernel.Addr{Path: "/run/log"}
	_, err := p.SendTo(from, []byte("x"), at)
	b.want(err, syscall.ENOENT)
	b.ok(p.Bind(to, at))
	b.ok(p.Bind(from, kernel.Addr{Path: "\x00me"}))
	b.ok(p.Connect(from, at))
	sent := 0
	for ; sent < 100; sent++ {
		if _, err = p.Send(from, []byte("x")); err != nil {
			break
		}
	}
	b.want(err, syscall.EAGAIN)
	b.ok(p.Add(from, 1, kernel.Write, kernel.Edge))
	_, sender, truncated, err := p.RecvFrom(to, make([]byte, 8))
	if err != nil || sender.Path != "@me" || truncated {
		t.Errorf("from %v, truncated %v, %v", sender, truncated, err)
	}
	var events [2]kernel.Event
	if n, err := p.Wait(events[:], time.Second); n != 1 || err != nil {
		t.Errorf("%d events, %v: the socket does not become writable", n, err)
	}
	_, err = b.far.SendTo(b.socket(b.far, kernel.Unix, kernel.Datagram), []byte("x"), at)
	b.want(err, syscall.ENOENT) // the name belongs to another host
	b.ok(p.CloseFD(to))
	_, err = p.Send(from, []byte("x"))
	b.want(err, syscall.ECONNREFUSED)
}

func TestPipes(t *testing.T) {
	b := newBench(t)
	p := b.near
	r, w, err := p.Pipe()
	b.ok(err)
	_, err = p.Read(r, make([]byte, 8))
	b.want(err, syscall.EAGAIN)
	_, err = p.Recv(r, make([]byte, 8))
	b.want(err, syscall.ENOTSOCK)
	b.ok(p.Add(r, 1, kernel.Read, kernel.Edge))
	_, err = p.Write(w, []byte(strings.Repeat("x", 100)))
	b.ok(err)
	var events [2]kernel.Event
	if n, err := p.Wait(events[:], -1); n != 1 || err != nil || events[0].Ready != kernel.Readable {
		t.Errorf("events %v, %v", events[:n], err)
	}
	b.ok(p.CloseFD(w))
	if n, err := p.Wait(events[:], -1); n != 1 || err != nil || events[0].Ready&kernel.HangUp == 0 {
		t.Errorf("events %v, %v", events[:n], err)
	}
	for _, want := range []int{100, 0} {
		if n, err := p.Read(r, make([]byte, 256)); n != want || err != nil {
			t.Errorf("read %d, %v, want %d", n, err, want)
		}
	}
	b.ok(p.CloseFD(r))
	r, w, err = p.Pipe()
	b.ok(err)
	b.ok(p.CloseFD(r))
	_, err = p.Write(w, []byte("x"))
	b.want(err, syscall.EPIPE)
}
