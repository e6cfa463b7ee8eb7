/* store_pg_write.c - writes go to PostgreSQL in the order they came, many in one transaction.
 * For queues, through store.h.
 *   The loop takes what waits as a group, sends it as one unit and answers. A large group
 * becomes statements on the pool, a small one where it is taken. When a transaction fails for
 * one of its writes, each is tried alone: the failure was definite. When it waited too long
 * for one of them, as for a lock of another session, that one and all of its partitions are
 * told so, and the others are sent again. For a while after that locks are waited for shortly,
 * since one that waits holds up all that come behind.
 *   Invariants
 *   1. One group is on its way at a time, and nothing behind it before its outcome is known: so
 *      writes are applied in order, also those that are tried again.
 *   2. Every write first locks the row of its partition with its epoch; without one the
 *      transaction fails.
 *   3. After an unknown outcome nothing more is sent until recover.
 *   4. A write of no part is a heartbeat: it takes the way of the others, in a transaction of
 *      its own, because other servers write the same row. */
#include "queue/store/pg/store_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_PARTS_MAX = 2 };
enum {
    LOCKED_S = 10,
    LOCKED_PATIENCE = 32 /* the part of a write's time */,
    LOCKED_SQL_BYTES = 80
};
/* What ops and parts cost beside their bytes: as much time as sending so many bytes. */
enum { OP_WEIGHT = 512, PART_WEIGHT = 2048 };
#define LOCKED_STATE "55P03"

/* Writes that wait are linked through their own memory. */
static struct queue_write **next_of(struct queue_write *w)
{
    return (struct queue_write **)(void *)&w->store_own[0];
}

/* ---- taking what waits ---- */

static uint64_t batches_bytes(const struct queue_write *w)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < w->parts_count; i++)
        for (unsigned k = 0; k < w->parts[i].ops_count; k++)
            if (w->parts[i].ops[k].kind == OP_BATCH_PUT)
                n += w->parts[i].ops[k].u.batch.bytes.n;
    return n;
}

/* Its transaction need not wait for the disk. */
static bool is_lazy(const struct queue_write *w)
{
    return w->early || w->unsynced;
}

static uint64_t write_weight(const struct queue_write *w)
{
    uint64_t n = batches_bytes(w);
    for (unsigned i = 0; i < w->parts_count; i++)
        n += PART_WEIGHT + (uint64_t)w->parts[i].ops_count * OP_WEIGHT;
    return n;
}

/* The writes at the front that go together: all to be synced, or none. False: nothing waits, and no
 * group is on its way. */
static bool take_group(struct store_pg *s, struct pg_group *g)
{
    uint64_t bytes = 0;
    g->count = g->at = 0;
    g->weight = 0;
    g->each = false;
    pthread_mutex_lock(&s->lock);
    while (s->first != NULL && g->count < PG_GROUP_WRITES_MAX) {
        struct queue_write *w = s->first;
        /* A heartbeat goes alone (invariant 4). */
        bool alone = w->parts_count == 0 || (g->count > 0 && g->writes[0]->parts_count == 0);
        bytes += batches_bytes(w);
        if (g->count > 0 &&
            (alone || bytes > PG_GROUP_BYTES_MAX || is_lazy(w) != is_lazy(g->writes[0])))
            break;
        s->first = *next_of(w);
        if (s->first == NULL)
            s->last = NULL;
        s->waiting--;
        g->writes[g->count++] = w;
        g->weight += write_weight(w);
    }
    /* Set under the lock: a write that comes now starts a turn, or finds one running. */
    s->running = g->count > 0;
    pthread_mutex_unlock(&s->lock);
    return g->count > 0;
}

/* ---- sending ---- */

static const char LAZY_SQL[] = "SELECT set_config('synchronous_commit', 'off', true)";

/* Fails when the row is not there. */
static const char BEAT_SQL[] = "WITH b AS (UPDATE queue_store SET beats = beats + 1 RETURNING 1)"
                               " SELECT 1 / count(*)::int4 FROM b";

static void add_setting(struct pg_group *g, const char *sql)
{
    g->tags[g->statements] = PG_TAG_OTHER;
    g->list[g->statements++] = (struct pg_statement){ .sql = sql };
}

/* Of this transaction alone. */
static void add_patience(struct pg_group *g)
{
    struct store_pg *s = g->s;
    char *sql = arena_alloc(&g->arena, LOCKED_SQL_BYTES);
    g->full |= sql == NULL;
    if (sql == NULL)
        return;
    (void)snprintf(sql, LOCKED_SQL_BYTES, "SELECT set_config('lock_timeout', '%lld', true)",
                   (long long)s->timeout_ms / LOCKED_PATIENCE + 1); /* 0 is for ever */
    add_setting(g, sql);
}

