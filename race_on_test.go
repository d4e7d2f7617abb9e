//go:build race

package spindle_test

// waves is how many waves of a thousand tasks are a million under the race
// detector, where each costs ten times as much.
const waves = 50
