/* values_write.c - what a put or a delete writes, and how, for values_update.c.
 *
 * Chunks and the listing go first, as plain writes that nobody sees. Then all of the rest is one
 * batch of one partition that depends on the key's version.
 * Invariant: a batch that was not applied has changed nothing, so each try decides again on the
 * rows that it read. */
#include "cassandra/values_update.h"

#include "base/buf.h"

#include <string.h>
#include <xxhash.h>

enum {
    MOVES_MAX = 48, /* rows whose end one write changes; the upkeep does the rest */
    BATCH_BYTES = 4 << 20,
    VERSION_TTL_S = 86400,           /* of a key that has no rows any more */
    ROW_TTL_S_MAX = 5 * 365 * 86400, /* Cassandra's own end of time may be 2038 */
};

/* ---- what is written ---- */

/* Cassandra's TTL of a row that ends then. It is a day longer: the TTL frees space, and the column
 * `expires` decides. 0: no TTL, also for ends that some versions of Cassandra cannot hold. */
int32_t values_ttl(struct values *v, store_time end)
{
    int64_t left_s = end.ns == INT64_MAX
                         ? ROW_TTL_S_MAX
                         : (end.ns - clock_store(v->opts.clock).ns) / NS_PER_S + VERSION_TTL_S;
    return left_s >= ROW_TTL_S_MAX ? 0 : left_s < VERSION_TTL_S ? VERSION_TTL_S : (int32_t)left_s;
}

void values_decide_add(struct values_ask *a, const struct values_key *k, const struct values_id *id,
                       str version, bool empties, struct values_version *wanted)
{
    enum { KEPT_MAX = VALUES_VERSION_BYTES_MAX - VALUES_MARK_BYTES };
    struct cql_values *v = values_ask_add(a, VALUES_DECIDE, 2 * VALUES_VERSION_BYTES_MAX);
    /* The oldest mark goes when there is no room for all. */
    str kept = str_take(version, KEPT_MAX);
    put_be64(wanted->bytes, XXH3_64bits(id->bytes, sizeof id->bytes));
    if (kept.n > 0)
        memcpy(wanted->bytes + VALUES_MARK_BYTES, kept.p, kept.n);
    wanted->n = VALUES_MARK_BYTES + kept.n;
    /* The version of a key without rows ends by itself. One with rows has none: it must not end
     * before they do. */
    cql_put_i32(v, empties ? VERSION_TTL_S : 0);
    cql_put_bytes(v, (str){ .p = wanted->bytes, .n = wanted->n });
    cql_put_bytes(v, k->bucket);
    cql_put_bytes(v, k->domain);
    values_put_id(v, &k->made);
    cql_put_bytes(v, k->key);
    if (version.n == 0)
        cql_put_null(v);
    else
        cql_put_bytes(v, version);
}

/* Chunks of a row that goes are deleted behind the write. The upkeep deletes chunks that find no
 * place here. */
static void spare(struct values_update *u, const struct values_row *r)
{
    if (r->chunked && u->spared_count < VALUES_SPARED_MAX)
        u->spared[u->spared_count++] = r->id;
}

static str tid_str(const struct values_row *r)
{
    return (str){ .p = (const char *)r->tid, .n = sizeof r->tid };
}

/* The row itself. The TTL follows from `own`, since a policy may lengthen an end that it shortened.
 */
static void put_add(struct values_update *u, const struct values_row *r)
{
    struct values_ask *a = &u->ask;
    struct cql_values *v =
        values_ask_key(a, VALUES_PUT, &u->key, r->head.n + VALUES_INLINE_BYTES + 256);
    cql_put_i64(v, r->rev);
    cql_put_bytes(v, tid_str(r));
    values_put_id(v, &r->id);
    cql_put_i64(v, r->own.ns);
    cql_put_i64(v, r->expires.ns);
    cql_put_i64(v, r->written.ns);
    cql_put_i64(v, r->size);
    cql_put_i64(v, r->sum);
    cql_put_bytes(v, r->head);
    if (r->chunked)
        cql_put_null(v);
    else
        cql_put_bytes(v, u->value.p == NULL ? STR("") : u->value);
    cql_put_i32(v, values_ttl(u->values, r->own));
}

