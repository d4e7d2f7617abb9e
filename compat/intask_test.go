package compat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/web"
)

// where the servers are, for the process that uses them.
const (
	useEnv      = "SPINDLE_COMPAT_USE"
	howEnv      = "SPINDLE_COMPAT_HOW"
	postgresEnv = "SPINDLE_COMPAT_POSTGRES"
	redisEnv    = "SPINDLE_COMPAT_REDIS"
	httpEnv     = "SPINDLE_COMPAT_HTTP"
	rpcEnv      = "SPINDLE_COMPAT_RPC"
)

// A dialer connects by package stream: the way in which a library in a task could wait
// without blocking the loop.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// uses are calls of libraries over connections of package stream. InTask says whether
// they work when a task makes them. The others wait for goroutines of their own, which
// need the loop that the task blocks.
var uses = map[string]struct {
	inTask bool
	call   func(ctx context.Context, dial dialer) error
}{
	"web.Transport": {true, func(ctx context.Context, _ dialer) error {
		return getBy(ctx, &web.Transport{})
	}},
	"pgx.Conn": {true, func(ctx context.Context, dial dialer) error {
		config, err := pgx.ParseConfig(os.Getenv(postgresEnv))
		if err != nil {
			return err
		}
		config.DialFunc = pgconn.DialFunc(dial)
		c, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		return selectBy(ctx, c)
	}},
	"pgxpool": {false, func(ctx context.Context, dial dialer) error {
		config, err := pgxpool.ParseConfig(os.Getenv(postgresEnv))
		if err != nil {
			return err
		}
		config.ConnConfig.DialFunc = pgconn.DialFunc(dial)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return err
		}
		defer pool.Close()
		return selectBy(ctx, pool)
	}},
	"database/sql, one at a time": {true, func(ctx context.Context, dial dialer) error {
		return withDB(dial, func(db *sql.DB) error { return querySQL(ctx, db) })
	}},
	"database/sql, waiting for a connection": {false, func(ctx context.Context, dial dialer) error {
		return withDB(dial, func(db *sql.DB) error {
			db.SetMaxOpenConns(1)
			return twice(ctx, func(ctx context.Context) error { return querySQL(ctx, db) })
		})
	}},
	"go-redis": {false, func(ctx context.Context, dial dialer) error {
		dials := 0
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv(redisEnv), Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return dial(ctx, network, address)
		}})
		defer c.Close()
		if err := setAndGet(ctx, c); err != nil {
			return err
		}
		if dials != 1 { // the pool looks whether an idle connection has ended
			return fmt.Errorf("%d connections for calls one after the other", dials)
		}
		return nil
	}},
	"http.Transport": {false, func(ctx context.Context, dial dialer) error {
		transport := &http.Transport{DialContext: dial}
		defer transport.CloseIdleConnections()
		return getBy(ctx, transport)
	}},
	"net/rpc": {false, func(ctx context.Context, dial dialer) error {
		nc, err := dial(ctx, "tcp", os.Getenv(rpcEnv))
		if err != nil {
			return err
		}
		c := rpc.NewClient(nc)
		defer c.Close()
		return doubleBy(c)
	}},
}

// frozenAfter is for how long a call that takes milliseconds may take.
const frozenAfter = 3 * time.Second

// TestLibrariesInTasks: each library works through Blocking, and in a task itself only those
// that the guide names. Each use has a process of its own, because a loop that is frozen
// cannot be ended.
func TestLibrariesInTasks(t *testing.T) {
	env := slices.Concat(os.Environ(), []string{
		postgresEnv + "=" + postgresServer(t), redisEnv + "=" + redisServer(t), httpEnv + "=" + httpServer(t), rpcEnv + "=" + rpcServer(t)})
	for name, use := range uses {
		for _, how := range []string{"Blocking", "task"} {
			t.Run(name+" in "+how, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(os.Args[0])
				cmd.Env = slices.Concat(env, []string{useEnv + "=" + name, howEnv + "=" + how})
				out, err := cmd.CombinedOutput()
				said := strings.TrimSpace(string(out))
				switch works := use.inTask || how == "Blocking"; {
				case works && (err != nil || said != "works"):
					t.Errorf("%v: %s", err, said)
				case !works && !strings.HasSuffix(said, "frozen"):
					t.Errorf("it does not freeze any more, %v; say so in the guide: %s", err, said)
				}
			})
		}
	}
}

// useOne is the process of one use.
func useOne(name, how string) {
	time.AfterFunc(frozenAfter, func() {
		fmt.Println("frozen")
		os.Exit(1)
	})
	err := spindle.Run(context.Background(), func(ctx context.Context) error {
		call := func() error { return uses[name].call(ctx, stream.Dialer{Context: ctx}.DialContext) }
		if how == "task" {
			return call()
		}
		_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, call() })
		return err
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("works")
	os.Exit(0)
}

func TestMain(m *testing.M) {
	if name := os.Getenv(useEnv); name != "" {
		useOne(name, os.Getenv(howEnv))
	}
	os.Exit(m.Run())
}

func withDB(dial dialer, fn func(*sql.DB) error) error {
	config, err := pgx.ParseConfig(os.Getenv(postgresEnv))
	if err != nil {
		return err
	}
	config.DialFunc = pgconn.DialFunc(dial)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	return fn(db)
}

// twice makes a call twice at the same time: by two tasks, or by two goroutines.
func twice(ctx context.Context, call func(context.Context) error) error {
	if spindle.Current(ctx) == nil {
		other := make(chan error, 1)
		go func() { other <- call(ctx) }()
		return errors.Join(call(ctx), <-other)
	}
	return spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		n.Go(call)
		n.Go(call)
		return nil
	})
}

// querier is what the connections and pools of pgx have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func selectBy(ctx context.Context, q querier) error {
	var n int
	if err := q.QueryRow(ctx, "select 6 * $1::int", 7).Scan(&n); err != nil || n != 42 {
		return fmt.Errorf("selected %d: %w", n, err)
	}
	return nil
}

func querySQL(ctx context.Context, db *sql.DB) error {
	var n int
	if err := db.QueryRowContext(ctx, "select 6 * $1::int", 7).Scan(&n); err != nil || n != 42 {
		return fmt.Errorf("selected %d: %w", n, err)
	}
	return nil
}

func setAndGet(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "answer", 42, 0).Err(); err != nil {
		return err
	}
	if n, err := c.Get(ctx, "answer").Int(); err != nil || n != 42 {
		return fmt.Errorf("got %d: %w", n, err)
	}
	return nil
}

func getBy(ctx context.Context, transport http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, "GET", os.Getenv(httpEnv), nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "42" {
		return fmt.Errorf("got %q: %w", body, err)
	}
	return nil
}

func httpServer(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "42") })}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return "http://" + ln.Addr().String()
}

// Doubler is a service of net/rpc.
type Doubler struct{}

// Double doubles n.
func (Doubler) Double(n int, doubled *int) error { *doubled = 2 * n; return nil }

func doubleBy(c *rpc.Client) error {
	var n int
	if err := c.Call("Doubler.Double", 21, &n); err != nil || n != 42 {
		return fmt.Errorf("doubled %d: %w", n, err)
	}
	return nil
}

func rpcServer(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer()
	if err := s.Register(Doubler{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			nc, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go s.ServeConn(nc)
			}
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}
