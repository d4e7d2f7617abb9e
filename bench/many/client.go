package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	dialers = 32 // connections that are opened at a time
	patient = time.Minute
)

// keep opens n connections and tries each, reports that, and tries them again for each line of in. It closes them
// when in ends.
func keep(address string, n int, in io.Reader, out io.Writer) error {
	conns := make([]net.Conn, n)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	err := each(n, func(i int) (err error) {
		// A client's address has some 28,000 ports, and a machine with a loopback interface 16 million addresses.
		from := net.Dialer{Timeout: patient, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}}
		if conns[i], err = from.Dial("tcp", address); err != nil {
			return err
		}
		return try(conns[i], i)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "open", n)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := each(n, func(i int) error { return try(conns[i], n+i) }); err != nil {
			return err
		}
		fmt.Fprintln(out, "answered", n)
	}
	return nil
}

// try sends a message that no other connection sends, and compares the answer.
func try(c net.Conn, i int) error {
	var message, answer [64]byte
	binary.BigEndian.PutUint64(message[:], uint64(i))
	c.SetDeadline(time.Now().Add(patient))
	if _, err := c.Write(message[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return err
	}
	if !bytes.Equal(message[:], answer[:]) {
		return fmt.Errorf("%v got the answer of another connection", c.LocalAddr())
	}
	return c.SetDeadline(time.Time{})
}

// each calls fn with 0 to n-1 on several goroutines, and returns the first error.
func each(n int, fn func(i int) error) error {
	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for d := range dialers {
		wg.Go(func() {
			for i := d; i < n; i += dialers {
				if err := fn(i); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}
