package web

import "github.com/spindleloop/spindle/loop"

// Yields tells whether workers are to be let run at the end of the loop's turn.
func Yields(sv *Service, l *loop.Loop) bool {
	st, ok := l.Local(stationKey{sv}).(*station)
	return ok && st.yields
}
