package sim

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spindleloop/spindle/internal/simguest"
	"github.com/spindleloop/spindle/loop"
)

// Python is a program written in Python, for Host.Python.
type Python struct {
	// Function is a coroutine function without arguments, as "module:function".
	Function string

	// Dir is the directory of the module. "" means the present one.
	Dir string

	// Interpreter is the command of a Python that has the package spindle. "" means
	// python3.
	Interpreter string

	// Serve is for a program that World.Run does not wait for, and ends.
	Serve bool
}

// Python runs a program written in Python on the host, unchanged: an asyncio program, with any
// library that package spindle.sim of Python can run. It reaches the other hosts, in Go or in
// Python, through the simulated network, and its clocks and random numbers follow the seed.
//
// The program runs in a process of its own, in step with the world. A crash of the host ends
// the process; Restart starts another one. The program's exception fails the run.
func (h *Host) Python(python Python) {
	p := &program{host: h, waitedFor: !python.Serve}
	p.main = func(loop.Options) error { return python.run(p) }
	p.add()
}

// run runs the program as a process of the world.
func (python Python) run(p *program) (err error) {
	fromGuest, guestOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromGuest.Close()
	guestIn, toGuest, err := os.Pipe()
	if err != nil {
		guestOut.Close()
		return err
	}
	defer toGuest.Close()
	cmd := exec.Command(cmp.Or(python.Interpreter, "python3"), "-m", "spindle.sim.guest", python.Function, p.host.Name(), strconv.FormatUint(p.host.w.Seed(), 10))
	cmd.Dir, cmd.Stderr = python.Dir, os.Stderr
	cmd.Env = append(os.Environ(), "PYTHONHASHSEED=0")
	cmd.ExtraFiles = []*os.File{guestIn, guestOut} // descriptors 3 and 4
	err = cmd.Start()
	guestIn.Close()
	guestOut.Close()
	if err != nil {
		return fmt.Errorf("sim: program %s in Python: %w", python.Function, err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if err := simguest.NewPipe(fromGuest, toGuest).Serve(p.process); err != nil {
		return fmt.Errorf("sim: program %s in Python: %w", python.Function, err)
	}
	return nil
}
