// Http2 compares HTTP/2 servers under h2load: requests for each second of the server's CPU.
//
//	go run ./http2                                           # "Hello, World!"
//	go run ./http2 -streams 1 -requests 50000                # one request at a time on a connection
//	go run ./http2 -path /large -streams 4 -requests 500     # 1 MB
//	go run ./http2 -path /upload -streams 4 -requests 500    # 1 MB from the client
//	go run ./http2 -tls
//	go run ./http2 -attacks -requests 30000 -servers net/http,inline   # what other clients notice of attacks
//	go run ./http2 -idle -tls -servers net/http,goroutine,inline,lean  # memory of an idle connection
//
// Every server has one loop, or one Go processor. hyper needs cargo, and only answers "Hello,
// World!" on plain connections.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/bench/h2load"
	"github.com/spindleloop/spindle/bench/peers/rust"
)

var (
	load    h2load.Load
	serveAs = flag.String("serve", "", "serve as this server; for the processes that are measured")
	attacks = flag.Bool("attacks", false, "measure each server beside each attack of internal/http2attack, and without")
	idles   = flag.Bool("idle", false, "measure the memory of an idle connection")
	attack  = flag.String("attack", "", "like -attacks, with those that have this in their name")
	only    = flag.String("servers", "net/http,goroutine,inline,lean,hyper", "which servers; ratios are to the first one")
)

func main() {
	load.Flags()
	flag.StringVar(&load.Path, "path", "/", "/ answers Hello, World!, /large 1 MB, /upload takes 1 MB")
	flag.Parse()
	var err error
	if *serveAs != "" {
		if err = load.Profile(*serveAs); err == nil {
			err = serve(*serveAs)
		}
	} else {
		err = compare(strings.Split(*only, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare(kinds []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if load.Path == "/upload" {
		load.Body = large
	}
	var servers []*h2load.Server
	for _, kind := range kinds {
		s := &h2load.Server{Name: kind, Command: []string{self, "-serve", kind, "-profiles", load.Profiles, "-tls=" + strconv.FormatBool(load.TLS)}}
		if kind == "hyper" {
			if load.Path != "/" || load.TLS {
				continue
			}
			program, err := rust.Build()
			if errors.Is(err, rust.ErrNotInstalled) {
				fmt.Println("left out: hyper:", err)
				continue
			} else if err != nil {
				return err
			}
			s.Command = []string{program, "hyper-http2", "127.0.0.1", "0"}
		}
		servers = append(servers, s)
	}
	if *idles {
		return compareIdle(servers)
	}
	if *attacks || *attack != "" {
		return underAttack(servers, *attack)
	}
	return h2load.Compare(servers, load, nil)
}
