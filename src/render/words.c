/* words.c - one question for words: TURN --> ASK --> PARSE --> done, for check_call.c. Only ASK
 * runs under the pass. A GET that is answered with 414 is asked again within ASK, by POST. */
#include "render/words.h"

#include "render/api.h"
#include "render/api_words.h"
#include "render/fetch.h"
#include "render/title_rules.h"

enum { WORDS_REPLY_BYTES_MAX = 1 << 20 };

enum step { STEP_TURN, STEP_ASK, STEP_PARSE };
/* A question under way; in the arena of the request. */
struct words_work {
    struct words_request *r;
    enum step step;
    bool canceled;
    str query;
    struct limiter_pass pass;
    struct fetch fetch;
    struct loop_job job;
    enum render_why why; /* of PARSE, or of not starting */
};

static enum render_why words_fail(struct words_request *r, enum render_why why, const char *what)
{
    err_note_set(&r->note, "%s", what);
    return why;
}

/* Loop. Without an answer no title may look answered. */
static void words_finish(struct words_work *w, enum render_why why)
{
    struct words_request *r = w->r;
    if (why == RENDER_CANCELED)
        err_note_set(&r->note, "canceled");
    if (why != RENDER_FINE)
        api_words_clear(&r->words);
    if (why != RENDER_BUSY)
        r->retry_after_s = 0;
    r->done(r, why);
}

/* ---- PARSE ---- */

static void parse_run(struct loop_job *j)
{
    struct words_work *w = CONTAINER_OF(j, struct words_work, job);
    struct words_request *r = w->r;
    struct siteinfo *s = origin_siteinfo(r->origin); /* which asks for it when it is not known */
    w->why = api_words_parse(r->arena, w->fetch.call.reply_body, s, &r->words, &r->note);
    siteinfo_unref(&s);
}

static void parse_done(struct loop_job *j, bool canceled)
{
    struct words_work *w = CONTAINER_OF(j, struct words_work, job);
    enum render_why why = canceled || w->canceled ? RENDER_CANCELED : w->why;
    fetch_count(&w->fetch, why);
    words_finish(w, why);
}

/* ---- ASK ---- */

/* What a status says of words. A 404 of api.php itself says nothing of titles. A denial that is not
 * the API's own comes from a server before the wiki: the wiki is not closed by it. */
static enum render_why judge_status(struct words_work *w, enum render_why why)
{
    struct err_note note;
    if (why == RENDER_NO_REVISION)
        return RENDER_FAILED;
    w->r->barred =
        why == RENDER_DENIED && api_parse_error(w->fetch.call.reply_body, &note) != RENDER_DENIED;
    return w->r->barred ? RENDER_REFUSED : why;
}

static bool words_ask(struct words_work *w, bool post);

static void words_fetched(struct fetch *f, enum render_why why)
{
    struct words_work *w = f->ctx;
    struct words_request *r = w->r;
    /* 414: some server does not take a URL so long; a POST has no such limit. */
    bool too_long = why == RENDER_REFUSED && f->call.status == 414 && f->body.p == NULL;
    if (too_long && words_ask(w, true))
        return;
    (void)limiter_leave(r->origin->limiter, &w->pass); /* it is IN */
    r->retry_after_s = f->retry_after_s;
    if (why != RENDER_FINE) {
        r->note = f->note;
        words_finish(w, judge_status(w, why));
        return;
    }
    w->step = STEP_PARSE;
    w->job = (struct loop_job){ .run = parse_run, .done = parse_done };
    loop_job_start(r->origin->loop, &w->job);
}

/* Sends the question, as POST if it is too long for a URL. False: the arena is full. Thread:
 * any. */
