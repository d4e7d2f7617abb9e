package webgrpc_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"

	"github.com/spindleloop/spindle/web"
	"github.com/spindleloop/spindle/web/webgrpc"
)

// TestMessagesOfAllSizes has calls at the same time, with messages around the size of the buffers that they share.
func TestMessagesOfAllSizes(t *testing.T) {
	calls := &webgrpc.Server{}
	testgrpc.RegisterTestServiceServer(calls, &service{unary: func(_ context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		return &testgrpc.SimpleResponse{Payload: r.Payload}, nil
	}})
	client, ctx := testgrpc.NewTestServiceClient(dial(t, serve(t, web.Inline(calls)))), minute(t)
	var all sync.WaitGroup
	for _, size := range []int{0, 1, 100, 1010, 1015, 1016, 1017, 1018, 1019, 1020, 1023, 1024, 1025, 1029, 1030, 5000, 200_000} {
		all.Go(func() {
			body := bytes.Repeat([]byte{byte(size)}, size)
			for range 20 {
				answer, err := client.UnaryCall(ctx, &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: body}})
				if err != nil || !bytes.Equal(answer.Payload.GetBody(), body) {
					t.Errorf("%d bytes: got %d, %v", size, len(answer.GetPayload().GetBody()), err)
				}
			}
		})
	}
	all.Wait()
}

// keepingCodec is a codec of byte slices that keeps what it decodes, without a copy.
type keepingCodec struct{}

func (keepingCodec) Name() string { return "keeping" }

func (keepingCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (keepingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if len(data) != 1 {
		return fmt.Errorf("%d buffers", len(data))
	}
	*v.(*[]byte) = data[0].ReadOnlyData()
	return nil
}

// TestCodecMayKeepWhatItDecodes: the bytes of a call stay as they are after the call.
func TestCodecMayKeepWhatItDecodes(t *testing.T) {
	encoding.RegisterCodecV2(keepingCodec{})
	var mu sync.Mutex
	var kept [][]byte // guarded by mu
	calls := &webgrpc.Server{}
	calls.RegisterService(&grpc.ServiceDesc{ServiceName: "keeper", Methods: []grpc.MethodDesc{{
		MethodName: "Keep",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			err := decode(&in)
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, in)
			return &in, err
		},
	}}}, nil)
	conn, ctx := dial(t, serve(t, web.Inline(calls))), minute(t)
	var want []string
	for i := range 20 {
		in, out := bytes.Repeat([]byte{'a' + byte(i)}, i+1), []byte(nil)
		want = append(want, string(in))
		if err := conn.Invoke(ctx, "/keeper/Keep", &in, &out, grpc.CallContentSubtype("keeping")); err != nil || string(out) != want[i] {
			t.Fatalf("got %q, %v", out, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, in := range kept {
		if string(in) != want[i] {
			t.Errorf("call %d: kept %q, want %q", i, in, want[i])
		}
	}
}
