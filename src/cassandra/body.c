/* body.c - reads the bytes of one content, for titles_body: some chunks in an answer, put together,
 * and compared with the sum in the fact.
 *
 * The first reading asks one replica. A replica that was away may lack chunks, so a reading that
 * does not end well begins again at a quorum.
 * Invariant: `seen` bytes from the beginning are in place, and no chunk is missing before them. */
#include "cassandra/titles_impl.h"

#include <string.h>
#include <xxhash.h>

enum { BODY_PAGE_ROWS = 8 }; /* 4 MiB: an answer is memory of the node's, too */

/* One reading under way, in the caller's arena. */
struct body {
    struct titles *titles;
    struct titles_body *body;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    char *bytes;
    size_t all, seen, chunks; /* all: how many bytes the fact says; seen: are in place */
};

/* One row. Chunks come in order, so each must begin where the one before it ended. */
static err chunk_take(struct body *b, const struct cql_cell *cells)
{
    int64_t chunk;
    str bytes;
    if (!cql_get_i64(&cells[0], &chunk) || !cql_get_bytes(&cells[1], &bytes))
        return ERR_CORRUPT;
    /* Chunk numbers are signed in the table, and a damaged one must not wrap around. */
    if (chunk < 0 || (uint64_t)chunk * TITLES_CHUNK_BYTES != b->seen || bytes.n > b->all - b->seen)
        return ERR_NOT_FOUND; /* one is missing before it */
    if (bytes.n > 0)
        memcpy(b->bytes + b->seen, bytes.p, bytes.n);
    b->seen += bytes.n;
    return ERR_OK;
}

static err chunks_take(struct body *b)
{
    struct cql_rows rows = b->request.out.rows;
    struct cql_cell cells[2];
    err e = ERR_OK;
    for (; e == ERR_OK && cql_rows_next(&rows, cells); b->chunks++)
        e = chunk_take(b, cells);
    return e == ERR_OK && rows.rest.failed ? ERR_CORRUPT : e;
}

/* Copies where the next page begins, since the answer that holds it is freed. n 0: nothing more is
 * needed. ERR_LIMIT: the arena is full. */
static err page_take(struct body *b, str *next)
{
    const struct cql_rows *rows = &b->request.out.rows;
    *next = STR_NONE;
    if (!rows->more || b->seen == b->all)
        return ERR_OK;
    char *state = arena_alloc(b->body->arena, rows->page_state.n);
    if (state == NULL)
        return ERR_LIMIT;
    memcpy(state, rows->page_state.p, rows->page_state.n);
    *next = (str){ .p = state, .n = rows->page_state.n };
    return ERR_OK;
}

/* A render of no bytes has one chunk of none. So a content without any row is missing, also when it
 * is empty. */
static err body_check(const struct body *b)
{
    if (b->chunks == 0 || b->seen < b->all)
        return ERR_NOT_FOUND;
    return XXH3_64bits(b->bytes, b->all) == b->body->content->sum ? ERR_OK : ERR_CORRUPT;
}

static void body_done(struct cql_request *q)
{
    struct body *b = CONTAINER_OF(q, struct body, request);
    struct titles_body *out = b->body;
    err e = q->out.why;
    bool one = q->params.consistency == CQL_LOCAL_ONE;
    str next = STR_NONE;
    out->note = q->out.note;
    if (e == ERR_OK)
        e = chunks_take(b);
    if (e == ERR_OK)
        e = page_take(b, &next);
    cql_outcome_fini(&q->out);
    /* A reader that has gone needs no further page. A reader whose bytes are complete gets them. */
    if (e == ERR_OK && next.n > 0 && store_call_canceled(&out->call))
        e = ERR_TIMEOUT;
    if (e == ERR_OK && next.n == 0)
        e = body_check(b);
    /* A wrong sum may be the fault of one replica, so damage, too, is looked for at a quorum. */
    bool again = one && e != ERR_OK && e != ERR_SHUTDOWN && !store_call_canceled(&out->call);
    if (again) {
        /* The quorum may hold other chunks than that replica: nothing is kept of the first reading.
         */
        b->seen = b->chunks = 0;
        q->params.consistency = CQL_LOCAL_QUORUM;
    }
    if (again || (e == ERR_OK && next.n > 0)) {
        q->params.page_state = again ? STR_NONE : next;
        cql_start(b->titles->client, q);
        return;
    }
    cql_values_fini(&b->values);
    if (e == ERR_OK)
        out->bytes = (str){ .p = b->bytes, .n = b->all };
    out->call.why = e;
    out->call.done(&out->call);
}

enum store_start titles_body(struct titles *t, struct titles_body *out)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    size_t all = (size_t)out->content->headers_bytes + out->content->stored_bytes;
    struct body *b = arena_alloc(out->arena, sizeof *b);
    /* An empty content still needs memory to point to. */
    char *bytes = arena_alloc(out->arena, all + 1);
    if (b == NULL || bytes == NULL)
        return store_call_done(&out->call, ERR_LIMIT);
    *b = (struct body){ .titles = t, .body = out, .bytes = bytes, .all = all };
    cql_values_init(&b->values, TITLES_KEY_BYTES_MAX + 256);
    titles_put_key(&b->values, &out->key);
    cql_put_bytes(&b->values, str_of(out->content->name));
    cql_put_i64(&b->values, (int64_t)out->name.rev);
    titles_put_tid(&b->values, out->name.tid);
    cql_put_bytes(&b->values, (str){ .p = (const char *)out->digest, .n = PAGE_DIGEST_BYTES });
    b->part = (struct cql_part){ .statement = t->statements[TITLES_BODY], .values = &b->values };
    b->request = titles_request(t, &out->call, body_done);
    b->request.parts = &b->part;
    b->request.params.consistency = out->settled ? CQL_LOCAL_QUORUM : CQL_LOCAL_ONE;
    b->request.params.page_rows = BODY_PAGE_ROWS;
    b->request.speculative = true;
    cql_start(t->client, &b->request);
    return STORE_LATER;
}
