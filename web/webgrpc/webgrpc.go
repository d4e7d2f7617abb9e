// Package webgrpc answers gRPC calls with package web, without the transport of grpc-go.
//
// A Server is a grpc.ServiceRegistrar, so the functions that protoc-gen-go-grpc generates
// register services with it. It is also an http.Handler, so it runs as other handlers do: in a
// task on the loop behind web.Inline, and on a goroutine without.
//
//	calls := &webgrpc.Server{}
//	pb.RegisterGreeterServer(calls, &greeter{})
//	server := &web.Server{Handler: web.Inline(calls), Protocols: new(http.Protocols)}
//	server.Protocols.SetUnencryptedHTTP2(true)
//	return server.ListenAndServe(ctx, "127.0.0.1:50051")
//
// Codecs, compressors, metadata, peers and status codes are those of grpc-go. What grpc-go does
// in its own transport is not here: keep-alive pings, stats handlers, channelz, binary logs and
// grpc.SetSendCompressor. web.Server has the limits, the time-outs and the TLS configuration.
//
// It is a module of its own, so that Spindle does not depend on grpc-go.
package webgrpc

import (
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spindleloop/spindle/internal/direct"
)

// Server answers the calls of registered services. Its zero value is ready for services. The
// fields are not changed, and no service is registered, after the first call.
type Server struct {
	// MaxReceiveBytes limits a received message, before and after it is decompressed. Zero
	// means 4 MB, as in grpc-go.
	MaxReceiveBytes int

	// Unary and Stream are called around methods, the first one outermost.
	Unary  []grpc.UnaryServerInterceptor
	Stream []grpc.StreamServerInterceptor

	methods  map[string]*method // by path
	services map[string]grpc.ServiceInfo
	serving  atomic.Bool
}

// method is a registered method: unary, or a stream.
type method struct {
	impl   any
	unary  grpc.MethodHandler
	stream *grpc.StreamDesc
}

// RegisterService registers a service and its implementation. Generated code calls it.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if s.serving.Load() {
		panic("webgrpc: RegisterService of " + desc.ServiceName + " after the first call")
	}
	if _, ok := s.services[desc.ServiceName]; ok {
		panic("webgrpc: RegisterService of " + desc.ServiceName + " twice")
	}
	if impl != nil {
		if want := reflect.TypeOf(desc.HandlerType).Elem(); !reflect.TypeOf(impl).Implements(want) {
			panic("webgrpc: RegisterService: " + reflect.TypeOf(impl).String() + " is not a " + want.String())
		}
	}
	if s.services == nil {
		s.methods, s.services = map[string]*method{}, map[string]grpc.ServiceInfo{}
	}
	info := grpc.ServiceInfo{Metadata: desc.Metadata}
	path := "/" + desc.ServiceName + "/"
	for _, m := range desc.Methods {
		s.methods[path+m.MethodName] = &method{impl: impl, unary: m.Handler}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
	}
	for i := range desc.Streams {
		m := &desc.Streams[i]
		s.methods[path+m.StreamName] = &method{impl: impl, stream: m}
		info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams})
	}
	s.services[desc.ServiceName] = info
}

// GetServiceInfo returns the registered services, for package reflection of grpc-go.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	all := make(map[string]grpc.ServiceInfo, len(s.services))
	for name, info := range s.services {
		all[name] = info
	}
	return all
}

// ServeHTTP answers a call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(&call{Context: r.Context(), server: s, w: w, r: r})
}

// ServeDirect is used by package web to answer a call without a header map. It is not for other code: its
// types are internal and may change in any version.
func (s *Server) ServeDirect(w direct.Response, r *http.Request) {
	s.serve(&call{Context: r.Context(), server: s, w: w, direct: w, r: r})
}

var _ direct.Handler = (*Server)(nil)

// serve answers a call.
func (s *Server) serve(c *call) {
	if !s.serving.Load() {
		s.serving.Store(true)
	}
	r := c.r
	end, problem := c.begin()
	if problem != nil {
		problem.answer(c.w)
		return
	}
	if end != nil {
		defer end()
	}
	m := s.methods[r.URL.Path]
	var err error
	switch {
	case m == nil:
		err = s.unknown(r.URL.Path)
	case m.stream != nil:
		err = c.serveStream(m)
	default:
		err = c.serveUnary(m)
	}
	c.finish(err)
}

// unknown returns the status of a call to a method that is not registered.
func (s *Server) unknown(path string) error {
	at := strings.LastIndexByte(path, '/')
	if at <= 0 || path[0] != '/' {
		return status.Errorf(codes.Unimplemented, "malformed method name: %q", path)
	}
	service, name := path[1:at], path[at+1:]
	if _, ok := s.services[service]; !ok {
		return status.Errorf(codes.Unimplemented, "unknown service %v", service)
	}
	return status.Errorf(codes.Unimplemented, "unknown method %v for service %v", name, service)
}

func (s *Server) maxReceive() int {
	if s.MaxReceiveBytes > 0 {
		return s.MaxReceiveBytes
	}
	return 4 << 20
}
