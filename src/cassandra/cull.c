/* cull.c - deletions for upkeep: of bytes by ranges of names, and of facts one by one.
 *
 * All deletions of one call go out in one batch of one partition. Their write timestamp is the
 * instant before which they delete: what was written later stays, whatever its name. */
#include "cassandra/titles_impl.h"

#include <stdlib.h>

/* One batch of deletions under way. It frees itself when the answer is there. */
struct deletion {
    struct titles *titles;
    struct store_call *call; /* of the request, with note; borrowed until done */
    struct err_note *note;
    struct cql_request request;
    unsigned count;
    struct cql_part *parts;
    struct cql_values *values;
};

/* The caller fills values[0] to values[count - 1], one for each deletion. */
static struct deletion *deletion_new(struct titles *t, struct store_call *call,
                                     struct err_note *note, unsigned count)
{
    struct deletion *d = calloc(1, sizeof *d);
    INVARIANT(d != NULL);
    *d = (struct deletion){ .titles = t, .call = call, .note = note, .count = count };
    d->parts = calloc(count, sizeof *d->parts);
    d->values = calloc(count, sizeof *d->values);
    INVARIANT(d->parts != NULL && d->values != NULL);
    for (unsigned i = 0; i < count; i++)
        cql_values_init(&d->values[i], TITLES_KEY_BYTES_MAX + 256);
    return d;
}

/* Frees the deletion first: done may free the request that it belongs to. */
static void deletion_done(struct cql_request *q)
{
    struct deletion *d = CONTAINER_OF(q, struct deletion, request);
    struct store_call *call = d->call;
    err why = q->out.why;
    if (why != ERR_OK)
        *d->note = q->out.note;
    cql_outcome_fini(&q->out);
    for (unsigned i = 0; i < d->count; i++)
        cql_values_fini(&d->values[i]);
    free(d->values);
    free(d->parts);
    free(d);
    call->why = why;
    call->done(call);
}

static enum store_start deletion_start(struct deletion *d, enum titles_statement statement,
                                       store_time at)
{
    for (unsigned i = 0; i < d->count; i++)
        d->parts[i] = (struct cql_part){ .statement = d->titles->statements[statement],
                                         .values = &d->values[i] };
    d->request = titles_request(d->titles, d->call, deletion_done);
    d->request.way = CQL_WAY_BATCH;
    d->request.batch = CQL_UNLOGGED;
    d->request.parts = d->parts;
    d->request.parts_count = d->count;
    d->request.params.timestamp_us = titles_delete_us(at);
    /* Readers come first: upkeep may wait (CQL_BACKGROUND). */
    d->request.class = CQL_BACKGROUND;
    cql_start(d->titles->client, &d->request);
    return STORE_LATER;
}

/* The greatest name of all has a revision that no render has, and no bigint. */
static int64_t rev_bound(uint64_t rev)
{
    return rev > PAGE_REV_MAX ? PAGE_REV_MAX : (int64_t)rev;
}

enum store_start titles_cull(struct titles *t, struct titles_cull *c)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    INVARIANT(c->cull->count <= TITLES_RANGES_MAX);
    unsigned count = (unsigned)c->cull->count * c->contents_count;
    /* titles_cull's own limit keeps ranges times contents below what a batch may have. */
    INVARIANT(count <= CQL_PARTS_MAX);
    if (count == 0)
        return store_call_done(&c->call, ERR_OK);
    struct deletion *d = deletion_new(t, &c->call, &c->note, count);
    /* Each range is deleted once for each content: the content comes before the name in the table's
     * order. */
    for (unsigned i = 0; i < count; i++) {
        const struct title_range *r = &c->cull->ranges[i / c->contents_count];
        struct cql_values *v = &d->values[i];
        titles_put_key(v, &c->key);
        cql_put_bytes(v, c->contents[i % c->contents_count]);
        cql_put_i64(v, rev_bound(r->low.rev));
        titles_put_tid(v, r->low.tid);
        cql_put_i64(v, rev_bound(r->high.rev));
        titles_put_tid(v, r->high.tid);
    }
    return deletion_start(d, TITLES_BODY_CULL, c->cull->at);
}

enum store_start titles_forget(struct titles *t, struct titles_forget *f)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    INVARIANT(f->facts_count <= CQL_PARTS_MAX);
    if (f->facts_count == 0)
        return store_call_done(&f->call, ERR_OK);
    struct deletion *d = deletion_new(t, &f->call, &f->note, f->facts_count);
    for (unsigned i = 0; i < f->facts_count; i++) {
        titles_put_key(&d->values[i], &f->key);
        titles_put_fact_name(&d->values[i], f->facts[i]);
    }
    return deletion_start(d, TITLES_FACT_DELETE, f->horizon);
}
