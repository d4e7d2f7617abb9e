package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"time"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
)

// tlsEcho is coroutineEcho with TLS.
func tlsEcho(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error {
	return spindle.Options{On: l}.Run(ctx, func(ctx context.Context) error {
		ln, err := stream.ListenConfig{ReusePort: at.shared}.Listen(ctx, "tcp", at.address)
		if err != nil {
			return err
		}
		ready(ln.Addr())
		return stream.ServeConfig{OnError: func(*stream.Conn, error) error { return nil }}.Serve(ctx, ln, func(_ context.Context, c *stream.Conn) error {
			return tlsEchoConn(stream.TLS{Config: at.tls}.Server(c))
		})
	})
}

// tlsEchoConn serves one client.
func tlsEchoConn(c *stream.TLSConn) error {
	defer c.Close()
	for {
		data, err := c.ReadBorrow()
		if errors.Is(err, io.EOF) {
			return c.CloseWrite()
		}
		if err != nil {
			return err
		}
		if _, err := c.Write(data); err != nil {
			return err
		}
	}
}

// certificate loads a certificate from files. Without files it makes a self-signed one.
func certificate(certFile, keyFile string) (*tls.Config, error) {
	if certFile != "" || keyFile != "" {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &tls.Config{Certificates: []tls.Certificate{cert}}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}
