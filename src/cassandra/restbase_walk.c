/* restbase_walk.c - reads all renders of a domain, by token ranges, with bounded memory. For
 * imports.
 *
 * The ring is cut into RANGES ranges, which are read one after the other. The keys of a range are
 * read by pages, keys of other domains too, since a partition is found by domain and key together.
 * Titles of the domain become jobs, some at a time. A job reads the names of its renders by pages,
 * newest first, and then one render after the other.
 * Invariants:
 *   1 a job has at most one request for names, or one fetch, under way; or one render that waits to
 *     be taken;
 *   2 jobs begin in order of tokens, so the oldest job's token is where a later walk has to begin.
 *     Two keys of one token are both read then, since a walk takes its first token in;
 *   3 while bytes_max of renders wait, a fetch starts only when none is under way and none waits;
 *   4 a failure of one request ends the walk: nothing more starts, and the caller may begin
 *     another. A row that is too large for an answer is given as a render that is unfit. */
#include "cassandra/restbase_impl.h"

#include "base/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANGES = 64,
    KEY_ROWS = 50,   /* of a page */
    NAME_ROWS = 256, /* of a page */
    PAGE_STATE_BYTES_MAX = 1 << 17,
    KEYS_BYTES_MAX = 64,
};

/* NAMES: names are asked for. IDLE: job_step says what is next. FETCH: rows are asked for. READY:
 * render waits for the caller. TAKEN: the caller has it. */
enum job_state { JOB_NAMES, JOB_IDLE, JOB_FETCH, JOB_READY, JOB_TAKEN };

/* One title. Owner: the walk, from job_new until nothing is left of the title. */
struct job {
    struct list link; /* of walk.jobs, in order of tokens */
    struct restbase_walk *walk;
    enum job_state state; /* the walk: see job_state */
    int64_t token;
    str title;  /* its bytes lie behind it */
    bool known; /* the names of a page are there */
    struct restbase_name names[NAME_ROWS];
    unsigned count, at; /* of names; `at` is the render that is next, or under way */
    bool more;          /* names of another page */
    struct buf page_state;
    struct cql_request request; /* for names */
    struct cql_part part;
    struct cql_values values;
    struct restbase_fetch fetch;
    struct restbase_render render;
};

struct restbase_walk {
    uint32_t magic;
    struct restbase_walk_opts opts;
    struct list jobs;
    unsigned jobs_count, fetching; /* fetching: jobs in the state FETCH */
    size_t held;                   /* bytes that wait to be taken, or are taken */
    struct job *taken;             /* the job whose render the caller has; NULL: none */
    /* keys */
    struct cql_request keys;
    struct cql_part part;
    struct cql_values values;
    struct buf page_state;
    struct cql_rows rows;              /* of the outcome that is held */
    bool asking, rows_held, keys_done; /* rows_held: a page of keys whose rows are not used up */
    int64_t low, high;                 /* the range: behind low, up to high */
    bool stopped;
    err failed;
    struct err_note note;
};
#define WALK_MAGIC 0x4e57a1c0u

static void walk_pump(struct restbase_walk *w);

static void walk_changed(struct restbase_walk *w)
{
    w->opts.changed(w->opts.ctx);
}

/* The first failure stays. Requests that are under way are waited for all the same
 * (restbase_walk_idle). */
static void walk_fail(struct restbase_walk *w, err why, const char *note)
{
    if (w->failed == ERR_OK) {
        w->failed = why;
        err_note_set(&w->note, "%s", note);
    }
    walk_changed(w);
}

static bool walk_over(const struct restbase_walk *w)
{
    return w->stopped || w->failed != ERR_OK;
}

/* ---- jobs ---- */

/* Nothing of it is under way. */
static void job_free(struct job *j)
{
    list_remove(&j->link);
    j->walk->jobs_count--;
    restbase_fetch_fini(&j->fetch);
    buf_fini(&j->page_state);
    free(j);
}

/* Makes a render of what was fetched; name NULL: the title itself is unfit. The caller is told that
 * there is one. */
static void job_render(struct job *j, const struct restbase_name *name, const char *unfit)
{
    j->render = (struct restbase_render){ .title = j->title, .unfit = unfit };
    if (name != NULL) {
        j->render.rev = name->rev;
        j->render.tid = name->tid;
    }
    memcpy(j->render.parts, j->fetch.parts, sizeof j->render.parts);
    j->state = JOB_READY;
    walk_changed(j->walk);
}

