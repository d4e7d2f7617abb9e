package peers

import (
	"crypto/tls"
	"net"
)

// serveGoNet serves with package net: a goroutine for each connection, blocked in Read. Go
// sets TCP_NODELAY by default.
func serveGoNet(o Options) error {
	ln, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return err
	}
	o.Ready(ln.Addr())
	if _, config := o.protocols(); config != nil {
		ln = tls.NewListener(ln, config)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go echoGoNet(conn, o.BufferBytes)
	}
}

func echoGoNet(conn net.Conn, bufferBytes int) {
	defer conn.Close()
	buf := make([]byte, bufferBytes)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}
