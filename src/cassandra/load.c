/* load.c - reads the facts of a title: pages of rows, each decoded into the arena.
 *
 * Facts that are no put come first, and then puts from the greatest name down. So the newest put is
 * there soon.
 * Invariant: a load gives all facts, or fails. A row that cannot be read ends the load: the state
 * of a title follows from all its facts. */
#include "cassandra/titles_impl.h"

#include <string.h>

enum { FACTS_AT_FIRST = 16 };

/* One load, in its arena. */
struct load {
    struct titles *titles;
    struct titles_load *load;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    size_t size; /* facts that there is room for */
};

static void load_end(struct load *l, err why)
{
    struct titles_load *out = l->load;
    cql_values_fini(&l->values);
    out->call.why = why;
    out->call.done(&out->call);
}

/* Room for one more fact. The array doubles, and the old one stays in the arena until its end. */
static bool facts_grow(struct load *l)
{
    struct titles_load *out = l->load;
    if (out->facts_count < l->size)
        return true;
    size_t size = l->size == 0 ? FACTS_AT_FIRST : 2 * l->size;
    struct fact *facts = arena_alloc(out->arena, size * sizeof *facts);
    if (facts == NULL)
        return false;
    if (out->facts_count > 0)
        memcpy(facts, out->facts, out->facts_count * sizeof *facts);
    out->facts = facts;
    l->size = size;
    return true;
}

/* Decodes one row. Its contents are read onto the stack and copied by their number: most facts have
 * none. */
static err fact_take(struct load *l, str bytes)
{
    struct titles_load *out = l->load;
    struct page_content contents[PAGE_CONTENTS_MAX];
    unsigned facts_max = out->facts_max == 0 ? TITLES_FACTS_MAX : out->facts_max;
    /* The limit is judged here, since a title may have grown since its limits were judged. */
    if (out->facts_count == facts_max) {
        err_note_set(&out->note, "the title has more than %u facts", facts_max);
        return ERR_LIMIT;
    }
    if (!facts_grow(l))
        return ERR_LIMIT;
    struct fact *f = &out->facts[out->facts_count];
    if (fact_decode(bytes, f, contents) != ERR_OK) {
        err_note_set(&out->note, "a fact of %zu bytes cannot be read", bytes.n);
        return ERR_CORRUPT;
    }
    if (f->contents_count > 0) {
        struct page_content *kept = arena_alloc(out->arena, f->contents_count * sizeof *kept);
        if (kept == NULL)
            return ERR_LIMIT;
        memcpy(kept, contents, f->contents_count * sizeof *kept);
        f->contents = kept;
    }
    out->facts_count++;
    return ERR_OK;
}

static err rows_take(struct load *l)
{
    struct cql_rows rows = l->request.out.rows;
    struct cql_cell cell;
    err e = ERR_OK;
    while (e == ERR_OK && cql_rows_next(&rows, &cell)) {
        str bytes;
        e = cql_get_bytes(&cell, &bytes) ? fact_take(l, bytes) : ERR_CORRUPT;
    }
    return e == ERR_OK && rows.rest.failed ? ERR_CORRUPT : e;
}

/* Sets where the next page begins. The state is copied: the answer that holds it is freed. False:
 * there is no further page, or the arena is full (*e). */
static bool page_next(struct load *l, err *e)
{
    const struct cql_rows *rows = &l->request.out.rows;
    if (!rows->more)
        return false;
    char *state = arena_alloc(l->load->arena, rows->page_state.n);
    if (state == NULL) {
        *e = ERR_LIMIT;
        return false;
    }
    memcpy(state, rows->page_state.p, rows->page_state.n);
    l->request.params.page_state = (str){ .p = state, .n = rows->page_state.n };
    return true;
}

/* The facts end with a put: all that are no put were read, and the first put is the newest. */
static bool newest_is_there(const struct titles_load *l)
{
    return l->latest && l->facts_count > 0 && l->facts[l->facts_count - 1].what == FACT_PUT;
}

static void load_done(struct cql_request *q)
{
    struct load *l = CONTAINER_OF(q, struct load, request);
    err e = q->out.why;
    if (e != ERR_OK)
        l->load->note = q->out.note;
    else
        e = rows_take(l);
    bool more = e == ERR_OK && page_next(l, &e);
    cql_outcome_fini(&q->out);
    /* `more` tells the caller that puts are missing. */
    l->load->more = e == ERR_OK && more && newest_is_there(l->load);
    more = more && !l->load->more;
    l->request.params.page_rows =
        TITLES_PAGE_ROWS; /* the newest put was not in the page: many facts are none */
    if (e == ERR_OK && more && store_call_canceled(&l->load->call))
        e = ERR_TIMEOUT;
    if (e == ERR_OK && more)
        cql_start(l->titles->client, q);
    else
        load_end(l, e);
}

enum store_start titles_load(struct titles *t, struct titles_load *out)
{
    MAGIC_CHECK(t, TITLES_MAGIC);
    struct load *l = arena_alloc(out->arena, sizeof *l);
    if (l == NULL)
        return store_call_done(&out->call, ERR_LIMIT);
    *l = (struct load){ .titles = t, .load = out };
    out->facts = NULL;
    out->facts_count = 0;
    out->more = false;
    cql_values_init(&l->values, TITLES_KEY_BYTES_MAX);
    titles_put_key(&l->values, &out->key);
    l->part = (struct cql_part){ .statement = t->statements[TITLES_FACTS], .values = &l->values };
    l->request = titles_request(t, &out->call, load_done);
    l->request.parts = &l->part;
    l->request.params.page_rows = out->latest ? TITLES_LATEST_ROWS : TITLES_PAGE_ROWS;
    l->request.speculative = true;
    cql_start(t->client, &l->request);
    return STORE_LATER;
}
