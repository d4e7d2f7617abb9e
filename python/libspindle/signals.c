//go:build spindle_python

// Makes Go's threads block SIGCHLD, SIGPROF and SIGRTMIN, like all other signals of the program.
//
// The runtime removes them from the mask of each of its threads. Then the kernel gives a SIGCHLD that the
// program has blocked, for sigwait or a signalfd, to one of them, and it is lost; a SIGRTMIN ends the
// process; and the handler of a profiler runs on a thread that it does not know. None is needed here: Python
// waits for processes, nothing uses Go's profiler, and glibc does not use the first real-time signal.
//
// The runtime's table of signals has a flag for that, which is removed before the runtime starts. The
// linker hides the table's name, so it is found by its texts. If no table looks as expected, nothing is
// changed, and tests/test_go_runtime.py fails.
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int32_t flags;
    const char *name;
    intptr_t len;
} Row; // runtime.sigTabT

enum { ALWAYS_UNBLOCKED = 1 << 7, ALL_FLAGS = (1 << 9) - 1 }; // runtime._SigUnblock

extern char image[] __asm__("__ehdr_start") __attribute__((visibility("hidden"))); // this library in memory

static int segments(const ElfW(Phdr) **first) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
    *first = (const ElfW(Phdr) *)(image + header->e_phoff);
    return header->e_phnum;
}

// in_image reports whether n bytes at address are loaded from this library.
static bool in_image(const void *address, size_t n) {
    const ElfW(Phdr) *segment;
    for (int left = segments(&segment); left > 0; left--, segment++) {
        uintptr_t offset = (uintptr_t)address - (uintptr_t)(image + segment->p_vaddr); // huge if address is before
        if (segment->p_type == PT_LOAD && offset < segment->p_filesz && n <= segment->p_filesz - offset)
            return true;
    }
    return false;
}

// is_row reports whether the row's text begins with name. It is called for each word of the data, so what
// tells most words from rows comes first.
static inline bool is_row(const Row *row, const char *name) {
    if ((row->flags & ~ALL_FLAGS) != 0 || row->len <= 0 || row->len >= 100)
        return false;
    size_t n = strlen(name);
    return (size_t)row->len > n && in_image(row->name, n) && memcmp(row->name, name, n) == 0;
}

// let_block changes the table if it is in the segment.
static bool let_block(char *from, size_t size) {
    enum { REAL_TIME = 34, ROWS = REAL_TIME - SIGCHLD + 1 }; // from SIGCHLD on
    for (char *at = from; at + ROWS * sizeof(Row) <= from + size; at += sizeof(void *)) {
        Row *child = (Row *)at, *profile = child + (SIGPROF - SIGCHLD), *real_time = child + (REAL_TIME - SIGCHLD);
        if (is_row(child, "SIGCHLD: ") && is_row(profile, "SIGPROF: ") && is_row(real_time, "signal 3")) {
            child->flags &= ~ALWAYS_UNBLOCKED;
            profile->flags &= ~ALWAYS_UNBLOCKED;
            real_time->flags &= ~ALWAYS_UNBLOCKED;
            return true;
        }
    }
    return false;
}

// constants_end returns where the data ends that is read-only after relocation. The table is not there, and most of
// the data is.
static uintptr_t constants_end(void) {
    const ElfW(Phdr) *segment;
    for (int left = segments(&segment); left > 0; left--, segment++) {
        if (segment->p_type == PT_GNU_RELRO)
            return segment->p_vaddr + segment->p_memsz;
    }
    return 0;
}

__attribute__((constructor(101))) static void before_go(void) {
    const ElfW(Phdr) *segment;
    uintptr_t constants = constants_end() & ~(uintptr_t)(sizeof(void *) - 1);
    for (int left = segments(&segment); left > 0; left--, segment++) {
        uintptr_t from = segment->p_vaddr, end = from + segment->p_filesz;
        if (from < constants && constants <= end)
            from = constants;
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_W && let_block(image + from, end - from))
            return;
    }
}
