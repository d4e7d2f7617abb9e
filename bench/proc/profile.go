package proc

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
)

// Profile writes a CPU profile of this process to a file in dir that begins with name, until SIGTERM
// ends the process. It does nothing if dir is empty.
func Profile(dir, name string) error {
	if dir == "" {
		return nil
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, os.Getpid())))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		pprof.StopCPUProfile()
		os.Exit(0)
	}()
	return nil
}
