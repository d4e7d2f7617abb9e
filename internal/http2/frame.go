package http2

import "encoding/binary"

// The types of frames.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePush         = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindow       = 0x8
	frameContinuation = 0x9
	framePriorityNew  = 0x10 // PRIORITY_UPDATE of RFC 9218
)

// The flags of frames.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// frameHead is the beginning of every frame.
type frameHead struct {
	length uint32
	id     uint32
	kind   uint8
	flags  uint8
}

const frameHeadSize = 9

func readFrameHead(b []byte) frameHead {
	_ = b[8]
	return frameHead{
		length: uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]),
		kind:   b[3],
		flags:  b[4],
		id:     binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

func (f frameHead) has(flag uint8) bool { return f.flags&flag != 0 }

func appendFrameHead(dst []byte, length int, kind, flags uint8, id uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags,
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// appendHeaders appends a HEADERS frame with the block, and CONTINUATION frames if it is
// longer than a frame may be.
func appendHeaders(dst []byte, id uint32, block []byte, end bool, maxFrame int) []byte {
	flags := uint8(0)
	if end {
		flags = flagEndStream
	}
	kind := uint8(frameHeaders)
	for len(block) > maxFrame {
		dst = appendFrameHead(dst, maxFrame, kind, flags, id)
		dst = append(dst, block[:maxFrame]...)
		block, kind, flags = block[maxFrame:], frameContinuation, 0
	}
	dst = appendFrameHead(dst, len(block), kind, flags|flagEndHeaders, id)
	return append(dst, block...)
}

func appendReset(dst []byte, id uint32, code Code) []byte {
	dst = appendFrameHead(dst, 4, frameReset, 0, id)
	return binary.BigEndian.AppendUint32(dst, uint32(code))
}

func appendWindow(dst []byte, id uint32, n int) []byte {
	dst = appendFrameHead(dst, 4, frameWindow, 0, id)
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

func appendGoAway(dst []byte, last uint32, code Code, text string) []byte {
	dst = appendFrameHead(dst, 8+len(text), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, text...)
}

func appendPing(dst []byte, flags uint8, data []byte) []byte {
	dst = appendFrameHead(dst, len(data), framePing, flags, 0)
	return append(dst, data...)
}

// unpad returns the payload of a padded frame without its padding.
func unpad(f frameHead, payload []byte) ([]byte, error) {
	if !f.has(flagPadded) {
		return payload, nil
	}
	if len(payload) == 0 {
		return nil, ErrFrameSize
	}
	pad := int(payload[0])
	if pad >= len(payload) {
		return nil, ErrPadding
	}
	return payload[1 : len(payload)-pad], nil
}
