package relay

// Planes returns how many loops the caller knows.
func (c *Caller) Planes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.homes)
}
