/* lists.c - writes and deletes the rows by which listings find titles (lists.h), for puts, stashes
 * and upkeep.
 *
 * Invariant: rows of one title in both tables have one partition key each, of the same three
 * values. The rows of a put go out in one batch, with the time of the facts to come. */
#include "cassandra/lists.h"

#include "base/hash.h"

/* Cassandra before 5.0 refuses a row that would expire later. A row beyond has no TTL. */
#define EXPIRES_BY_S ((int64_t)2145916800) /* 2038-01-01 */

/* The shard follows from the title alone, on all servers and for good: seed 0, and no change of the
 * hash. */
int8_t lists_shard(str title)
{
    return (int8_t)(hash_of_str(title, 0) % LISTS_SHARDS);
}

void lists_put_shard(struct cql_values *v, str bucket, str domain, int8_t shard)
{
    cql_put_bytes(v, bucket);
    cql_put_bytes(v, domain);
    cql_put_i8(v, shard);
}

/* The full name of a title's row, in both tables. */
static void row_name(struct cql_values *v, const struct titles_key *k)
{
    cql_values_init(v, TITLES_KEY_BYTES_MAX + 64);
    lists_put_shard(v, k->bucket, k->domain, lists_shard(k->title));
    cql_put_bytes(v, k->title);
}

/* ---- put ---- */

/* How long a row of `stashes` lives: beyond its stash by a while, so that a listing which began
 * before sees it. 0: for good. */
static int32_t stash_ttl_s(store_time at, store_time until)
{
    int64_t kept_s = LISTS_STASH_KEPT_S + (until.ns - at.ns) / NS_PER_S;
    return kept_s <= 0 ? 1 : at.ns / NS_PER_S + kept_s > EXPIRES_BY_S ? 0 : (int32_t)kept_s;
}

static void put_done(struct cql_request *q)
{
    struct lists_put *p = CONTAINER_OF(q, struct lists_put, request);
    err why = q->out.why;
    if (why != ERR_OK)
        *p->note = q->out.note;
    cql_outcome_fini(&q->out);
    for (unsigned i = 0; i < q->parts_count; i++)
        cql_values_fini(&p->values[i]);
    p->call.why = why;
    p->call.done(&p->call);
}

/* One more statement; parts_count is its place. */
static struct cql_values *put_part(struct lists_put *p, enum titles_statement statement)
{
    unsigned i = p->request.parts_count++;
    p->parts[i] =
        (struct cql_part){ .statement = p->titles->statements[statement], .values = &p->values[i] };
    row_name(&p->values[i], &p->key);
    return &p->values[i];
}

enum store_start lists_put(struct titles *t, struct lists_put *p)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    p->titles = t;
    p->request = titles_request(t, &p->call, put_done);
    p->request.parts = p->parts;
    p->request.parts_count = 0;
    p->request.params.timestamp_us = titles_write_us(p->at);
    if (p->there)
        put_part(p, TITLES_LISTED_PUT);
    if (p->stashed_to.ns != STORE_TIME_ZERO.ns) {
        struct cql_values *v = put_part(p, TITLES_STASHED_PUT);
        cql_put_i64(v, p->stashed_to.ns);
        cql_put_i32(v, stash_ttl_s(p->at, p->stashed_to));
    }
    /* The caller asks only when there is something to write (lists_wanted in pages.c). */
    INVARIANT(p->request.parts_count > 0);
    if (p->request.parts_count > 1) {
        p->request.way = CQL_WAY_BATCH;
        p->request.batch = CQL_UNLOGGED;
    }
    cql_start(t->client, &p->request);
    return STORE_LATER;
}

/* ---- drop ---- */

/* The read and the deletion have the same values: the row's name. */
static void drop_ask(struct lists_drop *d, enum titles_statement statement,
                     void (*done)(struct cql_request *q))
{
    d->part =
        (struct cql_part){ .statement = d->titles->statements[statement], .values = &d->values };
    d->request = titles_request(d->titles, &d->call, done);
    d->request.parts = &d->part;
    d->request.class = CQL_BACKGROUND;
    /* As of the horizon: the row of a put that saw no other put is newer, and stays. */
    if (statement == TITLES_LISTED_DELETE)
        d->request.params.timestamp_us = titles_delete_us(d->before);
    cql_start(d->titles->client, &d->request);
}

static void drop_end(struct lists_drop *d, err why)
{
    cql_values_fini(&d->values);
    d->call.why = why;
    d->call.done(&d->call);
}

static void drop_deleted(struct cql_request *q)
{
    struct lists_drop *d = CONTAINER_OF(q, struct lists_drop, request);
    err why = q->out.why;
    if (why != ERR_OK)
        *d->note = q->out.note;
    d->dropped = why == ERR_OK;
    cql_outcome_fini(&q->out);
    drop_end(d, why);
}

/* The row was looked for. Nothing there: all is done. */
static void drop_looked(struct cql_request *q)
{
    struct lists_drop *d = CONTAINER_OF(q, struct lists_drop, request);
    err why = q->out.why;
    bool there = why == ERR_OK && q->out.rows.count > 0;
    if (why != ERR_OK)
        *d->note = q->out.note;
    cql_outcome_fini(&q->out);
    if (there)
        drop_ask(d, TITLES_LISTED_DELETE, drop_deleted);
    else
        drop_end(d, why);
}

/* Looks first: a deletion of what is not there is kept for gc_grace all the same. */
enum store_start lists_drop(struct titles *t, struct lists_drop *d)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    d->titles = t;
    d->dropped = false;
    row_name(&d->values, &d->key);
    drop_ask(d, TITLES_LISTED_GET, drop_looked);
    return STORE_LATER;
}
