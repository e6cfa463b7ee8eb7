/* request.c - a render is had in steps, each of which may end it:
 *
 *   start --> TURN --> META --> PURGE --> META --> TEXT --> PARSE --> done
 *       \-----/  \----------------------------/
 *
 * TURN: at the limiter, unless a pass was brought. A render is two requests. Let in one by one they
 * would all ask for their metadata first, and then, behind one another, all run out of time; so a
 * render is let in as a whole, and its requests wait no more.
 * META: api.php: which revision, and whose (or who asks). PURGE: before a fresh render of core's
 * routes: they cache. The wiki touches a page that it purges, so META is asked once more behind it:
 * the render is made under a word that knows of its own purge, or the next word would call it old.
 * TEXT: the render itself; it is never asked for before the word that it is made under was said.
 * PARSE: taken apart on the pool; the pass rests; from there it is the pool that goes on, if that
 * is wanted.
 *
 * Without api.php there is no META and no PURGE; WANT_META, WANT_USER and WANT_LEAVE end behind it.
 * Steps are set on the loop, but for those that start takes at once. */
#include "render/api.h"
#include "render/fetch.h"
#include "render/reply.h"
#include "render/site.h"

#include "codec/json.h"
#include "render/title_rules.h"

#include <string.h>

enum { META_REPLY_BYTES_MAX = 1 << 20 };

enum step { STEP_TURN, STEP_META, STEP_PURGE, STEP_TEXT, STEP_PARSE, STEP_DONE };
/* A request under way. In the arena of the request; the request has it as `work`. */
struct render_work {
    struct render_request *r;
    enum step step;
    bool canceled;
    bool by_title; /* META: of a revision that is not the title's, the title is asked for */
    struct limiter_pass own, *pass; /* pass: own, or the request's */
    struct fetch fetch;
    struct task task;
    enum render_why why; /* of PARSE, or of not starting */
};

/* Whose turn a call of this kind is: those of one key share the limiter's places. */
const struct limiter_key *render_source(const struct origin *o, enum render_want want)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    switch (want) {
    case WANT_RENDER:
    case WANT_LINT:
        return &o->turns[TURN_RENDER];
    case WANT_META:
    case WANT_WIKITEXT:
    case WANT_LEAVE:
        return &o->turns[TURN_META];
    case WANT_USER:
        return &o->turns[TURN_TRANSFORM];
    }
    INVARIANT(false);
    return NULL;
}

/* Loop, but for PARSE. The pass rests before done, as done may free the request. */
static void render_request_finish(struct render_work *w, enum render_why why)
{
    struct render_request *r = w->r;
    w->step = STEP_DONE;
    if (why == RENDER_CANCELED)
        err_note_set(&r->note, "canceled");
    limiter_rest(r->origin->limiter, w->pass); /* before done: the request is its owner's then */
    r->done(r, why);
}

static enum render_why request_fail(struct render_request *r, enum render_why why, const char *what)
{
    err_note_set(&r->note, "%s", what);
    return why;
}

/* ---- PARSE: on the pool, touches the request only ---- */

static str reply_type(const struct render_work *w)
{
    return http_call_header(&w->fetch.call, "content-type");
}

/* One content, with the headers that are kept of the reply. */
static enum render_why request_add(struct render_work *w, const char *name, str type, str raw)
{
    struct render_request *r = w->r;
    str language = http_call_header(&w->fetch.call, "content-language");
    str headers = content_headers(r->arena, type, language);
    if (headers.p == NULL)
        return request_fail(r, RENDER_LIMIT, "the origin's reply is too large");
    r->contents[0] =
        (struct render_content){ .name = str_of(name), .headers = headers, .raw = raw };
    r->contents_count = 1;
    return RENDER_FINE;
}

static enum render_why parse_bundle(struct render_work *w)
{
    struct render_request *r = w->r;
    enum render_why why = reply_check(&w->fetch.call, REPLY_BUNDLE, &r->note);
    if (why != RENDER_FINE)
        return why;
    err e = pagebundle_parse(w->fetch.call.reply_body, r->arena, r->contents, COUNT_OF(r->contents),
                             &r->contents_count, &r->note);
    return e == ERR_OK ? RENDER_FINE : e == ERR_LIMIT ? RENDER_LIMIT : RENDER_FAILED;
}

