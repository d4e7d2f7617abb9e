package loopcore

// Priority selects the lane in which a ready callback waits. Package loop documents it.
type Priority uint8

// Priorities, and how many there are.
const (
	Normal Priority = iota
	High
	Low
	priorities = iota
)

// Of the PollEvery callbacks of a turn, the lower lanes get at least these if they have
// work: a flood of High callbacks slows them but never stops them.
const (
	normalShare = 16
	lowShare    = 4
)

// Push adds a callback to the lane of p. The result is for Cancel. It does not check that
// the caller is on the loop.
func (c *Loop) Push(p Priority, fn func()) (seq uint64) { return c.lanes[p].push(fn) }

// Cancel removes a callback of Push. It reports whether the callback was still pending.
func (c *Loop) Cancel(p Priority, seq uint64) bool { return c.lanes[p].cancel(seq) }

// Waiting returns the number of entries in the lanes that will run.
func (c *Loop) Waiting() int {
	n := 0
	for i := range c.lanes {
		n += c.lanes[i].waiting()
	}
	return n
}

// Ready returns the number of entries in the lanes, cancelled ones included.
func (c *Loop) Ready() int {
	return c.lanes[Normal].len() + c.lanes[High].len() + c.lanes[Low].len()
}

// Ran returns the number of entries that have run. The head of a lane counts those that
// left it, so running an entry updates no counter.
func (c *Loop) Ran() uint64 {
	n := uint64(0)
	for i := range c.lanes {
		n += c.lanes[i].ran()
	}
	return n
}

// TrimLanes frees the memory that a flood of callbacks took. It is for a loop with
// nothing ready.
func (c *Loop) TrimLanes() {
	for i := range c.lanes {
		c.lanes[i].trim()
	}
}

// RunReady runs a turn's share of each lane. If a panic ended the last turn early, it
// first runs the rest of that turn's shares.
func (c *Loop) RunReady() {
	high, normal, low := &c.lanes[High], &c.lanes[Normal], &c.lanes[Low]
	if high.len() == 0 && low.len() == 0 { // nearly always
		if normal.head == normal.end {
			n := min(normal.len(), PollEvery)
			c.SincePoll += n
			normal.take(n)
		}
		c.runLane(normal)
		return
	}
	if high.head == high.end && normal.head == normal.end && low.head == low.end {
		c.share()
	}
	c.runLane(high)
	c.runLane(normal)
	c.runLane(low)
}

// share decides how many entries of each lane a turn runs.
func (c *Loop) share() {
	high, normal, low := c.lanes[High].len(), c.lanes[Normal].len(), c.lanes[Low].len()
	keptForLow := min(low, lowShare)
	high = min(high, PollEvery-min(normal, normalShare)-keptForLow)
	normal = min(normal, PollEvery-high-keptForLow)
	low = min(low, PollEvery-high-normal)
	c.SincePoll += high + normal + low
	c.lanes[High].take(high)
	c.lanes[Normal].take(normal)
	c.lanes[Low].take(low)
}

func (c *Loop) runLane(q *lane) {
	if q.head != q.end {
		c.serving = q
		q.run()
		c.serving = nil
	}
}
