// What the server's two halves share: Go, which speaks HTTP, and C, which calls the app.
//
// Each half has a buffer that only the other one empties. Go fills in while the loop
// polls, C reads it afterwards; C fills out, Go reads it when the next poll begins. Both
// run on the loop's thread, never at the same time.
#ifndef SPINDLE_MAILBOX_H
#define SPINDLE_MAILBOX_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data;
    size_t len, cap;
} SpindleBuffer;

typedef struct {
    SpindleBuffer in;   // for Python
    SpindleBuffer out;  // for Go
    uint8_t *held;      // by slot: the client reads too slowly; written by Go
} SpindleMailbox;

// A record in a buffer. Records begin at multiples of 8.
typedef struct {
    uint32_t size; // of the record and its payload, without padding
    uint16_t kind;
    uint16_t flags;
    uint32_t slot; // which request or socket
    uint32_t n;
} SpindleRecord;

// Records for Python.
enum {
    SPINDLE_REQUEST = 1, // SpindleHead, n SpindleFields, and the bytes that they count
    SPINDLE_BODY,        // a piece of the request's body
    SPINDLE_END,         // the request is complete
    SPINDLE_GONE,        // the client has disconnected, and may still read; or n is the status for its bad body
    SPINDLE_LOST,        // the connection has ended
    SPINDLE_WRITABLE,    // the client has caught up
    SPINDLE_DRAINED,     // the last connection has ended
    SPINDLE_TEXT,        // a message of a WebSocket
    SPINDLE_BINARY,
    SPINDLE_CLOSED, // a WebSocket has ended; n is the code, the payload is the reason
};

// Flags of SPINDLE_REQUEST.
enum {
    SPINDLE_HTTP10 = 1,     // the client speaks HTTP/1.0
    SPINDLE_PERSISTS = 2,   // the connection can serve another request
    SPINDLE_EXPECTS = 4,    // the client waits for a 100 before it sends the body
    SPINDLE_WEBSOCKET = 8,  // the request opens a WebSocket
    SPINDLE_SECURE = 16,    // by TLS
    SPINDLE_COMPLETE = 32,  // there is no body
    SPINDLE_KEEPALIVE = 64, // the client wants to keep the connection
    SPINDLE_TRAILERS = 128, // the client takes trailers
    SPINDLE_HTTP2 = 256,    // on a stream of HTTP/2
};

typedef struct {
    int64_t length;   // of the body; -1 if it is chunked
    uint32_t method;  // bytes of each part
    uint32_t path;
    uint32_t query;
    uint32_t remote;  // the client's host
    uint32_t port;    // the client's port
    uint32_t local;   // index of the listener
} SpindleHead;

typedef struct {
    uint32_t name, value;
} SpindleField;

// Records for Go. On a stream of HTTP/2, SPINDLE_ANSWER and SPINDLE_PIECE have only the body.
enum {
    SPINDLE_ANSWER = 1,// bytes of the response
    SPINDLE_PIECE,     // bytes of the response that C keeps until the records are taken; a SpindlePiece
    SPINDLE_FINISH,    // the response is complete; n is its status, the payload its SpindleEnd
    SPINDLE_ABORT,     // the response cannot be completed
    SPINDLE_CONTINUE,  // send a 100
    SPINDLE_CONSUMED,  // n bytes of the body were taken
    SPINDLE_FILE,      // send a file; the payload is a SpindleFile and the path
    SPINDLE_ACCEPT,    // open the WebSocket; the payload has n fields like a request
    SPINDLE_DENY,      // answer the WebSocket's request: status n, fields like a request
    SPINDLE_DENY_BODY, // a piece of the body of that answer
    SPINDLE_DENY_END,
    SPINDLE_SEND_TEXT,
    SPINDLE_SEND_BINARY,
    SPINDLE_CLOSE, // of a WebSocket; n is the code, the payload is the reason
    SPINDLE_HEAD,  // on a stream: the head of a response, also an interim one; n is the status, the payload its fields as lines
    SPINDLE_TRAIL, // on a stream: the trailers, as lines
};

// Flags of SPINDLE_HEAD.
enum { SPINDLE_ENDS = 1 }; // the response has no body

typedef struct {
    const char *data;
    size_t len;
} SpindlePiece;

// Flags of SPINDLE_FINISH.
enum { SPINDLE_CLOSES = 1 }; // the head has announced the end of the connection

typedef struct {
    int64_t bytes; // of the body
} SpindleEnd;

typedef struct {
    int64_t size; // how much of the file the head has announced
} SpindleFile;

#endif
