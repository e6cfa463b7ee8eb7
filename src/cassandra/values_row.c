/* values_row.c - rows of a partition as they come from Cassandra and as the value service sees
 * them, and the bytes of large values. For reads, writes and the upkeep.
 *
 * A head is three texts, headers, etag and coding: the length of each as 32 bits, then its bytes.
 * NULL_BYTES stands for a text that is not there. */
#include "cassandra/values_impl.h"

#include "base/buf.h"

#include <string.h>
#include <xxhash.h>

enum { CHUNKS_OF_PAGE = 8 };
#define NULL_BYTES UINT32_MAX

/* ---- from Cassandra ---- */

static bool time_get(const struct cql_cell *c, store_time *out)
{
    return cql_get_i64(c, &out->ns);
}

/* STR_NONE is null: an empty text is another one. */
static bool bytes_get(const struct cql_cell *c, str *out)
{
    *out = STR_NONE;
    return c->null || cql_get_bytes(c, out);
}

/* Columns are in the order of META and FULL (values.c). The version is static, so each row of a
 * partition says it. */
err values_row_get(const struct cql_cell *cells, bool full, struct values_got *out)
{
    struct values_row *r = &out->row;
    str tid;
    *out = (struct values_got){ .version = STR_NONE };
    if (!bytes_get(&cells[0], &out->version) || out->version.n > VALUES_VERSION_BYTES_MAX ||
        out->version.n % VALUES_MARK_BYTES != 0)
        return ERR_CORRUPT;
    /* A row without an id has lost what Cassandra's TTL took: its end is a day past. A partition
     * without rows has its version alone. */
    out->has_row = !cells[2].null && !cells[3].null;
    if (!out->has_row)
        return ERR_OK;
    if (!cql_get_i64(&cells[1], &r->rev) || !cql_get_bytes(&cells[2], &tid) ||
        tid.n != sizeof r->tid || !values_get_id(&cells[3], &r->id) ||
        !time_get(&cells[4], &r->own) || !time_get(&cells[5], &r->expires) ||
        !time_get(&cells[6], &r->written) || !cql_get_i64(&cells[7], &r->size) ||
        /* A size is memory that a reader takes: a damaged one must not take more than a value can
         * have. */
        !cql_get_i64(&cells[8], &r->sum) || r->size < 0 || r->size > VALUES_BODY_BYTES_MAX)
        return ERR_CORRUPT;
    memcpy(r->tid, tid.p, tid.n);
    /* The size alone says where the bytes are, so a row cannot name both. */
    r->chunked = r->size > VALUES_INLINE_BYTES;
    if (full && (!bytes_get(&cells[9], &r->head) || !bytes_get(&cells[10], &r->bytes)))
        return ERR_CORRUPT;
    return ERR_OK;
}

/* ---- what a value has besides its bytes ---- */

static void head_put(struct buf *b, str s)
{
    buf_put_be32(b, s.p == NULL ? NULL_BYTES : (uint32_t)s.n);
    if (s.p != NULL)
        buf_put(b, s);
}

str values_head_pack(struct arena *a, const struct values_head *h)
{
    struct buf b;
    buf_init(&b, h->headers.n + h->etag.n + h->coding.n + 12);
    head_put(&b, h->headers);
    head_put(&b, h->etag);
    head_put(&b, h->coding);
    return buf_take(&b, a);
}

static str head_get(struct cursor *c)
{
    uint32_t n = cursor_be32(c);
    return n == NULL_BYTES ? STR_NONE : cursor_bytes(c, n);
}

bool values_head_read(str bytes, struct values_head *out)
{
    struct cursor c = { .rest = bytes };
    out->headers = head_get(&c);
    out->etag = head_get(&c);
    out->coding = head_get(&c);
    return cursor_done(&c);
}

/* ---- as the value service sees it ---- */

/* Adds an attribute, copied, unless it is null. False: the arena is full. */
static bool attr_add(struct arena *a, struct table_attr *attrs, unsigned *count, str name,
                     str value)
{
    if (value.p == NULL)
        return true;
    attrs[*count] = (struct table_attr){ name, arena_copy(a, value) };
    return attrs[(*count)++].value.p != NULL;
}

/* A row in the columns of the value service's tables: revisions have rev and tid; a head brings
 * headers and value. */
