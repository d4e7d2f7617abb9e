package http2

import "testing"

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}

func TestImpossibleStepsPanic(t *testing.T) {
	for from := streamIdle; from <= streamClosed; from++ {
		for to := streamIdle; to <= streamClosed; to++ {
			s := &Stream{phase: from}
			if did := panics(func() { s.enter(to) }); did != (streamNext[from]&(1<<to) == 0) {
				t.Errorf("stream %d to %d: panicked %v", from, to, did)
			}
		}
	}
	for from := connGreeting; from <= connFailed; from++ {
		for to := connGreeting; to <= connFailed; to++ {
			c := &Conn{phase: from}
			if did := panics(func() { c.enter(to) }); did != (connNext[from]&(1<<to) == 0) {
				t.Errorf("connection %d to %d: panicked %v", from, to, did)
			}
		}
	}
	s := &Stream{}
	for _, to := range []streamPhase{streamOpen, streamHalfPeer, streamClosed} {
		s.enter(to)
	}
	if !panics(func() { s.enter(streamOpen) }) {
		t.Error("a closed stream can be opened")
	}
}
