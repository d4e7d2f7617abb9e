package wsframe

import (
	"encoding/binary"
	"unicode/utf8"
)

// Role is the side of a connection that a Decoder reads for.
type Role uint8

// The two roles.
const (
	Server Role = iota // reads a client's frames, which are masked
	Client             // reads a server's frames, which are not masked
)

// Limits limits the frames and messages that a peer may send.
type Limits struct {
	Role      Role // the role of this side
	Message   int  // bytes of an inflated message
	Frame     int  // bytes of a frame's payload
	Fragments int  // frames of a message
	Deflate   bool // the peer may send compressed messages
}

// CompressedMessage returns the limit for the compressed bytes of a message. It is
// above the limit for inflated bytes, because incompressible data grows a little.
func (l *Limits) CompressedMessage() int { return l.Message + l.Message>>8 + 64 }

// EventType is the type of an Event.
type EventType uint8

// The event types.
const (
	More  EventType = iota // all of data is used, and nothing is complete
	Data                   // a piece of a message
	Ping                   // a complete ping
	Pong                   // a complete pong
	Close                  // a complete Close; nothing may follow it
)

// Event is what Next found.
type Event struct {
	Type       EventType
	Final      bool // Data: the message is complete
	Compressed bool // Data: the message is compressed, and not checked for UTF-8
	Op         Op   // Data: the message's opcode
	Code       Code // Close: the status code
	Payload    []byte
}

// Decoder reads the frames of one connection. The zero Decoder is ready for the first
// frame.
type Decoder struct {
	partial    *partialControl // a control frame that is not complete yet, or nil
	remaining  uint64          // bytes that the current frame still lacks
	size       int             // bytes of the current message so far, as they were sent
	frames     uint32          // frames of the current message so far
	key        Key
	keyAt      uint8 // bytes of the current payload unmasked so far, modulo 4
	first      byte  // the first byte of the current frame: flags and opcode
	inPayload  bool  // the head of the current frame is read, its payload is not complete
	message    Op    // the opcode of the current message; OpContinuation if there is none
	compressed bool  // the current message is compressed
	text       Text  // complete between messages
	headLen    uint8 // bytes in head
	head       [MaxHead]byte
}

type partialControl struct {
	n       int
	payload [MaxControl]byte
}

// Idle reports whether the decoder is between messages: it has read no part of a
// frame or a message that is not complete.
func (d *Decoder) Idle() bool {
	return !d.inPayload && d.headLen == 0 && d.message == OpContinuation
}

// Next finds the next event in p and returns the number of bytes it used. It changes
// p: it unmasks payloads in place. After an error it must not be called again. The
// limits must be the same in every call. They are a parameter because connections
// share them, which makes a Decoder smaller.
func (d *Decoder) Next(l *Limits, p []byte) (n int, e Event, err error) {
	if !d.inPayload {
		if n, err = d.readHead(l, p); err != nil || !d.inPayload {
			return n, e, err
		}
	}
	var used int
	if Op(d.first & 0x0f).control() {
		used, e, err = d.readControl(l, p[n:])
	} else {
		used, e, err = d.readData(l, p[n:])
	}
	return n + used, e, err
}