/* The rows of a render are there, or the render is gone, or they could not be read. */
static void on_fetched(struct restbase_fetch *f)
{
    struct job *j = CONTAINER_OF(f, struct job, fetch);
    struct restbase_walk *w = j->walk;
    w->fetching--;
    /* Counted while it waits; restbase_walk_drop takes the bytes back. */
    w->held += f->bytes;
    j->state = JOB_IDLE;
    if (f->why != ERR_OK && f->why != ERR_LIMIT)
        walk_fail(w, f->why, f->note.text);
    else if (f->why == ERR_LIMIT)
        job_render(j, f->name, "it is too large to be read");
    else if (!f->gone)
        job_render(j, f->name, f->parts[0].there ? NULL : "its value is null");
    if (j->state == JOB_IDLE) { /* it is gone, or the walk failed */
        w->held -= f->bytes;
        restbase_fetch_fini(f);
        j->at++;
    }
    walk_pump(w);
}

/* Asks for the rows of the next render. A name that is unfit is given as it is, without a question.
 */
static void job_fetch(struct job *j)
{
    const struct restbase_name *name = &j->names[j->at];
    memset(j->fetch.parts, 0, sizeof j->fetch.parts);
    if (name->unfit != NULL) {
        j->fetch.bytes = 0;
        job_render(j, name, name->unfit);
        return;
    }
    j->state = JOB_FETCH;
    j->walk->fetching++;
    struct restbase *r = j->walk->opts.reader;
    j->fetch.domain = str_of(r->domain);
    j->fetch.title = j->title;
    j->fetch.name = name;
    j->fetch.deadline = mono_add_ms(clock_mono(r->clock), r->timeout_ms);
    restbase_fetch_start(&j->fetch);
}

static err names_take(struct job *j)
{
    struct cql_rows rows = j->request.out.rows;
    struct cql_cell cells[2];
    j->count = j->at = 0;
    j->more = rows.more;
    /* Names are at most as many as were asked for; the array has no room for more. */
    if (rows.columns == NULL || rows.columns->count != 2 || rows.count > NAME_ROWS)
        return ERR_CORRUPT;
    while (cql_rows_next(&rows, cells))
        restbase_name_take(&j->names[j->count++], cells);
    buf_clear(&j->page_state);
    if (rows.more)
        buf_put(&j->page_state, rows.page_state);
    /* A partition that has static columns alone is one row without a name: the title has no render.
     */
    str rev;
    if (j->count == 1 && !cql_get_bytes(&cells[0], &rev))
        j->count = 0;
    return rows.rest.failed ? ERR_CORRUPT : buf_status(&j->page_state);
}

static void on_names(struct cql_request *q)
{
    struct job *j = CONTAINER_OF(q, struct job, request);
    err why = q->out.why != ERR_OK ? q->out.why : names_take(j);
    j->state = JOB_IDLE;
    if (why != ERR_OK)
        walk_fail(j->walk, why,
                  q->out.why != ERR_OK ? q->out.note.text : "names of renders cannot be read");
    cql_outcome_fini(&q->out);
    cql_values_fini(&j->values);
    walk_pump(j->walk);
}

/* Asks for the first page of names, or the next one: page_state is empty at first. */
static void job_names(struct job *j)
{
    struct restbase *r = j->walk->opts.reader;
    cql_values_init(&j->values, 256 << 10);
    cql_put_bytes(&j->values, str_of(r->domain));
    cql_put_bytes(&j->values, j->title);
    j->part = (struct cql_part){ .statement = r->names, .values = &j->values };
    restbase_request(&j->request, on_names);
    j->request.way = CQL_WAY_EXECUTE;
    j->request.parts = &j->part;
    j->request.params.page_rows = NAME_ROWS;
    j->request.params.page_state = buf_str(&j->page_state);
    j->request.deadline = mono_add_ms(clock_mono(r->clock), r->timeout_ms);
    j->state = JOB_NAMES;
    /* Also when it fails: then the walk is over. */
    j->known = true;
    cql_start(r->client, &j->request);
}

/* A job for one key. Its title stands behind the job in memory. */
static void job_new(struct restbase_walk *w, str title, int64_t token)
{
    struct job *j = calloc(1, sizeof *j + title.n);
    INVARIANT(j != NULL);
    *j = (struct job){ .walk = w, .token = token, .state = JOB_IDLE };
    j->fetch.reader = w->opts.reader;
    j->fetch.done = on_fetched;
    buf_init(&j->page_state, PAGE_STATE_BYTES_MAX);
    memcpy((char *)(j + 1), title.p, title.n);
    j->title = (str){ .p = (char *)(j + 1), .n = title.n };
    list_append(&w->jobs, &j->link);
    w->jobs_count++;
    /* Such a title cannot be one of ours. It is told to the caller by its token's render. */
    if (title.n == 0 || title.n > RESTBASE_TITLE_BYTES_MAX) {
        j->known = true;
        job_render(j, NULL, title.n == 0 ? "its title is empty" : "its title is too long");
    }
}

