/* limiter.h - who may call another machine now, and who waits for a turn.
 *
 * Model. A caller enters with a pass and a key: the origin (host and port), the domain it calls
 * for, and the kind of call. The keys are a tree: all, origins, domains of an origin, kinds of a
 * domain. Each level has limits, and a pass is let in when no level of its key is full. Passes of
 * one key are let in in order of arrival. Where several keys could be, they take turns at each
 * level: first the origins, then the domains of one, then the kinds of one. So a busy or hung
 * domain delays nobody but itself.
 *
 *   OUT --> WAITING --> GRANTED --> IN --> RESTING        and from each back to OUT
 *     \--------------------------/
 *
 * A pass that is IN counts as running. A holder (LIMITER_HOLDS) keeps memory longer than it calls:
 * it counts as held from the moment it is let in until it leaves. limiter_rest ends its running
 * alone, and the next caller is let in.
 *
 * Limits change while passes run and wait. A lower limit takes nothing away: it holds for those
 * that come next. A key without limits of its own has those of its level. What a key needs is given
 * back when it has no pass and no limits of its own. So there are at most three places in memory
 * for each pass, and the caller bounds passes by waiting_max.
 *
 * One round robin at each level is the deficit round robin of Shreedhar and Varghese with calls of
 * one size. Letting somebody in costs a look at each level; only while held_max of all is reached
 * it costs a look at each key that waits.
 *
 * Thread: all functions from any thread but where said; go is called on the loop, without a lock of
 * ours: all may enter and leave there. */
#ifndef LOOP_LIMITER_H
#define LOOP_LIMITER_H

#include "base/heap.h"
#include "base/list.h"
#include "base/str.h"
#include "base/times.h"

struct limiter;
struct limiter_place; /* one key */
struct loop;

enum { LIMITER_NAME_BYTES_MAX = 512 }; /* of each part of a key */
enum limiter_level { LIMITER_ALL, LIMITER_ORIGIN, LIMITER_DOMAIN, LIMITER_KIND, LIMITER_LEVELS };
/* Each part may be empty: that is a name like others. A level looks at its part and those before.
 */
struct limiter_key {
    str origin, domain, kind;
};
/* 0: what the level says; when that is 0, too: no limit. */
struct limiter_limits {
    unsigned running_max, held_max;
    unsigned waiting_max; /* one more is refused */
};
enum limiter_state {
    LIMITER_OUT,
    LIMITER_WAITING,
    LIMITER_GRANTED, /* let in, and go is about to be called */
    LIMITER_IN,
    LIMITER_RESTING, /* a holder that runs no longer */
};
enum {
    LIMITER_HOLDS = 1,    /* counts as held until it leaves */
    LIMITER_UNREFUSED = 2 /* the caller bounds how many wait: it counts for no waiting_max */
};

/* The caller's memory while it is not OUT. All zero: OUT. */
struct limiter_pass {
    /* in */
    mono deadline; /* of waiting; LIMITER_NEVER: none */
    unsigned flags;
    /* Once, on the loop, after limiter_enter said WAITING. in: it is IN; else its deadline passed
     * and it is OUT. After a limiter_leave that returned true it is not called; that holds on the
     * loop's thread, while elsewhere the call may be under way. */
    void (*go)(struct limiter_pass *p, bool in);
    /* the limiter's */
    enum limiter_state state;
    struct list link;
    struct heap_node node;
    struct limiter_place *place;
    mono since;
};
#define LIMITER_NEVER ((mono){ .ns = INT64_MAX })

/* loop NULL: the caller calls limiter_turn itself, as a test with a clock of its own does. Dies
 * when out of memory. Thread: the loop's, or before it runs. */
struct limiter *limiter_new(struct loop *loop, struct clock *clock);
/* All passes are OUT. Thread: the loop's, or after it ran; before loop_free. */
void limiter_free(struct limiter **lp);

/* The limits of one key; key NULL: of all, or of each key of that level that has none of its own.
 * All zero takes a key's own limits away. The key is copied. */
void limiter_limit(struct limiter *l, enum limiter_level level, const struct limiter_key *key,
                   struct limiter_limits limits);
/* Those that hold for it now; 0: none. */
struct limiter_limits limiter_limits_of(struct limiter *l, enum limiter_level level,
                                        const struct limiter_key *key);

/* p is OUT. IN: it may call at once, and go is not called. WAITING: go says when. OUT: refused by a
 * waiting_max. The key is copied. */
MUST_CHECK enum limiter_state limiter_enter(struct limiter *l, const struct limiter_key *key,
                                            struct limiter_pass *p);
/* A holder that is IN rests; any other pass leaves. */
void limiter_rest(struct limiter *l, struct limiter_pass *p);
/* In each state; it is OUT then. True: it waited, and go is not called any more (see go). */
bool limiter_leave(struct limiter *l, struct limiter_pass *p);

/* Whoever waits, or comes to wait, with a deadline is late at once. For a drain. */
void limiter_close(struct limiter *l);

/* Now. A key that is idle and has no limits of its own has no figures: they begin anew. */
struct limiter_figures {
    uint64_t running, held, waiting, refused;
    int64_t wait_ns_max; /* the longest that anybody waited */
    uint64_t places;     /* in memory, for all keys */
};
/* key NULL: of all. */
void limiter_figures_get(struct limiter *l, enum limiter_level level, const struct limiter_key *key,
                         struct limiter_figures *out);

/* Calls go of those that were let in or are late by now. Thread: one, and only without a loop. */
void limiter_turn(struct limiter *l);
/* Dies unless counts, lists and limits agree; for tests: walks everything. */
void limiter_check(struct limiter *l);

#endif
