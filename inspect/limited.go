package inspect

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// recordingLimit bounds the memory that a profile or a trace takes. A trace of a busy program
// grows by some megabytes each second.
const recordingLimit = 256 << 20

// limitedFile is a profile or a trace that is being recorded. It refuses what exceeds its
// limit. Any goroutine.
type limitedFile struct {
	limit int

	mu       sync.Mutex
	text     bytes.Buffer // guarded by mu
	exceeded bool         // guarded by mu
}

func newRecording(limit int) *limitedFile { return &limitedFile{limit: limit} }

// Write keeps p if there is room. It never fails: the runtime does not look at errors.
func (f *limitedFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exceeded = f.exceeded || f.text.Len()+len(p) > f.limit; f.exceeded {
		f.text = bytes.Buffer{}
		return len(p), nil
	}
	return f.text.Write(p)
}

// bytes returns what was recorded, or an error if that is more than the limit.
func (f *limitedFile) bytes() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exceeded {
		return nil, fmt.Errorf("the recording has become larger than %d bytes; record for fewer seconds", f.limit)
	}
	return f.text.Bytes(), nil
}

// pauseStep is how often a recording is looked at.
const pauseStep = 250 * time.Millisecond

// pause waits for d, or until the limit is exceeded.
func (f *limitedFile) pause(r *http.Request, d time.Duration) error {
	for end := now() + d; now() < end; {
		if _, err := f.bytes(); err != nil {
			return nil
		}
		if err := pause(r, min(pauseStep, end-now())); err != nil {
			return err
		}
	}
	return nil
}
