/* append.c - writes the facts of a decision, and the bytes of the render that they put.
 *
 * Batches go out one behind the other. Each batch is of one partition, so each is one mutation: a
 * replica has all of a batch or nothing. A render of up to TITLES_BATCH_BYTES goes out in a single
 * batch.
 * Invariants:
 *   1 the facts are in the last batch, so a reader who sees them finds all bytes;
 *   2 all batches carry one write timestamp, so an append that is sent again changes nothing;
 *   3 a batch that fails ends the append. Chunks that went out before are named by no fact, and the
 *     next cull of their range takes them. */
#include "cassandra/titles_impl.h"

#include <string.h>

enum { PARTS_MAX = TITLES_APPEND_MAX, PART_BYTES = TITLES_KEY_BYTES_MAX + 256 };

/* One append under way. It lies in the caller's arena, and dies with it. */
struct append {
    struct titles *titles;
    struct titles_append *append;
    struct cql_request request;
    struct cql_part parts[PARTS_MAX];
    struct cql_values values[PARTS_MAX]; /* values[i] belong to parts[i]; batch_clear ends them */
    unsigned count;                      /* parts of this batch */
    size_t bytes;                        /* of this batch */
    /* the next chunk: contents before this one are sent, and `at` bytes of this one */
    unsigned content;
    size_t at;
    bool last;  /* the facts are in it */
    err missed; /* ERR_OK, or how the first try failed that wanted a quorum of each data centre */
};

static void batch_clear(struct append *a)
{
    for (unsigned i = 0; i < a->count; i++)
        cql_values_fini(&a->values[i]);
    a->count = 0;
    a->bytes = 0;
}

/* One more statement of the batch, which begins with the title's key. bytes: of its values besides
 * the key; the batch's limit counts them alone. */
static struct cql_values *part_add(struct append *a, enum titles_statement statement, size_t bytes)
{
    struct cql_values *v = &a->values[a->count];
    cql_values_init(v, PART_BYTES + bytes);
    a->parts[a->count++] =
        (struct cql_part){ .statement = a->titles->statements[statement], .values = v };
    titles_put_key(v, &a->append->key);
    a->bytes += bytes;
    return v;
}

static void chunk_add(struct append *a, const struct page_content *c, size_t n)
{
    const struct titles_bytes *b = a->append->bytes;
    str bytes = str_take(str_skip(b->blob, c->offset + a->at), n);
    struct cql_values *v = part_add(a, TITLES_BODY_PUT, n);
    cql_put_bytes(v, str_of(c->name));
    cql_put_i64(v, (int64_t)b->name.rev);
    titles_put_tid(v, b->name.tid);
    cql_put_bytes(v, (str){ .p = (const char *)b->digest, .n = PAGE_DIGEST_BYTES });
    cql_put_i32(v, (int32_t)(a->at / TITLES_CHUNK_BYTES));
    cql_put_bytes(v, bytes);
}

/* Chunks until the batch is full, by parts or by bytes. True: no chunk is left. */
static bool chunks_add(struct append *a)
{
    const struct titles_bytes *b = a->append->bytes;
    while (b != NULL && a->content < b->contents_count) {
        /* Headers and frame of a content lie together in the blob, and are cut into chunks as one
         * text. */
        const struct page_content *c = &b->contents[a->content];
        size_t all = (size_t)c->headers_bytes + c->stored_bytes;
        size_t n = all - a->at < TITLES_CHUNK_BYTES ? all - a->at : TITLES_CHUNK_BYTES;
        /* A first chunk always goes in, so each batch makes progress. */
        if (a->count == PARTS_MAX || (a->count > 0 && a->bytes + n > TITLES_BATCH_BYTES))
            return false;
        chunk_add(a, c, n);
        a->at += n;
        if (a->at == all) {
            a->content++;
            a->at = 0;
        }
    }
    return true;
}

/* The facts of an append stay together: a decision is seen as a whole or not at all. */
static bool facts_fit(const struct append *a)
{
    return a->count + a->append->facts_count <= PARTS_MAX;
}

static void facts_add(struct append *a)
{
    for (unsigned i = 0; i < a->append->facts_count; i++) {
        const struct fact *f = &a->append->facts[i];
        char bytes[FACT_BYTES_MAX];
        str encoded = fact_encode(f, bytes);
        struct cql_values *v = part_add(a, TITLES_FACT_PUT, encoded.n);
        titles_put_fact_name(v, f);
        cql_put_bytes(v, encoded);
    }
    a->last = true;
}

/* Fills a batch and sends it. When the facts do not fit beside the last chunks, they are a batch of
 * their own. */
static void append_done(struct cql_request *q);

static void batch_send(struct append *a)
{
    if (chunks_add(a) && facts_fit(a))
        facts_add(a);
    a->request = titles_request(a->titles, &a->append->call, append_done);
    a->request.way = CQL_WAY_BATCH;
    a->request.batch = CQL_UNLOGGED; /* of one partition: one mutation all the same */
    a->request.parts = a->parts;
    a->request.parts_count = a->count;
    /* Facts whose bytes are gone are written again with a later timestamp: the deletion of their
     * bytes would cover a write as of their arrival. */
    bool anew = a->append->write_at.ns != STORE_TIME_ZERO.ns;
    a->request.params.timestamp_us =
        titles_write_us(anew ? a->append->write_at : fact_arrived(&a->append->facts[0]));
    if (a->append->everywhere)
        a->request.params.consistency = CQL_EACH_QUORUM;
    cql_start(a->titles->client, &a->request);
}

/* A batch that did not reach a quorum of each data centre is sent to the local one. A fact that
 * hides something then hides it here at least. True: it was sent again. The first such failure is
 * what the caller is told in the end. */
static bool batch_send_here(struct append *a, err e)
{
    struct cql_request *q = &a->request;
    if (e == ERR_OK || e == ERR_SHUTDOWN || q->params.consistency != CQL_EACH_QUORUM)
        return false;
    if (a->missed == ERR_OK) {
        a->missed = e;
        a->append->unknown = true;
        a->append->note = q->out.note;
    }
    cql_outcome_fini(&q->out);
    q->params.consistency = CQL_LOCAL_QUORUM;
    cql_start(a->titles->client, q);
    return true;
}

static void append_end(struct append *a, err why)
{
    struct titles_append *out = a->append;
    out->call.why = why;
    out->call.done(&out->call);
}

static void append_done(struct cql_request *q)
{
    struct append *a = CONTAINER_OF(q, struct append, request);
    err e = q->out.why;
    if (batch_send_here(a, e))
        return;
    /* A note of the try that failed elsewhere stays: it names the data centre that is away. */
    if (e != ERR_OK && a->missed == ERR_OK) {
        /* Chunks alone are no write that anybody can see. */
        a->append->unknown = a->last && q->out.unknown;
        a->append->note = q->out.note;
    }
    cql_outcome_fini(&q->out);
    batch_clear(a);
    if (e == ERR_OK && !a->last)
        batch_send(a);
    else
        append_end(a, a->missed == ERR_OK ? e : a->missed);
}

enum store_start titles_append(struct titles *t, struct titles_append *out)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    INVARIANT(out->facts_count > 0 && out->facts_count <= PARTS_MAX);
    struct append *a = arena_alloc(out->arena, sizeof *a);
    if (a == NULL)
        return store_call_done(&out->call, ERR_LIMIT);
    memset(a, 0, sizeof *a);
    a->titles = t;
    a->append = out;
    out->unknown = false;
    batch_send(a);
    return STORE_LATER;
}
