/* call.h - sends the requests of one item, one after another, and says what became of it. Private
 * to change.
 *
 * Model. The next request is sent when the one before is done, or ignored. The first that is
 * neither ends the call: an item that is run again begins with its first request. Each request has
 * the rule's time-out for itself; nothing else ends it, so a runner may think for hours before its
 * first byte. Redirects are never followed. Of a reply's body the first line that has text is kept,
 * for people; the rest is read and dropped. A body of more than CHANGE_REPLY_BYTES_MAX is cut off,
 * and its status counts.
 * Thread: the loop's. */
#ifndef CHANGE_CALL_H
#define CHANGE_CALL_H

#include "change/judge.h"
#include "change/request.h"
#include "http/client.h"

enum {
    CHANGE_REPLY_BYTES_MAX = 16 << 20,
    CHANGE_REPLY_ROOM = 256 << 10, /* that a reply's head takes in the arena, at most */
};

/* The caller's memory until done. */
struct change_call {
    /* in; borrowed until done */
    struct http_client *client;
    struct loop *loop;
    struct clock *clock;
    const struct rule *rule;
    const struct change_requests *requests;
    struct arena *arena; /* has CHANGE_REPLY_ROOM left; nobody else takes of it meanwhile */
    /* Once, on the loop, never inside change_call_start or change_call_cancel. */
    void (*done)(struct change_call *c);
    void *ctx;
    /* out: of the last request that was sent; DONE if one of them was done, and all were done or
     * ignored */
    struct change_result result;
    unsigned finished; /* requests that were done or ignored */
    /* call.c's */
    uint32_t magic;
    struct http_call call;
    struct arena_mark mark;
    size_t reply_bytes;
    bool cut, canceled, any_done;
    size_t line_n;
    char line[CHANGE_ERROR_BYTES_MAX];
};
void change_call_start(struct change_call *c);
/* done comes soon, with STOPPED: but if the answer is on its way already, with what that says. c
 * was started, and done was not called yet. */
void change_call_cancel(struct change_call *c);

#endif
