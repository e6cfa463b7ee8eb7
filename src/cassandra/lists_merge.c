/* lists_merge.c - see lists_merge.h.
 *
 * A lane is
 *   EMPTY    its next page is to be read
 *   READING  its read is under way; only what ends the read touches the lane, and says so last
 *   FULL     it stands on a title
 *   OVER     there is no title behind those that it gave
 * Invariants: (1) while a lane is EMPTY or READING, no title is given: its next may be the least.
 * (2) A page that has fewer rows than were asked for is the last one. */
#include "cassandra/lists_merge.h"

#include "store/page_read.h"

#include <stdlib.h>
#include <string.h>

enum { LANE_BYTES_MAX = LISTS_ROWS_MAX * (PAGE_TITLE_BYTES_MAX + 16) };

enum lane_state { LANE_EMPTY, LANE_READING, LANE_FULL, LANE_OVER };
struct lane {
    struct lists_merge *merge;
    enum lane_state state;
    unsigned bucket, rows; /* rows: asked for */
    int8_t shard;
    bool last; /* no page follows */
    struct buf page;
    struct cursor rest; /* of the page */
    str title;          /* FULL: on which it stands */
    store_time until;
    size_t after_bytes; /* from where the next page begins: behind this title */
    bool after_is;
    char after[PAGE_TITLE_BYTES_MAX + 1];
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    err why;
    atomic_bool read; /* the read has ended */
};
struct lists_merge {
    struct lists_merge_opts opts;
    struct lane *lanes;
    unsigned lanes_count, reading;
    uint64_t reads;
    err why;
};

struct lists_merge *lists_merge_new(const struct lists_merge_opts *o)
{
    INVARIANT(o->buckets_count <= LISTS_BUCKETS_MAX);
    struct lists_merge *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    *m = (struct lists_merge){ .opts = *o, .lanes_count = o->buckets_count * LISTS_SHARDS };
    m->lanes = calloc(m->lanes_count + 1, sizeof *m->lanes);
    INVARIANT(m->lanes != NULL);
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
    if (atomic_fetch_add(&t->waiting, 1) != 0)
        return; /* who steps just now sees it */
    unsigned seen = 1;
    while (seen != 0) {
        t->taken += seen;
        if (t->step(t))
            return;
        seen = atomic_fetch_sub(&t->waiting, seen) - seen;
    }
}

/* ---- reading a page ---- */

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
    struct lists_turns *turns = l->merge->opts.turns;
    l->why = q->out.why == ERR_OK ? page_take(l) : q->out.why;
    cql_outcome_fini(&q->out);
    cql_values_fini(&l->values);
    atomic_store(&l->read, true);
    lists_turned(turns);
}

/* The least title behind another one is that with a NUL behind it. */
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

static void page_ended(struct lists_merge *m, struct lane *l)
{
    m->reading--;
    l->state = LANE_EMPTY;
    atomic_store(&l->read, false);
    if (l->why != ERR_OK) {
        m->why = m->why == ERR_OK ? l->why : m->why;
        return;
    }
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
    memcpy(l->after, l->title.p, l->title.n);
    l->after_bytes = l->title.n;
    l->after_is = true;
    l->state = LANE_FULL;
}

/* True: each lane stands on a title, or is over. */
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
    for (unsigned i = 0; i < m->lanes_count; i++) {
        const struct lane *l = &m->lanes[i];
        if (l->state == LANE_FULL && (least == NULL || str_cmp(l->title, least->title) < 0))
            least = l;
    }
    if (least == NULL)
        return LISTS_OVER;
    *out = (struct lists_title){ .title = least->title, .until = least->until };
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
