package pyapp

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// bootstrap is the program of a worker. It exits with notInstalled if the package is missing.
const bootstrap = `import sys
try:
    from spindle.server import mounted
except ModuleNotFoundError as e:
    if e.name in ("spindle", "spindle.server", "spindle.server.mounted"):
        sys.exit(97)
    raise
sys.exit(mounted.main())
`

const notInstalled = 97

// interpreter returns the path of the Python interpreter. It also checks Dir, because a
// process that cannot be started does not say which of the two is missing.
func (a *App) interpreter() (string, error) {
	if info, err := os.Stat(a.Dir); a.Dir != "" && (err != nil || !info.IsDir()) {
		return "", &startError{target: a.Target, reason: errNoDirectory, text: a.Dir}
	}
	name := a.Python
	if name == "" {
		name = "python3"
		if env := a.variable("VIRTUAL_ENV"); env != "" {
			name = filepath.Join(env, "bin", "python")
		}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path) // Dir is another directory
	}
	if err != nil {
		return "", &startError{target: a.Target, python: name, reason: errNoPython, text: err.Error()}
	}
	return path, nil
}

// variable returns a variable of the workers' environment.
func (a *App) variable(name string) (value string) {
	if a.Env == nil {
		return os.Getenv(name)
	}
	for _, entry := range a.Env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// environment returns the environment of a worker.
func (a *App) environment() []string {
	env := a.Env
	if env == nil {
		env = os.Environ()
	}
	return append(slices.Clip(env), "SPINDLE_MOUNTED_CALL_BYTES="+strconv.Itoa(a.maxCallBytes()),
		"SPINDLE_MOUNTED_CALL_THREADS="+strconv.Itoa(a.callThreads()))
}

// command returns the command of a worker that listens on a Unix socket.
func (a *App) command(python, socket string) []string {
	command := []string{python, "-c", bootstrap}
	if a.Target != "" {
		command = append(command, a.Target)
	}
	// The limits of connections are those of the server in front. Later options count.
	command = append(command, "--log-level=warning", "--no-access-log", "--limit-header-size=16777216", "--ws-max-size=67108864")
	command = append(command, a.Args...)
	return append(command, "--uds="+socket, "--workers=1", "--interpreters="+strconv.Itoa(max(a.Interpreters, 1)),
		"--timeout-keep-alive=0", "--timeout-header=0", "--timeout-body=0", "--timeout-write=0")
}
