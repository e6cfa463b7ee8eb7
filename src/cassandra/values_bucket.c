/* values_bucket.c - what a bucket of values is: found, remembered for VALUES_FRESH_MS, made,
 * changed, dropped.
 *
 * Each bucket is a cell of the catalog, in a scope of its domain. The cell of a bucket that was
 * dropped stays, and is empty.
 * Invariants:
 *   1 what is remembered is as old as the moment before it was asked for;
 *   2 a change or a drop is answered VALUES_FRESH_MS after it was decided. So no server goes by the
 *     old bucket any more when the caller hears of the change. A caller who makes a dropped bucket
 *     again waits as long. */
#include "cassandra/values_impl.h"

#include "codec/json.h"
#include "loop/loop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { CELL_BYTES = VALUES_ID_BYTES + 1 + 8 + 8 + 1 + 3 * 8, MADE_TRIES_MAX = 8 };

/* A bucket that is remembered. Owner: values.cached; under values.lock. */
struct values_cached {
    uint32_t domain;
    char table[TABLE_NAME_BYTES_MAX];
    size_t table_bytes;
    struct values_bucket bucket;
    mono asked_at;
};

/* ---- remembered ---- */

/* One place for each hash: of two buckets that meet there, the one found last stays. A miss costs a
 * read. */
static struct values_cached **cached_at(struct values *v, uint32_t domain, str table)
{
    return &v->cached[(XXH3_64bits(table.p, table.n) + domain) % VALUES_CACHE_MAX];
}

static bool cached_is(const struct values_cached *c, uint32_t domain, str table)
{
    return c != NULL && c->domain == domain &&
           str_eq((str){ .p = c->table, .n = c->table_bytes }, table);
}

/* Copies the bucket out under the lock: another thread may replace the place at any time. */
static bool cache_find(struct values *v, uint32_t domain, str table, struct values_bucket *out)
{
    mono now = clock_mono(v->opts.clock);
    INVARIANT(pthread_mutex_lock(&v->lock) == 0);
    const struct values_cached *c = *cached_at(v, domain, table);
    bool found =
        cached_is(c, domain, table) && now.ns < mono_add_ms(c->asked_at, VALUES_FRESH_MS).ns;
    if (found)
        *out = c->bucket;
    INVARIANT(pthread_mutex_unlock(&v->lock) == 0);
    return found;
}

static void cache_put(struct values *v, const struct values_find *f)
{
    INVARIANT(pthread_mutex_lock(&v->lock) == 0);
    struct values_cached **at = cached_at(v, f->domain, f->table);
    if (*at == NULL)
        *at = calloc(1, sizeof **at);
    INVARIANT(*at != NULL);
    /* Of two finds of one bucket the later question is right, whichever answer comes last. */
    if (!cached_is(*at, f->domain, f->table) || (*at)->asked_at.ns < f->asked_at.ns) {
        (*at)->domain = f->domain;
        (*at)->table_bytes = f->table.n;
        memcpy((*at)->table, f->table.p, f->table.n);
        (*at)->bucket = f->bucket;
        (*at)->asked_at = f->asked_at;
    }
    INVARIANT(pthread_mutex_unlock(&v->lock) == 0);
}

void values_cache_drop(struct values *v, uint32_t domain, str table)
{
    INVARIANT(pthread_mutex_lock(&v->lock) == 0);
    struct values_cached **at = cached_at(v, domain, table);
    if (cached_is(*at, domain, table)) {
        free(*at);
        *at = NULL;
    }
    INVARIANT(pthread_mutex_unlock(&v->lock) == 0);
}

/* ---- the cell ---- */

/* The cell: all that requests need, packed, and then the schema as its text. */
static void bucket_pack(struct buf *b, const struct values_bucket *k, str text)
{
    buf_put(b, (str){ .p = (const char *)k->made.bytes, .n = VALUES_ID_BYTES });
    buf_put_u8(b, k->revs);
    buf_put_be64(b, (uint64_t)k->version);
    buf_put_be64(b, (uint64_t)k->ttl_s);
    buf_put_u8(b, (uint8_t)k->keep.kind);
    buf_put_be64(b, (uint64_t)k->keep.count);
    buf_put_be64(b, (uint64_t)k->keep.grace_ttl_s);
    buf_put_be64(b, (uint64_t)k->keep.interval_s);
    buf_put(b, text);
}

