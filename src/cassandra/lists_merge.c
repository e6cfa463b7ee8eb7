/* lists_merge.c - merges the shards of buckets into titles in key order, for listings and walks.
 *
 * A lane is
 *   EMPTY    its next page must be read
 *   READING  its read is under way; only what ends the read touches the lane, and says so last
 *   FULL     it stands on a title
 *   OVER     its titles are used up
 * Invariants:
 *   1 while a lane is EMPTY or READING, no title is given: its next may be the least;
 *   2 a page that has fewer rows than were asked for is the last one;
 *   3 at most LISTS_READS_MAX lanes are READING. */
#include "cassandra/lists_merge.h"

#include "store/page_read.h"

#include <stdlib.h>
#include <string.h>

enum { LANE_BYTES_MAX = LISTS_ROWS_MAX * (PAGE_TITLE_BYTES_MAX + 16) };

enum lane_state { LANE_EMPTY, LANE_READING, LANE_FULL, LANE_OVER };
/* One shard of one bucket, and the page of titles that was read of it last. Owner: the merge. */
struct lane {
    struct lists_merge *merge;
    enum lane_state state;
    unsigned bucket, rows; /* rows: asked for */
    int8_t shard;
    bool last; /* no page follows */
    struct buf page;
    struct cursor rest; /* of the page */
    str title;          /* FULL: on which it stands */
    store_time until;   /* TITLES_STASHED: when the stash of this row ends */
    size_t after_bytes; /* from where the next page begins: behind this title */
    bool after_is;      /* after was given already, so the next page begins behind it */
    char after[PAGE_TITLE_BYTES_MAX + 1];
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    err why;          /* of the read; ERR_OK, or the merge has failed */
    atomic_bool read; /* the read has ended: set last, on the thread that ended it */
};
struct lists_merge {
    struct lists_merge_opts opts;
    struct lane *lanes;
    unsigned lanes_count, reading; /* reading: lanes whose read is under way */
    uint64_t reads;
    err why; /* of the first read that failed; no lane is read any more then */
};

struct lists_merge *lists_merge_new(const struct lists_merge_opts *o)
{
    INVARIANT(o->buckets_count <= LISTS_BUCKETS_MAX);
    struct lists_merge *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct lists_merge){ .opts = *o, .lanes_count = o->buckets_count * LISTS_SHARDS };
    m->lanes = calloc(m->lanes_count + 1, sizeof *m->lanes);
    INVARIANT(m->lanes != NULL);
    /* A longer place than any title still stands at the right place when it is cut: between titles.
     */
    str from = str_take(o->from, PAGE_TITLE_BYTES_MAX);
    for (unsigned i = 0; i < m->lanes_count; i++) {
        struct lane *l = &m->lanes[i];
        l->merge = m;
        l->bucket = i / LISTS_SHARDS;
        l->shard = (int8_t)(i % LISTS_SHARDS);
        l->rows = LISTS_ROWS_MIN;
        l->after_is = o->after;
        l->after_bytes = from.n;
        if (from.n > 0)
            memcpy(l->after, from.p, from.n);
        buf_init(&l->page, LANE_BYTES_MAX);
    }
    return m;
}

void lists_merge_free(struct lists_merge **mp)
{
    struct lists_merge *m = *mp;
    *mp = NULL;
    if (m == NULL)
        return;
    for (unsigned i = 0; i < m->lanes_count; i++)
        buf_fini(&m->lanes[i].page);
    free(m->lanes);
    free(m);
}

uint64_t lists_merge_reads(const struct lists_merge *m)
{
    return m->reads;
}

void lists_turned(struct lists_turns *t)
{
    /* The count is a lock and a bell: the part that moves it from 0 runs the steps, for all that
     * come meanwhile. */
    if (atomic_fetch_add(&t->waiting, 1) != 0)
        return; /* the thread that steps just now sees it, and steps once more */
    unsigned seen = 1;
    while (seen != 0) {
        /* Parts that ended before this step have turned; their results are seen by it. */
        t->taken += seen;
        if (t->step(t))
            /* The object is gone: not even `waiting` may be touched. */
            return;
        seen = atomic_fetch_sub(&t->waiting, seen) - seen;
    }
}

/* ---- reading a page ---- */

/* Copies the rows into the lane: the answer is freed before titles are given. */
static err page_take(struct lane *l)
{
    struct cql_rows rows = l->request.out.rows;
    bool stashes = l->merge->opts.statement == TITLES_STASHED;
    struct cql_cell cells[2];
    unsigned count = 0;
    buf_clear(&l->page);
    if (rows.columns == NULL || rows.columns->count != (stashes ? 2 : 1))
        return ERR_CORRUPT;
    while (cql_rows_next(&rows, cells)) {
        int64_t until = 0;
        str title;
        if (!cql_get_bytes(&cells[0], &title) || title.n == 0 || title.n > PAGE_TITLE_BYTES_MAX ||
            (stashes && !cql_get_i64(&cells[1], &until)))
            return ERR_CORRUPT;
        buf_put_str16(&l->page, title);
        buf_put_be64(&l->page, (uint64_t)until);
        count++;
    }
    l->last = count < l->rows;
    return rows.rest.failed ? ERR_CORRUPT : buf_status(&l->page);
}

