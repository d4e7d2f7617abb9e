// The clocks and random numbers of the thread that runs a world. Python's time, datetime, os.urandom
// and all that is made from them (secrets, uuid, the seed of a random.Random) ask libc, as do C
// libraries. So it is libc's functions that are replaced, once, in the tables of addresses through
// which the loaded objects call them: names that a module has imported before are covered too. In
// other threads, and while no world runs, the replacements call libc.
#include "world.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

__thread bool world_runs, world_steps;
static __thread int64_t mono, wall; // nanoseconds
static __thread uint64_t python_random, library_random; // states
static __thread unsigned long reads; // of clocks, since they were set

#define MOST_READS 20000000 // at one time: the program waits for the clock in a loop

void world_set_clock(int64_t mono_ns, int64_t wall_ns) {
    mono = mono_ns;
    wall = wall_ns;
    reads = 0;
}

static struct timespec timespec_of(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static int64_t now(bool of_day) {
    if (++reads == MOST_READS)
        world_raise_later();
    return of_day ? wall : mono;
}

static int sim_clock_gettime(clockid_t id, struct timespec *into) {
    bool of_day = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    if (!world_runs || !(of_day || id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW ||
                         id == CLOCK_BOOTTIME))
        return clock_gettime(id, into);
    *into = timespec_of(now(of_day));
    return 0;
}

static int sim_gettimeofday(struct timeval *into, void *zone) {
    if (!world_runs)
        return gettimeofday(into, zone);
    int64_t t = now(true);
    *into = (struct timeval){.tv_sec = t / 1000000000, .tv_usec = t % 1000000000 / 1000};
    return 0;
}

static time_t sim_time(time_t *into) {
    if (!world_runs)
        return time(into);
    time_t t = now(true) / 1000000000;
    if (into)
        *into = t;
    return t;
}

// next_random is SplitMix64.
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static ssize_t fill(void *into, size_t len, uint64_t *state) {
    for (size_t i = 0; i < len; i += 8) {
        uint64_t r = next_random(state);
        memcpy((char *)into + i, &r, len - i < 8 ? len - i : 8);
    }
    return (ssize_t)len;
}

static int check_entropy(size_t len) {
    if (len <= 256)
        return 0;
    errno = EIO; // as libc says
    return -1;
}

// Python and other libraries have a state each. A library may draw once in the life of the process, for a generator
// of its own; Python's numbers would differ between the first world and the second.
// The calls of the system themselves: the oldest libc that wheels are for does not have the functions.
static ssize_t sim_getrandom(void *into, size_t len, unsigned flags) {
    return world_runs ? fill(into, len, &python_random) : syscall(SYS_getrandom, into, len, flags);
}

static int sim_getentropy(void *into, size_t len) {
    return check_entropy(len) < 0 || sim_getrandom(into, len, 0) < 0 ? -1 : 0;
}

static ssize_t library_getrandom(void *into, size_t len, unsigned flags) {
    return world_runs ? fill(into, len, &library_random) : syscall(SYS_getrandom, into, len, flags);
}

static int library_getentropy(void *into, size_t len) {
    return check_entropy(len) < 0 || library_getrandom(into, len, 0) < 0 ? -1 : 0;
}

// os.getrandom makes the call of the system itself. Arguments that a caller has not passed are not used.
static long sim_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (world_runs && number == SYS_getrandom)
        return fill((void *)a, (size_t)b, &python_random);
    return syscall(number, a, b, c, d, e, f);
}

static const struct {
    const char *name;
    void *by;
    void *in_libraries; // the same if it is NULL
} replaced[] = {
    {"clock_gettime", sim_clock_gettime, NULL},
    {"gettimeofday", sim_gettimeofday, NULL},
    {"time", sim_time, NULL},
    {"getrandom", sim_getrandom, library_getrandom},
    {"getentropy", sim_getentropy, library_getentropy},
    {"syscall", sim_syscall, syscall},
};

// An object that is loaded: its tables, and the part that is read-only after relocation.
typedef struct {
    const ElfW(Rela) *rela[2];
    size_t count[2]; // of each
    const ElfW(Sym) *symbols;
    const char *strings;
    ElfW(Addr) base, protected_from, protected_to;
    bool python; // Python itself
} Object;

static void read_dynamic(Object *o, const ElfW(Dyn) *d) {
    size_t size[2] = {0};
    for (; d->d_tag != DT_NULL; d++) {
        void *at = (void *)d->d_un.d_ptr;
        switch (d->d_tag) {
        case DT_JMPREL: o->rela[0] = at; break;
        case DT_PLTRELSZ: size[0] = d->d_un.d_val; break;
        case DT_RELA: o->rela[1] = at; break;
        case DT_RELASZ: size[1] = d->d_un.d_val; break;
        case DT_SYMTAB: o->symbols = at; break;
        case DT_STRTAB: o->strings = at; break;
        }
    }
    for (int i = 0; i < 2; i++)
        o->count[i] = size[i] / sizeof(ElfW(Rela));
}

#if defined __x86_64__
#define IS_ADDRESS(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined __aarch64__
#define IS_ADDRESS(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#define IS_ADDRESS(type) 0
#endif

static void put(Object *o, void **at, void *by) {
    ElfW(Addr) page = (ElfW(Addr))at & ~(ElfW(Addr))(sysconf(_SC_PAGESIZE) - 1);
    bool read_only = (ElfW(Addr))at >= o->protected_from && (ElfW(Addr))at < o->protected_to;
    size_t len = (ElfW(Addr))(at + 1) - page;
    if (read_only && mprotect((void *)page, len, PROT_READ | PROT_WRITE) < 0)
        return;
    *at = by;
    if (read_only)
        mprotect((void *)page, len, PROT_READ);
}

