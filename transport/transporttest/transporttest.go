// Package transporttest holds package transport, on any kernel, to what it
// promises of every connection, whatever the system answers.
//
// Small programs are played again and again, each time with one thing gone wrong:
// a system call fails or is short at its first, second, … call; a callback panics,
// or ends the connection; the loop is closed in the middle. After each play the
// whole world is looked over: every connection was made once and lost once, nothing
// came after that, bytes came in order and all of them unless an error was told,
// no descriptor, timer or callback was left, and the loop did not spin.
package transporttest

import (
	"fmt"
	"testing"

	"github.com/spindleloop/spindle/internal/kernel"
)

// Traits are what the suite must know of a kernel.
type Traits struct {
	// OwnTime says that the kernel's clock is virtual. The suite makes the
	// clocks of the others so.
	OwnTime bool
	// Networks are those to play on: "unix", "tcp", and "tls", which is secured
	// Unix sockets. The first is played with every trouble, the others with some.
	// None means all.
	Networks []string
	// Places is at how many places each trouble is tried at most; small
	// programs have fewer. Zero means 16.
	Places int
}

// Run plays every program with every trouble. Open is called once for each play.
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
				t.Parallel() // much of it is waiting for bytes under way
				play := func(tr trouble) outcome {
					return run(setting{p, network, tr, traits.OwnTime, open(t)})
				}
				most := traits.Places
				if i > 0 {
					most = max(1, most/(2+3*i))
				}
				playAll(t, play, most)
			})
		}
	}
}

// playAll plays a program in peace, and then with each trouble at each place where
// it can come.
func playAll(t *testing.T, play func(trouble) outcome, most int) {
	calm := play(trouble{})
	for _, wrong := range calm.wrong {
		t.Errorf("in peace: %s", wrong)
	}
	if t.Failed() {
		return
	}
	for _, tr := range troubles {
		places := calm.seen[tr.place]
		for _, n := range spread(places, most) {
			tr.at = n
			out := play(tr)
			for _, wrong := range out.wrong {
				t.Errorf("%s at %d of %d: %s", tr.name, n, places, wrong)
			}
			if t.Failed() {
				return // the rest would say the same
			}
		}
	}
}

// spread is at most so many of the numbers from 1 to n: the first ones, and some
// between.
func spread(n, most int) (at []int) {
	step := 1
	for i := 1; i <= n; i += step {
		at = append(at, i)
		if len(at) >= most/2 {
			step = max(1, (n-i)/max(1, most-len(at)))
		}
		if len(at) >= most {
			break
		}
	}
	return at
}

// Play plays one program with one trouble at its n-th place, and tells what was
// wrong afterwards. With n 0 there is no trouble. It is how a failure that Run has
// found is looked at.
func Play(k *kernel.Kernel, network, program, troubleName string, n int) error {
	s := setting{network: network, k: k}
	for _, p := range programs {
		if p.name == program {
			s.program = p
		}
	}
	for _, tr := range troubles {
		if tr.name == troubleName && n > 0 {
			s.trouble = tr
			s.trouble.at = n
		}
	}
	if s.program.play == nil || n > 0 && s.trouble.at == 0 {
		return fmt.Errorf("transporttest: no program %q, or no trouble %q", program, troubleName)
	}
	if wrong := run(s).wrong; len(wrong) > 0 {
		return fmt.Errorf("transporttest: %s with %s at %d: %q", program, troubleName, n, wrong)
	}
	return nil
}