static enum render_why parse_html(struct render_work *w)
{
    enum render_why why = reply_check(&w->fetch.call, REPLY_HTML, &w->r->note);
    return why == RENDER_FINE ? request_add(w, "html", reply_type(w), w->fetch.call.reply_body)
                              : why;
}

/* Which revision a reply says that it is of, by its own header or by its tag; 0: it does not
 * say. */
static uint64_t named_rev(const struct render_work *w)
{
    uint64_t rev;
    if (str_to_u64(str_trim(http_call_header(&w->fetch.call, "content-revision-id")), &rev))
        return rev <= INT64_MAX ? rev : 0;
    str tag = http_call_header(&w->fetch.call, "etag");
    tag = str_skip(tag, str_starts(tag, STR("W/")) ? 2 : 0);
    if (!str_starts(tag, STR("\"")))
        return 0;
    tag = str_skip(tag, 1);
    tag = str_take(tag, str_find(tag, '"'));
    return str_to_u64(str_take(tag, str_find(tag, '/')), &rev) && rev <= INT64_MAX ? rev : 0;
}

/* Is the reply of the revision that was asked for? One that is not is refused. Where nobody asked
 * by number, what the reply says becomes the revision. */
static enum render_why check_rev(struct render_work *w)
{
    struct render_request *r = w->r;
    uint64_t in_head = render_head_rev(r->contents[0].raw), named = named_rev(w);
    uint64_t asked = r->meta.rev != 0 ? r->meta.rev : r->rev;
    if (named == 0 && in_head == 0 && (asked == 0 || r->origin->opts.kind == ORIGIN_PARSOID))
        return request_fail(r, RENDER_FAILED, "the origin does not say which revision it rendered");
    /* A template without {rev} can give the newest revision only. */
    bool of_newest =
        r->origin->opts.kind == ORIGIN_TEMPLATE && strstr(r->origin->opts.url, "{rev}") == NULL;
    if (of_newest && asked != 0 && named != 0 && named != asked)
        return request_fail(r, RENDER_NO_REVISION, "the origin gives its newest revision alone");
    if ((named != 0 && in_head != 0 && named != in_head) ||
        (asked != 0 && named != 0 && named != asked) ||
        (asked != 0 && in_head != 0 && in_head != asked))
        return request_fail(r, RENDER_FAILED, "the origin rendered another revision than asked");
    uint64_t rev = asked != 0 ? asked : named != 0 ? named : in_head;
    if (r->meta.rev == 0)
        r->meta = (struct render_meta){ .title = r->title, .last_rev = r->rev == 0 ? rev : 0 };
    r->meta.rev = rev;
    return RENDER_FINE;
}

static enum render_why parse_render(struct render_work *w)
{
    struct render_request *r = w->r;
    enum render_why why = r->origin->opts.kind == ORIGIN_PARSOID ? parse_bundle(w) : parse_html(w);
    if (why == RENDER_FINE)
        why = check_rev(w);
    str target, fragment;
    if (why == RENDER_FINE &&
        render_head_redirect(r->arena, r->contents[0].raw, &target, &fragment)) {
        r->redirect_to = target;
        r->redirect_fragment = fragment;
    }
    return why;
}

/* Reads {"id": rev, "source": "..."} of core's API; the id must be the revision that was asked
 * for. */
static enum render_why parse_source(struct render_work *w)
{
    struct render_request *r = w->r;
    json_t *root = NULL;
    str source = STR_NONE;
    int64_t id;
    if (json_body_parse(w->fetch.call.reply_body, &root, NULL) != ERR_OK)
        return request_fail(r, RENDER_FAILED, "the origin did not answer with JSON");
    if (json_body_str(root, "source", &source, NULL) == ERR_OK &&
        json_body_i64(root, "id", 1, INT64_MAX, &id, NULL) == ERR_OK && (uint64_t)id == r->meta.rev)
        source = arena_copy(r->arena, source);
    else
        source = STR_NONE;
    json_decref(root);
    if (source.p == NULL)
        return request_fail(r, RENDER_FAILED,
                            "the origin did not answer with that revision's source");
    return request_add(w, "wikitext", STR("text/plain; charset=utf-8"), source);
}