static bool bucket_unpack(str bytes, struct values_bucket *out, str *text)
{
    struct cursor c = { .rest = bytes };
    str made = cursor_bytes(&c, VALUES_ID_BYTES);
    if (c.failed)
        return false;
    memcpy(out->made.bytes, made.p, made.n);
    out->revs = cursor_u8(&c) != 0;
    out->version = (int64_t)cursor_be64(&c);
    out->ttl_s = (int64_t)cursor_be64(&c);
    uint8_t kind = cursor_u8(&c);
    out->keep = (struct table_keep){ .kind = (enum table_keep_kind)kind };
    out->keep.count = (int64_t)cursor_be64(&c);
    out->keep.grace_ttl_s = (int64_t)cursor_be64(&c);
    out->keep.interval_s = (int64_t)cursor_be64(&c);
    *text = c.rest;
    /* An interval of 0 would be a division by 0 (values_keep.c). */
    return !c.failed && kind <= KEEP_TTL && (kind != KEEP_INTERVAL || out->keep.interval_s > 0);
}

/* ---- found ---- */

/* Other tables are those of the embedded store alone. */
static bool is_bucket(str table)
{
    return table.n <= TABLE_NAME_BYTES_MAX &&
           (str_starts(table, STR(".key_value.")) || str_starts(table, STR(".key_rev_value.")));
}

void values_find_fini(struct values_find *f)
{
    catalog_rows_drop(&f->rows);
}

static err find_take(struct values_find *f)
{
    const struct catalog_cell *cell = catalog_rows_find(f->rows, f->load.key);
    if (cell != NULL)
        f->version = cell->version;
    /* Dropped: the next change that makes the bucket again needs its version. */
    f->dropped = cell != NULL && cell->value.n == 0;
    if (cell == NULL || f->dropped) {
        err_note_set(&f->note, "there is no table %.*s", STR_ARG(f->table));
        return ERR_NOT_FOUND;
    }
    return bucket_unpack(cell->value, &f->bucket, &f->text) ? ERR_OK : ERR_CORRUPT;
}

static void find_loaded(struct store_call *c)
{
    struct values_find *f = CONTAINER_OF(c, struct values_find, load.call);
    f->rows = f->load.rows;
    f->note = f->load.note;
    err e = values_blame(f->values, &f->call, c->why, false, f->table, &f->note);
    if (e == ERR_OK)
        e = find_take(f);
    if (e == ERR_OK && !f->named)
        cache_put(f->values, f);
    /* A bucket that was not found may have been dropped just now: it must not stay remembered. */
    else if (!f->named)
        values_cache_drop(f->values, f->domain, f->table);
    /* A fresh find gives the text, which lies in the rows. */
    if (!f->fresh)
        values_find_fini(f);
    f->call.why = e;
    f->call.done(&f->call);
}

/* Looks for a bucket: in memory, or in the catalogue. A fresh find reads at SERIAL, since a change
 * depends on what it finds. */
