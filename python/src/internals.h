// What this package relies on that CPython does not document, and so may change in any version.
//
// Each entry has a check in internals.c, which the import of the package runs. A version of CPython
// that differs is refused there, and not at the first use.
//
//   the version          The module runs with the minor version that it was compiled for.
//   the transports       asyncio.transports._FlowControlMixin has five slots. Transport begins with them
//                        (transport_base in transport.c).
//   the step of a task   The callback with which a task starts is an object that begins like TaskStep (steps.c).
//   the streams          An asyncio.StreamReader has the attributes of StreamReader, and no others. Its
//                        protocol has _stream_reader_wr, and _strong_reader if it is a server's (stream_reader.c).
//   the contexts         The collector sees a copy of a context, which can be hidden from it (handle.c).
//   the collector        It has three generations; the oldest ones are OLDEST_GENERATION and above (loops.c).
//   the registry         A WeakSet of tasks has the attributes data, _pending_removals and _iterating. One that differs is
//                        not refused: its own methods are called (registry.c).
//   the loop             BaseEventLoop and _UnixSelectorEventLoop have the members of LOOP_MEMBERS,
//                        which spindle/loop.py calls or replaces.
//
// Functions without documentation: _Py_NewReference (objects are reused, with the reference count of a new
// one), _PyType_Lookup, _PyBytes_Resize, and before 3.13 _Py_HashPointer and _Py_IsFinalizing. The loader
// finds them when the module is imported, or refuses it.
#ifndef SPINDLE_INTERNALS_H
#define SPINDLE_INTERNALS_H

#include "core.h"

#define KNOWN_VERSIONS "CPython 3.11 to 3.14"

#if PY_VERSION_HEX >= 0x030E0000
#define OLDEST_GENERATION 1 // the collector is incremental
#else
#define OLDEST_GENERATION 2
#endif

#define STREAM_READER_ATTRIBUTES "_limit", "_loop", "_buffer", "_eof", "_waiter", "_exception", "_transport", "_paused"

#define LOOP_MEMBERS \
    "_add_callback_signalsafe", "_add_reader", "_add_writer", "_asyncgen_finalizer_hook", "_asyncgen_firstiter_hook", \
        "_check_closed", "_check_running", "_make_datagram_transport", "_make_socket_transport", "_make_ssl_transport", \
        "_remove_reader", "_remove_writer", "_run_once", "_set_coroutine_origin_tracking", "_write_to_self"

int internals_check(void); // -1 with an ImportError
bool internals_refuse(const char *needed); // raise it; returns false

#endif
