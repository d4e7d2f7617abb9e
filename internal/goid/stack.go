package goid

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
)

// StackOf is the stack of the goroutine with a number; nil if there is none. It
// takes a dump of all goroutines, because Go has no other way to see a goroutine
// from outside.
func StackOf(number uint64) []byte { return Stacks(number)[number] }

// CheapStackLimit is the number of goroutines above which CheapStackOf takes no dump. A dump
// stops the program for 10 to 50 µs for each goroutine: at this number for a tenth of a
// second, and for seconds at 100,000.
const CheapStackLimit = 4000

// CheapStackOf is the stack of a goroutine that Current identified, for reports that no user
// has requested. Where the runtime is known it looks at that goroutine only. Elsewhere it
// takes a dump, and returns nil if the program has more than CheapStackLimit goroutines.
func CheapStackOf(g uintptr) []byte {
	if stack := peekStack(g); stack != nil {
		return stack
	}
	if runtime.NumGoroutine() > CheapStackLimit {
		return nil
	}
	return StackOf(NumberOf(g))
}

// Stacks are the stacks of several goroutines, all at one moment.
func Stacks(numbers ...uint64) map[uint64][]byte {
	const most, each = 64 << 20, 512 // most stacks are shorter
	buf := make([]byte, min(max(runtime.NumGoroutine()*each, 64<<10), most))
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < most {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	wanted := make(map[uint64]bool, len(numbers))
	for _, number := range numbers {
		wanted[number] = true
	}
	found := make(map[uint64][]byte, len(numbers))
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if number := NumberIn(stack); number != 0 && wanted[number] {
			found[number] = bytes.Clone(stack)
		}
	}
	return found
}

// NumberIn returns the number of the goroutine that a stack belongs to, or 0 if the text is
// not a stack. The first line has it: "goroutine 9 [running]:".
func NumberIn(stack []byte) uint64 {
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(stack, []byte("goroutine ")), []byte(" "))
	number, _ := strconv.ParseUint(string(digits), 10, 64)
	return number
}

// Line is the innermost line of a stack that belongs to the program: not to the
// standard library, nor to this one.
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

// isLibrary reports whether a function belongs to the standard library or to this one.
func isLibrary(function, file string) bool {
	if OfLibrary(function) {
		return true
	}
	if goRoot != "" {
		return strings.HasPrefix(file, goRoot)
	}
	pkg := packageOf(function)
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
