package compat

import (
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// start runs a server until the test ends, and waits until ready succeeds.
func start(t *testing.T, cmd *exec.Cmd, ready func(context.Context) error) {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt) // to both: end at once, in order
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ready(ctx) != nil {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v", cmd.Path, err)
		case <-ctx.Done():
			t.Fatalf("%s does not answer", cmd.Path)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// redisServer starts a server on a Unix socket and returns its path.
func redisServer(t *testing.T) (path string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server here; on Debian: apt-get install redis-server")
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "redis")
	start(t, exec.Command(program, "--port", "0", "--unixsocket", path, "--dir", dir, "--save", "", "--logfile", filepath.Join(dir, "log")),
		func(ctx context.Context) error {
			c := redis.NewClient(&redis.Options{Network: "unix", Addr: path, MaxRetries: -1})
			defer c.Close()
			return c.Ping(ctx).Err()
		})
	return path
}

// postgresServer starts a server on a free port and returns its connection string.
// PostgreSQL does not run as root: then it runs as the user postgres.
func postgresServer(t *testing.T) (dsn string) {
	t.Helper()
	initdb, postgres := postgresProgram(t, "initdb"), postgresProgram(t, "postgres")
	dir, err := os.MkdirTemp("", "spindle-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		return cmd
	}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user postgres")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		plain := command
		command = func(name string, args ...string) *exec.Cmd {
			cmd := plain(name, args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
			return cmd
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := command(initdb, "-D", data, "-U", "spindle", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	dsn = "postgres://spindle@127.0.0.1:" + port + "/postgres?sslmode=disable"
	cmd := command(postgres, "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", port, "-F", "-c", "log_destination=stderr", "-c", "logging_collector=on", "-c", "log_min_messages=fatal")
	start(t, cmd, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, dsn)
		if err == nil {
			err = c.Close(ctx)
		}
		return err
	})
	return dsn
}

// postgresProgram finds a program of PostgreSQL. Debian puts few of them into the path.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s here; on Debian: apt-get install postgresql", name)
	}
	return path
}

// freePort is a port that was free a moment ago: PostgreSQL cannot choose one itself.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}
