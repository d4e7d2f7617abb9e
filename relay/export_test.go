package relay

// Loops returns how many loops the caller knows.
func (c *Caller) Loops() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.deadlines)
}