static enum render_why parse_wikitext(struct render_work *w)
{
    uint64_t named = named_rev(w);
    enum render_why why = reply_check(&w->fetch.call, REPLY_WIKITEXT, &w->r->note);
    if (why != RENDER_FINE)
        return why;
    if (named != 0 && named != w->r->meta.rev)
        return request_fail(w->r, RENDER_FAILED,
                            "the origin answered with another revision than asked");
    /* Without an end of its own the reply must be as long as the metadata says. */
    if (reply_is_open(&w->fetch.call) && (uint64_t)w->r->meta.size != w->fetch.call.reply_body.n)
        return request_fail(w->r, RENDER_FAILED,
                            "the wikitext may be cut: the reply does not say where it ends");
    return request_add(w, "wikitext", reply_type(w), w->fetch.call.reply_body);
}

static enum render_why parse_lint(struct render_work *w)
{
    enum render_why why = reply_check(&w->fetch.call, REPLY_LINT, &w->r->note);
    return why == RENDER_FINE ? request_add(w, "lint", reply_type(w), w->fetch.call.reply_body)
                              : why;
}

/* The other kinds end at META. */
static enum render_why request_parse(struct render_work *w)
{
    switch (w->r->want) {
    case WANT_RENDER:
        return parse_render(w);
    case WANT_WIKITEXT:
        return w->r->origin->opts.kind == ORIGIN_REST ? parse_source(w) : parse_wikitext(w);
    case WANT_LINT:
        return parse_lint(w);
    case WANT_META:
    case WANT_USER:
    case WANT_LEAVE:
        break;
    }
    INVARIANT(false);
    return RENDER_FAILED;
}

static void parse_over(struct task *t)
{
    struct render_work *w = CONTAINER_OF(t, struct render_work, task);
    render_request_finish(w, w->canceled ? RENDER_CANCELED : w->why);
}

/* Pool. A caller with `parsed` goes on from here, on the pool: a cancel comes too late for it. */
static void parse_run(struct task *t)
{
    struct render_work *w = CONTAINER_OF(t, struct render_work, task);
    struct render_request *r = w->r;
    w->why = request_parse(w);
    if (w->why != RENDER_FINE)
        r->contents_count = 0;
    fetch_count(&w->fetch, w->why);
    if (r->parsed != NULL) {
        r->parsed(r, w->why);
        return;
    }
    w->task.run = parse_over;
    home_post(loop_home(r->origin->loop), &w->task);
}

/* ---- TEXT ---- */

/* A 404 for a revision that api.php has just named says nothing of the page. To an editor a missing
 * page would be an empty one, so this is a failure. */
static enum render_why judge_missing(struct render_request *r)
{
    if (r->meta.rev != 0)
        return request_fail(r, RENDER_FAILED,
                            "the origin has the revision, and answered 404 when asked for it");
    return r->rev == 0 ? RENDER_NO_PAGE : RENDER_NO_REVISION;
}

/* Loop. The reply is here: the origin is free for others while it is parsed. */
static void text_done(struct fetch *f, enum render_why why)
{
    struct render_work *w = f->ctx;
    limiter_rest(w->r->origin->limiter, w->pass); /* the origin has done its part */
    if (why != RENDER_FINE) {
        w->r->note = f->note;
        w->r->retry_after_s = f->retry_after_s;
        render_request_finish(w, why == RENDER_NO_REVISION ? judge_missing(w->r) : why);
        return;
    }
    w->step = STEP_PARSE;
    w->task.run = parse_run;
    home_post(loop_pool(w->r->origin->loop), &w->task);
}

