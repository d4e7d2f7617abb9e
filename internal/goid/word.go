package goid

import (
	"slices"
	"unsafe"
)

// searchedWords is how many bytes of a g are looked at for a word or byte. A g is larger in
// every Go so far.
const searchedWords = 400

// FindWord returns the offset in a g of a word that is zero or not as witness says. It is
// negative if there is not exactly one. It runs witness on several goroutines, and witness
// calls is after each change.
func FindWord(witness func(is func(set bool))) int {
	return find(int(unsafe.Sizeof(uintptr(0))), witness, func(g uintptr, place int, set bool) bool {
		return (Word(g, place) != 0) == set
	})
}

// FindFlag is FindWord for a bool.
func FindFlag(witness func(is func(set bool))) int {
	return find(1, witness, func(g uintptr, place int, set bool) bool {
		var want byte
		if set {
			want = 1
		}
		return *byteAt(g, place) == want
	})
}

func find(step int, witness func(is func(set bool)), matches func(g uintptr, place int, set bool) bool) int {
	if !isPointer {
		return -1
	}
	var suspects []int
	for i := range searchedWords / step {
		suspects = append(suspects, i*step)
	}
	is := func(set bool) {
		g := Current()
		suspects = slices.DeleteFunc(suspects, func(place int) bool { return !matches(g, place, set) })
	}
	for range witnesses {
		unlocked(func() { witness(is) })
	}
	return only(suspects)
}

// Word returns the word at an offset of the goroutine that Current identified, which must
// be the caller. The race detector must not see it: the runtime uses a g again for another
// goroutine, and does not say so to the detector.
//
//go:nocheckptr
//go:norace
func Word(current uintptr, place int) uintptr {
	return *(*uintptr)(unsafe.Add(nil, int(current)+place))
}

// SetWord sets the word, which is a pointer, at an offset of a goroutine that is the caller
// or is suspended. The caller keeps alive what it points to until then.
//
//go:nocheckptr
//go:norace
func SetWord(current uintptr, place int, value uintptr) {
	at := unsafe.Add(nil, int(current)+place)
	*(*unsafe.Pointer)(at) = *(*unsafe.Pointer)(unsafe.Pointer(&value))
}

// Flag returns the bool at an offset of the goroutine that Current identified, which must
// be the caller.
//
//go:norace
func Flag(current uintptr, place int) bool { return *byteAt(current, place) != 0 }

//go:nocheckptr
func byteAt(current uintptr, place int) *byte {
	return (*byte)(unsafe.Add(nil, int(current)+place))
}
