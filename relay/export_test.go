package relay

// Homes returns how many loops the caller knows.
func (c *Caller) Homes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.homes)
}
