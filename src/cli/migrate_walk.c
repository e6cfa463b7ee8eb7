/* migrate_walk.c - all renders of a bucket of a server, read over its API.
 *
 * Titles become jobs, in the order of the listing; a job reads a page of its history, then the
 * renders in it, one after the other: explain and all contents at the same time. Invariants:
 * - A job has calls in the air in JOB_HISTORY and JOB_READ alone.
 * - Jobs begin in the order of the listing, so the page of the oldest one is where a later walk
 * begins.
 * - While MIGRATE_BYTES_MAX wait, a render is read only when none is read and none waits.
 * Whatever fails ends the walk; the caller may begin another. */
#include "cli/migrate_walk.h"

#include "base/list.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "page/headers.h"
#include "store/page_store.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES_MAX = 16384, HISTORY_PAGE = 200, ARENA_BYTES = 1 << 20 };
enum job_state { JOB_IDLE, JOB_HISTORY, JOB_READ, JOB_READY, JOB_TAKEN };
enum { CALLS_MAX = UPLOAD_PARTS_MAX + 1 /* explain is the last */ };

struct read_call {
    struct client_call call;
    struct buf path;
    char content[64]; /* empty: no content's */
    bool held;        /* its answer is to be freed */
};
struct job {
    struct list link; /* of walk.jobs */
    struct migrate_walk *walk;
    enum job_state state;
    char *title;
    char mark[MIGRATE_MARK_BYTES]; /* of its page of the listing */
    json_t *history;               /* a page of it; NULL: none yet */
    size_t at;
    struct read_call calls[CALLS_MAX];
    unsigned calls_count, waiting;
    size_t bytes;
    struct arena arena; /* of the render */
    json_t *explained;
    struct migrate_render render;
};
struct migrate_walk {
    struct migrate_walk_opts opts;
    struct list jobs;
    unsigned jobs_count, reading, flying;
    size_t held;
    struct job *taken;
    json_t *titles; /* a page of the listing */
    size_t at;
    char mark[MIGRATE_MARK_BYTES]; /* what that page was asked for with */
    struct read_call listing;
    bool asking, titles_done, stopped;
    uint64_t damaged;
    err failed;
    struct err_note note;
};

static void walk_pump(struct migrate_walk *w);

static void walk_fail(struct migrate_walk *w, err why, const char *note)
{
    if (w->failed == ERR_OK) {
        w->failed = why;
        err_note_set(&w->note, "%s", note);
    }
}

static bool walk_over(const struct migrate_walk *w)
{
    return w->stopped || w->failed != ERR_OK;
}

/* ---- calls ---- */

static void read_begin(struct read_call *r)
{
    *r = (struct read_call){ .held = false };
    buf_init(&r->path, PATH_BYTES_MAX);
}

static void read_start(struct migrate_walk *w, struct read_call *r,
                       void (*done)(struct client_call *call, err why), void *ctx)
{
    r->call = (struct client_call){ .request = { .method = "GET",
                                                 .path = client_path(&r->path),
                                                 .only_stored = true,
                                                 .heads = r->content[0] != '\0' },
                                    .done = done,
                                    .ctx = ctx };
    err why = client_call_start(w->opts.from, &r->call);
    w->flying++;
    if (why != ERR_OK) /* the title came from there, so it fits a path */
        done(&r->call, why);
}

static void read_fini(struct read_call *r)
{
    if (r->held)
        client_answer_fini(&r->call.answer);
    r->held = false;
    buf_fini(&r->path);
}

/* Is it what a Palimpsest says? What it cannot say now ends the walk, as does what is no answer of
 * one. */
static bool answer_good(struct migrate_walk *w, struct client_call *call, err why)
{
    struct err_note note;
    int status = call->answer.status;
    w->flying--;
    if (why != ERR_OK) {
        walk_fail(w, why, call->note.text);
        return false;
    }
    if (status == 200)
        return true;
    enum cli_exit code = client_explain(w->opts.from, &call->answer, &note);
    bool passing = status == 429 || (status >= 500 && status != 501 && status != 504);
    if (status == 401 || code == CLI_NO_SERVER || passing)
        walk_fail(w, passing ? ERR_UNAVAILABLE : ERR_DENIED, note.text);
    return false;
}

static json_t *answer_json(struct migrate_walk *w, struct client_call *call, const char *member)
{
    json_t *doc = json_body_read(buf_str(&call->answer.body));
    if (json_is_array(json_object_get(doc, member)))
        return doc;
    json_decref(doc);
    walk_fail(w, ERR_UNAVAILABLE, "an answer that no Palimpsest gives");
    return NULL;
}

