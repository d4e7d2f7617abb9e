package transporttest

import "syscall"

// place is where trouble can come: at a system call, at a callback of a protocol,
// or at a turn of the loop.
type place string

const (
	atSocket   place = "Socket"
	atBind     place = "Bind"
	atListen   place = "Listen"
	atAccept   place = "Accept"
	atConnect  place = "Connect"
	atRecv     place = "Recv"
	atSend     place = "Send"
	atSendv    place = "Sendv"
	atShutdown place = "Shutdown"
	atAddr     place = "LocalAddr"
	atOption   place = "Option"
	atSet      place = "SetOption"
	atAdd      place = "Add"
	atModify   place = "Modify"
	atCallback place = "callback"
	atTurn     place = "turn"
)

// trouble is one thing that goes wrong.
type trouble struct {
	name  string
	place place
	at    int // the how manyeth; 0 for never

	err   syscall.Errno // of a call
	short bool          // the call moves one byte
	spell int           // at so many more behind it
	act   action        // of a callback or a turn
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

// troubles are all that can go wrong. EINTR is not among them: no kernel returns it.
var troubles = []trouble{
	{name: "no descriptors for a socket", place: atSocket, err: syscall.EMFILE},
	{name: "no memory for a socket", place: atSocket, err: syscall.ENOMEM},
	{name: "address taken", place: atBind, err: syscall.EADDRINUSE},
	{name: "listen refused", place: atListen, err: syscall.EADDRINUSE},
	{name: "no descriptors to accept", place: atAccept, err: syscall.EMFILE},
	{name: "no descriptors to accept, for a while", place: atAccept, err: syscall.ENFILE, spell: 7},
	{name: "no memory to accept", place: atAccept, err: syscall.ENOMEM},
	{name: "gone before the accept", place: atAccept, err: syscall.ECONNABORTED},
	{name: "nothing to accept after all", place: atAccept, err: syscall.EAGAIN},
	{name: "refused", place: atConnect, err: syscall.ECONNREFUSED},
	{name: "unreachable", place: atConnect, err: syscall.ENETUNREACH},
	{name: "refused later", place: atOption, err: syscall.ECONNREFUSED},
	{name: "nothing to read after all", place: atRecv, err: syscall.EAGAIN},
	{name: "one byte read", place: atRecv, short: true},
	{name: "one byte read at a time", place: atRecv, short: true, spell: 300},
	{name: "reset at a read", place: atRecv, err: syscall.ECONNRESET},
	{name: "timed out at a read", place: atRecv, err: syscall.ETIMEDOUT},
	{name: "no room after all", place: atSend, err: syscall.EAGAIN},
	{name: "one byte sent", place: atSend, short: true},
	{name: "one byte sent at a time", place: atSend, short: true, spell: 300},
	{name: "reset at a send", place: atSend, err: syscall.ECONNRESET},
	{name: "broken pipe at a send", place: atSend, err: syscall.EPIPE},
	{name: "no memory at a send", place: atSend, err: syscall.ENOMEM},
	{name: "no room for buffers", place: atSendv, err: syscall.EAGAIN},
	{name: "one byte of buffers sent", place: atSendv, short: true},
	{name: "reset at buffers", place: atSendv, err: syscall.ECONNRESET},
	{name: "broken pipe at buffers", place: atSendv, err: syscall.EPIPE},
	{name: "not connected at shutdown", place: atShutdown, err: syscall.ENOTCONN},
	{name: "no address", place: atAddr, err: syscall.ENOBUFS},
	{name: "option refused", place: atSet, err: syscall.EINVAL},
	{name: "no memory to watch", place: atAdd, err: syscall.ENOMEM},
	{name: "no memory to watch otherwise", place: atModify, err: syscall.ENOMEM},
	{name: "panic", place: atCallback, act: doPanic},
	{name: "close", place: atCallback, act: doClose},
	{name: "abort", place: atCallback, act: doAbort},
	{name: "pause reading", place: atCallback, act: doPause},
	{name: "end of writing", place: atCallback, act: doWriteEOF},
	{name: "loop closed", place: atTurn, act: closeLoop},
	{name: "connect cancelled", place: atTurn, act: cancelConnect},
	{name: "aborted from outside", place: atTurn, act: abortAll},
}