/* Where the text is; STR_NONE: the arena is full. */
static str text_url(const struct render_request *r)
{
    static const char *const paths[] = { [WANT_RENDER] = "page/pagebundle",
                                         [WANT_WIKITEXT] = "page/wikitext",
                                         [WANT_LINT] = "page/lint" };
    const struct origin *o = r->origin;
    uint64_t rev = r->meta.rev != 0 ? r->meta.rev : r->rev;
    struct origin_page page = { .title = r->title, .rev = rev, .path = paths[r->want] };
    switch (o->opts.kind) {
    case ORIGIN_PARSOID:
        return origin_parsoid_url(o, r->arena, &page);
    case ORIGIN_REST:
        return origin_rest_url(o, r->arena, rev, r->want == WANT_RENDER ? "/html" : "");
    case ORIGIN_TEMPLATE:
        return origin_template_url(o, r->arena, &page);
    case ORIGIN_KINDS:
        break;
    }
    INVARIANT(false);
    return STR_NONE;
}

/* Does this kind of origin give what is wanted? */
static bool has_text(const struct render_request *r)
{
    enum origin_kind kind = r->origin->opts.kind;
    return r->want == WANT_RENDER || kind == ORIGIN_PARSOID ||
           (kind == ORIGIN_REST && r->want == WANT_WIKITEXT);
}

static struct fetch fetch_of(struct render_work *w)
{
    const struct render_request *r = w->r;
    return (struct fetch){ .origin = r->origin,
                           .pass = w->pass,
                           .reply_bytes_max = r->origin->opts.reply_bytes_max,
                           .deadline = r->deadline,
                           .arena = r->arena,
                           .ctx = w };
}

/* Sends the request for the text. False: it is not on its way, and *why says why. */
static bool begin_text(struct render_work *w, enum render_why *why)
{
    struct render_request *r = w->r;
    bool bundle = r->want == WANT_RENDER && r->origin->opts.kind == ORIGIN_PARSOID;
    if (!has_text(r)) {
        *why = request_fail(r, RENDER_REFUSED, "this kind of origin does not give that");
        return false;
    }
    w->step = STEP_TEXT;
    w->fetch = fetch_of(w);
    w->fetch.kind = r->want == WANT_LINT       ? FETCH_LINT
                    : r->want == WANT_WIKITEXT ? FETCH_WIKITEXT
                                               : FETCH_RENDER;
    w->fetch.done = text_done;
    w->fetch.url = text_url(r);
    str accept = r->want != WANT_RENDER ? STR("")
                 : bundle               ? fetch_bundle_accept(r->arena, r->accept)
                                        : r->accept;
    if (w->fetch.url.p == NULL || (bundle && accept.p == NULL)) {
        *why = request_fail(r, RENDER_LIMIT, "the request's memory is full");
        return false;
    }
    fetch_header(&w->fetch, "accept", accept);
    fetch_header(&w->fetch, "accept-language", r->accept_language);
    fetch_header(&w->fetch, "cookie", r->cookie);
    fetch_start(&w->fetch);
    return true;
}

/* ---- PURGE ---- */

static bool begin_meta(struct render_work *w, enum render_why *why);

static void purge_done(struct fetch *f, enum render_why why)
{
    struct render_work *w = f->ctx;
    struct render_request *r = w->r;
    if (why == RENDER_FINE) {
        why = api_parse_error(f->call.reply_body, &f->note);
        fetch_count(f, why);
    }
    if (why == RENDER_NO_REVISION)
        why = RENDER_FAILED; /* a 404 of api.php itself says nothing of pages */
    if (why == RENDER_FINE) {
        r->purged = true;
        /* The purge has touched the page: its word must be asked for again. */
        r->meta = (struct render_meta){ 0 };
        if (begin_meta(w, &why))
            return;
    }
    if (r->note.text[0] == 0)
        r->note = f->note;
    r->retry_after_s = f->retry_after_s;
    render_request_finish(w, why);
}

/* Behind META: purges first where the wiki may answer from a cache, else asks for the text. As
 * begin_text. */
static bool begin_render(struct render_work *w, enum render_why *why)
{
    struct render_request *r = w->r;
    bool cached = r->origin->opts.kind == ORIGIN_REST &&
                  render_is_latest(&r->meta); /* of older revisions a purge takes nothing */
    if (r->want != WANT_RENDER || !cached || r->purged || r->fresh == NULL || !r->fresh(r))
        return begin_text(w, why);
    w->step = STEP_PURGE;
    w->fetch = fetch_of(w);
    w->fetch.kind = FETCH_PURGE;
    w->fetch.done = purge_done;
    w->fetch.reply_bytes_max = META_REPLY_BYTES_MAX;
    w->fetch.body = STR("");
    w->fetch.url = origin_purge_url(r->origin, r->arena, r->title);
    if (w->fetch.url.p == NULL) {
        *why = request_fail(r, RENDER_LIMIT, "the request's memory is full");
        return false;
    }
    fetch_header(&w->fetch, "content-type", STR("application/x-www-form-urlencoded"));
    fetch_start(&w->fetch);
    return true;
}

