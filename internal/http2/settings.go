package http2

import "encoding/binary"

// The settings.
const (
	settingTable      = 0x1
	settingPush       = 0x2
	settingMaxStreams = 0x3
	settingWindow     = 0x4
	settingFrame      = 0x5
	settingHeader     = 0x6
	settingConnect    = 0x8 // extended CONNECT, RFC 8441
	settingPriorities = 0x9 // without those of RFC 7540: RFC 9218
)

// greet sends SETTINGS, and widens the window of the connection, which settings do not
// change.
func (c *Conn) greet() {
	o := &c.sh.config
	var b [48]byte
	s := b[:0]
	add := func(id uint16, value int) {
		s = binary.BigEndian.AppendUint16(s, id)
		s = binary.BigEndian.AppendUint32(s, uint32(value))
	}
	if o.Role == Client {
		add(settingPush, 0)
	} else {
		add(settingMaxStreams, o.MaxStreams)
	}
	add(settingWindow, o.StreamWindow)
	if o.MaxFrame != defaultFrame {
		add(settingFrame, o.MaxFrame)
	}
	if o.TableBytes != defaultTable {
		add(settingTable, o.TableBytes)
	}
	add(settingHeader, o.HeaderBytes)
	if o.Role == Server {
		if o.ExtendedConnect {
			add(settingConnect, 1)
		}
		add(settingPriorities, 1)
	}
	c.Out = appendFrameHead(c.Out, len(s), frameSettings, 0, 0)
	c.Out = append(c.Out, s...)
	if more := o.ConnWindow - defaultWindow; more > 0 {
		c.Out = appendWindow(c.Out, 0, more)
	}
}

func (c *Conn) onSettings(payload []byte) (Event, error) {
	switch {
	case c.frame.id != 0:
		return More, ErrStreamID
	case c.frame.has(flagAck) && len(payload) > 0, len(payload)%6 != 0:
		return More, ErrFrameSize
	case c.frame.has(flagAck):
		return More, c.spend(1)
	}
	if err := c.spend(1 + len(payload)/36); err != nil {
		return More, err
	}
	for ; len(payload) > 0; payload = payload[6:] {
		if err := c.set(binary.BigEndian.Uint16(payload), binary.BigEndian.Uint32(payload[2:])); err != nil {
			return More, err
		}
	}
	c.Out = appendFrameHead(c.Out, 0, frameSettings, flagAck, 0)
	if c.phase == connGreeting {
		c.enter(connOpen)
	}
	c.stream = nil
	return Writable, nil
}

// set applies a setting of the peer.
func (c *Conn) set(id uint16, value uint32) error {
	switch id {
	case settingTable:
		if value < defaultTable && c.table == tableUnsaid {
			c.table = tableOwed
		}
	case settingPush:
		if value > 1 || value == 1 && c.sh.config.Role == Client {
			return ErrSetting
		}
	case settingMaxStreams:
		c.peerMax = value
	case settingWindow:
		if value > largestWindow {
			return ErrWindow
		}
		return c.resize(int32(value))
	case settingFrame:
		if value < defaultFrame || value > 1<<24-1 {
			return ErrSetting
		}
		c.peerFrame = int32(value)
	case settingConnect:
		if value > 1 || value == 0 && c.connects {
			return ErrSetting
		}
		c.connects = value == 1
	case settingPriorities:
		if value > 1 {
			return ErrSetting
		}
	}
	return nil
}

// resize changes the windows of all streams by the difference to the one that they began with.
func (c *Conn) resize(window int32) error {
	by := int64(window) - int64(c.peerWindow)
	c.peerWindow = window
	for _, s := range c.streams {
		n := int64(s.send) + by
		if n > largestWindow {
			return ErrWindow
		}
		s.send = int32(n)
	}
	return nil
}
