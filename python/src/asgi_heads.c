// Heads of responses that wait for the first piece of the body, to be sent with it. If the app waits for something
// else meanwhile, its client gets the head alone: of a stream, the first piece may come much later.
//
// The list needs no references: it has exchanges of server->running only.
#include "asgi.h"

void heads_add(Exchange *x) {
    Server *s = x->server;
    x->head_waits = true;
    x->head_prev = NULL;
    x->head_next = s->heads;
    if (s->heads)
        s->heads->head_prev = x;
    s->heads = x;
}

void heads_remove(Exchange *x) {
    if (!x->head_waits)
        return;
    x->head_waits = x->head_polled = false;
    if (x->head_prev)
        x->head_prev->head_next = x->head_next;
    else
        x->server->heads = x->head_next;
    if (x->head_next)
        x->head_next->head_prev = x->head_prev;
    x->head_prev = x->head_next = NULL;
}

// server_send_heads is called before a poll: every app has run until it waits. If the poll does not wait, other
// callbacks may be about to make an app go on, so a head stays for one more poll.
void server_send_heads(Loop *l, bool waits) {
    Server *s = (Server *)l->server;
    for (Exchange *x = s->heads, *next; x; x = next) {
        next = x->head_next;
        if (waits || x->head_polled)
            http_send_head(x);
        else
            x->head_polled = true;
    }
}