/* ---- META ---- */

static bool ends_at_meta(enum render_want want)
{
    return want == WANT_META || want == WANT_USER || want == WANT_LEAVE;
}

/* by_title: without the revision, to learn what the title itself is. */
static struct api_asked asked_of(const struct render_work *w)
{
    return (struct api_asked){ .title = w->r->title, .rev = w->by_title ? 0 : w->r->rev };
}

/* Reads the answer of api.php, each kind by its own rules. */
static enum render_why parse_meta(struct render_work *w)
{
    struct render_request *r = w->r;
    struct fetch *f = &w->fetch;
    if (r->want == WANT_USER)
        return api_parse_user(f->call.reply_body, &r->user_id, &f->note);
    if (r->want == WANT_LEAVE)
        return api_parse_leave(f->call.reply_body, r->title.n > 0, &r->may_read, &f->note);
    struct api_asked asked = asked_of(w);
    struct siteinfo *s = site_peek(r->origin->site);
    enum render_why why = api_parse(r->arena, f->call.reply_body, &asked, s, &r->meta, &f->note);
    siteinfo_unref(&s);
    bool is_title = why == RENDER_FINE || why == RENDER_NO_PAGE || why == RENDER_SUPPRESSED;
    /* The title was only asked for to tell a moved page from another one: the revision is not its
     * own. */
    if (!w->by_title || !is_title)
        return why;
    r->meta = (struct render_meta){ 0 };
    err_note_set(&f->note, "the revision is not this title's");
    return RENDER_NO_REVISION;
}

/* May the page have been moved, by rules alone? Its title may be what the wiki makes of this one: a
 * prefix that is a namespace since, a letter whose capital only the wiki knows. */
static bool may_be_other_title(const struct render_work *w)
{
    const struct render_request *r = w->r;
    if (r->rev == 0 || w->by_title || r->meta.rev != 0 || r->meta.title.n == 0)
        return false;
    for (size_t i = 0; i < r->title.n; i++)
        if (r->title.p[i] == ':' || (unsigned char)r->title.p[i] >= 0x80)
            return true;
    return false;
}

/* Loop. Asks again by title, goes on to the text, or ends. */
static void meta_done(struct fetch *f, enum render_why why)
{
    struct render_work *w = f->ctx;
    struct render_request *r = w->r;
    if (why == RENDER_NO_REVISION)
        why = RENDER_FAILED; /* a 404 of api.php itself says nothing of pages */
    if (why == RENDER_FINE) {
        why = parse_meta(w);
        fetch_count(f, why);
    }
    if (why == RENDER_NO_REVISION && may_be_other_title(w)) {
        w->by_title = true;
        if (begin_meta(w, &why))
            return;
    }
    if (why == RENDER_FINE && !ends_at_meta(r->want) && begin_render(w, &why))
        return;
    if (why != RENDER_FINE && r->note.text[0] == 0)
        r->note = f->note;
    r->retry_after_s = f->retry_after_s;
    render_request_finish(w, why);
}

static str meta_query(const struct render_work *w)
{
    const struct render_request *r = w->r;
    struct api_asked asked = asked_of(w);
    if (r->want == WANT_LEAVE)
        return api_leave_query(r->arena, r->title);
    return r->want == WANT_USER ? STR(API_USER_QUERY) : api_query(r->arena, &asked);
}

