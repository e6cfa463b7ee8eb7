#include "odd_transport.h"

#include "http/worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_BYTES = 4096, SLOW_BYTES = 2048, CRUMB_BYTES = 997, STUTTER = 3 };

struct word {
    char held[HELD_BYTES];
    size_t at, n;
    uint64_t moved;
    unsigned calls;
};

static atomic_uint alive, calls, die_at;

static struct word *word_of(struct http_conn *c)
{
    if (c->carried == NULL) {
        c->carried = calloc(1, sizeof(struct word));
        INVARIANT(c->carried != NULL);
        atomic_fetch_add(&alive, 1);
    }
    return c->carried;
}

static void odd_shutdown(struct http_conn *c, enum transport_end how)
{
    transport_plain.shutdown(c, how);
    if (how != TRANSPORT_OVER || c->carried == NULL)
        return;
    free(c->carried);
    c->carried = NULL;
    INVARIANT(atomic_fetch_sub(&alive, 1) > 0);
}

/* ---- crumbs ---- */

static size_t crumb(struct word *w, size_t most)
{
    size_t n = w->moved < SLOW_BYTES ? 1 + w->moved % 3 : CRUMB_BYTES;
    n = n < most ? n : most;
    w->moved += n;
    return n;
}

static ssize_t crumbs_read(struct http_conn *c, char *at, size_t most)
{
    struct word *w = word_of(c);
    if (w->at == w->n) {
        ssize_t n = transport_plain.read(c, w->held, sizeof w->held);
        if (n <= 0)
            return n;
        w->at = 0;
        w->n = (size_t)n;
    }
    size_t left = w->n - w->at, n = crumb(w, most < left ? most : left);
    memcpy(at, w->held + w->at, n);
    w->at += n;
    c->holds = w->at < w->n;
    if (c->holds)
        worker_again(c);
    return (ssize_t)n;
}

static ssize_t crumbs_writev(struct http_conn *c, const struct iovec *v, unsigned count)
{
    INVARIANT(count > 0);
    const struct iovec one = { .iov_base = v[0].iov_base,
                               .iov_len = crumb(word_of(c), v[0].iov_len) };
    return transport_plain.writev(c, &one, 1);
}

const struct http_transport transport_crumbs = {
    .read = crumbs_read, .writev = crumbs_writev, .want = worker_wants, .shutdown = odd_shutdown
};

/* ---- stutter ---- */

static bool stutters(struct http_conn *c)
{
    return ++word_of(c)->calls % STUTTER == 0;
}

static ssize_t stutter_read(struct http_conn *c, char *at, size_t most)
{
    return stutters(c) ? TRANSPORT_LATER : transport_plain.read(c, at, most);
}

static ssize_t stutter_writev(struct http_conn *c, const struct iovec *v, unsigned count)
{
    return stutters(c) ? 0 : transport_plain.writev(c, v, count);
}

const struct http_transport transport_stutter = {
    .read = stutter_read, .writev = stutter_writev, .want = worker_wants, .shutdown = odd_shutdown
};

/* ---- dying ---- */

void odd_die_at(unsigned call)
{
    atomic_store(&calls, 0);
    atomic_store(&die_at, call);
}

static bool dies(struct http_conn *c)
{
    (void)word_of(c);
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&die_at);
}

static ssize_t dying_read(struct http_conn *c, char *at, size_t most)
{
    return dies(c) ? -1 : transport_plain.read(c, at, most);
}

static ssize_t dying_writev(struct http_conn *c, const struct iovec *v, unsigned count)
{
    return dies(c) ? -1 : transport_plain.writev(c, v, count);
}

const struct http_transport transport_dying = {
    .read = dying_read, .writev = dying_writev, .want = worker_wants, .shutdown = odd_shutdown
};

/* ---- which ---- */

const struct http_transport *odd_transport(void)
{
    const char *name = getenv("HTTP_TEST_TRANSPORT");
    if (name == NULL)
        return NULL;
    INVARIANT(strcmp(name, "crumbs") == 0 || strcmp(name, "stutter") == 0);
    return strcmp(name, "crumbs") == 0 ? &transport_crumbs : &transport_stutter;
}

unsigned odd_alive(void)
{
    return atomic_load(&alive);
}
