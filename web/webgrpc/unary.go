package webgrpc

import (
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
	data, err := c.receive()
	if errors.Is(err, io.EOF) {
		return status.Error(codes.Internal, "grpc: no request message")
	}
	if err != nil {
		return err
	}
	answer, err := m.unary(m.impl, c, func(v any) error { return c.decode(data, v) }, chainUnary(c.server.Unary))
	if err != nil {
		return err
	}
	return c.send(answer)
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