/* May one more render be read? One always may when nothing waits, however large it is. */
static bool fetch_fits(const struct restbase_walk *w)
{
    return w->held < w->opts.bytes_max || (w->fetching == 0 && w->held == 0);
}

/* Takes the next step of an idle job. False: the job is done. */
static bool job_step(struct job *j)
{
    if (j->at < j->count) {
        if (fetch_fits(j->walk))
            job_fetch(j);
        return true;
    }
    if (j->known && !j->more)
        return false;
    job_names(j);
    return true;
}

/* ---- keys ---- */

/* The last token of the range that this token is in. Tokens are signed: they are moved to 0 and up,
 * where a range is a multiple of its width. */
static int64_t range_end(int64_t low)
{
    uint64_t width = UINT64_MAX / RANGES + 1, at = (uint64_t)low - (uint64_t)INT64_MIN;
    uint64_t end = (at / width + 1) * width - 1;
    return (int64_t)(end + (uint64_t)INT64_MIN);
}

/* A page of keys. The answer is held while jobs are made of its rows. */
static void on_keys(struct cql_request *q)
{
    struct restbase_walk *w = CONTAINER_OF(q, struct restbase_walk, keys);
    w->asking = false;
    cql_values_fini(&w->values);
    bool good =
        q->out.why == ERR_OK && q->out.rows.columns != NULL && q->out.rows.columns->count == 3;
    if (!good) {
        walk_fail(w, q->out.why == ERR_OK ? ERR_CORRUPT : q->out.why,
                  q->out.why == ERR_OK ? "keys cannot be read" : q->out.note.text);
        cql_outcome_fini(&q->out);
        return;
    }
    w->rows = q->out.rows;
    w->rows_held = true;
    walk_pump(w);
}

/* Asks for the next page of the range, behind low and up to high. */
static void keys_ask(struct restbase_walk *w)
{
    struct restbase *r = w->opts.reader;
    cql_values_init(&w->values, KEYS_BYTES_MAX);
    cql_put_i64(&w->values, w->low);
    cql_put_i64(&w->values, w->high);
    w->part = (struct cql_part){ .statement = r->keys, .values = &w->values };
    restbase_request(&w->keys, on_keys);
    w->keys.way = CQL_WAY_EXECUTE;
    w->keys.parts = &w->part;
    w->keys.params.page_rows = KEY_ROWS;
    w->keys.params.page_state = buf_str(&w->page_state);
    w->keys.deadline = mono_add_ms(clock_mono(r->clock), r->timeout_ms);
    w->asking = true;
    cql_start(r->client, &w->keys);
}

/* The page is used up: asks for the next one, or for the next range. Behind the last range no key
 * comes any more. */
static void keys_turn(struct restbase_walk *w)
{
    buf_clear(&w->page_state);
    bool more = w->rows.more;
    if (more)
        buf_put(&w->page_state, w->rows.page_state);
    bool broken = w->rows.rest.failed || buf_status(&w->page_state) != ERR_OK;
    cql_outcome_fini(&w->keys.out);
    w->rows_held = false;
    if (broken) {
        walk_fail(w, ERR_CORRUPT, "keys cannot be read");
        return;
    }
    if (!more && w->high == INT64_MAX) {
        w->keys_done = true;
        walk_changed(w);
        return;
    }
    if (!more) {
        w->low = w->high;
        w->high = w->low == INT64_MAX ? INT64_MAX : range_end(w->low + 1);
    }
    keys_ask(w);
}

/* Makes jobs of the keys that are there, as many as may be at once. Keys of other domains are
 * passed over. */
static void keys_take(struct restbase_walk *w)
{
    struct cql_cell cells[3];
    while (w->jobs_count < w->opts.titles && w->rows_held && !walk_over(w)) {
        str domain, key;
        int64_t token;
        if (!cql_rows_next(&w->rows, cells))
            keys_turn(w);
        else if (cql_get_bytes(&cells[0], &domain) && cql_get_bytes(&cells[1], &key) &&
                 cql_get_i64(&cells[2], &token) && str_eq(domain, str_of(w->opts.reader->domain)))
            job_new(w, key, token);
    }
}

/* ---- the walk ---- */

/* Does all that can be done now: idle jobs take their next step, and new jobs take the place of
 * finished ones. Called behind each answer, and when a render was dropped. */
static void walk_pump(struct restbase_walk *w)
{
    if (walk_over(w))
        return;
    struct list *next;
    for (struct list *l = w->jobs.next; l != &w->jobs; l = next) {
        struct job *j = CONTAINER_OF(l, struct job, link);
        next = l->next;
        if (j->state == JOB_IDLE && !job_step(j))
            job_free(j);
    }
    unsigned before = w->jobs_count;
    keys_take(w);
    /* New jobs are idle; each takes its first step. */
    if (w->jobs_count > before)
        walk_pump(w);
    else if (w->keys_done && w->jobs_count == 0)
        walk_changed(w);
}

