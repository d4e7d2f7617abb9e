package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spindleloop/spindle/cmd/spindle/demo"
	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/web"
)

const serveHelp = `
spindle serve [flags] [DIR] is a web server. It serves the files of DIR or, without
DIR, a page that explains the loop and lets you try it. When interrupted, it finishes
the requests under way and ends; a second interrupt ends it at once.

  spindle serve                              the page, on http://127.0.0.1:8080
  spindle serve --addr :8080 --loops 4 www   the files of www, on four loops
  spindle serve --tls-cert c.pem --tls-key k.pem

Other paths:

  /plaintext             a text, from the connection's callback, without allocation
  /plaintext-handler     the same from an http.Handler in a task on the loop
  /plaintext-goroutine   the same from an http.Handler on a goroutine
  /json                  a small JSON document
  /echo                  sends a POST body back
  /delay?ms=100          answers after a sleep on the loop's timer
  /block?ms=100          answers after blocking the loop; with &offload=1, a worker
  /events                the loop's statistics as server-sent events
  /ws                    sends WebSocket messages back
  /chat                  a chat room
  /debug/spindle/        the inspector: loops, tasks, sockets; only for this machine

The inspector also has an address of its own, which is printed. There it answers while
the loops of the server are blocked.
`

func runServe(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8080", "`HOST:PORT` to listen on")
	loops := flags.Int("loops", 1, "number `N` of loops, each on its own goroutine")
	certFile := flags.String("tls-cert", "", "`FILE` with the certificate; enables https")
	keyFile := flags.String("tls-key", "", "`FILE` with the certificate's key")
	drain := flags.Duration("drain", 10*time.Second, "`TIME` for requests under way after an interrupt")
	log := flags.Bool("log", false, "print a line for each request")
	if err := parse(flags, serveHelp, args, out); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 1:
		return fmt.Errorf("got %d arguments, want at most one DIR; see 'spindle serve --help'", flags.NArg())
	case *loops < 1:
		return fmt.Errorf("--loops %d: want at least 1", *loops)
	case *drain <= 0:
		return fmt.Errorf("--drain %v: must be positive", *drain)
	case (*certFile == "") != (*keyFile == ""):
		return errors.New("--tls-cert and --tls-key: give both or neither")
	}
	if err := mustBeDir(flags.Arg(0)); err != nil {
		return err
	}
	at, err := resolve(ctx, *addr)
	if err != nil {
		return err
	}
	inspector, err := inspect.Serve("127.0.0.1:0", inspect.Options{})
	if err != nil {
		return err
	}
	defer inspector.Close()
	s := demo.NewServer(ctx, demo.Options{Dir: flags.Arg(0), Inspector: inspector.Addr().String()})
	s.Loops, s.DrainTimeout = *loops, *drain
	scheme := "http"
	if *certFile != "" {
		cert, err := tls.LoadX509KeyPair(*certFile, *keyFile)
		if err != nil {
			return err
		}
		s.TLS, scheme = &tls.Config{Certificates: []tls.Certificate{cert}}, "https"
	}
	logger := newTerminalLog(errs)
	s.ErrorLog = logger
	if *log {
		s.AccessLog = logger
	}
	s.OnListen = func(a net.Addr) {
		fmt.Fprintf(out, "spindle serve: %s://%v, inspector http://%v/\n", scheme, a, inspector.Addr())
	}
	announced := announceDrain(ctx, out, "serve", *drain)
	err = s.ListenAndServe(ctx, at)
	announced()
	if errors.Is(err, web.ErrDrainTimeout) {
		fmt.Fprintf(errs, "spindle serve: some requests took longer than %v; their connections were closed\n", *drain)
		return nil
	}
	return listenError(err, at, "choose another with --addr")
}

// mustBeDir fails unless name is a directory, or empty.
func mustBeDir(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", name)
	}
	return err
}
