module github.com/spindleloop/spindle

go 1.26.0

require (
	github.com/fxamacker/cbor/v2 v2.9.6
	golang.org/x/sys v0.49.0
)

require golang.org/x/net v0.60.0

require (
	github.com/chromedp/cdproto v0.0.0-20250724212937-08a3db8b4327
	github.com/chromedp/chromedp v0.14.2
	github.com/gorilla/websocket v1.5.3
)

require (
	github.com/chromedp/sysutil v1.1.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/gobwas/ws v1.4.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
)
