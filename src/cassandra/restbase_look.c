/* restbase_look.c - reads one render of a title: first the name that is meant, then the rows of
 * that name. For a server's reads that miss (src/page/secondary.h).
 *
 *   the title's newest name -> that is meant: the rows of all tables
 *        |-> none, or all are of smaller revisions: there is none
 *        |-> OF_REV: the newest name of the revision -> the rows of all tables
 *        \-> EXACT: the rows of all tables
 *
 * The title's newest name is always asked for: a caller that keeps an older render has to know that
 * it is not the latest.
 * Invariant: one thing is under way from the start until done: the request for the name, or the
 * fetch. */
#include "cassandra/restbase_impl.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES_MAX = 64 << 10 /* of domain, title, revision */ };

/* One look. Owner: the caller, until it is done. */
struct restbase_look {
    uint32_t magic;
    struct restbase_look_opts opts;
    err why;
    struct err_note note;
    struct restbase_render render;
    struct restbase_name name; /* that is meant, or asked for */
    /* the newest name */
    bool asking;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
    /* its rows */
    bool fetching;
    struct restbase_fetch fetch;
};
#define LOOK_MAGIC 0x4e57100cu

bool restbase_can_look(const struct restbase_table *tables, unsigned count)
{
    return count > 0 && tables[0].revs != RESTBASE_STRING;
}

/* The last thing that a look does by itself: done may free it. */
static void look_done(struct restbase_look *l, err why, const char *note)
{
    l->why = why;
    if (note != NULL)
        err_note_set(&l->note, "%s", note);
    l->opts.done(l, l->opts.ctx);
}

/* ---- rows ---- */

static void on_fetched(struct restbase_fetch *f)
{
    struct restbase_look *l = CONTAINER_OF(f, struct restbase_look, fetch);
    l->fetching = false;
    /* The parts borrow the fetch, which lives as long as the look. */
    memcpy(l->render.parts, f->parts, sizeof l->render.parts);
    if (f->why == ERR_OK && !f->gone && !f->parts[0].there)
        l->render.unfit = "its value is null";
    if (f->why != ERR_OK)
        look_done(l, f->why, f->note.text);
    else
        look_done(l, f->gone ? ERR_NOT_FOUND : ERR_OK, NULL);
}

/* The render that is meant has a name; asks for its rows. */
static void fetch_begin(struct restbase_look *l)
{
    const struct restbase_look_opts *o = &l->opts;
    l->render.rev = l->name.rev;
    l->render.tid = l->name.tid;
    l->fetch = (struct restbase_fetch){ .reader = o->reader,
                                        .domain = o->domain,
                                        .title = o->title,
                                        .deadline = o->deadline,
                                        .name = &l->name,
                                        .done = on_fetched };
    l->fetching = true;
    restbase_fetch_start(&l->fetch);
}

/* ---- the name ---- */

static void name_begin(struct restbase_look *l, bool of_rev);

/* Reads the one name of an answer. ERR_NOT_FOUND: there is none, also where a partition has nothing
 * but static columns. */
static err name_read(struct restbase_look *l, struct restbase_name *out)
{
    struct cql_rows rows = l->request.out.rows;
    struct cql_cell cells[2];
    str rev;
    if (l->request.out.why != ERR_OK)
        return l->request.out.why;
    if (rows.columns == NULL || rows.columns->count != COUNT_OF(cells))
        return ERR_CORRUPT;
    if (!cql_rows_next(&rows, cells))
        return rows.rest.failed ? ERR_CORRUPT : ERR_NOT_FOUND;
    if (!cql_get_bytes(&cells[0], &rev))
        return ERR_NOT_FOUND;
    restbase_name_take(out, cells);
    return ERR_OK;
}

/* This name is meant. A name that is no name of ours has no rows to ask for: the look is done, and
 * the render is unfit. */
static void name_take(struct restbase_look *l, const struct restbase_name *name)
{
    l->name = *name;
    l->render.unfit = name->unfit;
    if (name->unfit == NULL) {
        fetch_begin(l);
        return;
    }
    l->render.rev = name->rev;
    look_done(l, ERR_OK, NULL);
}

/* The title's newest name is known. A name whose revision is no number counts as greater than any.
 */