/* ---- a render ---- */

static const json_t *job_item(const struct job *j)
{
    return json_array_get(json_object_get(j->history, "items"), j->at);
}

static void headers_take(struct job *j, const struct client_answer *a, struct upload_part *p)
{
    struct upload_header *more = arena_alloc(&j->arena, PAGE_HEADERS_MAX * sizeof *more);
    INVARIANT(more != NULL); /* the arena has room for CALLS_MAX of them */
    str lines = buf_str(&a->heads);
    p->more = more;
    while (lines.n > 0 && p->more_count < PAGE_HEADERS_MAX - 1) {
        str value = str_split(&lines, '\n'), name = str_split(&value, ':');
        if (str_eq_nocase(name, STR("content-type")) || !headers_may_keep(name, HEADERS_ALL) ||
            !headers_value_is_sane(value))
            continue;
        more[p->more_count++] = (struct upload_header){ .name = name, .value = str_trim(value) };
    }
}

/* The instant until which somebody holds it; pinned: for an edit. */
static void holds_take(struct job *j)
{
    const json_t *holds = json_object_get(j->explained, "holds");
    size_t i;
    json_t *hold;
    json_array_foreach(holds, i, hold)
    {
        str kind = json_body_text(json_object_get(hold, "kind"));
        if (str_eq(kind, STR("stash")))
            j->render.item.pin = true;
        else if (str_eq(kind, STR("hold")))
            j->render.item.hold_until = json_body_text(json_object_get(hold, "until"));
    }
}

static void job_ready(struct job *j, const char *unfit)
{
    struct upload_item *item = &j->render.item;
    const json_t *from = job_item(j);
    *item = (struct upload_item){ .title = str_of(j->title),
                                  .rev = (uint64_t)json_integer_value(json_object_get(from, "rev")),
                                  .mark = str_of(j->mark) };
    j->render.unfit = unfit;
    if (item->rev == 0 || !tid_parse(json_body_text(json_object_get(from, "tid")), &item->tid))
        j->render.unfit = "it has no name";
    for (unsigned i = 0; j->render.unfit == NULL && i < j->calls_count; i++) {
        struct read_call *r = &j->calls[i];
        if (r->content[0] == '\0')
            continue;
        struct upload_part *p = &item->parts[item->parts_count++];
        *p = (struct upload_part){ .content = r->content,
                                   .type = r->call.answer.content_type,
                                   .bytes = buf_str(&r->call.answer.body),
                                   .binary = !utf8_valid(buf_str(&r->call.answer.body)) };
        headers_take(j, &r->call.answer, p);
    }
    if (j->render.unfit == NULL)
        holds_take(j);
    j->state = JOB_READY;
}

static void on_read(struct client_call *call, err why)
{
    struct job *j = call->ctx;
    struct migrate_walk *w = j->walk;
    struct read_call *r = CONTAINER_OF(call, struct read_call, call);
    bool good = answer_good(w, call, why);
    r->held = true;
    j->bytes += call->answer.body.n;
    if (!good && r->content[0] != '\0')
        j->render.unfit = "that server does not give it out";
    if (good && r->content[0] == '\0')
        j->explained = json_body_read(buf_str(&call->answer.body));
    if (--j->waiting == 0) {
        w->reading--;
        w->held += j->bytes;
        job_ready(j, j->render.unfit);
    }
    walk_pump(w);
    w->opts.changed(w->opts.ctx);
}

static struct read_call *job_call(struct job *j, str what)
{
    char rev[24];
    const json_t *item = job_item(j);
    (void)snprintf(rev, sizeof rev, "%lld",
                   (long long)json_integer_value(json_object_get(item, "rev"))); /* fits */
    struct read_call *r = &j->calls[j->calls_count++];
    read_begin(r);
    client_path_render(j->walk->opts.from, &r->path, what, str_of(j->title),
                       (const char *const[]){ rev,
                                              json_string_value(json_object_get(item, "tid")) });
    return r;
}

/* Nothing of it is given out, and what an earlier walk has copied has to go there, too. */
static bool item_is_hidden(const struct job *j)
{
    str state = json_body_text(json_object_get(job_item(j), "state"));
    return str_eq(state, STR("suppressed")) || str_eq(state, STR("deleted"));
}

