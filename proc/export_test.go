package proc

// WithoutPidfd makes c behave as on a system without pidfds.
func (c *Cmd) WithoutPidfd() { c.noPidfd = true }
