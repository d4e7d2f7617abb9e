package proc

import (
	"context"
	"errors"
	"os/exec"
)

// Output runs the process and returns what it wrote to its standard output. If
// Stderr is nil, the end of what it wrote there is the Stderr of the
// *exec.ExitError. Besides that it is Run. With an error comes what was there by
// then; the error is ErrTooMuchOutput for more than MaxOutput.
func (c *Cmd) Output(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil {
		panic("proc: Output of a Cmd whose Stdout is set")
	}
	var errs tail
	cmd := *c
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	out := cmd.capture()
	cmd.Stdout = out
	err := cmd.Run(ctx)
	if exit, ok := err.(*exec.ExitError); ok && c.Stderr == nil {
		exit.Stderr = []byte(errs.String())
	}
	return out.text, out.judge(err)
}

// CombinedOutput is Output of standard output and standard error together, in the
// order in which they were written.
func (c *Cmd) CombinedOutput(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		panic("proc: CombinedOutput of a Cmd whose Stdout or Stderr is set")
	}
	cmd := *c
	out := cmd.capture()
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run(ctx)
	return out.text, out.judge(err)
}

// capture keeps what is written to it, up to a limit.
type capture struct {
	text []byte
	most int
	over bool
}

func (c *Cmd) capture() *capture {
	if c.MaxOutput == 0 {
		return &capture{most: 16 << 20}
	}
	return &capture{most: c.MaxOutput}
}

// Write keeps what there is room for.
func (o *capture) Write(p []byte) (int, error) {
	n := min(len(p), o.most-len(o.text))
	o.text = append(o.text, p[:n]...)
	if n < len(p) {
		o.over = true
		return n, ErrTooMuchOutput
	}
	return n, nil
}

// judge is the error of the whole: that the child was killed for its output is not
// its own fault.
func (o *capture) judge(err error) error {
	if exit := (*exec.ExitError)(nil); o.over && errors.As(err, &exit) {
		return ErrTooMuchOutput
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailSize = 32 << 10

// Write keeps the end.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailSize { // rarely, so that it costs little
		t.text = append(t.text[:0], t.text[len(t.text)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.text[max(0, len(t.text)-tailSize):]) }