enum store_start values_find(struct values *v, struct values_find *f)
{
    f->values = v;
    f->rows = NULL;
    f->note.text[0] = 0;
    if (!is_bucket(f->table)) {
        err_note_set(&f->note, "tables are not kept on Cassandra yet: %.*s",
                     STR_ARG(str_take(f->table, TABLE_NAME_BYTES_MAX)));
        return store_call_done(&f->call, ERR_BAD);
    }
    if (!f->named && !v->opts.domain(v->opts.ctx, f->domain, &f->domain_name))
        return store_call_done(&f->call, ERR_NOT_FOUND);
    if (!f->fresh && cache_find(v, f->domain, f->table, &f->bucket))
        return store_call_done(&f->call, ERR_OK);
    str d = f->domain_name;
    if (d.n + 1 + f->table.n > sizeof f->key)
        return store_call_done(&f->call, ERR_LIMIT);
    /* The scope is a hash of the domain, because scopes are short. The key has the domain, so
     * domains whose hashes meet do not mix. */
    (void)snprintf(f->scope, sizeof f->scope, "values/%016" PRIx64, XXH3_64bits(d.p, d.n));
    memcpy(f->key, d.p, d.n);
    f->key[d.n] = '/';
    memcpy(f->key + d.n + 1, f->table.p, f->table.n);
    /* Taken before the read begins (invariant 1). */
    f->asked_at = clock_mono(v->opts.clock);
    f->load = (struct catalog_load){ .call = { .home = f->call.home,
                                               .deadline = f->call.deadline,
                                               .done = find_loaded,
                                               .part_of = &f->call },
                                     .scope = str_of(f->scope),
                                     .key = { .p = f->key, .n = d.n + 1 + f->table.n },
                                     .serial = f->fresh };
    enum store_start start = catalog_load(v->opts.catalog, &f->load);
    store_call_then(start, &f->load.call);
    return STORE_LATER;
}

/* ---- its schema ---- */

/* One reading of a bucket's schema, for values_schema. It frees itself in look_found. */
struct look {
    struct values_find find;
    struct table_schema_read *read;
};

static void look_found(struct store_call *c)
{
    struct look *l = CONTAINER_OF(c, struct look, find.call);
    struct table_schema_read *r = l->read;
    err e = c->why;
    if (e == ERR_OK) {
        /* The text lies in the find's rows, which end here. */
        r->json = arena_copy(r->arena, l->find.text);
        e = r->json.p == NULL ? ERR_LIMIT : ERR_OK;
    }
    values_find_fini(&l->find);
    free(l);
    store_call_end(&r->call, e);
}

enum store_start values_schema(struct table_store *s, struct table_schema_read *r)
{
    struct look *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->read = r;
    l->find = (struct values_find){ .call = { .home = r->call.home,
                                              .deadline = r->call.deadline,
                                              .done = look_found,
                                              .part_of = &r->call },
                                    .domain = r->domain,
                                    .table = r->table,
                                    .fresh = true };
    enum store_start start = values_find(CONTAINER_OF(s, struct values, store), &l->find);
    store_call_then(start, &l->find.call);
    return STORE_LATER;
}

/* ---- made, changed, dropped ----
 *   FIND -> MADE (the list of all that was ever made) -> CHANGE -> WAIT, unless it is new
 * When another server changed the bucket meanwhile, FIND comes again. */

/* One change of a bucket. It frees itself in change_end. */
struct change {
    struct values *values;
    struct table_schema_change *change;
    struct values_find find;
    struct values_bucket bucket; /* as it is wanted */
    struct catalog_put put;
    struct catalog_change decide;
    struct catalog_id before; /* the version that the decision depends on */
    struct values_ask ask;
    struct buf cell;
    struct loop_timer *timer;
    bool was_there; /* a new version of a bucket, or a drop; not a creation */
    unsigned tries;
};

static void change_end(struct change *c, err why)
{
    struct table_schema_change *out = c->change;
    values_find_fini(&c->find);
    values_ask_clear(&c->ask);
    buf_fini(&c->cell);
    if (c->timer != NULL)
        loop_timer_free(&c->timer);
    free(c);
    store_call_end(&out->call, why);
}

static void change_waited(void *ctx)
{
    struct change *c = ctx;
    /* A find that was under way may have put the old bucket back. */
    values_cache_drop(c->values, c->change->domain, c->change->table);
    change_end(c, ERR_OK);
}

/* On the loop, which owns timers. Waits until no server remembers the old bucket. */
static void change_wait(void *ctx)
{
    struct change *c = ctx;
    c->timer = loop_timer_new(c->values->opts.loop, change_waited, c);
    loop_timer_start(c->timer, VALUES_FRESH_MS, 0);
}

static void change_find(struct change *c);

static err change_blame(struct change *c, err why, bool unknown)
{
    struct table_schema_change *out = c->change;
    return values_blame(c->values, &out->call, why, unknown, out->table, &out->note);
}

