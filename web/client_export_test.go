package web

// Runs is how many runs the client knows.
func (c *Transport) Runs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pools)
}
