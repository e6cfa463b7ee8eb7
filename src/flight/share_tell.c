/* share_tell.c - what is told to every server, on its way to Redis.
 *
 * Somebody may have fifty thousand things to tell at once. So what is told waits here, and
 * TELLS_AT_ONCE commands are on their way: those of all others find room in the connection.
 * Invariants: (1) texts go out in the order in which they were told; (2) what waits is bounded by
 * count and bytes; (3) of equal texts that will do once, one waits. */
#include "base/hash.h"
#include "base/list.h"
#include "flight/share_impl.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    TELLS_AT_ONCE = 64,
    TELLS_MAX = 200000, /* that wait; more are lost, as when Redis is away */
    TELLS_BYTES_MAX = 64 << 20,
    TELLS_A_TURN = 256, /* of the loop */
};
static const str tell_mark = STR_INIT(SHARE_TELL_MARK);

struct tell {
    struct share_tells *of;
    struct list link;
    struct hash_node node; /* once: in the table while it waits */
    bool once;
    size_t text_bytes; /* with the mark */
    char text[];
};

struct share_tells {
    struct flight_shared *shared;
    pthread_mutex_t lock;
    /* under the lock */
    struct list waiting;
    struct hash once;
    size_t count, bytes;
    uint64_t lost;
    bool posted, closed; /* closed: shared is gone */
    unsigned under_way;  /* loop */
};

static void tells_lock(struct share_tells *t)
{
    int failed = pthread_mutex_lock(&t->lock);
    INVARIANT(failed == 0);
}

static void tells_unlock(struct share_tells *t)
{
    int failed = pthread_mutex_unlock(&t->lock);
    INVARIANT(failed == 0);
}

static str tell_text(const struct tell *k)
{
    return (str){ .p = k->text, .n = k->text_bytes };
}

/* ---- what waits; under the lock ---- */

static uint64_t tell_hash(const struct share_tells *t, str text)
{
    return hash_of_str(text, t->shared->opts.seed);
}

static bool is_waiting(const struct share_tells *t, const struct tell *k)
{
    uint64_t hash = tell_hash(t, tell_text(k));
    for (struct hash_node *n = hash_first(&t->once, hash); n != NULL; n = hash_next(n))
        if (str_eq(tell_text(CONTAINER_OF(n, struct tell, node)), tell_text(k)))
            return true;
    return false;
}

static void tell_enter(struct share_tells *t, struct tell *k)
{
    list_append(&t->waiting, &k->link);
    if (k->once)
        hash_add(&t->once, &k->node, tell_hash(t, tell_text(k)));
    t->count++;
    t->bytes += k->text_bytes;
}

/* NULL: nothing waits. */
static struct tell *tell_take(struct share_tells *t)
{
    struct list *first = list_take(&t->waiting);
    struct tell *k = first == NULL ? NULL : CONTAINER_OF(first, struct tell, link);
    if (k == NULL)
        return NULL;
    if (k->once)
        hash_remove(&t->once, &k->node);
    t->count--;
    t->bytes -= k->text_bytes;
    return k;
}

/* ---- on the way ---- */

/* True: the caller, without the lock, is to post. */
static bool turn_wanted(struct share_tells *t)
{
    bool wanted = !t->posted && !t->closed && !list_empty(&t->waiting);
    t->posted |= wanted;
    return wanted;
}

static void turn_run(void *ctx);

static void turn_post(struct share_tells *t)
{
    loop_post(t->shared->opts.loop, turn_run, t);
}

static void tells_end(struct share_tells *t)
{
    hash_fini(&t->once);
    (void)pthread_mutex_destroy(&t->lock); /* nobody has it */
    free(t);
}

static void told(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct tell *k = ctx;
    struct share_tells *t = k->of;
    (void)reply;
    (void)note;
    free(k);
    t->under_way--;
    tells_lock(t);
    t->lost += why != ERR_OK;
    bool wanted = turn_wanted(t);
    tells_unlock(t);
    if (wanted)
        turn_post(t);
}

static void tell_send(struct tell *k)
{
    struct share_tells *t = k->of;
    str args[] = { STR("PUBLISH"), STR(SHARE_ALL_CHANNEL), tell_text(k) };
    t->under_way++;
    err why = redis_command(t->shared->redis, args, COUNT_OF(args), told, k);
    if (why != ERR_OK)
        told(k, why, NULL, NULL);
}

/* Sends until enough are on their way. Under the lock, which it leaves for each. */
static void turn_send(struct share_tells *t)
{
    for (unsigned n = 0; n < TELLS_A_TURN && t->under_way < TELLS_AT_ONCE; n++) {
        struct tell *k = tell_take(t);
        if (k == NULL)
            return;
        tells_unlock(t);
        tell_send(k);
        tells_lock(t);
    }
}

/* posted while it runs, so that nobody posts it meanwhile. */
static void turn_run(void *ctx)
{
    struct share_tells *t = ctx;
    tells_lock(t);
    bool closed = t->closed, wanted = false;
    if (!closed) {
        turn_send(t);
        t->shared->stats.tells_lost = t->lost;
        t->posted = false;
        wanted = t->under_way < TELLS_AT_ONCE && turn_wanted(t);
    }
    tells_unlock(t);
    if (closed) {
        tells_end(t);
        return;
    }
    share_show(t->shared);
    if (wanted)
        turn_post(t);
}

/* ---- from outside ---- */

void share_tells_add(struct share_tells *t, str text, bool once)
{
    struct tell *k = malloc(sizeof *k + tell_mark.n + text.n);
    INVARIANT(k != NULL);
    *k = (struct tell){ .of = t, .once = once, .text_bytes = tell_mark.n + text.n };
    memcpy(k->text, tell_mark.p, tell_mark.n);
    if (text.n > 0)
        memcpy(k->text + tell_mark.n, text.p, text.n);
    tells_lock(t);
    bool full = t->count >= TELLS_MAX || t->bytes + k->text_bytes > TELLS_BYTES_MAX;
    bool taken = !full && !(once && is_waiting(t, k));
    t->lost += full;
    if (taken)
        tell_enter(t, k);
    bool wanted = turn_wanted(t);
    tells_unlock(t);
    if (!taken)
        free(k);
    if (wanted)
        turn_post(t);
}

struct share_tells *share_tells_new(struct flight_shared *s)
{
    struct share_tells *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->shared = s;
    list_init(&t->waiting);
    hash_init(&t->once);
    int failed = pthread_mutex_init(&t->lock, NULL);
    INVARIANT(failed == 0);
    return t;
}

void share_tells_free(struct share_tells **tp)
{
    struct share_tells *t = *tp;
    *tp = NULL;
    tells_lock(t);
    for (struct tell *k = tell_take(t); k != NULL; k = tell_take(t))
        free(k);
    t->closed = true;
    bool posted = t->posted; /* then the loop ends it */
    tells_unlock(t);
    if (!posted)
        tells_end(t);
}
