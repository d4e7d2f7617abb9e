package main

import (
	"bufio"
	"errors"
	"strconv"
	"strings"

	"github.com/spindleloop/spindle/stream"
)

// protocolError is a violation of the protocol after which the start of the next command
// is unknown.
type protocolError string

func (e protocolError) Error() string { return "protocol error: " + string(e) }

const (
	maxArgs         = 1024          // words in a command
	maxCommandBytes = 4 * sizeLimit // all words of a command together
)

// readCommand reads a command: an array of strings, or a line of words, as typed by hand.
// A command may be empty.
func readCommand(in *stream.Reader) ([]string, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		return strings.Fields(line), nil
	}
	count, err := strconv.Atoi(line[1:])
	if err != nil || count > maxArgs {
		return nil, protocolError("invalid multibulk length")
	}
	var args []string
	for total := 0; len(args) < count; {
		word, err := readBulk(in)
		if err != nil {
			return nil, err
		}
		if total += len(word); total > maxCommandBytes {
			return nil, protocolError("command too long")
		}
		args = append(args, word)
	}
	return args, nil
}

// readBulk reads a string: a line with its length, followed by the bytes.
func readBulk(in *stream.Reader) (string, error) {
	line, err := readLine(in)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(line, "$") {
		return "", protocolError("expected '$'")
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 || n > sizeLimit-2 {
		return "", protocolError("invalid bulk length")
	}
	text, err := in.ReadExactly(n + 2)
	if err != nil {
		return "", err
	}
	if string(text[n:]) != "\r\n" {
		return "", protocolError("a string longer than announced")
	}
	return string(text[:n]), nil
}

func readLine(in *stream.Reader) (string, error) {
	line, err := in.ReadLine()
	if errors.Is(err, bufio.ErrTooLong) {
		return "", protocolError("too big inline request")
	}
	return string(line), err
}

// reply writes answers. Flush returns their errors.
type reply struct{ w *bufio.Writer }

func (r reply) line(kind byte, text string) {
	r.w.WriteByte(kind)
	r.w.WriteString(text)
	r.w.WriteString("\r\n")
}

func (r reply) ok()             { r.line('+', "OK") }
func (r reply) simple(s string) { r.line('+', s) }
func (r reply) err(s string)    { r.line('-', s) }
func (r reply) int(n int)       { r.line(':', strconv.Itoa(n)) }
func (r reply) null()           { r.line('$', "-1") }
func (r reply) array(n int)     { r.line('*', strconv.Itoa(n)) }

func (r reply) bulk(s string) {
	r.line('$', strconv.Itoa(len(s)))
	r.w.WriteString(s)
	r.w.WriteString("\r\n")
}
