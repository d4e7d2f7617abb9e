package web

// Runs is in how many runs the client has connections.
func (c *Transport) Runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pools)
}
