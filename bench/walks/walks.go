// Command walks counts the functions of this module that run for one byte, from the readiness of a
// descriptor to the code that waits for the byte. It reads the counters of a build with coverage,
// so the numbers come from the program, and not from a table that a person keeps:
//
//	cd bench && go run . walks    # builds and runs this
//	cd bench && go run -cover -covermode=atomic -coverpkg=github.com/spindleloop/spindle/... ./walks -list
//
// A function is on the walk if it is called for most of many bytes. Inlined functions count
// as well: the compiler adds the counters before it inlines. Before each byte there is a pause, in
// which all sides begin to wait: a byte that is there already takes a shorter way.
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

const (
	module = "github.com/spindleloop/spindle/"
	rounds = 1000
	enough = rounds / 2 // the scheduler may hold up a side for longer than a pause
	pause  = 300 * time.Microsecond
)

func main() {
	list := flag.Bool("list", false, "print the functions of each walk")
	flag.Parse()
	for _, w := range []struct {
		name string
		run  func(measure func(func() error) error) error
	}{
		{"a byte to stream.Read", byteToRead},
		{"a request to an inline handler and back", requestToHandler},
		{"a call of a task over NATS and back", callOverNATS},
	} {
		var all []function
		err := w.run(func(fn func() error) (err error) {
			all, err = counted(fn)
			return err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "walks:", err)
			os.Exit(1)
		}
		files, calls := map[string]bool{}, 0
		for _, f := range all {
			files[f.file] = true
			calls += f.calls
		}
		fmt.Printf("%s: %d functions in %d files, %d calls\n", w.name, len(all), len(files), calls)
		if *list {
			for _, f := range all {
				fmt.Printf("\t%3d  %-40s %s\n", f.calls, f.name, f.file)
			}
		}
	}
}

// byteToRead measures a task that reads one byte after the other. Another goroutine, outside of
// the module, writes each byte when the one before was read, so that the task waits for it.
func byteToRead(measure func(func() error) error) error {
	return spindle.Run(context.Background(), func(ctx context.Context) error {
		ln, err := stream.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		peer, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer peer.Close()
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		next := make(chan struct{}, 1)
		go func() {
			for range next {
				time.Sleep(pause)
				peer.Write([]byte("x"))
			}
		}()
		defer close(next)
		var buf [1]byte
		one := func() error {
			next <- struct{}{}
			_, err := io.ReadFull(c, buf[:])
			return err
		}
		return many(one, measure)
	})
}

// requestToHandler measures a server with an inline handler.
func requestToHandler(measure func(func() error) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String()) // waits in the queue of ln until the server accepts it
	if err != nil {
		return err
	}
	go spindle.Run(ctx, func(ctx context.Context) error {
		sv := web.Server{Handler: web.Inline(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("ok")) }))}
		return sv.Serve(ctx, ln)
	})
	defer c.Close()
	request, response := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), make([]byte, 4096)
	return many(func() error {
		time.Sleep(pause)
		if _, err := c.Write(request); err != nil {
			return err
		}
		for got := 0; !bytes.HasSuffix(response[:got], []byte("ok")); {
			n, err := c.Read(response[got:])
			if err != nil {
				return err
			}
			got += n
		}
		return nil
	}, measure)
}

// callOverNATS measures a task that calls a worker with a handler that may block.
func callOverNATS(measure func(func() error) error) error {
	b, err := broker.Start(broker.Options{})
	if err != nil {
		return err
	}
	defer b.Close()
	served, err := nats.Connect(context.Background(), b.URL(), nats.Options{})
	if err != nil {
		return err
	}
	defer served.Close()
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		echo := func(_ context.Context, r *relay.Request) ([]byte, error) {
			time.Sleep(pause) // until the task waits
			return r.Body, nil
		}
		ended <- relay.NewWorker(served).Serve(ctx, "echo", echo, relay.ServeOptions{Ready: func() { close(ready) }})
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		return err
	}
	return spindle.Run(context.Background(), func(ctx context.Context) error {
		bus, err := nats.Connect(ctx, b.URL(), nats.Options{})
		if err != nil {
			return err
		}
		defer bus.Close()
		caller, err := relay.NewCaller(ctx, bus, relay.CallerOptions{})
		if err != nil {
			return err
		}
		defer caller.Close()
		return many(func() error {
			time.Sleep(pause) // blocks the loop, which has nothing else to do
			_, err := caller.Call(ctx, "echo", []byte("x"))
			return err
		}, measure)
	})
}

// many calls fn a few times, and then rounds times in measure.
func many(fn func() error, measure func(func() error) error) error {
	repeat := func(n int) error {
		for range n {
			if err := fn(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := repeat(rounds / 10); err != nil {
		return err
	}
	return measure(func() error { return repeat(rounds) })
}

// function is one that was called in most rounds.
type function struct {
	name, file string
	calls      int // in a round, on average
}

// counted returns the functions that fn calls in most of its rounds.
func counted(fn func() error) ([]function, error) {
	dir, err := os.MkdirTemp("", "walks")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := coverage.ClearCounters(); err != nil {
		return nil, fmt.Errorf("%w (build with -cover -covermode=atomic)", err)
	}
	if err := fn(); err != nil {
		return nil, err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return nil, err
	}
	if err := coverage.WriteMetaDir(dir); err != nil {
		return nil, err
	}
	text := filepath.Join(dir, "text")
	if said, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go tool covdata: %w: %s", err, said)
	}
	blocks, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	return functions(string(blocks))
}

// functions finds the function of each block that was run in most rounds. The first block of
// a function is run as often as the function is called.
func functions(blocks string) (all []function, err error) {
	type place struct{ line, column int }
	first := map[string]map[place]int{} // by file, where a block begins: how often it was run
	for line := range strings.Lines(blocks) {
		file, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 3 {
			continue
		}
		file, ours := strings.CutPrefix(file, module)
		count, err := strconv.Atoi(fields[2])
		if !ours || err != nil || count < enough || strings.HasPrefix(file, "bench/") {
			continue
		}
		var at place
		if _, err := fmt.Sscanf(fields[0], "%d.%d", &at.line, &at.column); err != nil {
			return nil, err
		}
		if first[file] == nil {
			first[file] = map[place]int{}
		}
		first[file][at] = count
	}
	for file, counts := range first { // any order: sorted below
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, filepath.Join("..", file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("run it in the directory bench: %w", err)
		}
		for _, decl := range syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			at := fset.Position(fn.Body.Lbrace)
			if n := counts[place{at.Line, at.Column}] + counts[place{at.Line, at.Column + 1}]; n >= enough {
				all = append(all, function{nameOf(fn), file, (n + rounds/2) / rounds})
			}
		}
	}
	slices.SortFunc(all, func(a, b function) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.name, b.name)) })
	return all, nil
}

// nameOf returns the name of a function with that of its receiver.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	for {
		switch at := typ.(type) {
		case *ast.StarExpr:
			typ = at.X
			continue
		case *ast.IndexExpr:
			typ = at.X
			continue
		case *ast.Ident:
			return at.Name + "." + fn.Name.Name
		}
		return fn.Name.Name
	}
}
