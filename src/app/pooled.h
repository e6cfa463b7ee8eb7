/* pooled.h - requests whose work blocks, or takes long: it is done on the pool, and answered at the
 * request's home, so that the loop does neither.
 *
 * What such a call is about embeds a pooled as its first member, and lives in the memory of its
 * request. */
#ifndef APP_POOLED_H
#define APP_POOLED_H

#include "app/app.h"
#include "base/home.h"

struct pooled {
    struct http_exchange *x;
    struct app *app;
    void (*run)(struct pooled *p);    /* pool thread */
    void (*answer)(struct pooled *p); /* x's home; p may be gone behind it */
    struct home *home;
    struct task task;
};
/* size: of the whole, zeroed but for x and app. NULL: answered, there is no memory, or the server
 * drains. */
MUST_CHECK void *pooled_new(struct http_exchange *x, struct app *app, size_t size);
/* Defers x. Thread: the handler's. */
void pooled_start(struct pooled *p, void (*run)(struct pooled *p),
                  void (*answer)(struct pooled *p));

/* Once more, for a request that was started and is not answered. Thread: x's home. */
void pooled_again(struct pooled *p, void (*run)(struct pooled *p),
                  void (*answer)(struct pooled *p));

/* The same as pooled_start at once, on the handler's own thread: where the caller knows that it is
 * quick, and waits for nothing. */
void pooled_here(struct pooled *p, void (*run)(struct pooled *p), void (*answer)(struct pooled *p));

#endif
