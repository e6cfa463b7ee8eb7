/* values_keep.c - which rows of a key a policy keeps: the newest of each group. Pure, for writes
 * and the upkeep.
 *
 * Rows are in order, so a group is a run of them: of one revision, and with `interval` of one
 * interval of time too.
 * Invariant: a row's end is never later than `own`, its end without a policy. */
#include "cassandra/values_keep.h"

#include "base/buf.h"

#include <string.h>

#define TICKS_PER_S ((int64_t)10000000)
/* between the epoch of version-1 UUIDs and 1970 */
#define TICKS_AT_1970 ((int64_t)0x01b21dd213814000)

int values_row_cmp(const struct values_row *a, const struct values_row *b)
{
    if (a->rev != b->rev)
        return a->rev > b->rev ? -1 : 1;
    return memcmp(b->tid, a->tid, sizeof a->tid);
}

/* Does the policy hold rows against each other? The others look at each row alone. */
static bool compares(const struct table_keep *k)
{
    return k->kind != KEEP_ALL && k->kind != KEEP_TTL;
}

/* When the policy ends a row that it counts for itself, whatever others there are. */
static store_time policy_end(const struct table_keep *k, store_time written)
{
    return k->kind == KEEP_TTL ? store_time_add(written, k->grace_ttl_s * NS_PER_S)
                               : STORE_TIME_NEVER;
}

store_time values_put_end(const struct table_keep *k, store_time now, store_time own)
{
    return store_time_min(policy_end(k, now), own);
}

/* The row ends at that instant, or when it would without a policy, if that is before. moved: its
 * row has to be written. */
static void end_move(struct values_row *r, store_time wanted)
{
    store_time end = store_time_min(wanted, r->own);
    r->moved |= end.ns != r->expires.ns;
    r->expires = end;
}

/* The interval of time, counted from 1970. */
static int64_t interval_of(const struct table_keep *k, const struct values_row *r)
{
    /* tid keys begin with the time of the tid, most significant byte first, in ticks of 100 ns. */
    int64_t ticks = (int64_t)get_be64(r->tid) - TICKS_AT_1970, length = k->interval_s * TICKS_PER_S;
    /* Rounds down, also before 1970. */
    return ticks >= 0 ? ticks / length : -((-ticks + length - 1) / length);
}

static bool same_group(const struct table_keep *k, const struct values_row *a,
                       const struct values_row *b)
{
    return a->rev == b->rev && (k->kind != KEEP_INTERVAL || interval_of(k, a) == interval_of(k, b));
}

struct group {
    size_t from, until;
};

/* The rows that are counted together with `row`, which itself may have been deleted. */
static struct group group_of(const struct table_keep *k, const struct values_row *rows,
                             size_t count, const struct values_row *row)
{
    struct group g = { .from = 0 };
    while (g.from < count && !same_group(k, &rows[g.from], row))
        g.from++;
    g.until = g.from;
    while (g.until < count && same_group(k, &rows[g.until], row))
        g.until++;
    return g;
}

static bool is_alive(const struct values_row *r, store_time now)
{
    return store_time_before(now, r->expires);
}

static int64_t keep_count(const struct table_keep *k)
{
    return k->kind == KEEP_LATEST_HASH ? 1 : k->count;
}

static store_time fall_end(const struct table_keep *k, store_time now)
{
    return store_time_add(now, k->grace_ttl_s * NS_PER_S);
}

/* The newest rows stay, until as many as the policy keeps were counted. Rows whose own end comes
 * before the end of this grace are not counted: otherwise a short-lived row would push out a
 * lasting one. A row that had fallen out comes back. Returns the place of the first row that falls
 * out.
 */
static size_t group_stay(const struct table_keep *k, struct values_row *rows, struct group g,
                         store_time now)
{
    int64_t counted = 0;
    size_t i = g.from;
    for (; i < g.until && counted < keep_count(k); i++) {
        if (!is_alive(&rows[i], now))
            continue;
        /* It had fallen out: an end before its own is the policy's. */
        if (store_time_before(rows[i].expires, rows[i].own))
            end_move(&rows[i], STORE_TIME_NEVER);
        if (store_time_before(fall_end(k, now), rows[i].own))
            counted++;
    }
    return i;
}

/* The rows that fall out get their grace, unless they end before. */
static void group_fall(const struct table_keep *k, struct values_row *rows, size_t from,
                       size_t until, store_time now)
{
    for (size_t i = from; i < until; i++)
        if (is_alive(&rows[i], now) && store_time_before(fall_end(k, now), rows[i].expires))
            end_move(&rows[i], fall_end(k, now));
}

static bool values_keep_gone(struct err_note *note, const char *why)
{
    err_note_set(note, "revisionRetentionPolicy: %s: nothing is stored", why);
    return false;
}

bool values_keep_put(const struct table_keep *k, struct values_row *rows, size_t count, size_t put,
                     store_time now, struct err_note *note)
{
    if (!compares(k))
        return true;
    /* The first row that is alive, at the latest the put itself. */
    size_t first = 0;
    while (!is_alive(&rows[first], now) && first < put)
        first++;
    /* latest_hash compares by the order of the index, over all revisions that were read. */
    if (k->kind == KEEP_LATEST_HASH && rows[first].rev != rows[put].rev)
        return values_keep_gone(
            note, "latest_hash keeps the row that is first in the order of the index, and "
                  "one before this is there");
    struct group g = group_of(k, rows, count, &rows[put]);
    size_t behind = group_stay(k, rows, g, now);
    /* The row that is put falls out at once, and without grace it would never be seen. */
    if (put >= behind && k->grace_ttl_s == 0)
        return values_keep_gone(note, "it keeps newer rows than this, and grace_ttl is 0");
    group_fall(k, rows, behind, g.until, now);
    return true;
}

void values_keep_deleted(const struct table_keep *k, struct values_row *rows, size_t count,
                         const struct values_row *row, store_time now)
{
    if (compares(k))
        /* a deletion makes none fall out */
        (void)group_stay(k, rows, group_of(k, rows, count, row), now);
}

void values_keep_all(const struct table_keep *k, struct values_row *rows, size_t count,
                     store_time now)
{
    struct group g = { .from = 0 };
    for (; g.from < count; g.from = g.until) {
        if (!compares(k)) {
            g.until = g.from + 1;
            if (is_alive(&rows[g.from], now))
                /* From when it was written, and not from now: the sweep must give the same end each
                 * time. */
                end_move(&rows[g.from], policy_end(k, rows[g.from].written));
            continue;
        }
        g = group_of(k, rows, count, &rows[g.from]);
        group_fall(k, rows, group_stay(k, rows, g, now), g.until, now);
    }
}
