package webgrpc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var logger = grpclog.Component("webgrpc")

// stream is the grpc.ServerStream of a call.
type stream struct {
	*call
	desc     *grpc.StreamDesc
	received bool // the first message
}

// serveStream calls a method with streams of messages.
func (c *call) serveStream(m *method) error {
	if err := c.chooseCompressor(); err != nil {
		return err
	}
	s := &stream{call: c, desc: m.stream}
	if len(c.server.Stream) == 0 {
		return m.stream.Handler(m.impl, s)
	}
	info := &grpc.StreamServerInfo{FullMethod: c.Method(), IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams}
	return intercept(c.server.Stream, info, m.stream.Handler)(m.impl, s)
}

// intercept puts all interceptors around the handler.
func intercept(all []grpc.StreamServerInterceptor, info *grpc.StreamServerInfo, handler grpc.StreamHandler) grpc.StreamHandler {
	if len(all) == 0 {
		return handler
	}
	return func(impl any, s grpc.ServerStream) error {
		return all[0](impl, s, info, intercept(all[1:], info, handler))
	}
}

// Context returns the context of the call.
func (s *stream) Context() context.Context { return s.call }

// SetTrailer adds to the metadata that is sent with the status.
func (s *stream) SetTrailer(md metadata.MD) {
	if err := s.call.SetTrailer(md); err != nil {
		logger.Errorf("SetTrailer: %v", err)
	}
}

// SendMsg sends a message. It waits while the client does not read.
func (s *stream) SendMsg(m any) error {
	if err := s.send(m); err != nil {
		return err
	}
	return s.flush()
}

// RecvMsg waits for a message. It returns io.EOF after the last one.
func (s *stream) RecvMsg(m any) error {
	data, err := s.receive()
	switch {
	case errors.Is(err, io.EOF) && !s.desc.ClientStreams && !s.received:
		return status.Error(codes.Internal, "cardinality violation: received no request message from non-client-streaming RPC")
	case err != nil:
		return err
	}
	s.received = true
	if err := s.decode(data, m); err != nil || s.desc.ClientStreams {
		return err
	}
	// A second message would be one too many.
	switch _, err := s.receive(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return status.Error(codes.Internal, "cardinality violation: received multiple request messages for non-client-streaming RPC")
}