/* Asks for all of the render that is next. */
static void job_read(struct job *j)
{
    const char *name;
    json_t *bytes, *contents = json_object_get(job_item(j), "bytes");
    arena_init(&j->arena, ARENA_BYTES);
    j->calls_count = 0;
    j->bytes = 0;
    j->render.unfit = NULL;
    j->render.hidden = item_is_hidden(j);
    if (j->render.hidden) {
        job_ready(j, NULL);
        j->render.item.purge = true;
        return;
    }
    if (json_object_size(contents) == 0 || json_object_size(contents) > UPLOAD_PARTS_MAX) {
        job_ready(j, "it has no contents, or too many");
        return;
    }
    json_object_foreach(contents, name, bytes)
    {
        struct read_call *r = job_call(j, str_of(name));
        buf_put(&r->path, STR("?redirect=false"));
        if (!str_to_cstr(str_of(name), r->content, sizeof r->content))
            r->content[0] = '\0'; /* no Palimpsest has such a name */
    }
    (void)job_call(j, STR("explain"));
    j->state = JOB_READ;
    j->walk->reading++;
    j->waiting = j->calls_count;
    for (unsigned i = 0; i < j->calls_count; i++)
        read_start(j->walk, &j->calls[i], on_read, j);
}

static void render_free(struct job *j)
{
    for (unsigned i = 0; i < j->calls_count; i++)
        read_fini(&j->calls[i]);
    j->calls_count = 0;
    json_decref(j->explained);
    j->explained = NULL;
    arena_fini(&j->arena);
    j->bytes = 0;
}

/* ---- a title ---- */

static void job_free(struct job *j)
{
    list_remove(&j->link);
    j->walk->jobs_count--;
    render_free(j);
    json_decref(j->history);
    free(j->title);
    free(j);
}

static void on_history(struct client_call *call, err why)
{
    struct job *j = call->ctx;
    struct migrate_walk *w = j->walk;
    bool good = answer_good(w, call, why);
    j->calls[0].held = true;
    json_t *page = good ? answer_json(w, call, "items") : NULL;
    json_decref(j->history);
    j->history = page != NULL ? page : json_object(); /* 404: nothing is there any more */
    w->damaged += json_array_size(json_object_get(page, "damaged"));
    j->at = 0;
    read_fini(&j->calls[0]);
    j->calls_count = 0;
    j->state = JOB_IDLE;
    walk_pump(w);
    w->opts.changed(w->opts.ctx);
}

static void job_history(struct job *j, const char *next)
{
    struct read_call *r = &j->calls[0];
    read_begin(r);
    client_path_render(j->walk->opts.from, &r->path, STR("history"), str_of(j->title), NULL);
    buf_printf(&r->path, "?limit=%d", HISTORY_PAGE);
    if (next != NULL) {
        buf_put(&r->path, STR("&page="));
        client_path_text(&r->path, str_of(next));
    }
    j->calls_count = 1;
    j->state = JOB_HISTORY;
    read_start(j->walk, r, on_history, j);
}

/* False: nothing is left of it. */
static bool job_step(struct job *j)
{
    const struct migrate_walk *w = j->walk;
    if (job_item(j) != NULL) {
        if (w->held < MIGRATE_BYTES_MAX || (w->reading == 0 && w->held == 0))
            job_read(j);
        return true;
    }
    const char *next = json_string_value(json_object_get(j->history, "next"));
    if (j->history != NULL && next == NULL)
        return false;
    job_history(j, next);
    return true;
}

static void job_new(struct migrate_walk *w, const json_t *item)
{
    const char *title =
        json_string_value(json_is_string(item) ? item : json_object_get(item, "title"));
    if (title == NULL) {
        walk_fail(w, ERR_UNAVAILABLE, "a listing that no Palimpsest gives");
        return;
    }
    struct job *j = calloc(1, sizeof *j);
    INVARIANT(j != NULL);
    *j = (struct job){ .walk = w, .title = strdup(title) };
    INVARIANT(j->title != NULL);
    memcpy(j->mark, w->mark, sizeof j->mark);
    list_append(&w->jobs, &j->link);
    w->jobs_count++;
}

/* ---- the listing ---- */

static void on_titles(struct client_call *call, err why)
{
    struct migrate_walk *w = call->ctx;
    bool good = answer_good(w, call, why);
    if (!good && w->failed == ERR_OK) {
        struct err_note note;
        (void)client_explain(w->opts.from, &call->answer, &note);
        walk_fail(w, ERR_NOT_FOUND, note.text);
    }
    w->titles = good ? answer_json(w, call, "items") : NULL;
    w->damaged += json_array_size(json_object_get(w->titles, "damaged"));
    w->at = 0;
    w->asking = false;
    w->listing.held = true;
    read_fini(&w->listing);
    walk_pump(w);
    w->opts.changed(w->opts.ctx);
}

