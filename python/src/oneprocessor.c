// Lets Go's runtime find one processor when it starts.
//
// The runtime starts threads for all processors that it finds, although nearly all of its work is done in the threads
// of Python's loops. SpindleStart in libspindle.go lets it use more later; then a thread is started when there is
// work for it.
//
// The runtime counts the processors that its first thread may use, so that is restricted to one for as long as the runtime
// starts. New threads inherit the restriction. It is lifted for those that have come since.
#include "core.h"
#include <dirent.h>
#include <stdlib.h>

static bool contains(const OneProcessor *o, pid_t thread) {
    for (size_t i = 0; i < o->n; i++) {
        if (o->before[i] == thread)
            return true;
    }
    return false;
}

// list sets o->before to the threads of the process.
static bool list(OneProcessor *o) {
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return false;
    bool whole = true;
    for (struct dirent *entry; (entry = readdir(threads));) {
        if (entry->d_name[0] == '.')
            continue;
        pid_t *grown = PyMem_RawRealloc(o->before, (o->n + 1) * sizeof *grown);
        if (!(whole = grown != NULL))
            break;
        o->before = grown;
        o->before[o->n++] = atoi(entry->d_name);
    }
    closedir(threads);
    return whole;
}

// lift lifts the restriction of new threads. It returns how many there were.
static int lift(const OneProcessor *o) {
    DIR *threads = opendir("/proc/self/task");
    if (!threads)
        return 0;
    int lifted = 0;
    for (struct dirent *entry; (entry = readdir(threads));) {
        pid_t thread = atoi(entry->d_name);
        cpu_set_t found;
        if (thread > 0 && !contains(o, thread) && sched_getaffinity(thread, sizeof found, &found) == 0 &&
            CPU_EQUAL(&found, &o->one) && sched_setaffinity(thread, sizeof o->all, &o->all) == 0)
            lifted++;
    }
    closedir(threads);
    return lifted;
}

void oneprocessor_begin(OneProcessor *o) {
    *o = (OneProcessor){0};
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof o->all, &o->all) < 0 || CPU_COUNT(&o->all) < 2 || !list(o))
        return;
    CPU_SET(here, &o->one);
    o->restricted = sched_setaffinity(0, sizeof o->one, &o->one) == 0;
}

void oneprocessor_end(OneProcessor *o) {
    if (o->restricted) {
        sched_setaffinity(0, sizeof o->all, &o->all);
        // A thread that was restricted may have started another one meanwhile.
        for (int looks = 0; looks < 8 && lift(o) > 0; looks++) {
        }
    }
    PyMem_RawFree(o->before);
}
