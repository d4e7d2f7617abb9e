//go:build spindle_python

package main

import (
	"os"

	"github.com/spindleloop/spindle/internal/http1"
)

type accessLog struct{}

func newAccessLog(string, *os.File) *accessLog { return &accessLog{} }

func (a *accessLog) begin(string, *http1.RequestParser) *logged { return nil }

func (a *accessLog) end(*logged, int, int64) {}