// headSize returns the size of a head with the second byte b.
func headSize(b byte) int {
	size := 2
	switch b &^ maskedBit {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if b&maskedBit != 0 {
		size += 4
	}
	return size
}

// readHead reads a head, or as much of it as p has.
func (d *Decoder) readHead(l *Limits, p []byte) (n int, err error) {
	if d.headLen == 0 && len(p) >= 2 {
		if err := d.check(l, p[0], p[1]); err != nil {
			return 0, err
		}
		if size := headSize(p[1]); len(p) >= size {
			return size, d.begin(l, p[:size])
		}
	}
	n = d.collect(p, 2)
	if d.headLen < 2 {
		return n, nil
	}
	if err := d.check(l, d.head[0], d.head[1]); err != nil {
		return n, err
	}
	size := headSize(d.head[1])
	n += d.collect(p[n:], size)
	if int(d.headLen) < size {
		return n, nil
	}
	d.headLen = 0
	return n, d.begin(l, d.head[:size])
}

// collect copies bytes from p to head until it has size bytes.
func (d *Decoder) collect(p []byte, size int) int {
	n := copy(d.head[min(int(d.headLen), size):size], p)
	d.headLen += uint8(n)
	return n
}

// check checks the first two bytes of a frame.
func (d *Decoder) check(l *Limits, first, second byte) error {
	op, fin, masked := Op(first&0x0f), first&byte(Fin) != 0, second&maskedBit != 0
	switch {
	case first&reservedBits != 0:
		return ErrReservedBits
	case first&byte(Compressed) != 0 && !l.Deflate:
		return ErrReservedBits
	case first&byte(Compressed) != 0 && op != OpText && op != OpBinary:
		return ErrCompressed
	case op > OpPong || op > OpBinary && op < OpClose:
		return ErrOpcode
	case op.control() && !fin:
		return ErrControlFragment
	case op.control() && second&^maskedBit > MaxControl:
		return ErrControlTooLong
	case l.Role == Server && !masked:
		return ErrNotMasked
	case l.Role == Client && masked:
		return ErrMasked
	case op == OpContinuation && d.message == OpContinuation:
		return ErrNoMessage
	case (op == OpText || op == OpBinary) && d.message != OpContinuation:
		return ErrMessageNotEnded
	}
	return nil
}

// begin starts a frame with a complete head, after its first two bytes were checked.
func (d *Decoder) begin(l *Limits, head []byte) error {
	n, rest := uint64(head[1]&^maskedBit), head[2:]
	switch n {
	case 126:
		n, rest = uint64(binary.BigEndian.Uint16(rest)), rest[2:]
		if n < 126 {
			return ErrLength
		}
	case 127:
		n, rest = binary.BigEndian.Uint64(rest), rest[8:]
		if n <= 0xffff || n > 1<<63-1 {
			return ErrLength
		}
	}
	copy(d.key[:], rest)
	d.keyAt = 0
	d.first, d.remaining, d.inPayload = head[0], n, true
	if op := Op(head[0] & 0x0f); !op.control() {
		return d.beginData(l, op, n)
	}
	return nil
}

// beginData checks the limits for a data frame with n bytes of payload.
func (d *Decoder) beginData(l *Limits, op Op, n uint64) error {
	if op != OpContinuation {
		d.message, d.compressed = op, d.first&byte(Compressed) != 0
		d.size, d.frames = 0, 0
	}
	most := l.Message
	if d.compressed {
		most = l.CompressedMessage()
	}
	d.frames++
	switch {
	case n > uint64(l.Frame):
		return ErrFrameTooLarge
	case n > uint64(most-d.size):
		return ErrMessageTooLarge
	case int64(d.frames) > int64(l.Fragments):
		return ErrTooManyFragments
	}
	return nil
}

func (d *Decoder) readControl(l *Limits, p []byte) (n int, e Event, err error) {
	if d.partial == nil && uint64(len(p)) >= d.remaining {
		p = p[:d.remaining]
		n = len(p)
	} else {
		if d.partial == nil {
			d.partial = new(partialControl)
		}
		b := d.partial
		n = copy(b.payload[b.n:b.n+int(d.remaining)], p)
		b.n += n
		d.remaining -= uint64(n)
		if d.remaining > 0 {
			return n, e, nil
		}
		p = b.payload[:b.n]
		d.partial = nil
	}
	d.unmask(l, p)
	d.inPayload = false
	switch Op(d.first & 0x0f) {
	case OpPing:
		e.Type = Ping
	case OpPong:
		e.Type = Pong
	default:
		e.Type = Close
		e.Code, p, err = parseClose(p)
	}
	e.Payload = p
	return n, e, err
}

func (d *Decoder) unmask(l *Limits, p []byte) {
	if l.Role == Server {
		d.keyAt = uint8(Mask(p, d.key, int(d.keyAt)))
	}
}

func (d *Decoder) readData(l *Limits, p []byte) (n int, e Event, err error) {
	if uint64(len(p)) > d.remaining {
		p = p[:d.remaining]
	}
	if len(p) == 0 && d.remaining > 0 {
		return 0, e, nil
	}
	d.unmask(l, p)
	d.remaining -= uint64(len(p))
	first := d.size == 0 // the message comes in one piece if this is also its end
	d.size += len(p)
	e = Event{Type: Data, Op: d.message, Compressed: d.compressed, Payload: p}
	if d.remaining == 0 {
		d.inPayload = false
		if d.first&byte(Fin) != 0 {
			e.Final = true
			d.message = OpContinuation
		}
	}
	if e.Op == OpText && !e.Compressed {
		ok := false
		if first && e.Final {
			ok = utf8.Valid(p)
		} else {
			ok = d.text.Add(p) && (!e.Final || d.text.Complete())
		}
		if !ok {
			return len(p), e, ErrUTF8
		}
	}
	return len(p), e, nil
}