void values_move_add(struct values_ask *a, const struct values_key *k, const struct values_row *r)
{
    struct cql_values *v = values_ask_add(a, VALUES_MOVE, 256);
    cql_put_i32(v, values_ttl(a->values, r->own));
    cql_put_i64(v, r->expires.ns);
    cql_put_bytes(v, k->bucket);
    cql_put_bytes(v, k->domain);
    values_put_id(v, &k->made);
    cql_put_bytes(v, k->key);
    cql_put_i64(v, r->rev);
    cql_put_bytes(v, tid_str(r));
}

void values_delete_add(struct values_ask *a, const struct values_key *k, enum values_statement s,
                       const struct values_row *r)
{
    struct cql_values *v = values_ask_key(a, s, k, 64);
    cql_put_i64(v, r->rev);
    if (s == VALUES_DELETE_ROW)
        cql_put_bytes(v, tid_str(r));
}

/* Ends that the policy moves. The upkeep does the rest: until then a reader sees some rows longer.
 */
static void moves_add(struct values_update *u)
{
    unsigned moves = 0;
    for (size_t i = 0; i < u->count && moves < MOVES_MAX; i++) {
        const struct values_row *r = &u->rows[i];
        if (r->is_new || !r->moved)
            continue;
        values_move_add(&u->ask, &u->key, r);
        moves++;
    }
}

/* Puts the row in its place in the order, instead of a row of the same name. */
static void row_insert(struct values_update *u, const struct values_row *row)
{
    size_t at = 0;
    while (at < u->count && values_row_cmp(&u->rows[at], row) < 0)
        at++;
    if (at < u->count && values_row_cmp(&u->rows[at], row) == 0) {
        spare(u, &u->rows[at]);
    } else {
        /* There is room for it: values_update_room was asked. */
        if (u->count > at)
            memmove(&u->rows[at + 1], &u->rows[at], (u->count - at) * sizeof *u->rows);
        u->count++;
    }
    u->rows[at] = *row;
    u->at = at;
}

/* When what is put ends without a policy. */
static store_time put_own(const struct values_update *u)
{
    int64_t ttl_s = u->write->ttl_s > 0 ? u->write->ttl_s : u->find.bucket.ttl_s;
    return ttl_s > 0 ? store_time_add(clock_store(u->values->opts.clock), ttl_s * NS_PER_S)
                     : STORE_TIME_NEVER;
}

/* The row that is put, what the policy says of it, and what goes or moves with it. ERR_GONE: the
 * policy would not keep it. */
static err put_decide(struct values_update *u)
{
    const struct values_bucket *b = &u->find.bucket;
    store_time now = clock_store(u->values->opts.clock);
    struct values_row row = u->target;
    if (!values_update_room(u))
        return ERR_LIMIT;
    row.id = u->id;
    row.own = put_own(u);
    row.expires = values_put_end(&b->keep, now, row.own);
    row.written = now;
    row.size = (int64_t)u->value.n;
    row.sum = (int64_t)XXH3_64bits(u->value.p, u->value.n);
    row.chunked = u->value.n > VALUES_INLINE_BYTES;
    row.is_new = true;
    row.head = values_head_pack(&u->work, &u->head);
    if (row.head.p == NULL)
        return ERR_LIMIT;
    row_insert(u, &row);
    if (!values_keep_put(&b->keep, u->rows, u->count, u->at, now, &u->update->note))
        return ERR_GONE;
    put_add(u, &u->rows[u->at]);
    moves_add(u);
    /* latest_hash: all lesser revisions go at once. INT64_MIN has none below. */
    if (b->keep.kind == KEEP_LATEST_HASH && row.rev > INT64_MIN) {
        /* Rows that were not read may be among them. */
        bool behind = u->more;
        for (size_t i = 0; i < u->count; i++)
            if (u->rows[i].rev < row.rev) {
                behind = true;
                spare(u, &u->rows[i]);
            }
        if (behind)
            values_delete_add(&u->ask, &u->key, VALUES_DELETE_TO,
                              &(struct values_row){ .rev = row.rev - 1 });
    }
    return ERR_OK;
}

