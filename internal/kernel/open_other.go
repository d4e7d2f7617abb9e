//go:build !(linux || darwin || dragonfly || freebsd || netbsd)

package kernel

var backends []backend

// sockets has no calls on this system: only simulated kernels run here.
type sockets struct{ Sockets }
