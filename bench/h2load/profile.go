package h2load

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
)

// Profile writes a CPU profile of this process, which serves as kind, until SIGTERM ends it. It
// does nothing if no folder for profiles was given.
func (l *Load) Profile(kind string) error {
	if l.Profiles == "" {
		return nil
	}
	name := fmt.Sprintf("%s-%d.pprof", strings.ReplaceAll(kind, "/", "-"), os.Getpid())
	f, err := os.Create(filepath.Join(l.Profiles, name))
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
