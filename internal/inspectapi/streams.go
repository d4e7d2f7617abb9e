package inspectapi

// Streams describes an HTTP/2 connection. The windows are how much of bodies may be sent to the
// client and received from it, on all streams together.
type Streams struct {
	SendWindow    int      `json:"send_window_bytes"`
	ReceiveWindow int      `json:"receive_window_bytes"`
	All           []Stream `json:"all"`
}

// Stream is an open stream of an HTTP/2 connection.
type Stream struct {
	ID            uint32 `json:"id"`
	Method        string `json:"method,omitempty"` // none if a lean handler answers
	Path          string `json:"path,omitempty"`
	Phase         string `json:"phase,omitempty"`
	SendWindow    int    `json:"send_window_bytes"`
	ReceiveWindow int    `json:"receive_window_bytes"`
	Queued        int    `json:"queued_bytes"` // of the response, that windows or the client do not take
	Unread        int    `json:"unread_bytes"` // of the request, that the handler has not read
	Urgency       uint8  `json:"urgency"`      // from 0, the most urgent, to 7
}
