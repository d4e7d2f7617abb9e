// Package broker runs NATS servers inside the process, for tests, demos and programs that
// do not need a broker of their own yet:
//
//	b, err := broker.Start(broker.Options{Dir: dir})
//	bus, err := nats.Connect(ctx, b.URL(), nats.Options{})
//
// The servers listen on the loopback interface, on ports that the system chooses.
package broker

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout limits how long servers take to start and to find each other.
const startTimeout = time.Minute

// Options configures a Broker.
type Options struct {
	// Dir is where JetStream keeps its data. "" means that there is no JetStream.
	Dir string

	// Servers is how many servers form a cluster. Zero means one, without a cluster.
	Servers int

	// Address is the address of the first server: host:port. "" means a free port of the
	// loopback interface.
	Address string

	// Configure, if set, may change the options of each server before it starts: TLS,
	// users, limits. It must not change the name, the addresses and the store.
	Configure func(o *server.Options)
}

// Broker is a NATS server, or a cluster of some. Make one with Start.
type Broker struct {
	servers []*server.Server
	options []*server.Options

	reserved []reservedPort
}

// Start starts the servers, and returns when they take connections. If a server cannot start,
// because its address is in use or its directory cannot be written, Start fails with the reason.
func Start(o Options) (*Broker, error) {
	b := &Broker{}
	if err := b.start(o, max(o.Servers, 1)); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// start starts n servers, one after the other.
func (b *Broker) start(o Options, n int) error {
	ports, err := b.reserve(2 * n)
	if err != nil {
		return err
	}
	clients, routes := ports[:n], ports[n:]
	for i := range n {
		so := &server.Options{
			ServerName: "s" + strconv.Itoa(i+1), Host: "127.0.0.1", Port: clients[i],
			NoSigs: true, NoLog: true, MaxPayload: 1 << 20,
			PingInterval: time.Second, MaxPingsOut: 2, // a client that does not answer gets no requests after about three seconds
		}
		if o.Address != "" && i == 0 {
			host, port, err := net.SplitHostPort(o.Address)
			if err != nil {
				return fmt.Errorf("broker: %w", err)
			}
			if so.Port, err = strconv.Atoi(port); err != nil {
				return fmt.Errorf("broker: port of %s: %w", o.Address, err)
			}
			so.Host = host
		}
		if o.Dir != "" {
			so.JetStream, so.StoreDir = true, filepath.Join(o.Dir, so.ServerName)
		}
		if n > 1 {
			so.Cluster = server.ClusterOpts{Name: "spindle", Host: "127.0.0.1", Port: routes[i]}
			for _, port := range routes {
				so.Routes = append(so.Routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
			}
		}
		if o.Configure != nil {
			o.Configure(so)
		}
		b.options = append(b.options, so)
		b.servers = append(b.servers, nil)
		if err := b.Restart(i); err != nil {
			return err
		}
	}
	return b.settle(n)
}

// reserve reserves n ports of the loopback interface until Close, so that a server that was
// killed finds its ports free when it starts again.
func (b *Broker) reserve(n int) (ports []int, err error) {
	for range n {
		p, err := reservePort()
		if err != nil {
			return nil, err
		}
		b.reserved = append(b.reserved, p)
		ports = append(ports, p.number)
	}
	return ports, nil
}

// settle waits until n servers are ready for connections, know each other, and, with
// JetStream, have a leader.
func (b *Broker) settle(n int) error {
	deadline := time.Now().Add(startTimeout)
	for _, s := range b.servers {
		if !s.ReadyForConnections(time.Until(deadline)) {
			return errors.New("broker: a server did not start")
		}
	}
	if n == 1 {
		return nil
	}
	for time.Now().Before(deadline) {
		leaders, routed := 0, 0
		for _, s := range b.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n { // otherwise it places no replicas
				leaders++
			}
			if s.NumRoutes() >= n-1 {
				routed++
			}
		}
		if routed == n && (leaders == 1 || !b.options[0].JetStream) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("broker: the servers did not form a cluster")
}

// URL returns the addresses of all servers, for nats.Connect.
func (b *Broker) URL() string {
	var all []string
	for _, o := range b.options {
		all = append(all, "nats://"+address(o))
	}
	return strings.Join(all, ",")
}

// address returns the address of a server for clients.
func address(o *server.Options) string {
	if o.Port <= 0 { // the system has not chosen one
		return o.Host
	}
	return net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
}

// Kill stops server i, counted from 0, at once.
func (b *Broker) Kill(i int) {
	b.servers[i].Shutdown()
	b.servers[i].WaitForShutdown()
}

// Restart starts server i again, on the same port and with the same data.
func (b *Broker) Restart(i int) error {
	o := b.options[i]
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	b.servers[i] = s
	fatal := make(fatalLog, 1)
	s.SetLogger(fatal, false, false)
	go s.Start()
	for deadline := time.Now().Add(startTimeout); !s.ReadyForConnections(50 * time.Millisecond); {
		select {
		case why := <-fatal:
			return fmt.Errorf("broker: server %s at %s did not start: %s", o.ServerName, address(o), why)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("broker: server %s at %s did not start in %v", o.ServerName, address(o), startTimeout)
		}
	}
	o.Port = s.Addr().(*net.TCPAddr).Port
	return nil
}

// fatalLog is a server's log. It keeps the first reason why the server cannot start: the server
// itself only logs it.
type fatalLog chan string

func (l fatalLog) Fatalf(format string, args ...any) {
	select {
	case l <- fmt.Sprintf(format, args...):
	default:
	}
}

func (fatalLog) Errorf(string, ...any)  {}
func (fatalLog) Warnf(string, ...any)   {}
func (fatalLog) Noticef(string, ...any) {}
func (fatalLog) Debugf(string, ...any)  {}
func (fatalLog) Tracef(string, ...any)  {}

// Close stops all servers.
func (b *Broker) Close() {
	for i, s := range b.servers {
		if s != nil {
			b.Kill(i)
		}
	}
	for _, p := range b.reserved {
		p.release()
	}
	b.reserved = nil
}