bool values_row_table(struct arena *a, const struct values_shown *s, struct table_row *out)
{
    struct table_attr *attrs = arena_alloc(a, 8 * sizeof *attrs);
    str tid = { .p = (const char *)s->row->tid, .n = sizeof s->row->tid };
    unsigned n = 0;
    if (attrs == NULL || !attr_add(a, attrs, &n, STR("key"), s->key))
        return false;
    if (s->revs) {
        attrs[n++] = (struct table_attr){ STR("rev"), table_value_long(a, s->row->rev) };
        if (attrs[n - 1].value.p == NULL || !attr_add(a, attrs, &n, STR("tid"), tid))
            return false;
    }
    if (s->head != NULL && (!attr_add(a, attrs, &n, STR("headers"), s->head->headers) ||
                            !attr_add(a, attrs, &n, STR("etag"), s->head->etag) ||
                            !attr_add(a, attrs, &n, STR("coding"), s->head->coding)))
        return false;
    if (s->head != NULL)
        /* Not copied: values_body has put the bytes there. */
        attrs[n++] = (struct table_attr){ STR("value"), s->value };
    *out = (struct table_row){ .attrs = attrs, .count = n };
    return true;
}

/* ---- bytes ---- */

static bool body_fits(const struct values_body *b, str bytes)
{
    return bytes.n == (size_t)b->row.size && (int64_t)XXH3_64bits(bytes.p, bytes.n) == b->row.sum;
}

/* Puts chunks in their places. They come in order, so each has to begin where the one before ended.
 */
static err chunks_take(struct values_body *b)
{
    struct cql_rows rows = b->ask.request.out.rows;
    struct cql_cell cells[2];
    size_t all = (size_t)b->row.size;
    while (cql_rows_next(&rows, cells)) {
        int64_t chunk;
        str bytes;
        if (!cql_get_i64(&cells[0], &chunk) || !cql_get_bytes(&cells[1], &bytes))
            return ERR_CORRUPT;
        if (chunk < 0 || (uint64_t)chunk * VALUES_CHUNK_BYTES != b->seen || bytes.n > all - b->seen)
            return ERR_NOT_FOUND; /* one is missing before it */
        memcpy(b->into + b->seen, bytes.p, bytes.n);
        b->seen += bytes.n;
    }
    return rows.rest.failed ? ERR_CORRUPT : ERR_OK;
}

/* As body.c for renders: one replica is asked first, and a quorum when it has not all. */
static void body_done(struct cql_request *q)
{
    struct values_body *b = CONTAINER_OF(q, struct values_body, ask.request);
    bool one = q->params.consistency == CQL_LOCAL_ONE;
    err e = q->out.why;
    b->note = q->out.note;
    if (e == ERR_OK)
        e = chunks_take(b);
    bool more = values_ask_more(&b->ask, b->arena, &e);
    cql_outcome_fini(&q->out);
    if (e == ERR_OK && !more) {
        b->bytes = (str){ .p = b->into, .n = b->seen };
        /* Chunks that are missing at the end are like chunks in the middle: not there. */
        e = body_fits(b, b->bytes)          ? ERR_OK
            : b->seen < (size_t)b->row.size ? ERR_NOT_FOUND
                                            : ERR_CORRUPT;
    }
    bool again = one && e != ERR_OK && e != ERR_SHUTDOWN && e != ERR_LIMIT;
    /* A reader that has gone gets what is complete, and asks for no more. */
    if (store_call_canceled(&b->call)) {
        e = e == ERR_OK && !more ? e : ERR_TIMEOUT;
        more = again = false;
    }
    if (again) { /* a replica that was away has not all of them */
        q->params.consistency = CQL_LOCAL_QUORUM;
        q->params.page_state = STR_NONE;
        b->seen = 0;
    }
    if (again || (e == ERR_OK && more)) {
        cql_start(b->values->opts.client, q);
        return;
    }
    values_ask_clear(&b->ask);
    b->call.why = values_blame(b->values, &b->call, e, false, b->key.key, &b->note);
    b->call.done(&b->call);
}

enum store_start values_body(struct values_body *b)
{
    /* Small values came with their row. */
    if (!b->row.chunked) {
        b->bytes = b->row.size == 0 ? STR("") : arena_copy(b->arena, b->row.bytes);
        err e = b->bytes.p == NULL ? ERR_LIMIT : body_fits(b, b->bytes) ? ERR_OK : ERR_CORRUPT;
        return store_call_done(&b->call, e);
    }
    b->seen = 0;
    b->into = arena_alloc(b->arena, (size_t)b->row.size);
    if (b->into == NULL)
        return store_call_done(&b->call, ERR_LIMIT);
    b->ask.values = b->values;
    b->ask.count = 0;
    struct cql_values *v = values_ask_key(&b->ask, VALUES_CHUNK_GET, &b->key, 64);
    values_put_id(v, &b->row.id);
    values_ask_set(&b->ask, b->call.home, values_deadline(b->values, &b->call), body_done);
    b->ask.request.params.consistency = CQL_LOCAL_ONE;
    b->ask.request.params.page_rows = CHUNKS_OF_PAGE;
    b->ask.request.speculative = true;
    cql_start(b->values->opts.client, &b->ask.request);
    return STORE_LATER;
}
