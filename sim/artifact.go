package sim

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// draw writes a page of the failure to a file and returns the file's name. With
// go test -artifacts the file is an artifact of the test. Otherwise it is in the
// directory for temporary files, and a later failure of the same test overwrites it.
func (f *Failure) draw(tb testing.TB, again string) (file string, err error) {
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
	file = filepath.Join(dir, "spindle-"+name+".html")
	out, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	f.title = tb.Name() + ", "
	return file, f.Page(out, again)
}
