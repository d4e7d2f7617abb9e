// Package transporttest checks, on any kernel, that package transport keeps its
// guarantees whatever the system returns.
//
// It runs small programs again and again, each time with one injected fault: a system
// call fails or transfers one byte at its first, second, … call; a callback panics or
// ends the connection; the loop is closed in the middle. After each run it checks that
// every connection was made once and lost once with no callback after that, that all
// bytes arrived in order unless an error was reported, that no descriptor, timer or
// callback is left, and that the loop did not spin.
package transporttest

import (
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Traits describe a kernel to the suite.
type Traits struct {
	// OwnTime reports that the kernel's clock is virtual. The suite replaces the
	// clocks of other kernels with a virtual one.
	OwnTime bool
	// Networks are the networks to use: "unix", "tcp", and "tls", which is TLS
	// over Unix sockets. The first one gets every fault, the others a selection.
	// None means all.
	Networks []string
	// Places limits at how many places each fault is injected; small programs
	// have fewer. Zero means 16.
	Places int
}

// Run runs every program with every fault. It calls open once for each run.
func Run(t *testing.T, traits Traits, open func(testing.TB) *kernel.Kernel) {
	if traits.Networks == nil {
		traits.Networks = []string{"unix", "tcp", "tls"}
	}
	if traits.Places == 0 {
		traits.Places = 16
	}
	for i, network := range traits.Networks {
		for _, p := range programs {
			t.Run(network+"/"+p.name, func(t *testing.T) {
				t.Parallel() // most of the time is waiting for bytes in flight
				run := func(f fault) result {
					return execute(config{p, network, f, traits.OwnTime, open(t)})
				}
				limit := traits.Places
				if i > 0 {
					limit = max(1, limit/(2+3*i))
				}
				runAll(t, run, limit)
			})
		}
	}
}

// runAll runs a program without a fault, and then with each fault at the sites where it
// can occur.
func runAll(t *testing.T, run func(fault) result, limit int) {
	baseline := run(fault{})
	for _, problem := range baseline.problems {
		t.Errorf("without a fault: %s", problem)
	}
	if t.Failed() {
		return
	}
	for _, f := range faults {
		calls := baseline.calls[f.site]
		for _, n := range pickCalls(calls, limit) {
			f.at = n
			for _, problem := range run(f).problems {
				t.Errorf("%s at %d of %d: %s", f.name, n, calls, problem)
			}
			if t.Failed() {
				return // other calls would only repeat the failure
			}
		}
	}
}

// pickCalls returns at most limit of the numbers from 1 to n: the first ones, and some
// of the others.
func pickCalls(n, limit int) (at []int) {
	step := 1
	for i := 1; i <= n; i += step {
		at = append(at, i)
		if len(at) >= limit/2 {
			step = max(1, (n-i)/max(1, limit-len(at)))
		}
		if len(at) >= limit {
			break
		}
	}
	return at
}

// Play runs one program with one fault at its n-th place, and returns the problems that
// it found. With n 0 there is no fault. Use it to reproduce a failure of Run.
func Play(k *kernel.Kernel, network, program, faultName string, n int) error {
	s := config{network: network, k: k}
	for _, p := range programs {
		if p.name == program {
			s.program = p
		}
	}
	for _, f := range faults {
		if f.name == faultName && n > 0 {
			s.fault = f
			s.fault.at = n
		}
	}
	if s.program.start == nil || n > 0 && s.fault.at == 0 {
		return fmt.Errorf("transporttest: no program %q or no fault %q", program, faultName)
	}
	if problems := execute(s).problems; len(problems) > 0 {
		return fmt.Errorf("transporttest: %s with %s at %d: %q", program, faultName, n, problems)
	}
	return nil
}
