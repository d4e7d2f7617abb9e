//go:build linux

package load

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// frames is the echo protocol with binary WebSocket messages, masked by the client.
type frames struct {
	*echoes
	plain []byte // a burst of messages
	out   []byte // the same burst in frames
}

// The bytes of a frame's head, for payloads of up to 125 bytes.
const (
	clientHead = 6
	serverHead = 2
)

var mask = [4]byte{0x37, 0xfa, 0x21, 0x3d}

func newFrames(p Plan) *frames {
	return &frames{
		echoes: newEchoes(p),
		plain:  make([]byte, p.SizeBytes*p.Depth),
		out:    make([]byte, 0, (clientHead+p.SizeBytes)*p.Depth),
	}
}

func (f *frames) answerBytes() int { return serverHead + f.size }

func (f *frames) burst(i int, seq uint64, depth int) []byte {
	f.out = f.out[:0]
	for plain := f.echoes.burst(i, seq, depth); len(plain) > 0; plain = plain[f.size:] {
		f.out = append(f.out, 0x82, 0x80|byte(f.size), mask[0], mask[1], mask[2], mask[3])
		for at, b := range plain[:f.size] {
			f.out = append(f.out, b^mask[at&3])
		}
	}
	return f.out
}

func (f *frames) verify(i int, seq uint64, in []byte) error {
	plain := f.plain[:0]
	for one := f.answerBytes(); len(in) > 0; in = in[one:] {
		if in[0] != 0x82 || in[1] != byte(f.size) {
			return fmt.Errorf("load: connection %d: burst %d: unexpected frame head %x", i, seq, in[:2])
		}
		plain = append(plain, in[serverHead:one]...)
	}
	return f.echoes.verify(i, seq, plain)
}

// upgrade performs the WebSocket handshake on a socket that still blocks.
func upgrade(fd int, addr string) error {
	request := "GET / HTTP/1.1\r\nHost: " + addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: connectLimit}); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte(request)); err != nil {
		return err
	}
	var answer []byte
	buf := make([]byte, 1024)
	for !bytes.HasSuffix(answer, []byte("\r\n\r\n")) {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return errEnded
		}
		answer = append(answer, buf[:n]...)
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 101 ")) {
		return fmt.Errorf("the server refused the WebSocket handshake: %q", answer)
	}
	return nil
}
