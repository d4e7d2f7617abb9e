package transporttest

import "syscall"

// site is where a fault can occur: at a system call, at a callback of a protocol, or at
// a turn of the loop.
type site string

const (
	atSocket   site = "Socket"
	atBind     site = "Bind"
	atListen   site = "Listen"
	atAccept   site = "Accept"
	atConnect  site = "Connect"
	atRecv     site = "Recv"
	atSend     site = "Send"
	atSendv    site = "Sendv"
	atShutdown site = "Shutdown"
	atAddr     site = "LocalAddr"
	atOption   site = "Option"
	atSet      site = "SetOption"
	atAdd      site = "Add"
	atModify   site = "Modify"
	atCallback site = "callback"
	atTurn     site = "turn"
)

// fault is one thing that goes wrong.
type fault struct {
	name string
	site site
	at   int // the number of the call, from 1; 0 means never

	err    syscall.Errno // result of the call
	short  bool          // the call transfers one byte
	repeat int           // this many calls after it fail too
	action action        // what happens at a callback or a turn
}

// action is what happens at a callback or at a turn.
type action uint8

const (
	noAction action = iota
	doPanic
	doClose
	doAbort
	doPause // reading, and resume later
	doWriteEOF
	closeLoop
	cancelConnect
	abortAll // every connection of the server
)

// faults are all faults. EINTR is not among them, because no kernel returns it.
var faults = []fault{
	{name: "no descriptors for a socket", site: atSocket, err: syscall.EMFILE},
	{name: "no memory for a socket", site: atSocket, err: syscall.ENOMEM},
	{name: "address taken", site: atBind, err: syscall.EADDRINUSE},
	{name: "listen refused", site: atListen, err: syscall.EADDRINUSE},
	{name: "no descriptors to accept", site: atAccept, err: syscall.EMFILE},
	{name: "no descriptors to accept, for a while", site: atAccept, err: syscall.ENFILE, repeat: 7},
	{name: "no memory to accept", site: atAccept, err: syscall.ENOMEM},
	{name: "reset before the accept", site: atAccept, err: syscall.ECONNABORTED},
	{name: "nothing to accept after all", site: atAccept, err: syscall.EAGAIN},
	{name: "refused", site: atConnect, err: syscall.ECONNREFUSED},
	{name: "unreachable", site: atConnect, err: syscall.ENETUNREACH},
	{name: "refused later", site: atOption, err: syscall.ECONNREFUSED},
	{name: "nothing to read after all", site: atRecv, err: syscall.EAGAIN},
	{name: "one byte read", site: atRecv, short: true},
	{name: "one byte read at a time", site: atRecv, short: true, repeat: 300},
	{name: "reset at a read", site: atRecv, err: syscall.ECONNRESET},
	{name: "timed out at a read", site: atRecv, err: syscall.ETIMEDOUT},
	{name: "send buffer full after all", site: atSend, err: syscall.EAGAIN},
	{name: "one byte sent", site: atSend, short: true},
	{name: "one byte sent at a time", site: atSend, short: true, repeat: 300},
	{name: "reset at a send", site: atSend, err: syscall.ECONNRESET},
	{name: "broken pipe at a send", site: atSend, err: syscall.EPIPE},
	{name: "no memory at a send", site: atSend, err: syscall.ENOMEM},
	{name: "send buffer full for buffers", site: atSendv, err: syscall.EAGAIN},
	{name: "one byte of buffers sent", site: atSendv, short: true},
	{name: "reset at buffers", site: atSendv, err: syscall.ECONNRESET},
	{name: "broken pipe at buffers", site: atSendv, err: syscall.EPIPE},
	{name: "not connected at shutdown", site: atShutdown, err: syscall.ENOTCONN},
	{name: "no address", site: atAddr, err: syscall.ENOBUFS},
	{name: "option refused", site: atSet, err: syscall.EINVAL},
	{name: "no memory to watch", site: atAdd, err: syscall.ENOMEM},
	{name: "no memory to change a watch", site: atModify, err: syscall.ENOMEM},
	{name: "panic", site: atCallback, action: doPanic},
	{name: "close", site: atCallback, action: doClose},
	{name: "abort", site: atCallback, action: doAbort},
	{name: "pause reading", site: atCallback, action: doPause},
	{name: "end of writing", site: atCallback, action: doWriteEOF},
	{name: "loop closed", site: atTurn, action: closeLoop},
	{name: "connect cancelled", site: atTurn, action: cancelConnect},
	{name: "aborted at a turn", site: atTurn, action: abortAll},
}
