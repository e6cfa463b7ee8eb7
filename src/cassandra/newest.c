/* newest.c - the first chunk of the newest bytes of one content, asked for beside the facts, before
 * anybody knows which render is the latest.
 *
 * The bytes nearly always belong to the latest, and then a read is one round trip. The bytes are
 * not trusted: the row's name and digest must be those of the render. The bytes must fit the sum in
 * the fact. Otherwise the bytes are read again by their name (body.c). */
#include "cassandra/titles_impl.h"

#include <string.h>
#include <xxhash.h>

/* The bytes stay in the answer, so the answer lives until titles_newest_fini. */
static err row_take(struct titles_newest *n)
{
    struct cql_rows rows = n->request.out.rows;
    struct cql_cell cells[4];
    str tid, digest;
    int64_t rev;
    if (!cql_rows_next(&rows, cells))
        return rows.rest.failed ? ERR_CORRUPT : ERR_NOT_FOUND;
    if (!cql_get_i64(&cells[0], &rev) || !cql_get_bytes(&cells[1], &tid) ||
        !cql_get_bytes(&cells[2], &digest) || !cql_get_bytes(&cells[3], &n->bytes) ||
        tid.n != TID_KEY_BYTES || digest.n != PAGE_DIGEST_BYTES)
        return ERR_CORRUPT;
    n->name.rev = (uint64_t)rev;
    n->name.tid = tid_from_key((const unsigned char *)tid.p);
    memcpy(n->digest, digest.p, PAGE_DIGEST_BYTES);
    return ERR_OK;
}

static void newest_done(struct cql_request *q)
{
    struct titles_newest *n = CONTAINER_OF(q, struct titles_newest, request);
    n->call.why = q->out.why == ERR_OK ? row_take(n) : q->out.why;
    n->call.done(&n->call);
}

enum store_start titles_newest(struct titles *t, struct titles_newest *n)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    cql_values_init(&n->values, TITLES_KEY_BYTES_MAX + 256);
    titles_put_key(&n->values, &n->key);
    cql_put_bytes(&n->values, n->content);
    n->part = (struct cql_part){ .statement = t->statements[TITLES_NEWEST], .values = &n->values };
    n->request = titles_request(t, &n->call, newest_done);
    n->request.parts = &n->part;
    /* One replica may answer: a wrong guess costs a second read and nothing else. */
    n->request.params.consistency = CQL_LOCAL_ONE;
    n->request.speculative = true;
    n->started = true;
    cql_start(t->client, &n->request);
    return STORE_LATER;
}

bool titles_newest_is(const struct titles_newest *n, const struct page_name *name,
                      const unsigned char *digest, const struct page_content *c)
{
    return n->call.why == ERR_OK && page_name_cmp(n->name, *name) == 0 &&
           memcmp(n->digest, digest, PAGE_DIGEST_BYTES) == 0 &&
           /* A content of several chunks has more bytes than this first one. */
           str_eq(n->content, str_of(c->name)) &&
           n->bytes.n == (size_t)c->headers_bytes + c->stored_bytes &&
           XXH3_64bits(n->bytes.p, n->bytes.n) == c->sum;
}

void titles_newest_fini(struct titles_newest *n)
{
    if (!n->started)
        return;
    cql_outcome_fini(&n->request.out);
    cql_values_fini(&n->values);
}
