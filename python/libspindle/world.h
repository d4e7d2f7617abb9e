// What Go and C share about simulated worlds.
#ifndef SPINDLE_WORLD_H
#define SPINDLE_WORLD_H

#include "events.h"

// Results besides those of events.h.
#define SPINDLE_DEADLOCK (-100001)
#define SPINDLE_STANDSTILL (-100002)

// A step: the process that has run, and then the one that is to run.
typedef struct {
    int process;       // -1 for none, or on return if a call is due
    long long wait_ns; // how long the process that has run waits; -1 for no limit
    long long call;    // the token of the call that is due, -1 for none
    long long now_ns;  // of the world
    long long mono_ns, wall_ns; // of the host of the process that is to run
    int differs;       // the run differs from the one that it is compared with
    int capacity;
    SpindleEvent *events;
} SpindleStep;

// An address of a socket. The family is 4, 6, 1 for a Unix socket, or 0 for none.
typedef struct {
    int family, port;
    unsigned char ip[16];
    int path_len;
    char path[256];
} SpindleAddress;

#define SPINDLE_CALL_SOCKET 0 // a: family, b: type
#define SPINDLE_CALL_BIND 1
#define SPINDLE_CALL_LISTEN 2 // a: backlog
#define SPINDLE_CALL_ACCEPT 3
#define SPINDLE_CALL_CONNECT 4
#define SPINDLE_CALL_RECV 5
#define SPINDLE_CALL_SEND 6
#define SPINDLE_CALL_RECVFROM 7
#define SPINDLE_CALL_SENDTO 8
#define SPINDLE_CALL_SHUTDOWN 9 // a: side
#define SPINDLE_CALL_LOCAL 10
#define SPINDLE_CALL_PEER 11
#define SPINDLE_CALL_SETOPTION 12 // a: option, b: value
#define SPINDLE_CALL_OPTION 13 // a: option
#define SPINDLE_CALL_CLOSE 14
#define SPINDLE_CALL_WATCH 15 // a: interest
#define SPINDLE_CALL_READY 16 // a: interest; returns what is ready

// A call of a process.
typedef struct {
    int op, fd, a, b;
    void *data;
    long long len;
    int differs; // on return: as in SpindleStep
    const char *task; // the name of the task that calls, or NULL
    int task_len;
    SpindleAddress address;
} SpindleCall;

#define SPINDLE_WORLD_HOST 0 // text: name
#define SPINDLE_WORLD_BOOT 1 // a: host; returns a process
#define SPINDLE_WORLD_EXIT 2 // a: process
#define SPINDLE_WORLD_PARK 3 // a: process; x: how long it waits
#define SPINDLE_WORLD_CRASH 4
#define SPINDLE_WORLD_PAUSE 5
#define SPINDLE_WORLD_RESUME 6
#define SPINDLE_WORLD_CUT 7 // a, b: hosts, x: whether
#define SPINDLE_WORLD_DELAY 8 // a, b: hosts, or -1 for all; x: least, y: most; most -1: a long tail
#define SPINDLE_WORLD_LOSS 9 // a, b: hosts; f: share
#define SPINDLE_WORLD_DUPLICATE 10
#define SPINDLE_WORLD_REORDER 11
#define SPINDLE_WORLD_DRIBBLE 12
#define SPINDLE_WORLD_RATE 13 // a, b: hosts; x: bytes per second
#define SPINDLE_WORLD_CLOCK 14 // a: host; x: offset; y: ppm
#define SPINDLE_WORLD_AFTER 15 // x: nanoseconds; y: token
#define SPINDLE_WORLD_NOTE 16 // a: host or -1; text
#define SPINDLE_WORLD_HEAL 17
#define SPINDLE_WORLD_HASH 18
#define SPINDLE_WORLD_EVENTS 19
#define SPINDLE_WORLD_LEFT_OPEN 20
#define SPINDLE_WORLD_RECORD 21 // a: the world to compare with, or -1
#define SPINDLE_WORLD_FAIL_CALL 22 // a: host; x: number; y: errno; text: call
#define SPINDLE_WORLD_NOW 23
#define SPINDLE_WORLD_WAKE 24 // a: process
#define SPINDLE_WORLD_RETURN 26 // in a world that another process runs: the program has returned; text: its error
#define SPINDLE_WORLD_NAME_TASKS 25 // calls have the names of tasks; x: bytes to keep of each message

// A change of a world, or a question about it.
typedef struct {
    int op, a, b;
    long long x, y;
    double f;
    const char *text;
    int len;
} SpindleControl;

#endif