static void replace_in(Object *o, const ElfW(Rela) *r) {
    if (!IS_ADDRESS(ELF64_R_TYPE(r->r_info)))
        return;
    const char *name = o->strings + o->symbols[ELF64_R_SYM(r->r_info)].st_name;
    void *by = NULL;
    for (size_t i = 0; !by && i < sizeof replaced / sizeof *replaced; i++)
        if (strcmp(name, replaced[i].name) == 0)
            by = o->python || !replaced[i].in_libraries ? replaced[i].by : replaced[i].in_libraries;
    if (by || (by = world_wait(name)))
        put(o, (void **)(o->base + r->r_offset), by);
}

// keeps_libc reports whether an object is to have libc's functions: libc itself, Go, which must not
// stop, this module, and readline, by which a debugger waits for the keyboard.
static bool keeps_libc(struct dl_phdr_info *info) {
    static const char *const keepers[] = {"/libc.so", "/libc-", "/ld-linux", "/libpthread", "linux-vdso", "libspindle.so", "readline"};
    for (size_t i = 0; i < sizeof keepers / sizeof *keepers; i++)
        if (strstr(info->dlpi_name, keepers[i]))
            return true;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ElfW(Addr) here = (ElfW(Addr))replaced - info->dlpi_addr;
        if (p->p_type == PT_LOAD && here >= p->p_vaddr && here < p->p_vaddr + p->p_memsz)
            return true;
    }
    return false;
}

static int visit(struct dl_phdr_info *info, size_t Py_UNUSED(size), void *Py_UNUSED(data)) {
    if (keeps_libc(info))
        return 0;
    Object o = {.base = info->dlpi_addr, .python = !*info->dlpi_name || strstr(info->dlpi_name, "/libpython")};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC)
            read_dynamic(&o, (const ElfW(Dyn) *)(info->dlpi_addr + p->p_vaddr));
        if (p->p_type == PT_GNU_RELRO) {
            o.protected_from = info->dlpi_addr + p->p_vaddr;
            o.protected_to = o.protected_from + p->p_memsz;
        }
    }
    for (int i = 0; o.symbols && o.strings && i < 2; i++)
        for (size_t j = 0; o.rela[i] && j < o.count[i]; j++)
            replace_in(&o, &o.rela[i][j]);
    return 0;
}

static void replace_openssl(void);

static int loads(struct dl_phdr_info *info, size_t Py_UNUSED(size), void *count) {
    *(unsigned long long *)count = info->dlpi_adds;
    return 1;
}

// replace replaces the functions in objects that were loaded since the last call.
static void replace(void) {
    static unsigned long long seen;
    unsigned long long count = 0;
    dl_iterate_phdr(loads, &count);
    if (count != seen) {
        dl_iterate_phdr(visit, NULL);
        replace_openssl();
    }
    seen = count;
}

// OpenSSL has random numbers of its own, which it draws once from the system. It lets a program replace
// them; the library that Python has loaded is asked, if there is one.
typedef struct { // RAND_METHOD
    int (*seed)(const void *, int);
    int (*bytes)(unsigned char *, int);
    void (*cleanup)(void);
    int (*add)(const void *, int, double);
    int (*pseudorand)(unsigned char *, int);
    int (*status)(void);
} RandMethod;

static const RandMethod *openssl; // its own

static int sim_rand_bytes(unsigned char *into, int len) {
    if (!world_runs)
        return openssl->bytes(into, len);
    fill(into, (size_t)len, &python_random);
    return 1;
}

static void replace_openssl(void) {
    static RandMethod method;
    static const char *const libraries[] = {"libcrypto.so.3", "libcrypto.so.1.1"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof libraries / sizeof *libraries; i++)
        library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
    if (openssl || !library)
        return;
    const RandMethod *(*own)(void) = (const RandMethod *(*)(void))dlsym(library, "RAND_OpenSSL");
    int (*set)(const RandMethod *) = (int (*)(const RandMethod *))dlsym(library, "RAND_set_rand_method");
    if (!own || !set)
        return;
    openssl = own();
    method = *openssl;
    method.bytes = method.pseudorand = sim_rand_bytes;
    set(&method);
}

// world_enter(python, library, tasks, mono_ns, wall_ns, slept). The first three are what world_leave has returned, if
// the world has run before: states of random numbers, and the number of tasks.
PyObject *world_enter(PyObject *Py_UNUSED(module), PyObject *args) {
    unsigned long long python, library, tasks;
    long long mono_ns, wall_ns;
    PyObject *exception;
    if (!PyArg_ParseTuple(args, "KKKLLO", &python, &library, &tasks, &mono_ns, &wall_ns, &exception))
        return NULL;
    if (world_runs) {
        PyErr_SetString(PyExc_RuntimeError, "spindle.sim: a world runs in this thread already");
        return NULL;
    }
    world_blocked_by(exception);
    replace();
    python_random = python;
    library_random = library;
    world_set_numbers(tasks);
    world_set_clock(mono_ns, wall_ns);
    world_runs = true;
    Py_RETURN_NONE;
}

PyObject *world_clock(PyObject *Py_UNUSED(module), PyObject *args) {
    long long mono_ns, wall_ns;
    if (!PyArg_ParseTuple(args, "LL", &mono_ns, &wall_ns))
        return NULL;
    world_set_clock(mono_ns, wall_ns);
    Py_RETURN_NONE;
}

PyObject *world_leave(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    world_runs = false;
    return Py_BuildValue("KKK", (unsigned long long)python_random, (unsigned long long)library_random, (unsigned long long)world_numbers());
}