static bool was_locked(const struct store_pg *s)
{
    return s->locked_at.ns != 0 && clock_mono(s->clock).ns < s->locked_at.ns + LOCKED_S * NS_PER_S;
}

static void add_write(struct pg_group *g, const struct queue_write *w)
{
    for (unsigned k = 0; k < w->parts_count; k++)
        pg_group_add_part(g, &w->parts[k]);
    if (w->parts_count > 0)
        return;
    g->tags[g->statements] = PG_TAG_BEAT;
    g->list[g->statements++] = (struct pg_statement){ .sql = BEAT_SQL };
}

/* Loop or pool: the writes on their way become statements. */
static bool group_build(struct pg_unit *u)
{
    struct pg_group *g = CONTAINER_OF(u, struct pg_group, unit);
    struct queue_write *const *writes = &g->writes[g->at];
    size_t room = (size_t)g->sending * WRITE_PARTS_MAX * PG_PART_STATEMENTS + 2;
    g->statements = 0;
    g->full = false;
    g->list = arena_calloc(&g->arena, room, sizeof(*g->list));
    g->tags = arena_calloc(&g->arena, room, sizeof(*g->tags));
    if (g->list == NULL || g->tags == NULL)
        return false;
    if (is_lazy(writes[0]))
        add_setting(g, LAZY_SQL);
    if (was_locked(g->s))
        add_patience(g);
    for (unsigned i = 0; i < g->sending; i++) {
        add_write(g, writes[i]);
        g->ends[i] = g->statements;
    }
    u->list = g->list;
    u->count = g->statements;
    return !g->full;
}

/* What the outcome of a transaction says of its writes. */
static err result_of(const struct pg_group *g, const struct pg_outcome *o)
{
    if (o->why == ERR_OK || o->why == ERR_IO)
        return o->why;
    enum pg_tag tag = o->failed < g->statements ? g->tags[o->failed] : PG_TAG_OTHER;
    if (o->why == ERR_PRECONDITION && tag == PG_TAG_FENCE)
        return ERR_CONFLICT;
    if (o->why == ERR_PRECONDITION)
        return tag == PG_TAG_OTHER ? ERR_UNAVAILABLE : ERR_CORRUPT;
    return o->why == ERR_DENIED ? ERR_UNAVAILABLE : o->why;
}

/* Its own words for conditions of ours say nothing to who reads them. */
static void keep_words(struct store_pg *s, err why, const struct pg_outcome *o)
{
    struct pg_outcome told = *o;
    if (why == ERR_CORRUPT)
        err_note_set(&told.note,
                     "a row that a write needs is gone, or contradicts it (SQLSTATE %s)", o->state);
    if (why != ERR_CONFLICT)
        store_pg_keep(s, &told);
}

static void group_answered(struct pg_unit *u);

/* One transaction of count writes, from at on. */
static void group_send(struct pg_group *g, unsigned count)
{
    g->sending = count;
    g->statements = 0; /* until it is built: on a connection that broke it never is */
    g->unit = (struct pg_unit){ .build = group_build,
                                .weight = g->each ? write_weight(g->writes[g->at]) : g->weight,
                                .deadline = store_pg_deadline(g->s),
                                .done = group_answered };
    pg_start(g->s->conn, &g->unit);
}

/* Answers those that are late, or all when the store has failed; what is left is to be sent. */
static void sort_out(struct pg_group *g)
{
    mono now = clock_mono(g->s->clock);
    bool failed = store_pg_failed(g->s);
    unsigned left = 0;
    for (unsigned i = 0; i < g->count; i++) {
        struct queue_write *w = g->writes[i];
        if (failed)
            w->done(w, ERR_UNAVAILABLE);
        else if (w->deadline.ns > 0 && now.ns >= w->deadline.ns)
            w->done(w, ERR_TIMEOUT);
        else
            g->writes[left++] = w;
    }
    g->count = left;
}

static bool shares_partition(const struct queue_write *a, const struct queue_write *b)
{
    for (unsigned i = 0; i < a->parts_count; i++)
        for (unsigned k = 0; k < b->parts_count; k++)
            if (a->parts[i].part.queue == b->parts[k].part.queue &&
                a->parts[i].part.partition == b->parts[k].part.partition)
                return true;
    return false;
}

/* Tells the write that was waited for in vain, and those of its partitions: they would wait for the
 * same in turn. */
static void drop_stuck(struct pg_group *g, unsigned at)
{
    struct queue_write *stuck = g->writes[at];
    unsigned left = 0;
    for (unsigned i = 0; i < g->count; i++) {
        struct queue_write *w = g->writes[i];
        if (w != stuck && shares_partition(w, stuck))
            w->done(w, ERR_TIMEOUT);
        else if (w != stuck)
            g->writes[left++] = w;
    }
    g->count = left;
    stuck->done(stuck, ERR_TIMEOUT);
}

