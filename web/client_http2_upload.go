package web

import "slices"

// write sends a piece of the request's body. It waits until p is not needed any more.
func (c *h2Call) write(p []byte) error { return c.upload(p, nil, false) }

// end ends the request's body, with trailers if there are any.
func (c *h2Call) end(trailers []byte) error { return c.upload(nil, trailers, true) }

func (c *h2Call) upload(p, trailers []byte, end bool) error {
	begun := false
	var failed error
	err := c.await(&c.writer, "the server to read", func() bool {
		if !begun {
			begun = true
			c.beginPiece(p, trailers, end)
		}
		failed = c.err
		return len(c.rest) == 0
	})
	if err != nil { // the buffer of p is the caller's again
		if c.hc.p.l.Owns() {
			c.rest = nil
			c.unqueue()
		}
		return err
	}
	return failed
}

// beginPiece begins to send a piece of the body, or the end of it.
func (c *h2Call) beginPiece(p, trailers []byte, end bool) {
	hc := c.hc
	switch {
	case c.err != nil || !c.Sending():
		return
	case !end:
		c.rest = p
		c.sendSome()
	case len(trailers) > 0:
		hc.fc.SendHead(&c.Stream, trailers, true)
	default:
		hc.fc.SendData(&c.Stream, nil, true)
	}
	hc.settle()
}

// sendSome sends as much of rest as windows and the server take, up to a frame. It reports
// whether it has sent anything.
func (c *h2Call) sendSome() bool {
	hc := c.hc
	sent := false
	for len(c.rest) > 0 {
		n := min(len(c.rest), hc.fc.Room(&c.Stream), hc.fc.MaxFrame(), outLimit-len(hc.fc.Out))
		if n <= 0 {
			break
		}
		hc.fc.SendData(&c.Stream, c.rest[:n], c.ends && n == len(c.rest))
		c.rest = c.rest[n:]
		if sent = true; len(hc.sending) > 1 {
			break // in turns
		}
	}
	switch {
	case len(c.rest) == 0:
		c.rest = nil
		c.unqueue()
		wakeIn(&c.writer)
	case !c.queued:
		c.queued = true
		hc.sending = append(hc.sending, c)
	}
	return sent
}

func (c *h2Call) unqueue() {
	if c.queued {
		c.queued = false
		c.hc.sending = slices.DeleteFunc(c.hc.sending, func(o *h2Call) bool { return o == c })
	}
}
