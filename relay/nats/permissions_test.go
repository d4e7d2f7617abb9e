package nats_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"

	"github.com/spindleloop/spindle/internal/until"
	"github.com/spindleloop/spindle/relay"
	"github.com/spindleloop/spindle/relay/nats"
	"github.com/spindleloop/spindle/relay/nats/broker"
)

// The permissions of the roles, as the documentation of the package has them.

func permissions(publish, subscribe []string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

// mayCall are the permissions of a caller of some subjects.
func mayCall(subjects ...string) *server.Permissions {
	var publish []string
	for _, s := range subjects {
		publish = append(publish, s, "_cancel."+s, "_worker.*."+s)
	}
	return permissions(publish, []string{"_inbox.>"})
}

// mayServe are the permissions of a worker of a subject.
func mayServe(subject string) *server.Permissions {
	p := permissions([]string{subject}, []string{subject, "_cancel." + subject, "_worker.*." + subject})
	p.Response = &server.ResponsePermission{MaxMsgs: -1, Expires: time.Minute}
	return p
}

// also adds the permissions to use JetStream.
func also(p *server.Permissions, publish []string, inbox string) *server.Permissions {
	p.Publish.Allow = append(p.Publish.Allow, publish...)
	p.Subscribe.Allow = append(p.Subscribe.Allow, inbox+".>")
	return p
}

// guarded starts a server that enforces permissions. Users have their names as passwords.
func guarded(t *testing.T, users map[string]*server.Permissions) *broker.Broker {
	return start(t, broker.Options{Dir: t.TempDir(), Configure: func(o *server.Options) {
		for name, p := range users {
			o.Users = append(o.Users, &server.User{Username: name, Password: name, Permissions: p})
		}
	}})
}

func as(name string, o nats.Options) nats.Options {
	o.NATS = append(o.NATS, client.UserInfo(name, name), client.CustomInboxPrefix("_INBOX_"+name))
	return o
}

// TestPermissionsOfRoles: callers and workers with the documented permissions can do
// everything: reply, fail, send items, cancel, and find out that there is no worker.
func TestPermissionsOfRoles(t *testing.T) {
	b := guarded(t, map[string]*server.Permissions{"web": mayCall("pay", "mail"), "pay": mayServe("pay")})
	canceled := make(chan error, 1)
	serve(t, connect(t, b, as("pay", nats.Options{})), "pay", func(ctx context.Context, r *relay.Request) ([]byte, error) {
		switch string(r.Body) {
		case "fail":
			return nil, errors.New("it fails")
		case "items":
			for i := range 100 {
				if err := r.Send(ctx, fmt.Append(nil, i)); err != nil {
					return nil, err
				}
			}
		case "hold":
			canceled <- nil
			<-ctx.Done()
			canceled <- ctx.Err()
		}
		return r.Body, nil
	}, relay.ServeOptions{})
	c, err := relay.NewCaller(t.Context(), connect(t, b, as("web", nats.Options{})), relay.CallerOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Call(t.Context(), "pay", []byte("one")); string(got) != "one" || err != nil {
		t.Errorf("a call: %q, %v", got, err)
	}
	if _, err := c.Call(t.Context(), "pay", []byte("fail")); !errors.As(err, new(*relay.RemoteError)) {
		t.Errorf("a failure: %v", err)
	}
	if _, err := c.Call(t.Context(), "mail", nil); !errors.Is(err, relay.ErrNoResponder) {
		t.Errorf("without a worker: %v", err)
	}
	if n, err := count(t.Context(), c); n != 101 || err != io.EOF {
		t.Errorf("a stream has %d items, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-canceled
		cancel()
	}()
	if _, err := c.Call(ctx, "pay", []byte("hold")); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that is cancelled: %v", err)
	}
	if err := <-canceled; err != context.Canceled {
		t.Errorf("its handler: %v", err)
	}
}

// count reads a stream to its end.
func count(ctx context.Context, c *relay.Caller) (n int, err error) {
	s, err := c.Stream(ctx, relay.Envelope{Subject: "pay", Body: []byte("items")})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for {
		if _, err := s.Next(ctx); err != nil {
			return n, err
		}
		n++
	}
}

// TestPermissionsOfDurableRoles: the same with stored requests and kept replies, where a worker
// needs the reply subjects of stored requests. Callers listen to other subjects there, so the
// worker still cannot read replies.
func TestPermissionsOfDurableRoles(t *testing.T) {
	const stream, bucket = "SPINDLE", "KV_SPINDLE_RESULTS"
	provide := func(name string) []string {
		return []string{"$JS.API.STREAM.CREATE." + name, "$JS.API.STREAM.UPDATE." + name, "$JS.API.STREAM.INFO." + name}
	}
	worker := append(provide(stream), provide(bucket)...)
	worker = append(worker, "_inbox.*.*", "$JS.API.CONSUMER.CREATE.SPINDLE.>", "$JS.API.CONSUMER.MSG.NEXT.SPINDLE.>", "$JS.ACK.SPINDLE.>",
		"$KV.SPINDLE_RESULTS.>", "$JS.API.DIRECT.GET.KV_SPINDLE_RESULTS.>", "$JS.API.INFO")
	b := guarded(t, map[string]*server.Permissions{
		"web":  also(mayCall("jobs.a"), append(provide(stream), "$JS.API.INFO"), "_INBOX_web"),
		"jobs": also(mayServe("jobs.a"), worker, "_INBOX_jobs"),
	})
	bus := connect(t, b, as("jobs", durable(nats.Durable{})))
	serve(t, bus, "jobs.a", echo, relay.ServeOptions{Results: resultsOf(t, bus, nats.ResultsOptions{})})
	c := caller(t, connect(t, b, as("web", durable(nats.Durable{}))))
	for range 2 {
		e := keyed("jobs.a", "one")
		e.Body = []byte("hello")
		if got, err := c.Do(t.Context(), e); err != nil || string(got.Body) != "hello" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestWorkerCannotAnswerForAnother: with permissions, because it may not publish there;
// without, because it does not know the token of the call.
func TestWorkerCannotAnswerForAnother(t *testing.T) {
	for name, users := range map[string]map[string]*server.Permissions{
		"with permissions":    {"web": mayCall("pay", "mail"), "pay": mayServe("pay"), "mail": mayServe("mail")},
		"without permissions": {"web": nil, "pay": nil, "mail": nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := guarded(t, users)
			entered, leave := make(chan bool), make(chan bool)
			serve(t, connect(t, b, as("pay", nats.Options{})), "pay", func(context.Context, *relay.Request) ([]byte, error) {
				close(entered)
				<-leave
				return []byte("paid"), nil
			}, relay.ServeOptions{})
			forger, err := client.Connect(b.URL(), client.UserInfo("mail", "mail"), patient, client.ErrorHandler(func(*client.Conn, *client.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			defer forger.Close()
			seen, err := forger.SubscribeSync("mail")
			if err != nil || forger.Flush() != nil {
				t.Fatal(err)
			}
			c := caller(t, connect(t, b, as("web", nats.Options{})))
			result := make(chan string)
			go func() {
				got, err := c.Call(t.Context(), "pay", nil)
				result <- fmt.Sprintf("%s, %v", got, err)
			}()
			<-entered
			go c.Call(t.Context(), "mail", nil)
			m, err := seen.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			forge(t, forger, m)
			close(leave)
			if got := <-result; got != "paid, <nil>" {
				t.Errorf("got %s", got)
			}
			if s := c.Stats(); users["web"] == nil && s.Unknown == 0 || users["web"] != nil && s.Unknown != 0 {
				t.Errorf("%+v", s)
			}
			if err := m.Respond([]byte("mailed")); err != nil {
				t.Error(err)
			}
			until.Holds(t, func() bool { return c.Stats().Waiting == 0 })
		})
	}
}

// forge answers calls of the Caller that has sent m: those that came before and after it.
func forge(t *testing.T, nc *client.Conn, m *client.Msg) {
	address := strings.Join(strings.Split(m.Reply, ".")[:2], ".")
	token := ""
	if _, found, ok := strings.Cut(m.Reply, "-"); ok {
		token = "-" + found
	}
	for _, token := range []string{"", "-0", "-1", token} {
		for slot := range 64 {
			for generation := range 4 {
				to := address + "." + client.NewInbox()[7:12] + "." + strconv.FormatUint(uint64(generation)<<32|uint64(slot), 36) + token
				if to != m.Reply && to[strings.LastIndexByte(to, '.'):] != m.Reply[strings.LastIndexByte(m.Reply, '.'):] {
					if err := nc.Publish(to, []byte("forged")); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