static bool delete_names(const struct values_update *u, const struct values_row *r)
{
    return (!u->has_rev || r->rev == u->target.rev) &&
           (!u->has_tid || values_row_cmp(r, &u->target) == 0);
}

/* Deletes the rows that the write names; rows_deleted counts the live ones. False: there is nothing
 * to delete. */
static bool delete_decide(struct values_update *u)
{
    bool any = !u->has_rev && u->more;
    size_t left = 0;
    for (size_t i = 0; i < u->count; i++) {
        if (delete_names(u, &u->rows[i])) {
            any = true;
            u->update->rows_deleted += values_update_alive(u, &u->rows[i]);
            spare(u, &u->rows[i]);
        } else {
            u->rows[left++] = u->rows[i];
        }
    }
    u->count = left;
    if (!any)
        return false;
    /* A key without rows gets a version that ends. */
    u->empties = !u->has_rev || (left == 0 && !u->more);
    const struct values_row whole = { .rev = INT64_MAX };
    values_delete_add(&u->ask, &u->key,
                      u->has_tid   ? VALUES_DELETE_ROW
                      : u->has_rev ? VALUES_DELETE_REV
                                   : VALUES_DELETE_TO,
                      u->has_rev ? &u->target : &whole);
    /* A row of a group went, so rows that had fallen out may come back. */
    if (u->has_tid) {
        values_keep_deleted(&u->find.bucket.keep, u->rows, u->count, &u->target,
                            clock_store(u->values->opts.clock));
        moves_add(u);
    }
    return true;
}

/* Makes the batch: the decision, and what it writes. False: there is nothing to write, or *e. */
static bool decide_make(struct values_update *u, err *e)
{
    bool any = true;
    /* A try before may have set these. */
    u->spared_count = 0;
    u->empties = false;
    u->update->rows_deleted = 0;
    *e = ERR_OK;
    if (u->write->is_delete)
        any = delete_decide(u);
    else
        *e = put_decide(u);
    values_decide_add(&u->ask, &u->key, &u->id, (str){ .p = u->version.bytes, .n = u->version.n },
                      u->empties, &u->wanted);
    return any && *e == ERR_OK;
}

/* ---- writing ---- */

/* Chunks or the listing are written: the next step is chosen again by values_update_decide. */
static void before_done(struct cql_request *q)
{
    struct values_update *u = CONTAINER_OF(q, struct values_update, ask.request);
    err e = q->out.why;
    struct err_note note = q->out.note;
    cql_outcome_fini(&q->out);
    if (e == ERR_OK)
        values_update_decide(u);
    else
        values_update_lost(u, e, &note);
}

/* Sends plain writes of what nobody sees before the decision; to a quorum of each data centre, as
 * the decision that makes them visible. */
static void before_send(struct values_update *u, store_time at)
{
    values_ask_set(&u->ask, u->update->call.home, u->deadline, before_done);
    u->ask.request.params.consistency = CQL_EACH_QUORUM;
    u->ask.request.params.timestamp_us = at.ns / NS_PER_US;
    cql_start(u->values->opts.client, &u->ask.request);
}

/* The next chunks, up to BATCH_BYTES. */
static void chunks_send(struct values_update *u)
{
    int32_t ttl_s = values_ttl(u->values, put_own(u));
    while (u->sent < u->value.n && u->ask.bytes < BATCH_BYTES) {
        str bytes = str_take(str_skip(u->value, u->sent), VALUES_CHUNK_BYTES);
        struct cql_values *v = values_ask_key(&u->ask, VALUES_CHUNK_PUT, &u->key, bytes.n + 64);
        values_put_id(v, &u->id);
        cql_put_i32(v, (int32_t)(u->sent / VALUES_CHUNK_BYTES));
        cql_put_bytes(v, bytes);
        cql_put_i32(v, ttl_s);
        u->sent += bytes.n;
    }
    /* All chunks carry the time of their id: the upkeep deletes as of a later one. */
    before_send(u, values_id_time(&u->id));
}

