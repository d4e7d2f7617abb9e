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
	"asyncio": `
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
asyncio.run(main())
`,
	"spindle": `
import asyncio, os, spindle
async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    def readable():
        if data := os.read(0, 65536):
            os.write(1, data)
        else:
            ended.set()
    loop.add_reader(0, readable)
    await ended.wait()
spindle.run(main())
`,
}

// BenchmarkPingPong measures the floor of a call: a goroutine passes 50 bytes through two pipes to Python and back.
// Nothing is encoded, queued or handed to another goroutine or task.
func BenchmarkPingPong(b *testing.B) {
	for name, program := range echoes {
		b.Run(name, func(b *testing.B) {
			echo := exec.Command(python(b), "-c", program)
			echo.Stderr = os.Stderr
			in, err := echo.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := echo.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := echo.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = echo.Wait() }()
			defer in.Close()
			message := make([]byte, 50)
			trip := func() {
				if _, err := in.Write(message); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(out, message); err != nil {
					b.Fatal(err)
				}
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
