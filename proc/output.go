package proc

import (
	"context"
	"errors"
	"os/exec"
)

// Output runs the process and returns its standard output. If Stderr is nil, the end
// of the standard error is in the Stderr field of the *exec.ExitError. Otherwise
// Output works like Run. With an error, it returns the output so far. If there is
// more than MaxOutput, Output fails.
func (c *Cmd) Output(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil {
		panic("proc: Output with Stdout set")
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
	return out.text, out.resultError(err)
}

// CombinedOutput is Output for standard output and standard error together, in the
// order in which the process wrote them.
func (c *Cmd) CombinedOutput(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		panic("proc: CombinedOutput with Stdout or Stderr set")
	}
	cmd := *c
	out := cmd.capture()
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run(ctx)
	return out.text, out.resultError(err)
}

// capture keeps the bytes written to it, up to a limit.
type capture struct {
	text     []byte
	limit    int
	exceeded bool
}

func (c *Cmd) capture() *capture {
	if c.MaxOutput < 1 {
		return &capture{limit: 16 << 20}
	}
	return &capture{limit: c.MaxOutput}
}

// Write keeps p as far as the limit allows.
func (o *capture) Write(p []byte) (int, error) {
	n := min(len(p), o.limit-len(o.text))
	o.text = append(o.text, p[:n]...)
	if n < len(p) {
		o.exceeded = true
		return n, errTooMuchOutput
	}
	return n, nil
}

// resultError returns the error of the whole command. It replaces the exit error of
// a child that was killed because of its output.
func (o *capture) resultError(err error) error {
	if exit := (*exec.ExitError)(nil); o.exceeded && errors.As(err, &exit) {
		return errTooMuchOutput
	}
	return err
}

// tail keeps the last bytes written to it.
type tail struct{ text []byte }

const tailSize = 32 << 10

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailSize { // seldom, so that it costs little
		t.text = append(t.text[:0], t.text[len(t.text)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.text[max(0, len(t.text)-tailSize):]) }
