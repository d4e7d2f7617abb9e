package sock

import (
	"fmt"

	"github.com/spindleloop/spindle/internal/kernel"
)

// File is the path that a Unix socket was bound to. The zero value is no file: an
// abstract name and an internet address have none.
type File struct {
	path string
	id   kernel.FileID
}

// Claim returns the file that binding to a has created.
func Claim(k *kernel.Kernel, a kernel.Addr) File {
	if a.Path == "" || a.Path[0] == '@' || a.Path[0] == 0 {
		return File{}
	}
	id, err := k.Native().FileID(a.Path)
	if err != nil {
		return File{} // a simulated socket, or the file is already gone
	}
	return File{a.Path, id}
}

// Remove removes the file, unless another file has taken its place.
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
