package workerproc

import "os"

// makePipes makes Input and Output, and returns the ends of the process.
func (p *Process) makePipes() (stdin, stdout *os.File, err error) {
	if stdin, p.Input, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if p.Output, stdout, err = os.Pipe(); err != nil {
		_ = stdin.Close()
		_ = p.Input.Close()
		return nil, nil, err
	}
	return stdin, stdout, nil
}

func (p *Process) closePipes() {
	_ = p.Input.Close()
	_ = p.Output.Close()
}
