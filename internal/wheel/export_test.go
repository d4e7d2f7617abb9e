package wheel

// Entries counts what the wheel holds, dead or alive.
func (w *Wheel) Entries() int { return w.live + w.dead }
