package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/sim/internal/picture"
)

// maxDrawn limits the events in a picture: more are unreadable.
const maxDrawn = 100

// draw writes a picture of the failure to a file and returns the file's name. With
// go test -artifacts the file is an artifact of the test. Otherwise it is in the
// directory for temporary files, and a later failure of the same test overwrites it.
func (f *Failure) draw(tb testing.TB) (file string, err error) {
	dir := os.TempDir()
	if artifacts := flag.Lookup("test.artifacts"); artifacts != nil && artifacts.Value.String() == "true" {
		dir = tb.ArtifactDir()
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, tb.Name())
	file = filepath.Join(dir, "spindle-"+name+".svg")
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	w := f.World
	p := picture.Picture{Title: fmt.Sprintf("%s, seed %d", tb.Name(), w.Seed()), Trace: w.core.Trace(), Ending: f.Err.Error()}
	for _, h := range w.hosts {
		p.Hosts = append(p.Hosts, h.Name())
	}
	if all := len(p.Trace); all > maxDrawn {
		p.Trace = p.Trace[all-maxDrawn:]
		p.Title += fmt.Sprintf(": the last %d of %d events", maxDrawn, all)
	}
	return file, picture.Draw(out, p)
}