/* The conditional write is decided. A refused one means that another server changed the bucket. */
static void change_decided(struct store_call *call)
{
    struct change *c = CONTAINER_OF(call, struct change, decide.call);
    values_cache_drop(c->values, c->change->domain, c->change->table);
    if (call->why == ERR_CONFLICT && ++c->tries < MADE_TRIES_MAX) {
        change_find(c);
        return;
    }
    if (call->why != ERR_OK) {
        c->change->note = c->decide.note;
        change_end(c, call->why == ERR_CONFLICT ? ERR_CONFLICT
                                                : change_blame(c, call->why, c->decide.unknown));
        return;
    }
    c->change->created = !c->was_there;
    c->change->changed = true;
    /* No server remembers a bucket that is new: its caller need not wait. */
    if (c->was_there || c->find.dropped)
        loop_post(c->values->opts.loop, change_wait, c);
    else
        change_end(c, ERR_OK);
}

static void change_decide(struct change *c)
{
    c->before = c->find.version; /* none, where there was never one */
    c->put.key = c->find.load.key;
    c->put.if_version = &c->before;
    c->decide = (struct catalog_change){ .call = { .home = c->change->call.home,
                                                   .deadline = c->change->call.deadline,
                                                   .done = change_decided },
                                         .scope = c->find.load.scope,
                                         .puts = &c->put,
                                         .puts_count = 1 };
    store_call_then(catalog_change(c->values->opts.catalog, &c->decide), &c->decide.call);
}

static void made_done(struct cql_request *q)
{
    struct change *c = CONTAINER_OF(q, struct change, ask.request);
    c->change->note = q->out.note;
    err e = change_blame(c, q->out.why, false);
    cql_outcome_fini(&q->out);
    values_ask_clear(&c->ask);
    if (e == ERR_OK)
        change_decide(c);
    else
        change_end(c, e);
}

/* Notes what is about to be made, so that the upkeep finds its rows also when the bucket is
 * dropped. Written before the decision: one row too many costs the upkeep a look. */
static void change_made(struct change *c)
{
    c->ask.values = c->values;
    struct cql_values *v = values_ask_add(&c->ask, VALUES_MADE_PUT, 64);
    cql_put_bytes(v, c->change->table);
    cql_put_bytes(v, c->find.domain_name);
    values_put_id(v, &c->bucket.made);
    values_ask_set(&c->ask, c->change->call.home, values_deadline(c->values, &c->change->call),
                   made_done);
    /* The row is written without a condition, at the time that its id says: the same again is the
     * same row. */
    c->ask.request.params.timestamp_us = values_id_time(&c->bucket.made).ns / NS_PER_US;
    cql_start(c->values->opts.client, &c->ask.request);
}

/* Both members may be missing (NULL). */
static bool same_member(const json_t *a, const json_t *b, const char *name)
{
    const json_t *l = json_object_get(a, name), *r = json_object_get(b, name);
    return l == r || (l != NULL && r != NULL && json_equal(l, r) != 0);
}

/* Is the bucket there as it is wanted? Version, options and policy are all that a caller can
 * choose. */
static bool same_bucket(const struct change *c)
{
    json_t *is = json_body_read(c->find.text), *wanted = json_body_read(c->change->json);
    bool same = is != NULL && wanted != NULL && c->find.bucket.version == c->bucket.version &&
                same_member(is, wanted, "options") &&
                same_member(is, wanted, "revisionRetentionPolicy");
    json_decref(is);
    json_decref(wanted);
    return same;
}

/* A new bucket gets a new id, so rows of a dropped bucket of its name stay out of sight. A new
 * version keeps the id, and with it the rows. */
static void change_create(struct change *c)
{
    c->bucket.made = c->was_there ? c->find.bucket.made : values_id_new(c->values);
    if (c->was_there && same_bucket(c)) {
        change_end(c, ERR_OK);
        return;
    }
    /* As the embedded store answers: versions only rise. */
    if (c->was_there && c->bucket.version <= c->find.bucket.version) {
        err_note_set(&c->change->note,
                     "the table exists with another schema: version must be higher than %lld",
                     (long long)c->find.bucket.version);
        change_end(c, ERR_BAD);
        return;
    }
    buf_clear(&c->cell);
    bucket_pack(&c->cell, &c->bucket, c->change->json);
    if (buf_status(&c->cell) != ERR_OK) {
        err_note_set(&c->change->note, "the schema is longer than %d bytes",
                     CATALOG_VALUE_BYTES_MAX - CELL_BYTES);
        change_end(c, ERR_LIMIT);
        return;
    }
    c->put.value = buf_str(&c->cell);
    if (c->was_there)
        change_decide(c);
    else
        change_made(c);
}

