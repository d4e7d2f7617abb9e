package kernel

var backends = []backend{
	{"epoll", openEpoll},
	{"poll", openPoll},
}
