package webgrpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// prefix precedes a message: whether it is compressed, and its length.
type prefix [5]byte

// receive returns the next message, decompressed. It returns io.EOF after the last one, and
// otherwise an error with a status.
func (c *call) receive() ([]byte, error) {
	prefix := &c.in
	if _, err := io.ReadFull(c.r.Body, prefix[:]); err != nil {
		return nil, c.cut(err, io.EOF)
	}
	return c.receiveRest(*prefix, nil)
}

// receiveOnly returns the message of a unary call like receive. It is in buffer if it is short.
func (c *call) receiveOnly(buffer *buffer) ([]byte, error) {
	n, err := io.ReadAtLeast(c.r.Body, buffer[:], len(prefix{}))
	if err != nil {
		return nil, c.cut(err, io.EOF)
	}
	return c.receiveRest(prefix(buffer[:]), buffer[len(prefix{}):n])
}

// receiveRest returns the message with that prefix. Some of it, and what follows it, was received.
func (c *call) receiveRest(prefix prefix, some []byte) ([]byte, error) {
	limit := c.server.maxReceive()
	size := binary.BigEndian.Uint32(prefix[1:])
	if uint64(size) > uint64(limit) {
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, limit)
	}
	data := some
	if int(size) > len(some) {
		var err error
		if data, err = c.readMessage(some, int(size)); err != nil {
			return nil, err
		}
	}
	switch data = data[:size]; {
	case prefix[0] == 0:
		return data, nil
	case prefix[0] != 1:
		return nil, status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", prefix[0])
	case c.decompressor == nil:
		return nil, status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	return c.decompress(data, limit)
}

// trusted is how much is allocated for a message before its bytes have come: the length is
// only what the client says.
const trusted = 64 << 10

// readMessage reads a message of size bytes, which begins with some.
func (c *call) readMessage(some []byte, size int) ([]byte, error) {
	data := make([]byte, min(size, trusted))
	for n := copy(data, some); ; {
		if _, err := io.ReadFull(c.r.Body, data[n:]); err != nil {
			return nil, c.cut(err, io.ErrUnexpectedEOF)
		}
		if n = len(data); n == size {
			return data, nil
		}
		data = append(data, make([]byte, min(size-n, n))...)
	}
}

// cut returns the error for a body that ended with err. At the place of a message's beginning
// the end is io.EOF.
func (c *call) cut(err, end error) error {
	switch {
	case errors.Is(err, io.EOF) && end == io.EOF:
		return io.EOF
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	}
	return c.lost(err)
}

func (c *call) decompress(data []byte, limit int) ([]byte, error) {
	from, err := c.decompressor.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: failed to decompress the message: %v", err)
	}
	out, err := io.ReadAll(io.LimitReader(from, int64(limit)+1))
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "grpc: failed to read decompressed data: %v", err)
	case len(out) > limit:
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", limit)
	}
	return out, nil
}

func (c *call) decode(data []byte, v any) error {
	var err error
	if m, ok := c.message(v); ok {
		err = proto.Unmarshal(data, m)
	} else {
		err = c.codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, v)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: error unmarshalling request: %v", err)
	}
	return nil
}

// message returns v if it is a message that grpc-go's own codec encodes by package proto. To call that
// directly saves four objects of a short call.
func (c *call) message(v any) (m proto.Message, ok bool) {
	if c.codec != protobuf {
		return nil, false
	}
	m, ok = v.(proto.Message)
	return m, ok
}

// send writes a message, after the header if it is the first one.
func (c *call) send(v any) error {
	if m, ok := c.message(v); ok && c.compressor == nil {
		if size := proto.Size(m); size <= short {
			return c.sendShort(m, size)
		}
	}
	var data mem.BufferSlice
	if v != nil {
		var err error
		if data, err = c.codec.Marshal(v); err != nil {
			return status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
		}
		defer data.Free()
	}
	size := data.Len()
	if uint64(size) > math.MaxUint32 {
		return status.Errorf(codes.ResourceExhausted, "grpc: message too large (%d bytes)", size)
	}
	if c.compressor != nil && size > 0 {
		return c.sendCompressed(data)
	}
	c.writeHeader()
	return c.write(0, size, data)
}

// short is the size up to which a message is encoded into one of buffers. The codec has a pool for longer ones.
const short = 1 << 10

// buffer has a short message with its prefix: a received one until the call ends, or one to send while it is written.
type buffer [len(prefix{}) + short]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// sendShort encodes a message of size bytes behind its prefix.
func (c *call) sendShort(m proto.Message, size int) error {
	buffer := buffers.Get().(*buffer)
	defer buffers.Put(buffer)
	prefix := buffer[:len(prefix{})]
	prefix[0] = 0
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(prefix, m)
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	binary.BigEndian.PutUint32(data[1:], uint32(len(data)-len(prefix)))
	c.writeHeader()
	if _, err := c.w.Write(data); err != nil {
		return c.lost(err)
	}
	return nil
}

func (c *call) sendCompressed(data mem.BufferSlice) error {
	var out bytes.Buffer
	to, err := c.compressor.Compress(&out)
	for i := 0; err == nil && i < len(data); i++ {
		_, err = to.Write(data[i].ReadOnlyData())
	}
	if err == nil {
		err = to.Close()
	}
	if err != nil {
		return status.Errorf(codes.Internal, "grpc: error while compressing: %v", err)
	}
	c.writeHeader()
	return c.write(1, out.Len(), mem.BufferSlice{mem.SliceBuffer(out.Bytes())})
}

// write writes a message of size bytes.
func (c *call) write(flag byte, size int, data mem.BufferSlice) error {
	prefix := &c.out
	prefix[0] = flag
	binary.BigEndian.PutUint32(prefix[1:], uint32(size))
	if _, err := c.w.Write(prefix[:]); err != nil {
		return c.lost(err)
	}
	for _, b := range data {
		if _, err := c.w.Write(b.ReadOnlyData()); err != nil {
			return c.lost(err)
		}
	}
	return nil
}