static void page_done(struct cql_request *q)
{
    struct lane *l = CONTAINER_OF(q, struct lane, request);
    /* Taken first: once `read` is set, another thread may step and end the merge. */
    struct lists_turns *turns = l->merge->opts.turns;
    l->why = q->out.why == ERR_OK ? page_take(l) : q->out.why;
    cql_outcome_fini(&q->out);
    cql_values_fini(&l->values);
    atomic_store(&l->read, true);
    lists_turned(turns);
}

/* Asks for the lane's next page. The least title behind another one is that with a NUL behind it,
 * so the statement needs `>=` alone. */
static void page_read(struct lane *l)
{
    struct lists_merge *m = l->merge;
    const struct lists_merge_opts *o = &m->opts;
    l->state = LANE_READING;
    m->reading++;
    m->reads++;
    if (l->after_is)
        l->after[l->after_bytes++] = '\0';
    l->after_is = false;
    cql_values_init(&l->values, TITLES_KEY_BYTES_MAX + 64);
    lists_put_shard(&l->values, o->buckets[l->bucket], o->domain, l->shard);
    cql_put_bytes(&l->values, (str){ .p = l->after, .n = l->after_bytes });
    cql_put_i32(&l->values, (int32_t)l->rows);
    l->part =
        (struct cql_part){ .statement = o->titles->statements[o->statement], .values = &l->values };
    l->request = titles_request(o->titles, o->call, page_done);
    l->request.parts = &l->part;
    l->request.speculative = true;
    cql_start(o->titles->client, &l->request);
}

/* On the thread that steps: the read is over, and the lane is the merge's again. */
static void page_ended(struct lists_merge *m, struct lane *l)
{
    m->reading--;
    l->state = LANE_EMPTY;
    atomic_store(&l->read, false);
    if (l->why != ERR_OK) {
        m->why = m->why == ERR_OK ? l->why : m->why;
        return;
    }
    /* Most listings stop after a few titles, so the first pages are small; a long one soon reads
     * large ones. */
    l->rows = l->rows * 4 < LISTS_ROWS_MAX ? l->rows * 4 : LISTS_ROWS_MAX;
    l->rest = (struct cursor){ .rest = buf_str(&l->page) };
}

/* To the next title of the page; else EMPTY or OVER. */
static void lane_next(struct lane *l)
{
    if (l->rest.rest.n == 0) {
        l->state = l->last ? LANE_OVER : LANE_EMPTY;
        return;
    }
    l->title = cursor_str16(&l->rest);
    l->until = (store_time){ .ns = (int64_t)cursor_be64(&l->rest) };
    INVARIANT(!l->rest.failed);
    /* The lane remembers the title by a copy: the page goes when the next one is read. */
    memcpy(l->after, l->title.p, l->title.n);
    l->after_bytes = l->title.n;
    l->after_is = true;
    l->state = LANE_FULL;
}

/* Takes what was read, and starts reads where pages are used up. True: each lane stands on a title,
 * or is over. */
static bool lanes_fill(struct lists_merge *m)
{
    bool filled = true;
    for (unsigned i = 0; i < m->lanes_count; i++) {
        struct lane *l = &m->lanes[i];
        if (l->state == LANE_READING && atomic_load(&l->read)) {
            page_ended(m, l);
            if (l->why == ERR_OK)
                lane_next(l);
        }
        if (l->state == LANE_EMPTY && m->why == ERR_OK && m->reading < LISTS_READS_MAX)
            page_read(l);
        filled = filled && (l->state == LANE_FULL || l->state == LANE_OVER);
    }
    return filled;
}

enum lists_next lists_merge_next(struct lists_merge *m, struct lists_title *out, err *why)
{
    bool filled = lanes_fill(m);
    const struct lane *least = NULL;
    if (m->why != ERR_OK) {
        *why = m->why;
        return LISTS_FAILED;
    }
    if (!filled)
        return LISTS_WAIT;
    /* A few hundred lanes at most, and a title costs a load of its facts: no heap is needed. */
    for (unsigned i = 0; i < m->lanes_count; i++) {
        const struct lane *l = &m->lanes[i];
        if (l->state == LANE_FULL && (least == NULL || str_cmp(l->title, least->title) < 0))
            least = l;
    }
    if (least == NULL)
        return LISTS_OVER;
    *out = (struct lists_title){ .title = least->title, .until = least->until };
    /* A title of several buckets, or with several stashes, is given once. So all lanes that stand
     * on it move on. */
    for (unsigned i = 0; i < m->lanes_count; i++) {
        struct lane *l = &m->lanes[i];
        if (l->state != LANE_FULL || !str_eq(l->title, out->title))
            continue;
        out->buckets |= (uint64_t)1 << l->bucket;
        out->until = store_time_max(out->until, l->until);
        lane_next(l); /* its page stays as it is until the next look */
    }
    return LISTS_TITLE;
}
