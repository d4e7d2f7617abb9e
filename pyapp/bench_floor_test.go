package pyapp_test

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// echoes are Python programs that answer each message on standard input: the least that a call can do.
var echoes = map[string]string{
	"blocking": `
import os
while data := os.read(0, 65536):
    os.write(1, data)
`,
	"asyncio": echoOnLoop + "asyncio.run(main())",
	"spindle": echoOnLoop + "import spindle; spindle.run(main())",
}

const echoOnLoop = `
import asyncio, os
async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    def readable():
        if data := os.read(0, 65536):
            os.write(1, data)
        else:
            ended.set()
    loop.add_reader(0, readable)
    await ended.wait()
`

// program is a Python program with pipes.
type program struct {
	in  io.WriteCloser
	out io.Reader
}

func run(b *testing.B, text string) program {
	cmd := exec.Command(python(b), "-c", text)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return program{in, out}
}

// read reads all of p.
func (p program) read(b *testing.B, to []byte) {
	if _, err := io.ReadFull(p.out, to); err != nil {
		b.Fatal(err)
	}
}

func (p program) write(b *testing.B, from []byte) {
	if _, err := p.in.Write(from); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPingPong measures the floor of a call: a goroutine passes 50 bytes through two pipes to Python and back.
// Nothing is encoded, queued or handed to another goroutine or task.
func BenchmarkPingPong(b *testing.B) {
	for name, text := range echoes {
		b.Run(name, func(b *testing.B) {
			p := run(b, text)
			message := make([]byte, 50)
			trip := func() {
				p.write(b, message)
				p.read(b, message)
			}
			trip() // the program runs
			times := make([]time.Duration, 0, b.N)
			for b.Loop() {
				begin := time.Now()
				trip()
				times = append(times, time.Since(begin))
			}
			p50(b, times)
		})
	}
}

// copies are Python programs that read or write 64 MB for each byte that they write or read, in memory that they use again.
var copies = map[string]string{
	"to Python": `
import fcntl, os
fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 1 << 20)
data = bytearray(64 << 20)
while True:
    left = memoryview(data)
    while left:
        n = os.readv(0, [left])
        if not n:
            raise SystemExit
        left = left[n:]
    os.write(1, b"x")
`,
	"from Python": `
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
data = bytes(64 << 20)
while os.read(0, 1):
    left = memoryview(data)
    while left:
        left = left[os.write(1, left):]
`,
}

// BenchmarkPipe measures the floor of large bytes: 64 MB through a pipe of 1 MB, into memory that is there. A call
// also has the memory to make and to free.
func BenchmarkPipe(b *testing.B) {
	for name, text := range copies {
		b.Run(name, func(b *testing.B) {
			p := run(b, text)
			data := make([]byte, 64<<20)
			from, to := data, make([]byte, 1)
			if name == "from Python" {
				from, to = to, data
			}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p.write(b, from)
				p.read(b, to)
			}
		})
	}
}
