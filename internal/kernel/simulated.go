package kernel

// The interfaces below are optional. A Poller of a simulated kernel implements them;
// the pollers of the real kernel do not.

// Witness is implemented by a Poller that must know about goroutines other than the
// loop's. In a simulation, such goroutines make every run a different one.
type Witness interface {
	// Attend registers a new loop. foreign reports whether the loop is running on
	// a goroutine other than the caller's. owner returns the goroutine that runs
	// the loop now, as goid.Current identifies it; it may be called from any
	// goroutine.
	Attend(foreign func() bool, owner func() uintptr)
	// Foreign notes that the calling goroutine, which is not the loop's, has
	// posted work to the loop.
	Foreign()
}

// GroupRunner is implemented by a Poller that schedules goroutines itself. It runs
// the loops of a group.
type GroupRunner interface {
	// Processors returns the number of processors: the number of loops in a group
	// with one loop per processor.
	Processors() int
	// Sibling returns another kernel of the same process. The two share their
	// descriptors.
	Sibling() (*Kernel, error)
	// Together runs the functions and returns when all have returned. The first
	// function belongs to this kernel, the others to its siblings in the order of
	// their creation.
	Together(run []func())
}

// SecretsOwner is implemented by a Poller that may control crypto/rand, which belongs
// to the standard library and not to the kernel.
type SecretsOwner interface {
	// OwnSecrets reports whether crypto/rand draws from the simulation's seed.
	OwnSecrets() bool
}

// Secret reports whether crypto/rand may be used. On a real kernel it may always be
// used. In a simulation it may be used only if its output follows from the seed.
func (k *Kernel) Secret() bool {
	s, ok := k.Poller.(SecretsOwner)
	return !ok || s.OwnSecrets()
}
