// Package wsframe reads and writes the frames of WebSocket (RFC 6455): strict,
// incremental, without I/O, and without allocation for messages that come whole.
//
//	d := wsframe.NewDecoder(wsframe.Server, &limits)
//	for len(data) > 0 {
//		n, event, err := d.Next(data)
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
// What a Decoder returns is a part of data, unmasked where it lies, and valid until
// the next call. While nothing is under way a Decoder holds nothing. The messages
// of a stream of bytes do not depend on how it was cut, and neither do the errors;
// what is wrong is found with the first byte that makes it so.
//
// A Decoder is for one goroutine at a time.
package wsframe

import "encoding/binary"

// Op is what a frame is for.
type Op uint8

// The operations there are.
const (
	OpContinuation Op = 0
	OpText         Op = 1
	OpBinary       Op = 2
	OpClose        Op = 8
	OpPing         Op = 9
	OpPong         Op = 10
)

func (o Op) control() bool { return o >= OpClose }

// Flags are the first bits of a frame.
type Flags uint8

// The flags that are used.
const (
	Fin        Flags = 0x80 // the last frame of its message
	Compressed Flags = 0x40 // the message is compressed: RFC 7692
)

const (
	reservedBits = 0x30 // never used
	maskedBit    = 0x80
)

// MaxHead is how long the head of a frame is at most.
const MaxHead = 14

// MaxControl is how long the payload of a control frame is at most.
const MaxControl = 125

// AppendHead appends the head of a frame with n bytes of payload, which is not
// masked.
func AppendHead(dst []byte, op Op, flags Flags, n int) []byte {
	return appendHead(dst, op, flags, n, 0)
}

// AppendMaskedHead appends the head of a frame whose payload will be masked with
// key.
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

// AppendFrame appends a whole frame that is not masked.
func AppendFrame(dst []byte, op Op, flags Flags, payload []byte) []byte {
	return append(AppendHead(dst, op, flags, len(payload)), payload...)
}

// AppendMaskedFrame appends a whole frame, masked with key.
func AppendMaskedFrame(dst []byte, op Op, flags Flags, payload []byte, key Key) []byte {
	dst = append(AppendMaskedHead(dst, op, flags, len(payload), key), payload...)
	Mask(dst[len(dst)-len(payload):], key, 0)
	return dst
}
