package proc

// WithoutHandle does as on a system without pidfds.
func (c *Cmd) WithoutHandle() { c.noHandle = true }