/* ---- outcomes ---- */

/* The next group has a turn of the loop of its own: many may have to be refused. */
static void turn_soon(struct store_pg *s)
{
    home_post(loop_home(s->loop), &s->turn);
}

/* Those that are to be sent yet, all together. */
static void group_go(struct pg_group *g)
{
    sort_out(g);
    if (g->count > 0)
        group_send(g, g->count);
    else
        turn_soon(g->s);
}

/* Nothing of them was committed: each alone. */
static void group_go_each(struct pg_group *g)
{
    struct store_pg *s = g->s;
    while (g->at < g->count && store_pg_failed(s)) {
        struct queue_write *w = g->writes[g->at++];
        w->done(w, ERR_UNAVAILABLE);
    }
    if (g->at < g->count)
        group_send(g, 1);
    else
        store_pg_turn(&s->turn);
}

/* Which of the writes on their way has the statement that failed; as many as there are: none. */
static unsigned stuck_at(const struct pg_group *g, const struct pg_outcome *o)
{
    unsigned at = 0;
    while (at < g->sending && o->failed >= g->ends[at])
        at++;
    return at;
}

static void group_answered(struct pg_unit *u)
{
    struct pg_group *g = CONTAINER_OF(u, struct pg_group, unit);
    struct store_pg *s = g->s;
    const struct pg_outcome *o = &u->out;
    /* Statements did not fit into the arena: nothing was sent. */
    err why = o->why == ERR_LIMIT ? ERR_LIMIT : result_of(g, o);
    unsigned stuck = o->why == ERR_TIMEOUT ? stuck_at(g, o) : g->sending;
    keep_words(s, why, o);
    if (strcmp(o->state, LOCKED_STATE) == 0)
        s->locked_at = clock_mono(s->clock);
    if (pg_broken(s->conn))
        store_pg_fail(s);
    arena_reset(&g->arena);
    /* Tried alone: this outcome is the write's own. */
    if (g->each) {
        struct queue_write *w = g->writes[g->at++];
        w->done(w, why);
        group_go_each(g);
        return;
    }
    if (why == ERR_TIMEOUT && stuck < g->sending) {
        drop_stuck(g, stuck);
        group_go(g);
        return;
    }
    /* A definite failure of one write failed all: each is tried alone, to find which. */
    g->each = g->count > 1 && why != ERR_OK && why != ERR_IO && why != ERR_TIMEOUT;
    if (g->each) {
        group_go_each(g);
        return;
    }
    for (unsigned i = 0; i < g->count; i++)
        g->writes[i]->done(g->writes[i], why);
    store_pg_turn(&s->turn);
}

void store_pg_turn(struct task *t)
{
    struct store_pg *s = CONTAINER_OF(t, struct store_pg, turn);
    MAGIC_CHECK(s, STORE_PG_MAGIC);
    if (take_group(s, &s->group))
        group_go(&s->group);
    else
        store_pg_settle(s);
}

/* ---- */

struct beat {
    struct queue_write write;
    struct queue_later *later;
};

static void beaten(struct queue_write *w, err why)
{
    struct beat *b = CONTAINER_OF(w, struct beat, write);
    struct queue_later *later = b->later;
    later->why = why;
    free(b);
    home_post(later->home, &later->task);
}

err store_pg_heartbeat(struct queue_store *q, mono deadline, struct queue_later *later)
{
    struct wait_later blocked;
    if (store_pg_failed(store_pg_of(q)))
        return ERR_IO; /* nothing but recover helps, and another process may own its partitions by
                          then */
    struct beat *b = calloc(1, sizeof *b);
    INVARIANT(b != NULL);
    *b = (struct beat){ .write = { .deadline = deadline, .done = beaten },
                        .later = later == NULL ? wait_later_begin(&blocked) : later };
    store_pg_write(q, &b->write);
    return later == NULL ? wait_later_outcome(&blocked, ERR_AGAIN) : ERR_AGAIN;
}

void store_pg_write(struct queue_store *q, struct queue_write *w)
{
    struct store_pg *s = store_pg_of(q);
    INVARIANT(w->parts_count <= WRITE_PARTS_MAX);
    *next_of(w) = NULL;
    pthread_mutex_lock(&s->lock);
    err why = s->failed ? ERR_UNAVAILABLE : s->waiting >= PG_WAITING_MAX ? ERR_LIMIT : ERR_OK;
    bool start = why == ERR_OK && !s->running;
    if (why == ERR_OK) {
        if (s->last == NULL)
            s->first = w;
        else
            *next_of(s->last) = w;
        s->last = w;
        s->waiting++;
        s->running = true;
    }
    pthread_mutex_unlock(&s->lock);
    if (why != ERR_OK)
        w->done(w, why);
    if (start)
        turn_soon(s);
}
