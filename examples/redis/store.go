package main

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle/loop"
)

// store holds the keys and values. Only tasks and timers of its loop use it, and no command
// waits, so each command is atomic.
type store struct {
	loop    *loop.Loop
	entries map[string]*entry
}

type entry struct {
	value   string
	expires time.Duration // on the loop's clock; 0 for never
	timer   loop.Timer
}

// set replaces a value. A ttl of 0 means that the key does not expire.
func (s *store) set(key, value string, ttl time.Duration) {
	s.del(key)
	e := &entry{value: value}
	if ttl > 0 {
		e.expires = s.loop.Time() + ttl
		e.timer = s.loop.CallLater(ttl, func() { delete(s.entries, key) })
	}
	s.entries[key] = e
}

func (s *store) del(key string) (found bool) {
	e, found := s.entries[key]
	if found {
		e.timer.Cancel()
		delete(s.entries, key)
	}
	return found
}

// command is one command of the protocol.
type command struct {
	words int // the minimum number of words, including the name
	do    func(s *store, args []string, out reply)
}

var commands = map[string]command{
	"PING": {1, func(_ *store, args []string, out reply) {
		if len(args) > 1 {
			out.bulk(args[1])
		} else {
			out.simple("PONG")
		}
	}},
	"ECHO": {2, func(_ *store, args []string, out reply) { out.bulk(args[1]) }},
	"GET": {2, func(s *store, args []string, out reply) {
		if e, found := s.entries[args[1]]; found {
			out.bulk(e.value)
		} else {
			out.null()
		}
	}},
	"SET": {3, setCommand},
	"DEL": {2, func(s *store, args []string, out reply) {
		n := 0
		for _, key := range args[1:] {
			if s.del(key) {
				n++
			}
		}
		out.int(n)
	}},
	"INCR": {2, incrCommand},
	"TTL": {2, func(s *store, args []string, out reply) {
		switch e, found := s.entries[args[1]]; {
		case !found:
			out.int(-2)
		case e.expires == 0:
			out.int(-1)
		default:
			out.int(int((e.expires - s.loop.Time() + time.Second/2) / time.Second))
		}
	}},
	"KEYS": {2, func(s *store, args []string, out reply) {
		var keys []string
		for key := range s.entries {
			if ok, _ := path.Match(args[1], key); ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		out.array(len(keys))
		for _, key := range keys {
			out.bulk(key)
		}
	}},
	"DBSIZE": {1, func(s *store, _ []string, out reply) { out.int(len(s.entries)) }},

	// Clients send these when they connect.
	"COMMAND": {1, func(_ *store, _ []string, out reply) { out.array(0) }},
	"CLIENT":  {2, func(_ *store, _ []string, out reply) { out.ok() }},
	"HELLO": {1, func(_ *store, args []string, out reply) {
		if len(args) > 1 && args[1] != "2" {
			out.err("NOPROTO unsupported protocol version")
			return
		}
		out.array(4)
		out.bulk("server")
		out.bulk("spindle")
		out.bulk("proto")
		out.int(2)
	}},
}

// do carries out one command. It reports whether the client quits.
func (s *store) do(args []string, out reply) (quit bool) {
	name := strings.ToUpper(args[0])
	if name == "QUIT" {
		out.ok()
		return true
	}
	switch c, known := commands[name]; {
	case !known:
		out.err("ERR unknown command " + strconv.Quote(args[0]))
	case len(args) < c.words:
		out.err("ERR wrong number of arguments for " + strings.ToLower(name))
	default:
		c.do(s, args, out)
	}
	return false
}

// setCommand carries out SET key value [EX seconds | PX milliseconds].
func setCommand(s *store, args []string, out reply) {
	var ttl time.Duration
	switch {
	case len(args) == 5:
		unit := map[string]time.Duration{"EX": time.Second, "PX": time.Millisecond}[strings.ToUpper(args[3])]
		n, err := strconv.ParseInt(args[4], 10, 32)
		if unit == 0 || err != nil || n <= 0 {
			out.err("ERR invalid expire time in 'set' command")
			return
		}
		ttl = time.Duration(n) * unit
	case len(args) != 3:
		out.err("ERR syntax error")
		return
	}
	s.set(args[1], args[2], ttl)
	out.ok()
}

// incrCommand carries out INCR key. The key keeps its expiry.
func incrCommand(s *store, args []string, out reply) {
	e, found := s.entries[args[1]]
	if !found {
		s.set(args[1], "1", 0)
		out.int(1)
		return
	}
	n, err := strconv.Atoi(e.value)
	if err != nil || n+1 < n {
		out.err("ERR value is not an integer or out of range")
		return
	}
	e.value = strconv.Itoa(n + 1)
	out.int(n + 1)
}
