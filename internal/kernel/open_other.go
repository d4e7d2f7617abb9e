//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package kernel

var backends []backend

// sockets has no calls here; only simulated kernels run on this system.
type sockets struct{ Sockets }
