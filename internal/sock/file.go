package sock

import (
	"fmt"

	"github.com/spindleloop/spindle/internal/kernel"
)

// File is the path that a Unix socket was bound to. The zero value is none, as an
// abstract name and an internet address have none.
type File struct {
	path string
	id   kernel.FileID
}

// Claim takes note of the file that binding to a has made.
func Claim(k *kernel.Kernel, a kernel.Addr) File {
	if a.Path == "" || a.Path[0] == '@' || a.Path[0] == 0 {
		return File{}
	}
	id, err := k.Native().FileID(a.Path)
	if err != nil {
		return File{} // a simulated one, or already gone
	}
	return File{a.Path, id}
}

// Remove removes the file, unless somebody else has put another one in its place.
func (f *File) Remove(k *kernel.Kernel) error {
	if f.path == "" {
		return nil
	}
	path := f.path
	f.path = ""
	if err := k.Native().Unlink(path, f.id); err != nil {
		return fmt.Errorf("sock: remove %s: %w", path, err)
	}
	return nil
}
