module github.com/spindleloop/spindle

go 1.26.0

require golang.org/x/sys v0.49.0

require golang.org/x/net v0.48.0

require github.com/gorilla/websocket v1.5.3
