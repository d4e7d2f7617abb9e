//go:build spindle_python

package main

/*
#include "world.h"
*/
import "C"

import (
	"encoding/json"
	"strings"

	"github.com/spindleloop/spindle/internal/picture"
)

// SpindleWorldPage returns a page in HTML about a run. The request is the JSON of a
// picture.Page without its traces, and of the runs to compare it with, by the numbers of
// their worlds. The caller frees the text. It returns nil after a panic or an error.
//
//export SpindleWorldPage
func SpindleWorldPage(id C.int, request *C.char, length C.int) (text *C.char) {
	defer guardText(nil, 0)
	var asked struct {
		picture.Page
		Compare []struct {
			Name  string
			World int
		}
	}
	if err := json.Unmarshal([]byte(C.GoStringN(request, length)), &asked); err != nil {
		return nil
	}
	w, page := worldAt(id).core, asked.Page
	page.Trace, page.Senders = w.Trace(), w.Senders()
	for _, other := range asked.Compare {
		page.Passing = append(page.Passing, picture.Run{Name: other.Name, Trace: worldAt(C.int(other.World)).core.Trace()})
	}
	var b strings.Builder
	if err := page.Write(&b); err != nil {
		return nil
	}
	return C.CString(b.String())
}
