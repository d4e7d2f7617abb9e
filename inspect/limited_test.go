package inspect

import (
	"bytes"
	"net/http/httptest"
	"testing"
	"time"
)

func TestRecordingIsLimited(t *testing.T) {
	f := newRecording(1000)
	for range 10 {
		if n, err := f.Write(make([]byte, 100)); n != 100 || err != nil {
			t.Fatalf("Write returned %d, %v", n, err)
		}
	}
	if text, err := f.bytes(); err != nil || !bytes.Equal(text, make([]byte, 1000)) {
		t.Errorf("%d bytes were recorded, %v", len(text), err)
	}
	if n, err := f.Write([]byte{1}); n != 1 || err != nil {
		t.Errorf("Write beyond the limit returned %d, %v", n, err)
	}
	if text, err := f.bytes(); err == nil || f.text.Cap() != 0 {
		t.Errorf("after the limit there are %d bytes, and %d in memory", len(text), f.text.Cap())
	}
	// The recording ends with it: otherwise this would take a day.
	if err := f.pause(httptest.NewRequest("POST", "/", nil), 24*time.Hour); err != nil {
		t.Error(err)
	}
}

// users returns the number of handlers that need accounting.
func users() int {
	attachment.mu.Lock()
	defer attachment.mu.Unlock()
	return len(attachment.users)
}

func TestClosedServerLeavesAccountingToOthers(t *testing.T) {
	Detach() // what other tests have left
	defer Detach()
	a, err := Serve("127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Serve("127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.h.attachTasks()
	b.h.attachTasks()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if tasks, _ := wantedAccounting(); !tasks || users() != 1 {
		t.Errorf("after one server was closed, accounting is %v for %d handlers", tasks, users())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if tasks, metrics := wantedAccounting(); tasks || metrics || users() != 0 {
		t.Errorf("after both servers were closed, accounting is %v, %v for %d handlers", tasks, metrics, users())
	}
}
