//go:build darwin || dragonfly || freebsd || netbsd

package kernel

var backends = []backend{
	{"kqueue", openKqueue},
	{"poll", openPoll},
}
