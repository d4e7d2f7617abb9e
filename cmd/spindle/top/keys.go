package top

import (
	"strings"
	"unicode/utf8"
)

// key is a key that was pressed: a character, or the name of another key.
type key string

// The names of keys.
const (
	keyUp       key = "up"
	keyDown     key = "down"
	keyPageUp   key = "page up"
	keyPageDown key = "page down"
	keyHome     key = "home"
	keyEnd      key = "end"
	keyEnter    key = "enter"
	keyEscape   key = "escape"
	keyErase    key = "erase"
	keyQuit     key = "quit" // Ctrl-C
)

// sequences are what terminals send for keys. Longer ones come first.
var sequences = []struct {
	text string
	key  key
}{
	{"\x1b[5~", keyPageUp}, {"\x1b[6~", keyPageDown}, {"\x1b[1~", keyHome}, {"\x1b[4~", keyEnd},
	{"\x1b[A", keyUp}, {"\x1b[B", keyDown}, {"\x1bOA", keyUp}, {"\x1bOB", keyDown},
	{"\x1b[H", keyHome}, {"\x1b[F", keyEnd}, {"\x1bOH", keyHome}, {"\x1bOF", keyEnd},
	{"\r", keyEnter}, {"\n", keyEnter}, {"\x7f", keyErase}, {"\b", keyErase}, {"\x03", keyQuit},
}

// keysOf splits what a terminal sent into keys.
func keysOf(text string) (keys []key) {
next:
	for text != "" {
		for _, s := range sequences {
			if rest, ok := strings.CutPrefix(text, s.text); ok {
				keys, text = append(keys, s.key), rest
				continue next
			}
		}
		if strings.HasPrefix(text, "\x1b[") { // a key that has no meaning here
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 {
				return keys
			}
			text = text[2+end+1:]
			continue
		}
		if text[0] == '\x1b' {
			keys, text = append(keys, keyEscape), text[1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		if r >= ' ' && r != utf8.RuneError {
			keys = append(keys, key(text[:n]))
		}
		text = text[n:]
	}
	return keys
}

// effect is what a key asks for besides a change of the screen.
type effect int

const (
	nothing effect = iota
	reload
	quit
)

// press handles a key.
func (s *screen) press(k key) effect {
	if k == keyQuit {
		return quit
	}
	if s.typing {
		return s.typed(k)
	}
	page := max(1, s.height/2)
	switch k {
	case "q":
		return quit
	case "p", " ":
		s.paused = !s.paused
		return reload
	case keyEscape:
		if s.view == viewTasks && s.filter != "" {
			s.filter = ""
			return reload
		}
		s.view, s.scroll = viewTasks, 0
		return reload
	case "x":
		s.view, s.scroll = viewBlocked, 0
		return reload
	case keyUp, "k":
		return s.move(-1)
	case keyDown, "j":
		return s.move(1)
	case keyPageUp:
		return s.move(-page)
	case keyPageDown:
		return s.move(page)
	case keyHome:
		return s.move(-1 << 30)
	case keyEnd:
		return s.move(1 << 30)
	}
	if s.view == viewTasks {
		return s.pressInTasks(k)
	}
	return nothing
}

func (s *screen) pressInTasks(k key) effect {
	switch k {
	case "/":
		s.typing = true
		return nothing
	case keyEnter:
		if row := s.rowAt(s.chosen); row != nil {
			s.task, s.view, s.scroll = *row, viewTask, 0
			s.stack.Stack = ""
			return reload
		}
		return nothing
	}
	for i, o := range orders {
		if k == key(rune(o.key)) {
			s.order, s.chosen, s.top = i, 0, 0
			return reload
		}
	}
	return nothing
}

// typed handles a key while the filter is being typed.
func (s *screen) typed(k key) effect {
	switch {
	case k == keyEnter:
		s.typing = false
	case k == keyEscape:
		s.typing, s.filter = false, ""
	case k == keyErase:
		if _, n := utf8.DecodeLastRuneInString(s.filter); n > 0 {
			s.filter = s.filter[:len(s.filter)-n]
		}
	case utf8.RuneCountInString(string(k)) == 1 && len(s.filter) < 100:
		s.filter += string(k)
	default:
		return nothing
	}
	s.chosen, s.top = 0, 0
	return reload
}

// move moves the chosen row, or scrolls.
func (s *screen) move(by int) effect {
	if s.view != viewTasks {
		s.scroll = max(0, s.scroll+by)
		return nothing
	}
	s.chosen = max(0, min(s.chosen+by, s.tasks.Matched-1))
	if s.rowAt(s.chosen) == nil {
		return reload
	}
	return nothing
}
