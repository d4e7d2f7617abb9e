package goid

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// StackOf is the stack of the goroutine with a number; nil if there is none. It
// takes a dump of all goroutines, because Go has no other way to see a goroutine
// from outside.
func StackOf(number uint64) []byte { return Stacks(number)[number] }

// Stacks are the stacks of several goroutines, all at one moment.
func Stacks(numbers ...uint64) map[uint64][]byte {
	const most, each = 64 << 20, 512 // most stacks are shorter
	buf := make([]byte, min(max(runtime.NumGoroutine()*each, 64<<10), most))
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	found := make(map[uint64][]byte, len(numbers))
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		digits, _, _ := bytes.Cut(bytes.TrimPrefix(stack, []byte("goroutine ")), []byte(" "))
		if number, err := strconv.ParseUint(string(digits), 10, 64); err == nil && slices.Contains(numbers, number) {
			found[number] = bytes.Clone(stack)
		}
	}
	return found
}

// Line is the innermost line of a stack that belongs to the program: not to the
// standard library, nor to this module below it.
func Line(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		function, file := lines[i], strings.TrimPrefix(lines[i+1], "\t")
		if strings.HasPrefix(function, "created by ") {
			break
		}
		if at := strings.LastIndexByte(function, '('); at > 0 {
			function = function[:at]
		}
		file, _, _ = strings.Cut(file, " +0x")
		if !isLibrary(function, file) {
			return fmt.Sprintf("%s (%s)", file[strings.LastIndexByte(file, '/')+1:], function[strings.LastIndexByte(function, '/')+1:])
		}
	}
	return ""
}

func isLibrary(function, file string) bool {
	last := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[last:], ".")
	pkg := function[:last] + name
	if rest, ok := strings.CutPrefix(pkg, "github.com/spindleloop/spindle"); ok {
		written := strings.HasPrefix(rest, "/examples/") || strings.HasPrefix(rest, "/cmd/") || strings.HasPrefix(rest, "/internal/simsamples") || strings.HasSuffix(rest, "_test")
		return !written
	}
	if goRoot != "" {
		return strings.HasPrefix(file, goRoot)
	}
	first, _, _ := strings.Cut(pkg, "/")
	return pkg != "main" && !strings.Contains(first, ".")
}

// goRoot is where the files of the standard library are; "" in a program built
// with -trimpath.
var goRoot = func() string {
	pc := reflect.ValueOf(strings.Cut).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	return strings.TrimSuffix(file, "strings/strings.go")
}()
