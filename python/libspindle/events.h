// What Go and C share.
#ifndef SPINDLE_EVENTS_H
#define SPINDLE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

// Directions of a descriptor: what a loop waits for, and what an event reports.
#define SPINDLE_READ 1
#define SPINDLE_WRITE 2

// spindle_token_row returns the row of a watch from the data of its epoll events. The other half of
// the token counts how often the row was used. Go checks that it makes tokens like that.
static inline uint32_t spindle_token_row(uint64_t token) { return (uint32_t)token; }

// The result of a function of Go that has panicked; SpindleFailure has the text.
#define SPINDLE_PANIC (-100000)

typedef struct {
    int fd;
    int ready;
} SpindleEvent;

// What the inspector reads of a Python loop. The pointers are valid until the loop is closed.
typedef struct {
    void *loop;
    const unsigned long *pulse; // callbacks so far
    const bool *running;        // it runs
    const bool *waiting;        // it runs, and waits for descriptors
    // Describe tasks, on the thread of the loop: the first ones of all, or further ones. Return
    // JSON, for the caller to free, or NULL if there are no more.
    char *(*tasks)(void *loop, bool first);
} SpindleHost;

// A record of Go's log.
typedef struct {
    int level; // Python's
    char *logger, *text;
} SpindleLogRecord;

// A callback that blocks the loop. The texts are empty if Python cannot be asked.
typedef struct {
    unsigned long pulse;
    double seconds; // so far
    const char *task, *at, *stack;
} SpindleBlock;

#endif
