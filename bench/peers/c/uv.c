/* A libuv echo server. The reply is sent with uv_try_write, which needs no
 * allocation; what the socket does not take goes through uv_write. All
 * connections share one read buffer, as nothing outlives the read callback. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { READ_BYTES = 64 * 1024, BACKLOG = 4096 };

struct pending {
	uv_write_t req;
	char bytes[];
};

static char shared[READ_BYTES];

static void check(int err, const char *what) {
	if (err < 0) {
		fprintf(stderr, "%s: %s\n", what, uv_strerror(err));
		exit(1);
	}
}

static void on_close(uv_handle_t *h) { free(h); }

static void drop(uv_stream_t *s) {
	if (!uv_is_closing((uv_handle_t *)s))
		uv_close((uv_handle_t *)s, on_close);
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf) {
	(void)h;
	(void)hint;
	*buf = uv_buf_init(shared, sizeof shared);
}

static void on_written(uv_write_t *req, int status) {
	if (status < 0)
		drop(req->handle);
	free(req); /* the first member of struct pending */
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
	if (n < 0) {
		drop(s);
		return;
	}
	if (n == 0)
		return;
	uv_buf_t out = uv_buf_init(buf->base, n);
	int w = uv_try_write(s, &out, 1);
	if (w == n)
		return;
	if (w < 0) {
		if (w != UV_EAGAIN) {
			drop(s);
			return;
		}
		w = 0;
	}
	struct pending *p = malloc(sizeof *p + (n - w));
	if (!p)
		abort();
	memcpy(p->bytes, buf->base + w, n - w);
	out = uv_buf_init(p->bytes, n - w);
	check(uv_write(&p->req, s, &out, 1, on_written), "uv_write");
}

static void on_connection(uv_stream_t *ln, int status) {
	check(status, "connection");
	uv_tcp_t *c = malloc(sizeof *c);
	if (!c)
		abort();
	check(uv_tcp_init(ln->loop, c), "uv_tcp_init");
	if (uv_accept(ln, (uv_stream_t *)c) < 0) {
		drop((uv_stream_t *)c);
		return;
	}
	uv_tcp_nodelay(c, 1);
	check(uv_read_start((uv_stream_t *)c, on_alloc, on_read), "uv_read_start");
}

int main(int argc, char **argv) {
	struct sockaddr_in sa;
	int size = sizeof sa;
	if (argc != 3) {
		fprintf(stderr, "usage: uv HOST PORT\n");
		return 2;
	}
	uv_loop_t *loop = uv_default_loop();
	uv_tcp_t ln;
	check(uv_ip4_addr(argv[1], atoi(argv[2]), &sa), "uv_ip4_addr");
	check(uv_tcp_init(loop, &ln), "uv_tcp_init");
	check(uv_tcp_bind(&ln, (struct sockaddr *)&sa, 0), "uv_tcp_bind");
	check(uv_listen((uv_stream_t *)&ln, BACKLOG, on_connection), "uv_listen");
	check(uv_tcp_getsockname(&ln, (struct sockaddr *)&sa, &size), "uv_tcp_getsockname");
	printf("listening on %s:%d\n", argv[1], ntohs(sa.sin_port));
	fflush(stdout);
	return uv_run(loop, UV_RUN_DEFAULT);
}