/* The bucket is found, or is missing. The action says what comes next. */
static void change_found(struct store_call *call)
{
    struct change *c = CONTAINER_OF(call, struct change, find.call);
    c->was_there = call->why == ERR_OK;
    /* ERR_NOT_FOUND also says that the domain is unknown: there is no name to make a bucket in. */
    if (call->why == ERR_NOT_FOUND && c->change->action == SCHEMA_CREATE &&
        c->find.domain_name.p != NULL) {
        change_create(c);
    } else if (call->why != ERR_OK) {
        c->change->note = c->find.note;
        change_end(c, call->why);
    } else if (c->change->action == SCHEMA_CREATE) {
        change_create(c);
    } else {
        /* An empty cell: dropped. */
        c->put.value = STR("");
        change_decide(c);
    }
}

/* Also behind a conflict: then the rows found before go back. */
static void change_find(struct change *c)
{
    values_find_fini(&c->find);
    c->find = (struct values_find){ .call = { .home = c->change->call.home,
                                              .deadline = c->change->call.deadline,
                                              .done = change_found },
                                    .domain = c->change->domain,
                                    .table = c->change->table,
                                    .fresh = true };
    store_call_then(values_find(c->values, &c->find), &c->find.call);
}

/* The name becomes part of a path and of a key with '/' between. */
static bool name_is_fine(str table)
{
    for (size_t i = 0; i < table.n; i++)
        if (table.p[i] == '/' || (unsigned char)table.p[i] < 0x20 || table.p[i] == 0x7f)
            return false;
    return true;
}

/* Reads the schema that the value service writes; the service names no column that is not there
 * (value/schema.c). */
static err schema_take(struct table_schema_change *c, struct values_bucket *out)
{
    json_t *json;
    if (!name_is_fine(c->table))
        return err_bad(&c->note,
                       "a table name must have 1 to %d bytes, none of them / or control bytes, "
                       "and not be . or ..",
                       TABLE_NAME_BYTES_MAX);
    err e = json_body_parse(c->json, &json, &c->note);
    if (e != ERR_OK)
        return e;
    out->revs = str_starts(c->table, STR(".key_rev_value."));
    e = json_body_i64(json, "version", 1, INT64_MAX, &out->version, &c->note);
    if (e == ERR_OK)
        e = table_options_read(json_object_get(json, "options"), &out->ttl_s, &c->note);
    if (e == ERR_OK)
        e = table_keep_read(json_object_get(json, "revisionRetentionPolicy"), &out->keep, &c->note);
    if (e == ERR_OK)
        e = table_keep_check(&out->keep, out->revs, out->revs, &c->note);
    if (e == ERR_OK && out->keep.kind == KEEP_LATEST_HASH && out->keep.grace_ttl_s < 0)
        out->keep.grace_ttl_s = 1; /* as RESTBase does */
    json_decref(json);
    return e;
}

/* Judged before anything is asked: a schema that makes no sense costs no exchange. */
enum store_start values_change(struct table_store *s, struct table_schema_change *out)
{
    struct values_bucket bucket = { .ttl_s = 0 };
    out->created = out->changed = false;
    out->note.text[0] = 0;
    if (out->action == SCHEMA_CREATE) {
        err e = schema_take(out, &bucket);
        if (e != ERR_OK)
            return store_call_done(&out->call, e);
    }
    struct change *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->values = CONTAINER_OF(s, struct values, store);
    c->change = out;
    c->bucket = bucket;
    buf_init(&c->cell, CATALOG_VALUE_BYTES_MAX);
    change_find(c);
    return STORE_LATER;
}
