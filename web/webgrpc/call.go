package webgrpc

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/spindleloop/spindle/internal/direct"
)

// call is a call: its context, and a grpc.ServerTransportStream. It is not reused, because the
// method may keep it.
//
// Metadata and peer are made when the method looks them up in the context. Most do not, and
// three contexts and a map would be a fifth of a short call.
type call struct {
	context.Context
	server *Server
	w      http.ResponseWriter
	direct direct.Response // w of ServeDirect, nil otherwise
	r      *http.Request
	codec  encoding.CodecV2

	contentType []string // of the request
	encoding    string   // of the request

	// Of the request and of the response; nil without compression.
	decompressor, compressor encoding.Compressor

	in, out  prefix // of the message under way
	received []byte // the message of a unary call, until the method returns

	mu       sync.Mutex
	incoming metadata.MD // guarded by mu
	header   metadata.MD // not sent yet; guarded by mu
	trailer  metadata.MD // guarded by mu
	headed   bool        // the header is fixed; guarded by mu
}

// refusal is the answer to a request that is not a call.
type refusal struct {
	status int
	text   string
}

func (p *refusal) answer(w http.ResponseWriter) {
	if p.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	http.Error(w, p.text, p.status)
}

// begin checks the request. The caller calls end, if there is one, after the method.
func (c *call) begin() (end context.CancelFunc, problem *refusal) {
	r := c.r
	if r.Method != http.MethodPost {
		return nil, &refusal{http.StatusMethodNotAllowed, "invalid gRPC request method " + r.Method}
	}
	if r.ProtoMajor != 2 {
		return nil, &refusal{http.StatusHTTPVersionNotSupported, "gRPC requires HTTP/2"}
	}
	var timeout string
	var malformed error
	for name, values := range r.Header { // any order: each name is decided alone
		switch name {
		case "Content-Type":
			c.contentType = values
		case "Grpc-Encoding":
			c.encoding = first(values)
		case "Grpc-Timeout":
			timeout = first(values)
		default:
			if err := checkBinary(name, values); err != nil {
				malformed = err
			}
		}
	}
	if !c.chooseCodec(first(c.contentType)) {
		return nil, &refusal{http.StatusUnsupportedMediaType, "invalid gRPC request content-type"}
	}
	if malformed != nil {
		return nil, &refusal{http.StatusBadRequest, malformed.Error()}
	}
	if timeout != "" {
		d, err := parseTimeout(timeout)
		if err != nil {
			return nil, &refusal{http.StatusBadRequest, err.Error()}
		}
		c.Context, end = context.WithTimeout(c.Context, d)
	}
	return end, nil
}

const baseType = "application/grpc"

// chooseCodec sets the codec of a content type. Like grpc-go, it takes the one of protobuf for a
// subtype that is not registered.
func (c *call) chooseCodec(contentType string) (ok bool) {
	subtype, ok := strings.CutPrefix(contentType, baseType)
	switch {
	case !ok:
		return false
	case subtype == "":
		c.codec = protobuf
		return true
	case subtype[0] != '+' && subtype[0] != ';':
		return false
	}
	if c.codec = encoding.GetCodecV2(strings.ToLower(subtype[1:])); c.codec == nil {
		c.codec = protobuf
	}
	return true
}

var protobuf = encoding.GetCodecV2(proto.Name)

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// chooseCompressor sets the compressors. A response is compressed like its request.
func (c *call) chooseCompressor() error {
	name := c.encoding
	if name == "" || name == encoding.Identity {
		return nil
	}
	c.decompressor = encoding.GetCompressor(name)
	if c.decompressor == nil {
		return status.Errorf(codes.Unimplemented, "grpc: Decompressor is not installed for grpc-encoding %q", name)
	}
	c.compressor = c.decompressor
	return nil
}

// The keys under which packages of grpc-go look for values in a context.
var (
	incomingKey = keyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	peerKey     = keyOf(func(ctx context.Context) { peer.FromContext(ctx) })
	streamKey   = keyOf(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
)

// keyOf returns the key that look looks for.
func keyOf(look func(context.Context)) any {
	p := &probe{Context: context.Background()}
	look(p)
	return p.key
}

type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// Value returns what grpc-go puts into contexts, and otherwise what the request's context has.
func (c *call) Value(key any) any {
	switch key {
	case incomingKey:
		return c.metadata()
	case peerKey:
		return c.peer()
	case streamKey:
		return c
	}
	return c.Context.Value(key)
}

func (c *call) metadata() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.incoming == nil {
		c.incoming = metadataOf(c.r)
	}
	return c.incoming
}

func (c *call) peer() *peer.Peer {
	p := &peer.Peer{Addr: address(c.r.RemoteAddr)}
	p.LocalAddr, _ = c.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if c.r.TLS != nil {
		p.AuthInfo = credentials.TLSInfo{State: *c.r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	}
	return p
}

// address is a net.Addr of a TCP connection.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Method returns the path of the call.
func (c *call) Method() string { return c.r.URL.Path }

// SetHeader adds to the metadata that is sent before the first message.
func (c *call) SetHeader(md metadata.MD) error {
	if len(md) == 0 {
		return nil
	}
	if err := validate(md); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headed {
		return status.Error(codes.Internal, "grpc: the header was sent already")
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

// SendHeader sends the metadata.
func (c *call) SendHeader(md metadata.MD) error {
	if err := c.SetHeader(md); err != nil {
		return err
	}
	if !c.writeHeader() {
		return status.Error(codes.Internal, "grpc: the header was sent already")
	}
	return c.flush()
}

// SetTrailer adds to the metadata that is sent with the status.
func (c *call) SetTrailer(md metadata.MD) error {
	if len(md) == 0 {
		return nil
	}
	if err := validate(md); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trailer = metadata.Join(c.trailer, md)
	return nil
}

// flush sends what was written.
func (c *call) flush() error {
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return c.lost(err)
	}
	return nil
}

// lost returns the status for an error of the connection or of the context.
func (c *call) lost(err error) error {
	if cause := c.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	return status.Error(codes.Unavailable, err.Error())
}
