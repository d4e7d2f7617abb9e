package wheel

// Entries returns the number of entries in the wheel, dead or live.
func (w *Wheel) Entries() int { return w.live + w.dead }
