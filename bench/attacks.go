//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/spindleloop/spindle/bench/peers"
	"github.com/spindleloop/spindle/internal/http2attack"
	"github.com/spindleloop/spindle/internal/report"
)

const (
	// reconnect is the pause of an attacker before the next connection. Without it every attack
	// would be one of connections, which cost any server the same.
	reconnect = 10 * time.Millisecond
	// attackWindow is how long the client's requests are timed at a stretch.
	attackWindow = 250 * time.Millisecond
)

// runAttacks measures what a normal client of a server notices of an attacker with one connection: the median
// time of its requests, one after the other. Every second window has the attack at another process of the
// same server. That is the control: the cores are as busy, and only the server's own work differs. The first
// row has no attack, and shows how steady the ratio is.
func runAttacks(h *harness) (sections []report.Section, err error) {
	attacks := map[string]func(addr string, stop <-chan struct{}){"nothing": func(_ string, stop <-chan struct{}) { <-stop }}
	names := []string{"nothing"}
	for i := range http2attack.All {
		a := &http2attack.All[i]
		names = append(names, a.Name)
		attacks[a.Name] = func(addr string, stop <-chan struct{}) { again(a, addr, stop) }
	}
	if h.o.smoke {
		names = names[:3]
	}
	t := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{}}
	t.Protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: t}
	defer client.CloseIdleConnections()
	for _, c := range h.speaking(inHTTP2) {
		s, err := h.start(c, inHTTP2, 4096)
		if err != nil {
			h.fail("attacks", c.name, err)
			continue
		}
		defer s.Stop()
		other, err := h.start(c, inHTTP2, 4096)
		if err != nil {
			h.fail("attacks", c.name, err)
			continue
		}
		defer other.Stop()
		var tally report.Tally
		done, err := h.rounds("attacks on "+c.name, names, func(name string, round int) error {
			var took [2]time.Duration // beside the attack, and beside that on the other process
			var share float64
			for i := range took {
				i = (i + round) % 2
				addr := []string{s.Addr, other.Addr}[i]
				used, wall, err := other.Used(func() (err error) {
					took[i], err = medianBeside(client, s.Addr, func(stop <-chan struct{}) { attacks[name](addr, stop) })
					return err
				})
				if err != nil {
					return err
				}
				if i == 1 {
					share = used.Seconds() / wall.Seconds()
				}
			}
			tally.Add(name, false, float64(took[0])/float64(took[1]), share)
			return nil
		})
		if err != nil {
			return nil, err
		}
		sections = append(sections, report.Section{
			Name: "attacks", Title: "Attacks on " + c.name,
			Note:    "The median time of a client's requests beside an attack with one connection, divided by that beside the same attack on another process.",
			Columns: []report.Column{{Name: "÷ control", Unit: report.Share, Better: report.Lower}, {Name: "of a core", Unit: report.Share}},
			Rows:    tally.Rows(done),
		})
	}
	return sections, nil
}

// medianBeside returns the median time of requests that are made one after the other while attack runs.
func medianBeside(client *http.Client, addr string, attack func(stop <-chan struct{})) (time.Duration, error) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		attack(stop)
	}()
	defer func() {
		close(stop)
		<-done
	}()
	var times []time.Duration
	for begun := time.Now(); time.Since(begun) < attackWindow; {
		at := time.Now()
		res, err := client.Get("http://" + addr + peers.Path)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil {
			return 0, err
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// again repeats the attack until stop is closed.
func again(a *http2attack.Attack, addr string, stop <-chan struct{}) {
	for {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Run(nc, 1<<20)
		}()
		select {
		case <-ended:
		case <-stop:
			nc.Close()
			<-ended
			return
		}
		select {
		case <-time.After(reconnect):
		case <-stop:
			return
		}
	}
}
