package loop

import "sync/atomic"

// identity is the goroutine that may use a loop. It is written by that goroutine,
// and read by any.
type identity struct{ g uintptr }

func (i *identity) Load() uintptr   { return atomic.LoadUintptr(&i.g) }
func (i *identity) Store(g uintptr) { atomic.StoreUintptr(&i.g, g) }
