package webgrpc

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serveUnary calls a method with one message and one answer.
func (c *call) serveUnary(m *method) error {
	if err := c.chooseCompressor(); err != nil {
		return err
	}
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	var err error
	c.received, err = c.receiveOnly(buffer)
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "grpc: no request message")
	}
	if err != nil {
		return err
	}
	answer, err := m.unary(m.impl, c, c.decodeReceived, chainUnary(c.server.Unary))
	c.received = nil
	if err != nil {
		return err
	}
	return c.send(answer)
}

// decodeReceived decodes the message of a unary call into v. A codec of the user may keep what it
// decodes, and package proto copies.
func (c *call) decodeReceived(v any) error {
	data := c.received
	if _, ok := c.message(v); !ok {
		data = bytes.Clone(data)
	}
	return c.decode(data, v)
}

// chainUnary makes one interceptor of all, nil without any.
func chainUnary(all []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return all[0](ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return chainUnary(all[1:])(ctx, req, info, handler)
		})
	}
}
