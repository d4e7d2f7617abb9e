// What Go and C share.
#ifndef SPINDLE_EVENTS_H
#define SPINDLE_EVENTS_H

// Directions of a descriptor: what a loop waits for, and what an event reports.
#define SPINDLE_READ 1
#define SPINDLE_WRITE 2

typedef struct {
    int fd;
    int ready;
} SpindleEvent;

#endif