static void titles_ask(struct migrate_walk *w)
{
    read_begin(&w->listing);
    client_path_bucket(w->opts.from, &w->listing.path);
    buf_printf(&w->listing.path, "/title/?limit=%d", MIGRATE_TITLES_PAGE);
    if (w->mark[0] != '\0') {
        buf_put(&w->listing.path, STR("&page="));
        client_path_text(&w->listing.path, str_of(w->mark));
    }
    w->asking = true;
    read_start(w, &w->listing, on_titles, w);
}

/* The page is used up. */
static void titles_turn(struct migrate_walk *w)
{
    str next = json_body_text(json_object_get(w->titles, "next"));
    if (next.n == 0)
        w->titles_done = true;
    else if (!str_to_cstr(next, w->mark, sizeof w->mark))
        walk_fail(w, ERR_UNAVAILABLE, "a listing that no Palimpsest gives");
    json_decref(w->titles);
    w->titles = NULL;
    if (!w->titles_done && !walk_over(w))
        titles_ask(w);
}

static void titles_take(struct migrate_walk *w)
{
    while (w->titles != NULL && w->jobs_count < MIGRATE_TITLES && !walk_over(w)) {
        const json_t *item = json_array_get(json_object_get(w->titles, "items"), w->at++);
        if (item == NULL)
            titles_turn(w);
        else
            job_new(w, item);
    }
}

/* ---- the walk ---- */

static void walk_pump(struct migrate_walk *w)
{
    unsigned before;
    do {
        struct list *next;
        for (struct list *l = w->jobs.next; l != &w->jobs && !walk_over(w); l = next) {
            struct job *j = CONTAINER_OF(l, struct job, link);
            next = l->next;
            if (j->state == JOB_IDLE && !job_step(j))
                job_free(j);
        }
        before = w->jobs_count;
        titles_take(w);
    } while (w->jobs_count > before && !walk_over(w));
}

struct migrate_walk *migrate_walk_new(const struct migrate_walk_opts *opts)
{
    struct migrate_walk *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct migrate_walk){ .opts = *opts };
    list_init(&w->jobs);
    if (opts->mark != NULL && !str_to_cstr(str_of(opts->mark), w->mark, sizeof w->mark))
        w->mark[0] = '\0';
    titles_ask(w);
    return w;
}

const char *migrate_walk_mark(const struct migrate_walk *w)
{
    struct list *first = list_first(&w->jobs);
    return first != NULL ? CONTAINER_OF(first, struct job, link)->mark : w->mark;
}

enum migrate_next migrate_walk_next(struct migrate_walk *w, const struct migrate_render **out,
                                    err *why, struct err_note *note)
{
    INVARIANT(w->taken == NULL);
    for (struct list *l = w->jobs.next; l != &w->jobs && w->failed == ERR_OK; l = l->next) {
        struct job *j = CONTAINER_OF(l, struct job, link);
        if (j->state != JOB_READY)
            continue;
        j->state = JOB_TAKEN;
        j->render.item.mark = str_of(migrate_walk_mark(w));
        w->taken = j;
        *out = &j->render;
        return MIGRATE_RENDER;
    }
    if (w->failed != ERR_OK) {
        *why = w->failed;
        *note = w->note;
        return MIGRATE_FAILED;
    }
    return w->titles_done && w->jobs_count == 0 ? MIGRATE_END : MIGRATE_WAIT;
}

void migrate_walk_drop(struct migrate_walk *w)
{
    struct job *j = w->taken;
    INVARIANT(j != NULL);
    w->taken = NULL;
    w->held -= j->bytes;
    render_free(j);
    j->at++;
    j->state = JOB_IDLE;
    walk_pump(w);
}

uint64_t migrate_walk_damaged(const struct migrate_walk *w)
{
    return w->damaged;
}

static void calls_cancel(struct job *j)
{
    bool flies = j->state == JOB_READ || j->state == JOB_HISTORY;
    for (unsigned i = 0; flies && i < j->calls_count; i++)
        if (!j->calls[i].held)
            client_call_cancel(&j->calls[i].call);
}

void migrate_walk_free(struct migrate_walk **wp)
{
    struct migrate_walk *w = *wp;
    if (w == NULL)
        return;
    w->stopped = true;
    if (w->asking)
        client_call_cancel(&w->listing.call);
    for (struct list *l = w->jobs.next; l != &w->jobs; l = l->next)
        calls_cancel(CONTAINER_OF(l, struct job, link));
    while (w->flying > 0)
        client_turn(w->opts.from, -1);
    while (!list_empty(&w->jobs))
        job_free(CONTAINER_OF(w->jobs.next, struct job, link));
    json_decref(w->titles);
    free(w);
    *wp = NULL;
}
