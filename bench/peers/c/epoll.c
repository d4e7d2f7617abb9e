/* A classic epoll echo server: one thread, level-triggered. It reads the available
 * bytes and writes them back at once. Output that a socket does not take is kept and
 * sent when the socket becomes writable; meanwhile that connection is not read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_EVENTS = 512, READ_BYTES = 64 * 1024 };

struct conn {
	int fd;
	char *pending; /* NULL unless the socket was full */
	size_t off, len;
};

static char buf[READ_BYTES];

static void die(const char *what) {
	perror(what);
	exit(1);
}

static void drop(struct conn *c) {
	close(c->fd); /* leaves the epoll set by itself */
	free(c->pending);
	free(c);
}

static void watch(int ep, struct conn *c, int op, uint32_t events) {
	struct epoll_event ev = {.events = events, .data.ptr = c};
	if (epoll_ctl(ep, op, c->fd, &ev) < 0)
		die("epoll_ctl");
}

static void accept_all(int ep, int ln) {
	for (;;) {
		int fd = accept4(ln, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			if (errno == EAGAIN)
				return;
			die("accept4");
		}
		struct conn *c = calloc(1, sizeof *c);
		if (!c)
			die("calloc");
		c->fd = fd;
		watch(ep, c, EPOLL_CTL_ADD, EPOLLIN);
	}
}

static void readable(int ep, struct conn *c) {
	ssize_t n = read(c->fd, buf, sizeof buf);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			drop(c);
		return;
	}
	ssize_t w = write(c->fd, buf, n);
	if (w == n)
		return;
	if (w < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			drop(c);
			return;
		}
		w = 0;
	}
	c->len = n - w;
	c->off = 0;
	c->pending = malloc(c->len);
	if (!c->pending)
		die("malloc");
	memcpy(c->pending, buf + w, c->len);
	watch(ep, c, EPOLL_CTL_MOD, EPOLLOUT);
}

static void writable(int ep, struct conn *c) {
	ssize_t w = write(c->fd, c->pending + c->off, c->len - c->off);
	if (w < 0) {
		if (errno != EAGAIN && errno != EINTR)
			drop(c);
		return;
	}
	c->off += w;
	if (c->off < c->len)
		return;
	free(c->pending);
	c->pending = NULL;
	watch(ep, c, EPOLL_CTL_MOD, EPOLLIN);
}

int main(int argc, char **argv) {
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t size = sizeof sa;
	int one = 1;
	if (argc != 3 || inet_pton(AF_INET, argv[1], &sa.sin_addr) != 1) {
		fprintf(stderr, "usage: epoll HOST PORT\n");
		return 2;
	}
	sa.sin_port = htons(atoi(argv[2]));
	signal(SIGPIPE, SIG_IGN);
	int ln = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ln < 0)
		die("socket");
	setsockopt(ln, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	/* Accepted sockets inherit it: one call instead of one for each connection. */
	setsockopt(ln, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (bind(ln, (struct sockaddr *)&sa, size) < 0)
		die("bind");
	if (listen(ln, SOMAXCONN) < 0)
		die("listen");
	if (getsockname(ln, (struct sockaddr *)&sa, &size) < 0)
		die("getsockname");
	int ep = epoll_create1(EPOLL_CLOEXEC);
	if (ep < 0)
		die("epoll_create1");
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	if (epoll_ctl(ep, EPOLL_CTL_ADD, ln, &ev) < 0)
		die("epoll_ctl");
	printf("listening on %s:%d\n", argv[1], ntohs(sa.sin_port));
	fflush(stdout);

	struct epoll_event events[MAX_EVENTS];
	for (;;) {
		int n = epoll_wait(ep, events, MAX_EVENTS, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			if (!c)
				accept_all(ep, ln);
			else if (c->pending)
				writable(ep, c);
			else
				readable(ep, c);
		}
	}
}
