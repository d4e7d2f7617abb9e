package pyapp

import "context"

// Pids returns the process IDs of the workers that take requests.
func Pids(a *App) (pids []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.ready {
		pids = append(pids, w.process.Pid())
	}
	return pids
}

// CallDuringDrain calls a function in the first worker of an App that takes no more calls.
func CallDuringDrain(ctx context.Context, a *App, target string, arg string) {
	a.mu.Lock()
	w := a.all[0]
	a.mu.Unlock()
	_, _ = w.call(ctx, []byte(`{"target": "`+target+`", "args": ["`+arg+`"]}`))
}
