package web

import "testing"

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

// TestExchangeAndInputAgree holds the rule at inputPhase: a connection has an exchange
// exactly in the phases that answered can follow, or that close after the answer.
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
