package web

import (
	"testing"
	"unsafe"
)

// TestImpossibleChangesOfAConnectionPanic tries every change of a phase that the drawings
// in conn_phase.go do not have.
func TestImpossibleChangesOfAConnectionPanic(t *testing.T) {
	panics := func(fn func()) (did bool) {
		defer func() { did = recover() != nil }()
		fn()
		return false
	}
	for from := range connNext {
		for to := range connNext {
			c := conn{phase: connPhase(from)}
			allowed := connNext[from]&(1<<to) != 0
			if did := panics(func() { c.enter(connPhase(to)) }); did == allowed {
				t.Errorf("phase %d to %d: panicked %v, want %v", from, to, did, !allowed)
			}
		}
	}
	for from := range inputNext {
		for to := range inputNext {
			c := conn{input: inputPhase(from)}
			allowed := inputNext[from]&(1<<to) != 0
			if did := panics(func() { c.expect(inputPhase(to)) }); did == allowed {
				t.Errorf("input %d to %d: panicked %v, want %v", from, to, did, !allowed)
			}
		}
	}
	for _, phase := range []connPhase{connOpen, connLingering, connClosing, connSwitched} {
		if connNext[phase]&(1<<connLost) == 0 {
			t.Errorf("phase %d cannot end in lost", phase)
		}
	}
}

// TestExchangeAndInputAgree checks the rule at inputPhase: a connection has an exchange
// exactly in the phases of hasExchange.
func TestExchangeAndInputAgree(t *testing.T) {
	for input := range inputNext {
		c := conn{input: inputPhase(input), x: &exchange{}}
		if got, want := c.consistent(), hasExchange&(1<<input) != 0; got != want {
			t.Errorf("input %d with an exchange: consistent is %v, want %v", input, got, want)
		}
		c.x = nil
		if got, want := c.consistent(), hasExchange&(1<<input) == 0; got != want {
			t.Errorf("input %d without an exchange: consistent is %v, want %v", input, got, want)
		}
	}
}

// TestExchangeFitsItsSizeClass checks that an exchange and the allocator's header of 8
// bytes fit into 704 bytes. The next size class has 768.
func TestExchangeFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(exchange{}); size > 704-8 {
		t.Errorf("an exchange takes %d bytes, want at most %d", size, 704-8)
	}
}
