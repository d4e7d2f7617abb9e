package simkernel_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/simkernel"
)

func forever() bool { return false }

func TestASteppedProcessRunsWhenItsTimerIsDue(t *testing.T) {
	w := simkernel.New(1)
	p := w.AddHost("a").NewProcess()
	p.ExecStepped()
	events := make([]kernel.Event, 8)
	for i := range 3 {
		next, n, err := w.Next(events, forever)
		if next != p || n != 0 || err != nil || p.Mono() != time.Duration(i)*time.Hour {
			t.Fatalf("Next = %v, %d, %v at %v", next, n, err, p.Mono())
		}
		p.Park(time.Hour)
	}
}

func TestASteppedProcessSeesReadinessUntilItReads(t *testing.T) {
	w := simkernel.New(1)
	server, client := w.AddHost("server").NewProcess(), w.AddHost("client").NewProcess()
	listener, err := server.Socket(kernel.IPv4, kernel.Stream)
	if err != nil {
		t.Fatal(err)
	}
	to := kernel.Addr{AddrPort: netip.AddrPortFrom(server.Host().Addrs()[0], 7)}
	if err := errors.Join(server.Bind(listener, to), server.Listen(listener, 1), server.Add(listener, 7, kernel.Read, kernel.Level)); err != nil {
		t.Fatal(err)
	}
	server.ExecStepped()
	client.ExecStepped()
	fd, _ := client.Socket(kernel.IPv4, kernel.Stream)
	_ = client.Connect(fd, to) // in progress
	events, seen := make([]kernel.Event, 8), 0
	for seen < 2 {
		p, n, err := w.Next(events, forever)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && p == server && events[0].Token == 7 {
			seen++ // twice: the first time nothing is accepted
		}
		p.Park(-1)
	}
}

func TestNextReportsADeadlockAndAStandstill(t *testing.T) {
	w := simkernel.New(1)
	p := w.AddHost("a").NewProcess()
	p.ExecStepped()
	events := make([]kernel.Event, 8)
	for {
		next, _, err := w.Next(events, forever)
		if errors.Is(err, simkernel.ErrStandstill) {
			break
		}
		if next != p || err != nil {
			t.Fatalf("Next = %v, %v", next, err)
		}
		p.Park(0)
	}
	p.Park(-1)
	if _, _, err := w.Next(events, forever); !errors.Is(err, simkernel.ErrDeadlock) {
		t.Fatalf("Next = %v, want a deadlock", err)
	}
	p.Rouse()
	if next, _, err := w.Next(events, forever); next != p || err != nil {
		t.Fatalf("Next after Rouse = %v, %v", next, err)
	}
}

func TestACrashEndsASteppedProcess(t *testing.T) {
	w := simkernel.New(1)
	h := w.AddHost("a")
	p := h.NewProcess()
	p.ExecStepped()
	if _, err := p.Socket(kernel.IPv4, kernel.Stream); err != nil {
		t.Fatal(err)
	}
	h.Crash()
	if p.Lives(w) || p.OpenFDs() != 0 {
		t.Errorf("after a crash it lives: %t, with %d descriptors", p.Lives(w), p.OpenFDs())
	}
	if _, _, err := w.Next(make([]kernel.Event, 8), forever); !errors.Is(err, simkernel.ErrDeadlock) {
		t.Errorf("Next = %v, want a deadlock", err)
	}
}
