package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spindleloop/spindle/bench/h2load"
	"github.com/spindleloop/spindle/bench/proc"
)

// compareIdle prints the memory of an idle connection to each server, after a request of Go's client:
// the slope of resident memory, and that of live objects and stacks, between two numbers of
// connections.
func compareIdle(servers []*h2load.Server) error {
	if _, err := proc.RaiseFileLimit(); err != nil {
		return err
	}
	for _, s := range servers {
		if err := s.Serving(func(addr string, pid int) error { return idle(s.Name, addr, pid) }); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

func idle(name, addr string, pid int) error {
	const low, high = 1000, 5000
	clients := make([]*http.Client, 0, high)
	defer func() {
		for _, c := range clients {
			c.CloseIdleConnections()
		}
	}()
	var rss, live [2]int64
	for step, n := range []int{low, high} {
		for len(clients) < n {
			c := newClient()
			clients = append(clients, c)
			if _, err := ask(c, addr, "/"); err != nil {
				return err
			}
		}
		if err := proc.Settle(pid, 10*time.Second); err != nil {
			return err
		}
		var err error
		if rss[step], err = proc.RSS(pid); err != nil {
			return err
		}
		text, err := ask(clients[0], addr, "/live")
		if err != nil {
			return err
		}
		if live[step], err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	fmt.Printf("%-10s %6d bytes resident for each connection, %6d bytes live\n", name, (rss[1]-rss[0])/(high-low), (live[1]-live[0])/(high-low))
	return nil
}

// newClient returns a client that makes a connection of its own.
func newClient() *http.Client {
	t := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is one of httptest
	t.Protocols.SetHTTP2(load.TLS)
	t.Protocols.SetUnencryptedHTTP2(!load.TLS)
	return &http.Client{Transport: t}
}

func ask(c *http.Client, addr, path string) (string, error) {
	scheme := "http://"
	if load.TLS {
		scheme = "https://"
	}
	res, err := c.Get(scheme + addr + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.ProtoMajor != 2 {
		err = fmt.Errorf("the server speaks %s", res.Proto)
	}
	return string(body), err
}