/* Sends the request for metadata. As begin_text. */
static bool begin_meta(struct render_work *w, enum render_why *why)
{
    struct render_request *r = w->r;
    str query = meta_query(w);
    w->fetch = fetch_of(w);
    w->fetch.kind = FETCH_META;
    w->fetch.done = meta_done;
    w->fetch.reply_bytes_max = META_REPLY_BYTES_MAX;
    w->fetch.url = query.p == NULL ? STR_NONE : origin_api_url(r->origin, r->arena, query);
    if (w->fetch.url.p == NULL) {
        *why = request_fail(r, RENDER_LIMIT, "the request's memory is full");
        return false;
    }
    w->step = STEP_META;
    fetch_header(&w->fetch, "cookie", r->cookie);
    /* WANT_LEAVE asks with what the reader sent, not with the server's own authorization. */
    w->fetch.as_asker = r->want == WANT_LEAVE;
    if (w->fetch.as_asker)
        fetch_header(&w->fetch, "authorization", r->authorization);
    fetch_start(&w->fetch);
    return true;
}

/* ---- start and cancel ---- */

/* Loop: done is never called inside the start. */
static void refused_here(void *ctx)
{
    struct render_request *r = ctx;
    if (r->work != NULL)
        render_request_finish(r->work, r->work->canceled ? RENDER_CANCELED : r->work->why);
    else
        r->done(r, request_fail(r, RENDER_LIMIT, "the request's memory is full"));
}

/* The first request, or the refusal posted. Thread: any. */
static void render_request_begin(struct render_work *w)
{
    struct render_request *r = w->r;
    bool begun = false;
    w->step = STEP_DONE;
    if (origin_has_api(r->origin))
        begun = begin_meta(w, &w->why);
    else if (!ends_at_meta(r->want))
        begun = begin_text(w, &w->why);
    else
        w->why = request_fail(r, RENDER_REFUSED, "this origin has no metadata");
    if (!begun)
        loop_post(r->origin->loop, refused_here, r);
}

/* Loop: the limiter has a place, or the deadline came first. */
static void turn_came(struct limiter_pass *p, bool in)
{
    struct render_work *w = CONTAINER_OF(p, struct render_work, own);
    if (in)
        render_request_begin(w);
    else
        render_request_finish(w,
                              request_fail(w->r, RENDER_TIMEOUT,
                                           "the origin was busy with others until the deadline"));
}

/* A pass that is in already serves all requests of the render. */
static enum limiter_state turn_take(struct render_work *w)
{
    struct render_request *r = w->r;
    bool has_pass = r->pass != NULL && r->pass->state == LIMITER_IN;
    w->own = (struct limiter_pass){ .deadline = r->deadline, .go = turn_came };
    w->pass = has_pass ? r->pass : &w->own;
    return has_pass ? LIMITER_IN
                    : limiter_enter(r->origin->limiter, render_source(r->origin, r->want), &w->own);
}

void render_start(struct render_request *r)
{
    MAGIC_CHECK(r->origin, ORIGIN_MAGIC);
    struct render_work *w = arena_calloc(r->arena, 1, sizeof *w);
    r->meta = (struct render_meta){ 0 };
    r->contents_count = 0;
    r->user_id = 0;
    r->may_read = false;
    r->purged = false;
    r->retry_after_s = 0;
    r->redirect_to = r->redirect_fragment = STR("");
    r->note.text[0] = 0;
    r->work = w;
    if (w == NULL) {
        loop_post(r->origin->loop, refused_here, r);
        return;
    }
    *w = (struct render_work){ .r = r, .step = STEP_TURN };
    enum limiter_state turn = turn_take(w); /* WAITING: it may have come by now */
    if (turn == LIMITER_IN) {
        render_request_begin(w);
    } else if (turn == LIMITER_OUT) {
        w->step = STEP_DONE;
        w->why = request_fail(r, RENDER_BUSY, "too many requests wait for this origin");
        loop_post(r->origin->loop, refused_here, r);
    }
}

void render_cancel(struct render_request *r)
{
    struct render_work *w = r->work;
    loop_assert_here(r->origin->loop);
    if (w == NULL || w->canceled)
        return;
    w->canceled = true;
    /* The step says what is under way; PARSE ends by itself. */
    if (w->step == STEP_META || w->step == STEP_PURGE || w->step == STEP_TEXT)
        fetch_cancel(&w->fetch);
    else if (w->step == STEP_TURN && limiter_leave(r->origin->limiter, &w->own))
        loop_post(r->origin->loop, refused_here, r);
}
