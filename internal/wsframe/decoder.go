package wsframe

import (
	"encoding/binary"
	"unicode/utf8"
)

// Role is whose side a Decoder is on.
type Role uint8

// The two roles.
const (
	Server Role = iota // reads what clients send: all of it masked
	Client             // reads what a server sends: none of it masked
)

// Limits are how large things may be that a peer sends.
type Limits struct {
	Message   int  // bytes of a message, inflated
	Frame     int  // bytes of a frame's payload
	Fragments int  // frames of a message
	Deflate   bool // compressed messages may come
}

// CompressedMessage is the limit of a message's compressed bytes: what does not
// compress grows a little.
func (l *Limits) CompressedMessage() int { return l.Message + l.Message>>8 + 64 }

// EventType is what Next has come to.
type EventType uint8

// The events.
const (
	More  EventType = iota // all of data is used, and nothing is complete
	Data                   // a piece of a message
	Ping                   // a whole ping
	Pong                   // a whole pong
	Close                  // a whole Close; nothing may follow it
)

// Event is something that has come.
type Event struct {
	Type       EventType
	Final      bool // of Data: the message is complete
	Compressed bool // of Data: the message is compressed, and not checked for UTF-8
	Op         Op   // of Data: the message's
	Code       Code // of Close
	Payload    []byte
}

// Decoder reads the frames of one connection. Make one with NewDecoder.
type Decoder struct {
	limits *Limits
	begun  *begunControl // a control frame that came in part; else nil
	left   uint64        // bytes that the frame under way still lacks
	size   int           // bytes of the message so far, as they were sent
	frames uint32        // of the message so far
	key    Key
	at     uint8 // how far the key was used, modulo 4
	role   Role
	first  byte // of the frame under way: flags and opcode
	inside bool // a frame's head was read, its payload is under way
	kind   Op   // of the message under way; OpContinuation if there is none
	packed bool // the message is compressed
	text   Text
	have   uint8 // bytes in head
	head   [MaxHead]byte
}

type begunControl struct {
	n       int
	payload [MaxControl]byte
}

// NewDecoder returns a Decoder that waits for a frame. The limits are shared and
// must not change.
func NewDecoder(role Role, limits *Limits) Decoder {
	return Decoder{role: role, limits: limits}
}

// Idle tells whether nothing is under way: neither a frame nor a message.
func (d *Decoder) Idle() bool { return !d.inside && d.have == 0 && d.kind == OpContinuation }

// Next looks for the next event in p and tells how many bytes of it are used. It
// changes p: payload is unmasked where it lies. After an error it must not be
// called again.
func (d *Decoder) Next(p []byte) (n int, e Event, err error) {
	if !d.inside {
		if n, err = d.readHead(p); err != nil || !d.inside {
			return n, e, err
		}
	}
	var used int
	if Op(d.first & 0x0f).control() {
		used, e, err = d.readControl(p[n:])
	} else {
		used, e, err = d.readData(p[n:])
	}
	return n + used, e, err
}

// headSize is how long the head is whose second byte is b.
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

// readHead reads a head, or as much of it as there is.
func (d *Decoder) readHead(p []byte) (n int, err error) {
	if d.have == 0 && len(p) >= 2 {
		if err := d.check(p[0], p[1]); err != nil {
			return 0, err
		}
		if size := headSize(p[1]); len(p) >= size {
			return size, d.begin(p[:size])
		}
	}
	n = d.collect(p, 2)
	if d.have < 2 {
		return n, nil
	}
	if err := d.check(d.head[0], d.head[1]); err != nil {
		return n, err
	}
	size := headSize(d.head[1])
	n += d.collect(p[n:], size)
	if int(d.have) < size {
		return n, nil
	}
	d.have = 0
	return n, d.begin(d.head[:size])
}

// collect keeps the beginning of a head, up to size bytes of it.
func (d *Decoder) collect(p []byte, size int) int {
	n := copy(d.head[min(int(d.have), size):size], p)
	d.have += uint8(n)
	return n
}

// check judges the first two bytes of a frame.
func (d *Decoder) check(first, second byte) error {
	op, fin, masked := Op(first&0x0f), first&byte(Fin) != 0, second&maskedBit != 0
	switch {
	case first&reservedBits != 0:
		return ErrReservedBits
	case first&byte(Compressed) != 0 && !d.limits.Deflate:
		return ErrReservedBits
	case first&byte(Compressed) != 0 && op != OpText && op != OpBinary:
		return ErrCompressed
	case op > OpPong || op > OpBinary && op < OpClose:
		return ErrOpcode
	case op.control() && !fin:
		return ErrControlFragment
	case op.control() && second&^maskedBit > MaxControl:
		return ErrControlTooLong
	case d.role == Server && !masked:
		return ErrNotMasked
	case d.role == Client && masked:
		return ErrMasked
	case op == OpContinuation && d.kind == OpContinuation:
		return ErrNoMessage
	case (op == OpText || op == OpBinary) && d.kind != OpContinuation:
		return ErrMessageNotEnded
	}
	return nil
}

// begin takes a complete head, whose first two bytes were checked.
func (d *Decoder) begin(head []byte) error {
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
	d.at = 0
	d.first, d.left, d.inside = head[0], n, true
	if op := Op(head[0] & 0x0f); !op.control() {
		return d.beginData(op, n)
	}
	return nil
}

func (d *Decoder) beginData(op Op, n uint64) error {
	if op != OpContinuation {
		d.kind, d.packed = op, d.first&byte(Compressed) != 0
		d.size, d.frames, d.text = 0, 0, Text{}
	}
	most := d.limits.Message
	if d.packed {
		most = d.limits.CompressedMessage()
	}
	d.frames++
	switch {
	case n > uint64(d.limits.Frame):
		return ErrFrameTooLarge
	case n > uint64(most-d.size):
		return ErrMessageTooLarge
	case int64(d.frames) > int64(d.limits.Fragments):
		return ErrTooManyFragments
	}
	return nil
}

func (d *Decoder) readControl(p []byte) (n int, e Event, err error) {
	if d.begun == nil && uint64(len(p)) >= d.left {
		p = p[:d.left]
		n = len(p)
	} else {
		if d.begun == nil {
			d.begun = new(begunControl)
		}
		b := d.begun
		n = copy(b.payload[b.n:b.n+int(d.left)], p)
		b.n += n
		d.left -= uint64(n)
		if d.left > 0 {
			return n, e, nil
		}
		p = b.payload[:b.n]
		d.begun = nil
	}
	d.unmask(p)
	d.inside = false
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

func (d *Decoder) unmask(p []byte) {
	if d.role == Server {
		d.at = uint8(Mask(p, d.key, int(d.at)))
	}
}

func (d *Decoder) readData(p []byte) (n int, e Event, err error) {
	if uint64(len(p)) > d.left {
		p = p[:d.left]
	}
	if len(p) == 0 && d.left > 0 {
		return 0, e, nil
	}
	d.unmask(p)
	d.left -= uint64(len(p))
	whole := d.size == 0 // of a message in one piece, if this is also its end
	d.size += len(p)
	e = Event{Type: Data, Op: d.kind, Compressed: d.packed, Payload: p}
	if d.left == 0 {
		d.inside = false
		if d.first&byte(Fin) != 0 {
			e.Final = true
			d.kind = OpContinuation
		}
	}
	if e.Op == OpText && !e.Compressed {
		ok := false
		if whole && e.Final {
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
