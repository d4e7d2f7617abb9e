package loop

import (
	"github.com/spindleloop/spindle/internal/kernel"
	"github.com/spindleloop/spindle/internal/loopcore"
)

// Internal returns the part of the loop that Spindle's own packages use. It is not for
// other code: its type is internal and may change in any version.
func (l *Loop) Internal() *loopcore.Loop { return &l.core }

// WithKernel returns o for a loop on another kernel, which the loop closes. It is for
// Spindle's own packages: package sim uses it to run loops in a simulated world.
func (o Options) WithKernel(k *kernel.Kernel) Options {
	o.kernel = k
	return o
}
