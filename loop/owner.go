package loop

// identity is the goroutine that may use a loop. That goroutine writes it, and any
// goroutine may read it.
//
// The accesses are plain on purpose. A reader only asks whether it is itself the
// owner, and sees its own writes in order; nothing is published through the word.
// Atomics would cost a tenth of a coroutine switch. Worse, the race detector would
// take them for synchronisation: every goroutine that asks would seem ordered after
// the loop, and real races with it would go unreported. Hence go:norace.
type identity struct{ g uintptr }

//go:norace
func (i *identity) Load() uintptr { return i.g }

//go:norace
func (i *identity) Store(g uintptr) { i.g = g }
