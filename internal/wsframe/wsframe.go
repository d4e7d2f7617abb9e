// Package wsframe reads and writes the frames of WebSocket (RFC 6455). It is strict
// and incremental, does no I/O, and allocates nothing for messages in one piece.
//
//	var d wsframe.Decoder
//	for len(data) > 0 {
//		n, event, err := d.Next(&limits, data)
//		if err != nil {
//			return err // an *Error, with the code to close with
//		}
//		data = data[n:]
//		switch event.Type {
//		case wsframe.More: // all of data is used
//		case wsframe.Data: // a piece of a message, the last of it if Final
//		case wsframe.Ping, wsframe.Pong, wsframe.Close:
//		}
//	}
//
// A payload that a Decoder returns is a part of data, unmasked in place, and valid
// until the next call. Between messages a Decoder holds no memory. The messages and
// errors of a stream do not depend on how it is split into pieces. An error is found
// at the first byte that causes it.
//
// A Decoder is for one goroutine at a time.
package wsframe

import "encoding/binary"

// Op is the opcode of a frame.
type Op uint8

// The opcodes.
const (
	OpContinuation Op = 0
	OpText         Op = 1
	OpBinary       Op = 2
	OpClose        Op = 8
	OpPing         Op = 9
	OpPong         Op = 10
)

func (o Op) control() bool { return o >= OpClose }

// Flags are the flag bits in the first byte of a frame.
type Flags uint8

// The flags in use.
const (
	Fin        Flags = 0x80 // the last frame of its message
	Compressed Flags = 0x40 // the message is compressed: RFC 7692
)

const (
	reservedBits = 0x30 // never used
	maskedBit    = 0x80
)

// MaxHead is the maximum length of a frame's head.
const MaxHead = 14

// MaxControl is the maximum length of a control frame's payload.
const MaxControl = 125

// AppendHead appends the head of an unmasked frame with n bytes of payload.
func AppendHead(dst []byte, op Op, flags Flags, n int) []byte {
	return appendHead(dst, op, flags, n, 0)
}

// AppendMaskedHead appends the head of a frame with n bytes of payload, which the
// caller masks with key.
func AppendMaskedHead(dst []byte, op Op, flags Flags, n int, key Key) []byte {
	return append(appendHead(dst, op, flags, n, maskedBit), key[:]...)
}

func appendHead(dst []byte, op Op, flags Flags, n int, masked byte) []byte {
	dst = append(dst, byte(flags)|byte(op))
	switch {
	case n <= 125:
		return append(dst, masked|byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, masked|126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, masked|127), uint64(n))
}

// AppendFrame appends an unmasked frame.
func AppendFrame(dst []byte, op Op, flags Flags, payload []byte) []byte {
	return append(AppendHead(dst, op, flags, len(payload)), payload...)
}

// AppendMaskedFrame appends a frame masked with key.
func AppendMaskedFrame(dst []byte, op Op, flags Flags, payload []byte, key Key) []byte {
	dst = append(AppendMaskedHead(dst, op, flags, len(payload), key), payload...)
	Mask(dst[len(dst)-len(payload):], key, 0)
	return dst
}
