package kernel

// Real tells whether a real system is below. What has no part in the seam, because
// it can only be the system's (processes, signals, files), is refused where there
// is none, so that a simulated program never touches the machine by accident.
func (k *Kernel) Real() bool {
	_, ok := k.Sockets.(Native)
	return ok
}

// Secrets is a Poller of a world of its own, and tells whether crypto/rand, which is
// Go's and not the kernel's, belongs to that world.
type Secrets interface {
	OwnSecrets() bool
}

// Secret tells whether crypto/rand may be used: always on a real kernel, and in a
// simulated world where it follows from the seed.
func (k *Kernel) Secret() bool {
	s, ok := k.Poller.(Secrets)
	return !ok || s.OwnSecrets()
}
