package main

import (
	"context"
	"net"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
)

// protocolEcho serves connections in the callback model.
func protocolEcho(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error {
	network := at.network
	if at.tls != nil {
		network = "tcp"
	}
	s, err := transport.Listen(l, network, at.address, transport.Options{
		Protocol:  func() transport.Protocol { return echoProtocol{} },
		ReusePort: at.shared,
		TLS:       at.tls,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	ready(s.Addr())
	return l.Run(ctx)
}

// echoProtocol serves every connection.
type echoProtocol struct{}

func (echoProtocol) ConnectionMade(*transport.Conn)              {}
func (echoProtocol) ConnectionLost(*transport.Conn, error)       {}
func (echoProtocol) DataReceived(c *transport.Conn, data []byte) { c.Write(data) }

// PauseWriting stops reading from a peer that does not read.
func (echoProtocol) PauseWriting(c *transport.Conn)  { c.PauseReading() }
func (echoProtocol) ResumeWriting(c *transport.Conn) { c.ResumeReading() }
