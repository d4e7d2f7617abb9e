package compat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/stream"
)

// dialers are the ways in which a library can connect: its own, and on the loop.
func dialers(ctx context.Context) map[string]dialer {
	return map[string]dialer{"its own": nil, "stream.Dialer": stream.Dialer{Context: ctx}.DialContext}
}

// many runs call in twenty tasks at once, and checks that the loop turns meanwhile.
func many(t *testing.T, ctx context.Context, call func(context.Context) error) {
	t.Helper()
	turns := 0
	err := spindle.WithNursery(ctx, func(ctx context.Context, n *spindle.Nursery) error {
		ticker := spindle.RootNursery(ctx)
		left := 20
		ticker.Go(func(ctx context.Context) error {
			for left > 0 {
				turns++
				if err := spindle.Yield(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		for range 20 {
			n.Go(func(ctx context.Context) error {
				defer func() { left-- }()
				return call(ctx)
			})
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if turns < 20 {
		t.Errorf("the loop made %d turns while it waited", turns)
	}
}

// cut checks that a call that would take a minute ends with its scope.
func cut(t *testing.T, ctx context.Context, call func(context.Context) error) {
	t.Helper()
	began := time.Now()
	late, err := spindle.MoveOnAfter(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, call(ctx) })
		if err == nil {
			return errors.New("it has ended before its time")
		}
		return spindle.Checkpoint(ctx)
	})
	if !late || err != nil {
		t.Errorf("cut off: %v, %v", late, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("cut off after %v", took)
	}
}

// TestPostgresThroughBlocking: twenty tasks share a pool of four connections, and a
// query ends with the scope it was made in; pgx then dials once more, on a goroutine and
// with a context of its own, to cancel the query in the server.
func TestPostgresThroughBlocking(t *testing.T) {
	dsn := postgresServer(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for name, dial := range dialers(ctx) {
			t.Log(name)
			config, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				return err
			}
			config.MaxConns = 4
			if dial != nil {
				config.ConnConfig.DialFunc = dial
			}
			pool, err := spindle.Blocking(ctx, func() (*pgxpool.Pool, error) { return pgxpool.NewWithConfig(context.Background(), config) })
			if err != nil {
				return err
			}
			many(t, ctx, func(ctx context.Context) error {
				_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, selectBy(ctx, pool) })
				return err
			})
			cut(t, ctx, func(ctx context.Context) error {
				_, err := pool.Exec(ctx, "select pg_sleep(60)")
				return err
			})
			many(t, ctx, func(ctx context.Context) error {
				_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, selectBy(ctx, pool) })
				return err
			})
			if _, err := spindle.Blocking(ctx, func() (struct{}, error) { pool.Close(); return struct{}{}, nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRedisThroughBlocking is the same for a client of Redis.
func TestRedisThroughBlocking(t *testing.T) {
	path := redisServer(t)
	err := spindle.Run(t.Context(), func(ctx context.Context) error {
		for name, dial := range dialers(ctx) {
			t.Log(name)
			client := redis.NewClient(&redis.Options{Network: "unix", Addr: path, Dialer: dial, PoolSize: 4, ContextTimeoutEnabled: true})
			use := func(ctx context.Context) error {
				_, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, setAndGet(ctx, client) })
				return err
			}
			many(t, ctx, use)
			cut(t, ctx, func(ctx context.Context) error { return client.BLPop(ctx, time.Minute, "nothing").Err() })
			many(t, ctx, use)
			if _, err := spindle.Blocking(ctx, func() (struct{}, error) { return struct{}{}, client.Close() }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
