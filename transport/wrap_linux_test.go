package transport_test

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/spindleloop/spindle/loop"
	"github.com/spindleloop/spindle/transport"
	"golang.org/x/sys/unix"
)

func TestWrapTerminal(t *testing.T) {
	withLoops(t, func(t *testing.T, l *loop.Loop) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err != nil {
			t.Skipf("no pseudo-terminals here: %v", err)
		}
		defer master.Close()
		fd := int(master.Fd())
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			t.Fatal(err)
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			t.Fatal(err)
		}
		terminal, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			t.Skipf("no pseudo-terminals here: %v", err)
		}
		defer terminal.Close()
		got := ""
		wrap(t, l, terminal, &script{
			made: func(*transport.Conn) { master.Write([]byte("line\n")) },
			data: func(c *transport.Conn, data []byte) {
				got += string(data)
				c.Write([]byte("answer"))
				c.Close()
			},
			lost: stopWhenLost(t, l, nil),
		})
		run(t, l)
		if got != "line\n" {
			t.Errorf("got %q", got)
		}
		buf := make([]byte, len("line\r\nanswer"))
		if _, err := io.ReadFull(master, buf); err != nil || string(buf) != "line\r\nanswer" { // with its echo
			t.Errorf("the terminal shows %q, %v", buf, err)
		}
	})
}
