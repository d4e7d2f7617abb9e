package main

import (
	"net"
	"strings"
	"time"

	"github.com/spindleloop/spindle/bench/h2load"
	"github.com/spindleloop/spindle/internal/http2attack"
)

// reconnect is the pause of an attacker before the next connection. Without it every attack
// would be one of connections, which cost any server the same.
const reconnect = 10 * time.Millisecond

// underAttack measures what clients of a server notice of an attacker with one connection,
// which is made again when the server has ended it. The names of the attacks contain name.
func underAttack(servers []*h2load.Server, name string) error {
	var all []h2load.Disturbance
	for i := range http2attack.All {
		a := &http2attack.All[i]
		if !strings.Contains(a.Name, name) {
			continue
		}
		all = append(all, h2load.Disturbance{Name: a.Name, Run: func(addr string, stop <-chan struct{}) { again(a, addr, stop) }})
	}
	for _, s := range servers {
		if err := h2load.Disturbed(s, load, all); err != nil {
			return err
		}
	}
	return nil
}

// again attacks until stop is closed.
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
