/* words.c - rows of words and notes (words.h), one exchange with the cluster for each request. For
 * words_hear.c, words_first.c, words_know.c and reads that heed the word.
 *
 * The column `how` says as bits whether a word was believed or doubted by its server: the fold
 * judges it by these. */
#include "cassandra/words.h"

#include "cassandra/titles_impl.h"

#include <stdlib.h>
#include <string.h>

enum { HOW_BELIEVED = 1, HOW_DOUBTED = 2 };

/* One exchange under way. exchange_end frees it, at the home of the call. */
struct exchange {
    struct titles *titles;
    struct store_call *call; /* of the request, as the note is */
    struct err_note *note;
    void *of; /* the request, of a reading */
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
};

static struct exchange *exchange_new(struct titles *t, enum titles_statement statement,
                                     struct store_call *call, struct err_note *note)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    struct exchange *x = calloc(1, sizeof *x);
    INVARIANT(x != NULL);
    x->titles = t;
    x->call = call;
    x->note = note;
    cql_values_init(&x->values, TITLES_KEY_BYTES_MAX + PAGE_NOTE_BYTES_MAX);
    x->part = (struct cql_part){ .statement = t->statements[statement], .values = &x->values };
    return x;
}

static void exchange_end(struct exchange *x, err why)
{
    struct store_call *call = x->call;
    if (x->request.out.why != ERR_OK)
        *x->note = x->request.out.note;
    cql_outcome_fini(&x->request.out);
    cql_values_fini(&x->values);
    free(x);
    call->why = why;
    call->done(call);
}

static struct exchange *exchange_of(struct cql_request *q)
{
    return CONTAINER_OF(q, struct exchange, request);
}

/* Sends a reading, once its values are there. A second node may be asked. */
static enum store_start exchange_read(struct exchange *x, void *of,
                                      void (*done)(struct cql_request *q))
{
    x->of = of;
    x->request = titles_request(x->titles, x->call, done);
    x->request.parts = &x->part;
    x->request.speculative = true;
    cql_start(x->titles->client, &x->request);
    return STORE_LATER;
}

static void exchange_written(struct cql_request *q)
{
    exchange_end(exchange_of(q), q->out.why);
}

static enum store_start exchange_write(struct exchange *x, int64_t timestamp_us)
{
    x->request = titles_request(x->titles, x->call, exchange_written);
    x->request.parts = &x->part;
    x->request.params.timestamp_us = timestamp_us;
    cql_start(x->titles->client, &x->request);
    return STORE_LATER;
}

/* ---- reading ---- */

static bool said_take(const struct cql_cell *cells, struct title_said *out)
{
    int64_t at, srv, how;
    str bytes;
    if (!cql_get_i64(&cells[0], &at) || !cql_get_i64(&cells[1], &srv) ||
        !cql_get_i64(&cells[2], &how) || !cql_get_bytes(&cells[3], &bytes))
        return false;
    *out = (struct title_said){ .at = { .ns = at },
                                .srv = (uint32_t)srv,
                                .believed = (how & HOW_BELIEVED) != 0,
                                .doubted = (how & HOW_DOUBTED) != 0 };
    return title_word_decode(bytes, &out->word) == ERR_OK;
}

/* Rows come by when they were asked for, the latest first; the fold puts them in their order. */
static err words_take(struct words_load *l, struct cql_rows rows)
{
    struct cql_cell cells[4];
    size_t read = 0;
    while (read < WORDS_MAX && cql_rows_next(&rows, cells)) {
        /* It counts all the same: something is known of the title. */
        l->rows++;
        /* A word that cannot be read is gone past: the wiki is asked again. */
        if (!said_take(cells, &l->said[read]))
            continue;
        l->kept_max = store_time_max(l->kept_max, l->said[read].at);
        read++;
    }
    l->count = title_words_fold(l->said, read);
    return rows.rest.failed ? ERR_CORRUPT : ERR_OK;
}

static void words_loaded(struct cql_request *q)
{
    struct exchange *x = exchange_of(q);
    exchange_end(x, q->out.why == ERR_OK ? words_take(x->of, q->out.rows) : q->out.why);
}

