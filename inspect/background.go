package inspect

// background runs fn on a goroutine. Those of the inspector must not depend on the workers
// of a loop that it inspects.
func background(fn func()) { go fn() }
