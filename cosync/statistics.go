package cosync

// Statistics is the present use of an object, for logs, metrics and tests. Fields that do
// not apply to the object are 0.
type Statistics struct {
	// Used is how much of the object is taken: the values in a queue, channel or
	// inbox; the permits or tokens that are held.
	Used int

	// Capacity is the limit of Used.
	Capacity int

	// Waiting is how many tasks wait to take something: in Acquire, Get or Receive.
	Waiting int

	// Putting is how many tasks and goroutines wait in Put or Send.
	Putting int

	// Senders and Receivers are the open ends of a channel.
	Senders, Receivers int
}