enum store_start words_load(struct titles *t, struct words_load *l)
{
    struct exchange *x = exchange_new(t, TITLES_WORDS, &l->call, &l->note);
    l->count = l->rows = 0;
    l->kept_max = STORE_TIME_ZERO;
    cql_put_bytes(&x->values, l->domain);
    cql_put_bytes(&x->values, l->title);
    cql_put_i32(&x->values, WORDS_MAX);
    return exchange_read(x, l, words_loaded);
}

/* ---- writing ---- */

/* The name of a word's row, behind domain and title. */
static void name_put(struct cql_values *v, const struct title_said *s)
{
    cql_put_i64(v, s->word.asked_at.ns);
    cql_put_i64(v, s->at.ns);
    cql_put_i32(v, (int32_t)s->srv);
}

enum store_start words_put(struct titles *t, struct words_put *p)
{
    struct exchange *x = exchange_new(t, TITLES_WORD_PUT, &p->call, &p->note);
    const struct title_said *s = &p->said;
    int how = (s->believed ? HOW_BELIEVED : 0) | (s->doubted ? HOW_DOUBTED : 0);
    char bytes[TITLE_WORD_BYTES_MAX];
    cql_put_bytes(&x->values, p->domain);
    cql_put_bytes(&x->values, p->title);
    name_put(&x->values, s);
    cql_put_i8(&x->values, (int8_t)how);
    cql_put_bytes(&x->values, title_word_encode(&s->word, bytes));
    return exchange_write(x, titles_write_us(s->at));
}

/* A range of rows, as of the horizon: a row that another server writes later stays, whatever its
 * name. */
enum store_start words_drop(struct titles *t, struct words_drop *d)
{
    static const struct title_said last = { .word = { .asked_at = { INT64_MAX } },
                                            .at = { INT64_MAX },
                                            .srv = INT32_MAX };
    struct exchange *x = exchange_new(t, TITLES_WORDS_DROP, &d->call, &d->note);
    cql_put_bytes(&x->values, d->domain);
    cql_put_bytes(&x->values, d->title);
    name_put(&x->values, d->before == NULL ? &last : d->before);
    return exchange_write(x, titles_delete_us(d->horizon));
}

/* ---- notes ---- */

/* Names are stored: they never change. */
static str note_name(enum page_note note)
{
    static const char *const names[PAGE_NOTES] = {
        [PAGE_NOTE_SWEEP] = "sweep", [PAGE_NOTE_REDO] = "redo"
    };
    INVARIANT(note < PAGE_NOTES);
    return str_of(names[note]);
}

enum store_start words_note_put(struct titles *t, struct words_note *n)
{
    struct exchange *x = exchange_new(t, TITLES_NOTE_PUT, &n->call, &n->note);
    INVARIANT(n->bytes.n <= PAGE_NOTE_BYTES_MAX);
    cql_put_bytes(&x->values, n->domain);
    cql_put_bytes(&x->values, note_name(n->kind));
    cql_put_bytes(&x->values, n->bytes);
    return exchange_write(x, titles_write_us(n->at));
}

static err note_take(struct words_note *n, struct cql_rows rows)
{
    struct cql_cell cell;
    str bytes;
    if (!cql_rows_next(&rows, &cell))
        return rows.rest.failed ? ERR_CORRUPT : ERR_NOT_FOUND;
    if (!cql_get_bytes(&cell, &bytes) || bytes.n > PAGE_NOTE_BYTES_MAX)
        return ERR_CORRUPT;
    if (bytes.n > 0)
        memcpy(n->got, bytes.p, bytes.n);
    n->got_bytes = bytes.n;
    return ERR_OK;
}

static void note_got(struct cql_request *q)
{
    struct exchange *x = exchange_of(q);
    exchange_end(x, q->out.why == ERR_OK ? note_take(x->of, q->out.rows) : q->out.why);
}

enum store_start words_note_get(struct titles *t, struct words_note *n)
{
    struct exchange *x = exchange_new(t, TITLES_NOTE, &n->call, &n->note);
    cql_put_bytes(&x->values, n->domain);
    cql_put_bytes(&x->values, note_name(n->kind));
    return exchange_read(x, n, note_got);
}
