package loop

// LockList takes the lock for changes of the list of open loops, which is the only one that all
// loops of the process share.
func LockList() (unlock func()) {
	open.mu.Lock()
	return open.mu.Unlock
}

// LostError is an ErrLost.
type LostError = lostError
