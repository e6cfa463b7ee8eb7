/* pages_bytes.c - renders whose fact is there while their bytes are not. For reads, puts and
 * upkeep.
 *
 * Fact and bytes of a put are one mutation, and a replica has both or neither. So a put that was
 * acknowledged has its bytes on a quorum. A put that failed, or is under way, may be on one replica
 * alone. A read of the facts sees the fact there, and brings the fact to a quorum by reading: but
 * the fact alone.
 * Invariants:
 *   1 a render whose bytes no quorum has was acknowledged to nobody. It is passed over, as if it
 *     had not been put;
 *   2 before a put is answered by a render that is there already, the bytes of that render are on a
 *     quorum: a read of a quorum leaves there what it found;
 *   3 what such a render superseded is not culled, while that render is the latest. Once a later
 *     put supersedes it, it counts as any other. So what it superseded has been superseded since
 *     then, and not since the later put. Why that stays so: docs/adr/0054. */
#include "cassandra/pages_impl.h"

#include <string.h>

/* Of one name there may be puts with other bytes; the digest says which one is meant. */
static bool is_of(const struct work_lost *l, const struct page_name *name,
                  const unsigned char *digest)
{
    return page_name_cmp(l->name, *name) == 0 && memcmp(l->digest, digest, sizeof l->digest) == 0;
}

/* A render is passed over only when a second look did not find its bytes either. */
static bool is_passed_over(const struct work *w, const struct fact *f)
{
    for (unsigned i = 0; i < w->lost_count; i++)
        if (w->lost[i].sure && f->what == FACT_PUT && is_of(&w->lost[i], &f->name, f->digest))
            return true;
    return false;
}

err work_pass_over(struct work *w)
{
    struct title_facts *in = &w->facts;
    if (w->lost_count == 0)
        return ERR_OK;
    /* A copy without them: the loaded facts stay as they are for the count of the title. */
    struct fact *facts = arena_alloc(&w->arena, (in->facts_count + 1) * sizeof *facts);
    if (facts == NULL)
        return ERR_LIMIT;
    size_t count = 0;
    for (size_t i = 0; i < in->facts_count; i++) {
        if (is_passed_over(w, &in->facts[i]))
            w->lost_at = store_time_max(w->lost_at, fact_arrived(&in->facts[i]));
        else
            facts[count++] = in->facts[i];
    }
    in->facts = facts;
    in->facts_count = count;
    return ERR_OK;
}

/* The first time the title is only looked at again: the render may have been culled, or its put
 * finished, since the facts were read. The second time it is passed over. */
void work_without(struct work *w, const struct page_row *row)
{
    struct work_lost *l = w->lost, *end = w->lost + w->lost_count;
    while (l < end && !is_of(l, &row->r.name, row->digest))
        l++;
    /* So many renders without bytes are no failed puts: something has gone wrong with the table. */
    if (l == end && w->lost_count == WORK_LOST_MAX) {
        work_end(w, ERR_CORRUPT);
        return;
    }
    if (l < end) {
        l->sure = true;
        work_tell_lost(w);
    } else {
        *l = (struct work_lost){ .name = row->r.name, .sure = false };
        memcpy(l->digest, row->digest, sizeof l->digest);
        w->lost_count++;
    }
    work_load(w, w->load.call.home);
}

/* ---- are they there? ---- */

/* One look at all contents of a render. */
struct looking { /* in the work's arena */
    struct work *work;
    struct page_row row;
    unsigned at; /* of its contents */
    struct titles_body body;
    struct arena_mark mark;
    void (*then)(struct work *w, err why);
};

static void look_next(struct looking *l);

static void pages_bytes_looked(struct store_call *c)
{
    struct titles_body *b = CONTAINER_OF(c, struct titles_body, call);
    struct looking *l = CONTAINER_OF(b, struct looking, body);
    struct work *w = l->work;
    /* Each content is read to be sure of it and then dropped: a render may be large. */
    arena_release(&w->arena, l->mark);
    if (c->why == ERR_OK) {
        l->at++;
        look_next(l);
        return;
    }
    /* No quorum has it: the caller decides (work_without, or nothing). Other errors are the
     * cluster's. */
    l->then(w, c->why == ERR_NOT_FOUND ? ERR_NOT_FOUND : work_blame(w, c->why, false, &b->note));
}

static void look_next(struct looking *l)
{
    struct work *w = l->work;
    if (l->at == l->row.r.contents_count) {
        l->then(w, ERR_OK);
        return;
    }
    l->mark = arena_mark(&w->arena);
    l->body = (struct titles_body){ .call = { .home = w->load.call.home,
                                              .done = pages_bytes_looked,
                                              .part_of = w->call,
                                              .deadline = w->call->deadline },
                                    .key = w->key,
                                    .name = l->row.r.name,
                                    .digest = l->row.digest,
                                    .content = &l->row.r.contents[l->at],
                                    /* At a quorum, so that what is found is on a quorum afterwards
                                     * (invariant 2). */
                                    .settled = true,
                                    .arena = &w->arena };
    store_call_then(titles_body(w->pages->opts.titles, &l->body), &l->body.call);
}

void work_look_bytes(struct work *w, const struct page_row *row,
                     void (*then)(struct work *w, err why))
{
    struct looking *l = arena_alloc(&w->arena, sizeof *l);
    if (l == NULL) {
        then(w, ERR_LIMIT);
        return;
    }
    *l = (struct looking){ .work = w, .row = *row, .then = then };
    look_next(l);
}