static void newest_take(struct restbase_look *l, const struct restbase_name *newest)
{
    const struct restbase_look_opts *o = &l->opts;
    bool same_rev = newest->rev == o->rev;
    if (o->select == RESTBASE_LATEST || (o->select == RESTBASE_OF_REV && same_rev)) {
        name_take(l, newest);
        return;
    }
    /* Rows are in order of revisions: there is no greater one. */
    if (newest->unfit == NULL && newest->rev < o->rev) {
        look_done(l, ERR_NOT_FOUND, NULL);
        return;
    }
    /* The newest render is asked for: the caller's will be the latest. */
    bool is_newest = same_rev && newest->unfit == NULL && tid_cmp(newest->tid, o->tid) == 0;
    /* Else the caller learns that a greater render exists: by a greater revision, or by its own. */
    l->render.newest = o->select == RESTBASE_EXACT && is_newest ? 0
                       : newest->rev > o->rev                   ? newest->rev
                                                                : o->rev;
    if (o->select == RESTBASE_OF_REV)
        name_begin(l, true);
    else
        fetch_begin(l);
}

/* A name was read, the title's newest or the revision's newest; the statement tells which. */
static void on_name(struct cql_request *q)
{
    struct restbase_look *l = CONTAINER_OF(q, struct restbase_look, request);
    struct restbase_name name;
    struct err_note note = q->out.note;
    err why = name_read(l, &name);
    /* Looked at before the part is used again for the next request. */
    bool failed = q->out.why != ERR_OK, of_rev = l->part.statement == l->opts.reader->of_rev;
    l->asking = false;
    cql_outcome_fini(&q->out);
    cql_values_fini(&l->values);
    if (why != ERR_OK)
        look_done(l, why,
                  failed               ? note.text
                  : why == ERR_CORRUPT ? "the name of a render cannot be read"
                                       : NULL);
    else if (of_rev)
        name_take(l, &name);
    else
        newest_take(l, &name);
}

/* Asks for the newest name of the title, or of the revision. */
static void name_begin(struct restbase_look *l, bool of_rev)
{
    const struct restbase_look_opts *o = &l->opts;
    struct restbase *r = o->reader;
    cql_values_init(&l->values, KEY_BYTES_MAX);
    cql_put_bytes(&l->values, o->domain);
    cql_put_bytes(&l->values, o->title);
    if (of_rev)
        cql_put_bytes(&l->values, (str){ .p = l->name.rev_raw, .n = l->name.rev_n });
    l->part =
        (struct cql_part){ .statement = of_rev ? r->of_rev : r->latest, .values = &l->values };
    restbase_request(&l->request, on_name);
    l->request.way = CQL_WAY_EXECUTE;
    l->request.parts = &l->part;
    l->request.deadline = o->deadline;
    l->asking = true;
    cql_start(r->client, &l->request);
}

/* ---- the look ---- */

struct restbase_look *restbase_look_start(const struct restbase_look_opts *opts)
{
    struct restbase *r = opts->reader;
    MAGIC_CHECK(r, RESTBASE_MAGIC);
    struct restbase_name name = { .rev = opts->rev, .tid = opts->tid };
    /* A revision that the table cannot hold is missing: no question is needed. */
    if (opts->select != RESTBASE_LATEST && !restbase_name_put(&name, r->tables[0].revs))
        return NULL;
    struct restbase_look *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct restbase_look){
        .magic = LOOK_MAGIC, .opts = *opts, .render = { .title = opts->title }, .name = name
    };
    name_begin(l, false);
    return l;
}

/* done comes soon all the same, by the request that ends. */
void restbase_look_cancel(struct restbase_look *l)
{
    MAGIC_CHECK(l, LOOK_MAGIC);
    if (l->asking)
        cql_cancel(&l->request);
    if (l->fetching)
        restbase_fetch_cancel(&l->fetch);
}

err restbase_look_end(struct restbase_look *l, const struct restbase_render **out,
                      struct err_note *note)
{
    MAGIC_CHECK(l, LOOK_MAGIC);
    if (l->why == ERR_OK)
        *out = &l->render;
    else
        *note = l->note;
    return l->why;
}

void restbase_look_free(struct restbase_look **lp)
{
    struct restbase_look *l = *lp;
    if (l == NULL)
        return;
    MAGIC_CHECK(l, LOOK_MAGIC);
    INVARIANT(!l->asking);
    INVARIANT(!l->fetching);
    l->magic = 0;
    /* The fetch was begun only when a name was found. */
    if (l->fetch.reader != NULL)
        restbase_fetch_fini(&l->fetch);
    free(l);
    *lp = NULL;
}
