package kernel

// Real tells whether a real system is below. What has no part in the seam, because
// it can only be the system's (processes, signals, files), is refused where there
// is none, so that a simulated program never touches the machine by accident.
func (k *Kernel) Real() bool {
	_, ok := k.Sockets.(Native)
	return ok
}