struct restbase_walk *restbase_walk_new(const struct restbase_walk_opts *opts)
{
    INVARIANT(opts->titles >= 1);
    INVARIANT(opts->titles <= RESTBASE_WALK_TITLES_MAX);
    INVARIANT(opts->reader->domain != NULL);
    struct restbase_walk *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct restbase_walk){ .magic = WALK_MAGIC,
                                 .opts = *opts,
                                 /* The statement asks for tokens behind low, and the walk takes its
                                  * first token in. */
                                 .low = opts->from > INT64_MIN ? opts->from - 1 : INT64_MIN,
                                 .high = range_end(opts->from) };
    list_init(&w->jobs);
    buf_init(&w->page_state, PAGE_STATE_BYTES_MAX);
    keys_ask(w);
    return w;
}

/* The token where a later walk must begin to find the renders that this one has not given. That is
 * at the oldest job, or behind the keys that are worked off. */
static int64_t walk_from(const struct restbase_walk *w)
{
    struct list *first = list_first(&w->jobs);
    return first != NULL ? CONTAINER_OF(first, struct job, link)->token : w->low;
}

enum restbase_next restbase_walk_next(struct restbase_walk *w, const struct restbase_render **out,
                                      err *why, struct err_note *note)
{
    MAGIC_CHECK(w, WALK_MAGIC);
    INVARIANT(w->taken == NULL);
    /* Older jobs first, so that their end lets a later walk begin further on. */
    for (struct list *l = w->jobs.next; l != &w->jobs; l = l->next) {
        struct job *j = CONTAINER_OF(l, struct job, link);
        if (j->state != JOB_READY)
            continue;
        j->state = JOB_TAKEN;
        /* Worked out when it is taken: older jobs may have ended since the render was made. */
        j->render.from = walk_from(w);
        w->taken = j;
        *out = &j->render;
        return RESTBASE_RENDER;
    }
    if (w->failed != ERR_OK) {
        *why = w->failed;
        *note = w->note;
        return RESTBASE_FAILED;
    }
    return w->keys_done && w->jobs_count == 0 ? RESTBASE_END : RESTBASE_WAIT;
}

void restbase_walk_drop(struct restbase_walk *w)
{
    MAGIC_CHECK(w, WALK_MAGIC);
    struct job *j = w->taken;
    INVARIANT(j != NULL);
    w->taken = NULL;
    w->held -= j->fetch.bytes;
    j->fetch.bytes = 0;
    /* The bytes go back to the client; the job goes on with its next render. */
    restbase_fetch_fini(&j->fetch);
    j->at++;
    j->state = JOB_IDLE;
    walk_pump(w);
}

unsigned restbase_walk_mille(const struct restbase_walk *w)
{
    MAGIC_CHECK(w, WALK_MAGIC);
    uint64_t at = (uint64_t)walk_from(w) - (uint64_t)INT64_MIN;
    return w->keys_done && w->jobs_count == 0 ? 1000 : (unsigned)(at / (UINT64_MAX / 1000));
}

void restbase_walk_stop(struct restbase_walk *w)
{
    MAGIC_CHECK(w, WALK_MAGIC);
    w->stopped = true;
    if (w->asking)
        cql_cancel(&w->keys);
    for (struct list *l = w->jobs.next; l != &w->jobs; l = l->next) {
        struct job *j = CONTAINER_OF(l, struct job, link);
        if (j->state == JOB_NAMES)
            cql_cancel(&j->request);
        else if (j->state == JOB_FETCH)
            restbase_fetch_cancel(&j->fetch);
    }
}

/* Fetches are counted; requests for names are a state of their job. */
bool restbase_walk_idle(const struct restbase_walk *w)
{
    MAGIC_CHECK(w, WALK_MAGIC);
    if (w->asking || w->fetching > 0)
        return false;
    for (struct list *l = w->jobs.next; l != &w->jobs; l = l->next)
        if (CONTAINER_OF(l, struct job, link)->state == JOB_NAMES)
            return false;
    return true;
}

void restbase_walk_free(struct restbase_walk **wp)
{
    struct restbase_walk *w = *wp;
    if (w == NULL)
        return;
    INVARIANT(restbase_walk_idle(w));
    while (!list_empty(&w->jobs))
        job_free(CONTAINER_OF(w->jobs.next, struct job, link));
    if (w->rows_held)
        cql_outcome_fini(&w->keys.out);
    buf_fini(&w->page_state);
    w->magic = 0;
    free(w);
    *wp = NULL;
}
