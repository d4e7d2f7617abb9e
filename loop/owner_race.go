//go:build race

package loop

// pass is Store at a switch of coroutines. The race detector does not know of
// words that are only compared.
func (i *identity) pass(g uintptr) { i.Store(g) }
