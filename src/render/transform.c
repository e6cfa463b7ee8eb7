/* transform.c - one transform at an origin: TURN --> ASK --> CHECK --> done. Only ASK runs under
 * the pass: the origin has done its part then. */
#include "render/fetch.h"
#include "render/reply.h"

enum step { STEP_TURN, STEP_ASK, STEP_CHECK };
/* A transform under way; in the arena of the request. */
struct transform_work {
    struct transform_request *t;
    enum step step;
    struct limiter_pass pass;
    struct fetch fetch;
    struct loop_job job;
    enum render_why why;
    bool canceled;
};

/* By what comes out; a pagebundle is the rest. */
static enum reply_kind kind_of(const struct transform_request *t)
{
    static const struct {
        const char *to;
        enum reply_kind kind;
    } kinds[] = { { "html", REPLY_HTML }, { "wikitext", REPLY_WIKITEXT }, { "lint", REPLY_LINT } };
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(str_of(t->to), str_of(kinds[i].to)))
            return kinds[i].kind;
    return REPLY_BUNDLE;
}

static void transform_finish(struct transform_work *w, enum render_why why)
{
    if (why == RENDER_CANCELED)
        err_note_set(&w->t->note, "canceled");
    w->t->done(w->t, why);
}

/* Does the type name wikitext's specification? PHP that died sends no such type: MediaWiki writes
 * the head when the answer is complete. */
static bool names_wikitext(str content_type)
{
    return str_find_str(content_type, STR("/Specs/wikitext/")) < content_type.n;
}

/* Pool. Checked with care: what is believed here is saved as a page. */
static void check_run(struct loop_job *j)
{
    struct transform_work *w = CONTAINER_OF(j, struct transform_work, job);
    struct transform_request *t = w->t;
    w->why = reply_check(&w->fetch.call, kind_of(t), &t->note);
    /* May an empty reply be right, for what was sent? */
    bool fine =
        t->empty == EMPTY_FINE || (t->empty == EMPTY_IF_NAMED && names_wikitext(t->content_type));
    if (w->why == RENDER_FINE && kind_of(t) == REPLY_WIKITEXT && reply_is_open(&w->fetch.call)) {
        err_note_set(&t->note,
                     "the origin's wikitext may be cut: the reply does not say where it ends");
        w->why = RENDER_FAILED;
    }
    if (w->why == RENDER_FINE && t->reply.n == 0 && !fine) {
        err_note_set(&t->note, "the origin's reply is empty, what was sent is not");
        w->why = RENDER_FAILED;
    }
}

/* Loop. */
static void check_done(struct loop_job *j, bool canceled)
{
    struct transform_work *w = CONTAINER_OF(j, struct transform_work, job);
    enum render_why why = canceled || w->canceled ? RENDER_CANCELED : w->why;
    fetch_count(&w->fetch, why);
    transform_finish(w, why);
}

/* Loop. Copies what a refusal needs as well: status, words, the wait that is asked for. */
static void transform_fetched(struct fetch *f, enum render_why why)
{
    struct transform_work *w = f->ctx;
    struct transform_request *t = w->t;
    (void)limiter_leave(t->origin->limiter, &w->pass); /* it is IN */
    t->status = f->call.status;
    t->content_type = http_call_header(&f->call, "content-type");
    t->reply = f->call.reply_body;
    t->retry_after_s = f->retry_after_s;
    t->note = f->note;
    if (why != RENDER_FINE) {
        transform_finish(w, why);
        return;
    }
    w->step = STEP_CHECK;
    w->job = (struct loop_job){ .run = check_run, .done = check_done };
    loop_job_start(t->origin->loop, &w->job);
}

/* What HTML is asked for. Editors send the version they want with every transform; where no HTML
 * comes back the origin would refuse it. */
static str accept_of(const struct transform_request *t)
{
    if (str_eq(str_of(t->to), STR("pagebundle")))
        return fetch_bundle_accept(t->arena, t->accept);
    return str_eq(str_of(t->to), STR("html")) && t->accept.p != NULL ? t->accept : STR("");
}

