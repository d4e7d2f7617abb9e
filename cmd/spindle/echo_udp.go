package main

import (
	"context"
	"net"

	"github.com/spindleloop/spindle"
	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/stream"
	"github.com/spindleloop/spindle/transport"
)

// datagramEcho serves datagrams in the callback model.
func datagramEcho(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error {
	e, err := transport.Datagram(l, echoDatagrams{}, transport.DatagramOptions{
		Network: at.network, Local: at.address, ReusePort: at.shared,
	})
	if err != nil {
		return err
	}
	defer e.Abort()
	ready(e.Info().Local)
	return l.Run(ctx)
}

// echoDatagrams sends each datagram back to its sender. A datagram that does not fit into
// the buffer is dropped.
type echoDatagrams struct{}

func (echoDatagrams) ConnectionMade(*transport.Endpoint)        {}
func (echoDatagrams) ErrorReceived(*transport.Endpoint, error)  {}
func (echoDatagrams) ConnectionLost(*transport.Endpoint, error) {}
func (echoDatagrams) DatagramReceived(e *transport.Endpoint, p transport.Packet) {
	e.SendTo(p.Data, p.From)
}

// packetEcho serves datagrams in a task.
func packetEcho(ctx context.Context, l *loop.Loop, at endpoint, ready func(net.Addr)) error {
	return spindle.Options{On: l}.Run(ctx, func(ctx context.Context) error {
		c, err := stream.ListenPacket(ctx, at.network, at.address)
		if err != nil {
			return err
		}
		defer c.Close()
		ready(c.LocalAddr())
		buf := make([]byte, 64<<10)
		for {
			n, from, err := c.ReadFromAddrPort(buf)
			if err != nil {
				return err
			}
			if _, err := c.WriteToAddrPort(buf[:n], from); err != nil {
				return err
			}
		}
	})
}
