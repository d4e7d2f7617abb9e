// Package ws compares the frame decoder of internal/wsframe with that of gobwas/ws, which
// reads from an io.Reader:
//
//	go test -run '^$' -bench . -count 6 ./ws
//
// Both check a client's frame, unmask it and return the message as a slice. The peer's
// reader is reset to the same memory in every round.
package ws

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	peer "github.com/gobwas/ws"
	"github.com/spindleloop/spindle/internal/wsframe"
)

var sizes = []int{16, 64, 1024, 16384}

// frame returns a client's masked frame.
func frame(size int) []byte {
	return wsframe.AppendMaskedFrame(nil, wsframe.OpBinary, wsframe.Fin, make([]byte, size), wsframe.Key{1, 2, 3, 4})
}

func BenchmarkSpindle(b *testing.B) {
	run(b, func(data []byte) func() error {
		limits := &wsframe.Limits{Message: 1 << 20, Frame: 1 << 20, Fragments: 1000}
		var d wsframe.Decoder
		return func() error {
			_, e, err := d.Next(limits, data)
			if err == nil && !e.Final {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	})
}

func BenchmarkGobwas(b *testing.B) {
	run(b, func(data []byte) func() error {
		r := bytes.NewReader(nil)
		payload := make([]byte, len(data)) // kept from message to message
		return func() error {
			r.Reset(data)
			h, err := peer.ReadHeader(r)
			if err != nil {
				return err
			}
			if err := peer.CheckHeader(h, peer.StateServerSide); err != nil {
				return err
			}
			p := payload[:h.Length]
			if _, err := io.ReadFull(r, p); err != nil {
				return err
			}
			peer.Cipher(p, h.Mask, 0)
			return nil
		}
	})
}

func run(b *testing.B, reader func(data []byte) func() error) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			read := reader(frame(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
