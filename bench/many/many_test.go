package main

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// echoes is an echo server of Go's own. If it mixes up connections, each gets the answer of the one before.
func echoes(t *testing.T, mixed bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				message := make([]byte, 64)
				for {
					if _, err := io.ReadFull(c, message); err != nil {
						return
					}
					if mixed {
						message[7]++
					}
					c.Write(message)
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func TestEveryConnectionIsTriedTwice(t *testing.T) {
	in, input := io.Pipe()
	output, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- keep(echoes(t, false), 500, in, out) }()
	lines := bufio.NewReader(output)
	for _, want := range []string{"open 500\n", "answered 500\n"} {
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("%q, %v", line, err)
		}
		if want == "open 500\n" {
			io.WriteString(input, "again\n")
		}
	}
	input.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnswersOfOtherConnectionsAreNoticed(t *testing.T) {
	if err := keep(echoes(t, true), 10, nil, io.Discard); err == nil {
		t.Error("they were not")
	}
}

func TestImpossibleNumbersAreRefused(t *testing.T) {
	if err := measure("", "protocol", 3, 2, time.Second); err == nil {
		t.Error("two connections for three processes")
	}
	if err := measure("", "protocol", 1, 10_000_000, time.Second); err == nil {
		t.Error("more connections than descriptors")
	}
	if n := share(50_000, 3, 0) + share(50_000, 3, 1) + share(50_000, 3, 2); n != 50_000 {
		t.Errorf("the shares are %d in all", n)
	}
}
