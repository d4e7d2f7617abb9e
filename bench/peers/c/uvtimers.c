/* Timers of libuv: uvtimers SECONDS TIMERS
 * Prints one flat JSON object, with the keys of `spindle bench --json`. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { LOT = 1000 };

static uint64_t remaining;

static void on_timer(uv_timer_t *t) {
	(void)t;
	remaining--;
}

static double elapsed(uint64_t start) { return (uv_hrtime() - start) / 1e9; }

static uv_timer_t *make(uv_loop_t *loop, size_t n) {
	uv_timer_t *timers = malloc(n * sizeof *timers);
	if (!timers)
		abort();
	for (size_t i = 0; i < n; i++)
		uv_timer_init(loop, &timers[i]);
	return timers;
}

/* Lots of timers started and then stopped, with a turn of the loop between lots. */
static double cancels(uv_loop_t *loop, double seconds) {
	uv_timer_t *timers = make(loop, LOT);
	uint64_t start = uv_hrtime(), count = 0;
	while (elapsed(start) < seconds) {
		for (int i = 0; i < LOT; i++)
			uv_timer_start(&timers[i], on_timer, 1000 + i % 50, 0);
		for (int i = 0; i < LOT; i++)
			uv_timer_stop(&timers[i]);
		uv_run(loop, UV_RUN_NOWAIT);
		count += LOT;
	}
	return count / elapsed(start);
}

static double fires(uv_loop_t *loop, size_t n) {
	uv_timer_t *timers = make(loop, n);
	unsigned char *delays = malloc(n);
	if (!delays)
		abort();
	for (size_t i = 0; i < n; i++)
		delays[i] = rand() % 50;
	uv_update_time(loop);
	remaining = n;
	uint64_t start = uv_hrtime();
	for (size_t i = 0; i < n; i++)
		uv_timer_start(&timers[i], on_timer, delays[i], 0);
	while (remaining > 0)
		uv_run(loop, UV_RUN_ONCE);
	return n / elapsed(start);
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: uvtimers SECONDS TIMERS\n");
		return 2;
	}
	uv_loop_t *loop = uv_default_loop();
	double cancel = cancels(loop, atof(argv[1]));
	double fire = fires(loop, strtoul(argv[2], NULL, 10));
	printf("{\"timer_cancel_per_s\": %.0f, \"timer_fire_per_s\": %.0f}\n", cancel, fire);
	return 0;
}