/* All that is needed before the turn; NULL: the arena is full. */
static struct transform_work *work_new(struct transform_request *t)
{
    struct transform_work *w = arena_calloc(t->arena, 1, sizeof *w);
    str path = arena_printf(t->arena, "transform/%s/to/%s", t->from, t->to);
    str accept = accept_of(t);
    if (w == NULL || path.p == NULL || accept.p == NULL)
        return NULL;
    struct origin_page page = { .title = t->title, .rev = t->rev, .path = path.p };
    bool core = t->origin->opts.kind == ORIGIN_REST;
    w->t = t;
    w->fetch = (struct fetch){ .origin = t->origin,
                               .pass = &w->pass,
                               .kind = FETCH_TRANSFORM,
                               .url = core ? origin_core_url(t->origin, t->arena, &page)
                                           : origin_parsoid_url(t->origin, t->arena, &page),
                               .body = t->body,
                               .reply_bytes_max = t->origin->opts.reply_bytes_max,
                               .deadline = t->deadline,
                               .arena = t->arena,
                               .done = transform_fetched,
                               .ctx = w };
    if (w->fetch.url.p == NULL)
        return NULL;
    fetch_header(&w->fetch, "content-type", STR("application/json"));
    /* A POST that only reads: the wiki need not send it to its primary database. */
    fetch_header(&w->fetch, "promise-non-write-api-action", STR("true"));
    fetch_header(&w->fetch, "accept", accept);
    fetch_header(&w->fetch, "accept-language", t->accept_language);
    fetch_header(&w->fetch, "cookie", t->cookie);
    return w;
}

/* Loop: done is never called inside the start. */
static void refused_here(void *ctx)
{
    struct transform_request *t = ctx;
    bool none = origin_transforms(t->origin) != TRANSFORMS_HAD;
    err_note_set(&t->note, none ? "this origin has no transforms" : "the request's memory is full");
    t->done(t, none ? RENDER_REFUSED : RENDER_LIMIT);
}

static void turned_away(void *ctx)
{
    struct transform_work *w = ctx;
    transform_finish(w, w->canceled ? RENDER_CANCELED : RENDER_BUSY);
}

/* Thread: any. */
static void transform_ask(struct transform_work *w)
{
    w->step = STEP_ASK;
    fetch_start(&w->fetch);
}

/* Loop: the limiter has a place, or the deadline came first. */
static void turn_came(struct limiter_pass *p, bool in)
{
    struct transform_work *w = CONTAINER_OF(p, struct transform_work, pass);
    if (in) {
        transform_ask(w);
        return;
    }
    err_note_set(&w->t->note, "the origin was busy with other transforms until the deadline");
    transform_finish(w, RENDER_TIMEOUT);
}

/* done comes later on the loop in every case. Thread: any. */
void transform_start(struct transform_request *t)
{
    MAGIC_CHECK(t->origin, ORIGIN_MAGIC);
    INVARIANT(t->body.p != NULL);
    t->status = 0;
    t->content_type = t->reply = STR("");
    t->retry_after_s = 0;
    t->note.text[0] = 0;
    t->work = origin_transforms(t->origin) == TRANSFORMS_HAD ? work_new(t) : NULL;
    if (t->work == NULL) {
        loop_post(t->origin->loop, refused_here, t);
        return;
    }
    struct transform_work *w = t->work;
    w->pass = (struct limiter_pass){ .deadline = t->deadline, .go = turn_came };
    enum limiter_state turn =
        limiter_enter(t->origin->limiter, &t->origin->turns[TURN_TRANSFORM], &w->pass);
    if (turn == LIMITER_IN) {
        transform_ask(w);
    } else if (turn == LIMITER_OUT) {
        err_note_set(&t->note, "too many transforms wait for this origin");
        loop_post(t->origin->loop, turned_away, w);
    }
}

/* CHECK is not stopped: check_done sees that it was canceled. */
void transform_cancel(struct transform_request *t)
{
    loop_assert_here(t->origin->loop);
    struct transform_work *w = t->work;
    if (w == NULL || w->canceled)
        return;
    w->canceled = true;
    if (w->step == STEP_ASK)
        fetch_cancel(&w->fetch);
    else if (w->step == STEP_TURN && limiter_leave(t->origin->limiter, &w->pass))
        loop_post(t->origin->loop, turned_away, w);
}