unsigned values_shard(str key)
{
    return (unsigned)(XXH3_64bits(key.p, key.n) % VALUES_SHARDS);
}

static void key_send(struct values_update *u)
{
    struct cql_values *v = values_ask_add(&u->ask, VALUES_KEY_PUT, 64);
    /* Once: a row of the listing that nobody needs costs a look. */
    u->listed = true;
    cql_put_bytes(v, u->key.bucket);
    cql_put_bytes(v, u->key.domain);
    values_put_id(v, &u->key.made);
    cql_put_i8(v, (int8_t)values_shard(u->key.key));
    cql_put_bytes(v, u->key.key);
    before_send(u, clock_store(u->values->opts.clock));
}

/* The first column of a conditional write's answer is [applied]. */
bool values_applied(const struct cql_outcome *out, err *e)
{
    struct cql_rows rows = out->rows;
    struct cql_cell cells[16];
    bool applied = false;
    if (rows.columns == NULL || rows.columns->count == 0 || rows.columns->count > COUNT_OF(cells) ||
        !cql_rows_next(&rows, cells) || !cql_get_bool(&cells[0], &applied))
        *e = ERR_CORRUPT;
    return applied;
}

/* The decision was answered. Refused or lost: what is there now tells (values_update_again). */
static void decide_done(struct cql_request *q)
{
    struct values_update *u = CONTAINER_OF(q, struct values_update, ask.request);
    err e = q->out.why;
    u->lost = q->out.unknown;
    struct err_note note = q->out.note;
    bool applied = e == ERR_OK && values_applied(&q->out, &e);
    cql_outcome_fini(&q->out);
    if (applied)
        values_update_wrote(u);
    else if (e == ERR_OK || u->lost)
        values_update_again(u, true);
    else
        values_update_lost(u, e, &note);
}

/* The next step of a write that may be made. A row that is alive keeps its key in the listing, so
 * the key is listed only when no row is alive. The upkeep takes a key out of the list when its rows
 * are gone, and rows go a day after their end. */
void values_update_decide(struct values_update *u)
{
    err e;
    bool puts = !u->write->is_delete;
    values_ask_clear(&u->ask);
    if (puts && u->value.n > VALUES_INLINE_BYTES && u->sent < u->value.n) {
        chunks_send(u);
    } else if (puts && !u->listed && !values_update_any(u)) {
        key_send(u);
    } else if (decide_make(u, &e)) {
        values_ask_set(&u->ask, u->update->call.home, u->deadline, decide_done);
        u->ask.request.params.consistency = CQL_EACH_QUORUM;
        u->ask.request.params.serial = CQL_SERIAL;
        cql_start(u->values->opts.client, &u->ask.request);
    } else {
        u->update->applied = e == ERR_OK;
        values_update_end(u, e);
    }
}

/* ---- behind the write: chunks of what was replaced, as well as it goes ---- */

/* The write has happened, also when its chunks could not be deleted. */
static void spared_done(struct cql_request *q)
{
    struct values_update *u = CONTAINER_OF(q, struct values_update, ask.request);
    cql_outcome_fini(&q->out);
    values_update_end(u, ERR_OK);
}

void values_update_wrote(struct values_update *u)
{
    store_time at = clock_store(u->values->opts.clock);
    u->update->applied = true;
    values_ask_clear(&u->ask);
    for (unsigned i = 0; i < u->spared_count; i++) {
        values_put_id(values_ask_key(&u->ask, VALUES_CHUNK_DELETE, &u->key, 64), &u->spared[i]);
        /* Not before the chunks were written, by whichever clock. */
        at = store_time_max(at, values_id_time(&u->spared[i]));
    }
    if (u->spared_count == 0) {
        values_update_end(u, ERR_OK);
        return;
    }
    values_ask_set(&u->ask, u->update->call.home, u->deadline, spared_done);
    u->ask.request.params.timestamp_us = at.ns / NS_PER_US;
    cql_start(u->values->opts.client, &u->ask.request);
}