static bool words_ask(struct words_work *w, bool post)
{
    struct words_request *r = w->r;
    struct origin *o = r->origin;
    str url = origin_api_url(o, r->arena, w->query), body = STR_NONE;
    if (post || url.n > WORDS_URL_BYTES_MAX) {
        url = str_of(o->opts.api);
        body = arena_printf(r->arena, ORIGIN_API_QUERY "%.*s", STR_ARG(w->query));
        post = true;
    }
    if (url.p == NULL || (post && body.p == NULL))
        return false;
    w->fetch = (struct fetch){ .origin = o,
                               .pass = &w->pass,
                               .kind = r->words.titles_count > 0 ? FETCH_WORD : FETCH_REVISIONS,
                               .url = url,
                               .body = body,
                               /* A POST that only reads may be sent again. */
                               .reads = true,
                               .reply_bytes_max = WORDS_REPLY_BYTES_MAX,
                               .deadline = r->deadline,
                               .arena = r->arena,
                               .done = words_fetched,
                               .ctx = w };
    if (post) {
        fetch_header(&w->fetch, "content-type", STR("application/x-www-form-urlencoded"));
        fetch_header(&w->fetch, "promise-non-write-api-action", STR("true"));
    }
    w->step = STEP_ASK;
    fetch_start(&w->fetch);
    return true;
}

/* ---- start and cancel ---- */

/* Loop: done is never called inside the start. */
static void refused_here(void *ctx)
{
    struct words_request *r = ctx;
    struct words_work *w = r->work;
    if (w == NULL) {
        r->done(r, words_fail(r, RENDER_LIMIT, "the request's memory is full"));
        return;
    }
    (void)limiter_leave(r->origin->limiter, &w->pass); /* in whichever state */
    words_finish(w, w->canceled ? RENDER_CANCELED : w->why);
}

/* The turn has come. Thread: any. */
static void words_begin(struct words_work *w)
{
    if (words_ask(w, false))
        return;
    w->why = words_fail(w->r, RENDER_LIMIT, "the request's memory is full");
    loop_post(w->r->origin->loop, refused_here, w->r);
}

static void turn_came(struct limiter_pass *p, bool in)
{
    struct words_work *w = CONTAINER_OF(p, struct words_work, pass);
    if (in)
        words_begin(w);
    else
        words_finish(w, words_fail(w->r, RENDER_TIMEOUT,
                                   "the origin was busy with other words until the deadline"));
}

/* All that is needed before the turn; NULL: the arena is full. */
static struct words_work *work_new(struct words_request *r)
{
    struct words_work *w = arena_calloc(r->arena, 1, sizeof *w);
    str query = api_words_query(r->arena, &r->words);
    if (w == NULL || query.p == NULL)
        return NULL;
    *w = (struct words_work){ .r = r,
                              .step = STEP_TURN,
                              .query = query,
                              .pass = { .deadline = r->deadline, .go = turn_came } };
    return w;
}

void words_start(struct words_request *r)
{
    MAGIC_CHECK(r->origin, ORIGIN_MAGIC);
    INVARIANT(r->words.titles_count <= WORDS_MAX);
    INVARIANT(r->words.revisions_count <= WORDS_MAX);
    INVARIANT(r->words.titles_count == 0 || r->words.revisions_count == 0);
    api_words_clear(&r->words);
    r->retry_after_s = 0;
    r->barred = false;
    r->note.text[0] = 0;
    struct words_work *w = r->work = work_new(r);
    struct origin *o = r->origin;
    enum limiter_state turn = LIMITER_OUT;
    if (w != NULL && !origin_has_api(o)) {
        w->why = words_fail(r, RENDER_REFUSED, "this origin has no api.php");
    } else if (w != NULL) {
        turn = limiter_enter(o->limiter, &o->turns[TURN_WORD], &w->pass); /* may be over by now */
        if (turn == LIMITER_OUT)
            w->why = words_fail(r, RENDER_BUSY, "too many requests wait for this origin's words");
    }
    if (turn == LIMITER_IN)
        words_begin(w);
    else if (turn == LIMITER_OUT)
        loop_post(o->loop, refused_here, r);
}

/* PARSE is not stopped: parse_done sees that it was canceled. */
void words_cancel(struct words_request *r)
{
    loop_assert_here(r->origin->loop);
    struct words_work *w = r->work;
    if (w == NULL || w->canceled)
        return;
    w->canceled = true;
    if (w->step == STEP_ASK)
        fetch_cancel(&w->fetch);
    else if (w->step == STEP_TURN && limiter_leave(r->origin->limiter, &w->pass))
        loop_post(r->origin->loop, refused_here, r);
}
