package web

import (
	"io"
	"os"
)

// ReadFrom sends all of src, for io.Copy. The system sends a file directly if its length is
// declared in the header and io.CopyN copies it, as http.ServeContent does. Copy itself hides
// the file.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	if err := w.enter(); err != nil {
		return 0, err
	}
	if f, n, ok := w.asFile(src); ok {
		defer w.leave()
		return w.sendFile(src, f, n)
	}
	w.leave()
	buf := make([]byte, 32<<10)
	// In another type, so that io.CopyBuffer does not call ReadFrom again.
	return io.CopyBuffer(struct{ io.Writer }{w}, src, buf)
}

// asFile reports whether the next n bytes of src are a part of a regular file f that the
// system can send as the rest of the body.
func (w *response) asFile(src io.Reader) (f *os.File, n int64, ok bool) {
	limited, _ := src.(*io.LimitedReader)
	if limited != nil {
		src = limited.R
	}
	f, ok = src.(*os.File)
	if !ok || w.phase == draftTaken || w.toHead() || w.s != nil {
		return nil, 0, false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, false
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, false
	}
	n = info.Size() - at
	if limited != nil {
		n = min(n, limited.N)
	}
	if n <= bufferSize || w.admit(0) != nil { // a small file is sent together with the head
		return nil, 0, false
	}
	typed := w.phase == draftCommitted || w.facts.has(saysType|saysEncoding) || len(w.buf) >= sniffed
	return f, n, typed && w.declared >= 0 && w.written+n <= w.declared
}

// sendFile sends n bytes of f and advances src as if they had been read.
func (w *response) sendFile(src io.Reader, f *os.File, n int64) (int64, error) {
	if err := w.admit(n); err != nil {
		return 0, err
	}
	if err := w.flush(nil); err != nil {
		return 0, err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	x := w.x
	var lost error
	err = x.st.await("sending a file", func(done func(error)) {
		if lost = x.lost(); lost != nil {
			done(lost)
			return
		}
		x.c.timeWrites()
		x.wire = wireFile
		x.c.tc.SendFile(f, at, n, func(err error) {
			x.wire = wireBegun
			if lost = err; err != nil && x.lost() != nil {
				lost = x.lost()
			}
			done(lost)
		})
	})
	if err != nil {
		w.fault = lost
		return 0, err
	}
	if limited, ok := src.(*io.LimitedReader); ok {
		limited.N -= n
	}
	_, err = f.Seek(at+n, io.SeekStart)
	return n, err
}
