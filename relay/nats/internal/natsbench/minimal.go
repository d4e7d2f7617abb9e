package natsbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/relay"
)

// minimal is a client of calls that does the least that a call needs, with the plain client alone: a
// token that cannot be guessed, a deadline that the worker knows, and a handler that may block. It has
// no cancellation, no limits, no streams, no counts, and no tasks.
type minimal struct {
	nc     *client.Conn
	prefix string // of reply subjects

	mu      sync.Mutex
	waiting map[uint64]chan *client.Msg // by token; guarded by mu
}

const (
	minimalSubject  = "spindle.bench.minimal"
	minimalHandlers = 64 // that run at a time, as of a relay.Worker
	minimalTimeout  = 30 * time.Second
)

// startMinimal starts a worker and a client of it.
func startMinimal(servers string) (call func(context.Context) error, stop func(), err error) {
	worker, err := client.Connect(servers)
	if err != nil {
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	nc, err := client.Connect(servers)
	if err != nil {
		worker.Close()
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	requests, ended := make(chan *client.Msg, 1024), make(chan struct{})
	stop = func() {
		worker.Close()
		nc.Close()
		close(ended)
	}
	for range minimalHandlers {
		go func() {
			for {
				select {
				case m := <-requests:
					if due, ok := deadlineIn(m.Reply); ok && time.Now().Before(due) {
						_ = worker.Publish(m.Reply, m.Data) // the caller has a deadline
					}
				case <-ended:
					return
				}
			}
		}()
	}
	c := &minimal{nc: nc, prefix: "_inbox.natsbench" + strconv.FormatUint(rand.Uint64(), 36), waiting: map[uint64]chan *client.Msg{}}
	_, err1 := worker.QueueSubscribe(minimalSubject, "workers", func(m *client.Msg) { requests <- m })
	_, err2 := nc.Subscribe(c.prefix+".>", c.deliver)
	if err := errors.Join(err1, err2, worker.Flush(), nc.Flush()); err != nil {
		stop()
		return nil, nil, fmt.Errorf("natsbench: %w", err)
	}
	body := make([]byte, 64)
	return func(context.Context) error { return c.call(body) }, stop, nil
}

// deadlineIn returns the deadline in a reply subject: prefix, microseconds, token.
func deadlineIn(reply string) (due time.Time, ok bool) {
	parts := strings.Split(reply, ".")
	if len(parts) != 4 {
		return due, false
	}
	left, err := strconv.ParseUint(parts[2], 36, 63)
	return time.Now().Add(time.Duration(left) * time.Microsecond), err == nil
}

func (c *minimal) deliver(m *client.Msg) {
	token, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	w := c.waiting[token]
	delete(c.waiting, token)
	c.mu.Unlock()
	if w != nil {
		w <- m
	}
}

func (c *minimal) call(body []byte) error {
	token, reply := rand.Uint64(), make(chan *client.Msg, 1)
	c.mu.Lock()
	c.waiting[token] = reply
	c.mu.Unlock()
	subject := make([]byte, 0, 64)
	subject = strconv.AppendInt(append(append(subject, c.prefix...), '.'), minimalTimeout.Microseconds(), 36)
	subject = strconv.AppendUint(append(subject, '.'), token, 36)
	if err := c.nc.PublishRequest(minimalSubject, string(subject), body); err != nil {
		return err
	}
	timer := time.NewTimer(minimalTimeout)
	defer timer.Stop()
	select {
	case m := <-reply:
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return client.ErrNoResponders
		}
		return nil
	case <-timer.C:
		return client.ErrTimeout
	}
}

// serveLeast starts the least worker on a bus: as many handlers as a relay.Worker has, without
// cancellation, limits and counts. It ends with the bus.
func serveLeast(ctx context.Context, bus relay.Bus) error {
	sub, err := bus.Subscribe(ctx, onBus, "workers")
	if err != nil {
		return err
	}
	for range minimalHandlers {
		go func() {
			for {
				d, err := sub.Next(context.Background())
				if err != nil {
					return
				}
				e := d.Envelope
				_ = bus.TryPublish(&relay.Envelope{Kind: relay.KindReply, ID: e.ID, Token: e.Token, Subject: e.ReplyTo, Attempt: e.Attempt, Body: e.Body}) // the caller has a deadline
			}
		}()
	}
	return nil
}
