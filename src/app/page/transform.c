/* transform.c - POST /{domain}/v1/transform/{from}/to/{to}[/{title}[/{revision}]]: what editors
 * have the wiki do, with the render that they began with (docs/peers.md, 3). The way of a request:
 *
 *   read the body -> settle the title -> look for the original (pool) -> ask the origin -> answer
 *                         who asks? <-/        keep it for the edit (pool) <-/|
 *                                                    -> answer                 \-> 404: gone?
 *
 * The original is named by If-Match, else by the tid in the head of the HTML, and sent with the
 * HTML, so that what was not touched comes back as it was. html to html brings that render itself
 * up to date (red links, a variant of its language), which an origin does between bundles.
 * Transformed wikitext that is to be kept stands in a bucket of its own, under its revision + 1 (a
 * page that does not exist yet has revision 0). What was made with a user's cookies is kept for
 * that user alone, as the wiki knows her: sessions and cookies change during an edit. Invariant:
 * from the deferral on, one of wait, job, ask, meta is under way, and the last of them answers. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_stash.h"
#include "app/page/transform_impl.h"
#include "codec/json.h"
#include "render/title.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *from, *to;
} kinds[TRANSFORM_KINDS] = {
    [HTML_TO_WIKITEXT] = { "html", "wikitext" },
    [HTML_TO_HTML] = { "html", "html" },
    [WIKITEXT_TO_HTML] = { "wikitext", "html" },
    [WIKITEXT_TO_LINT] = { "wikitext", "lint" },
};

enum { ORIGIN_MEMBERS_MAX = 16, SHOWN_BYTES_MAX = 200 };

/* ---- answering ---- */

static void fail(struct transform *t, err why)
{
    if (why == ERR_NOT_FOUND)
        app_problem(t->x, 404, "not_found", NULL,
                    STR("The render that If-Match or the document's head names is not stored."),
                    STR_NONE);
    else if (why == ERR_BAD)
        app_problem(t->x, 400, "bad_request#original", NULL, str_of(t->note.text), STR_NONE);
    else
        app_page_fail(t->x, t->app, why, &t->trace, NULL);
}

void transform_answer(struct transform *t, str headers, str body, str etag)
{
    struct answer w = { .status = 200, .body = body };
    str type = STR("application/octet-stream");
    bool typed = headers_find(headers, STR("content-type"), &type);
    answer_add_kept(&w, headers, HEADERS_X_STORE);
    if (!typed)
        answer_add(&w, STR("content-type"), type);
    if (etag.n > 0)
        answer_add(&w, STR("etag"), etag);
    answer_add(&w, STR("cache-control"), etag.n > 0 ? STR("no-cache") : STR(HEADERS_CACHE_PRIVATE));
    answer_add(&w, STR("vary"), STR("Accept, Accept-Language"));
    str domain = t->target.domain->name;
    answer_add_security_and(&w, t->arena, type, domain, app_page_styles(t->app, t->arena, domain));
    answer_send(t->x, &w);
}

/* ---- a bundle that is answered as HTML ---- */

static err unwrap(struct transform *t)
{
    struct render_content *html = &t->parts[0];
    bool fragment = t->kind == WIKITEXT_TO_HTML && t->fields.body_only;
    err why = pagebundle_html(t->ask.reply, t->arena, html, &t->note);
    if (why == ERR_OK && !fragment && !render_head_is(html->raw)) {
        err_note_set(&t->note, "the bundle's html has no head");
        why = ERR_BAD;
    }
    if (why != ERR_OK)
        return why == ERR_LIMIT ? why : ERR_CORRUPT;
    t->unwrapped = html->raw;
    /* Who edits a render that was brought up to date names that render: by the head. */
    bool named = t->kind != HTML_TO_HTML ||
                 render_head_put(t->arena, html->raw, t->base.name.tid, &t->unwrapped);
    return named ? ERR_OK : ERR_LIMIT;
}

static void unwrap_run(struct loop_job *j)
{
    struct transform *t = CONTAINER_OF(j, struct transform, job);
    t->why = unwrap(t);
}

static void unwrap_done(struct loop_job *j, bool canceled)
{
    struct transform *t = CONTAINER_OF(j, struct transform, job);
    err why = canceled ? ERR_SHUTDOWN : t->why;
    if (why != ERR_OK)
        app_origin_fail(t->x, why, &t->note, 0);
    else
        transform_answer(t, t->parts[0].headers, t->unwrapped, STR_NONE);
}

/* ---- what the origin said ---- */

static str header(const struct transform *t, const char *name)
{
    str value;
    return http_header(t->x, name, &value) ? value : STR_NONE;
}

/* p NULL: none goes to the origin. */
static str cookie_of(const struct transform *t)
{
    return t->target.domain->forward_cookies ? header(t, "cookie") : STR_NONE;
}

/* Its own words, which editors show to their users. */
static str origin_message(struct transform *t)
{
    struct json_member members[ORIGIN_MEMBERS_MAX];
    unsigned count;
    str value, text;
    if (json_slice_value(t->ask.reply, &value) &&
        json_slice_members(t->arena, value, members, ORIGIN_MEMBERS_MAX, &count) == ERR_OK) {
        const struct json_member *message = json_slice_find(members, count, "message");
        if (message != NULL && json_slice_string(t->arena, message->value, &text) == ERR_OK &&
            text.n > 0)
            return str_take(text, SHOWN_BYTES_MAX);
    }
    return str_of(t->ask.note.text);
}

static void answer_refused(struct transform *t)
{
    static const struct {
        int of_origin, status;
        const char *type;
    } refusals[] = { { 401, 403, "access_denied#wiki" },
                     { 403, 403, "access_denied#wiki" },
                     { 406, 406, "not_acceptable" },
                     { 413, 413, "content_too_large" },
                     { 0, 400, "bad_request#origin" } };
    size_t i = 0;
    while (refusals[i].of_origin != 0 && refusals[i].of_origin != t->ask.status)
        i++;
    app_problem(t->x, refusals[i].status, refusals[i].type, NULL, origin_message(t), STR_NONE);
}

/* The origin knows the revision no more: since when? */
static void meta_asked(struct render_request *r, enum render_why why)
{
    struct transform *t = r->ctx;
    if (why == RENDER_NO_PAGE || why == RENDER_NO_REVISION)
        app_problem(t->x, 410, "deleted", NULL, STR("The page was deleted."), STR_NONE);
    else if (why == RENDER_SUPPRESSED)
        app_problem(t->x, 409, "restricted", NULL, STR("The text of this revision is hidden."),
                    STR_NONE);
    else if (why == RENDER_FINE)
        app_origin_fail(t->x, ERR_UNAVAILABLE, NULL, 0);
    else
        app_origin_fail(t->x, page_err_of_render(why), &r->note, 1000 * r->retry_after_s);
}

static void meta_start(struct transform *t)
{
    t->meta = (struct render_request){ .origin = t->target.domain->origin,
                                       .want = WANT_META,
                                       .title = t->target.title,
                                       .rev = t->ask.rev,
                                       .cookie = cookie_of(t),
                                       .deadline = t->deadline,
                                       .arena = t->arena,
                                       .done = meta_asked,
                                       .ctx = t };
    render_start(&t->meta);
}

static void asked(struct transform_request *r, enum render_why why)
{
    struct transform *t = r->ctx;
    t->asking = false;
    buf_fini(&t->body);
    if (why == RENDER_NO_REVISION && t->ask.rev != 0) {
        meta_start(t);
    } else if (why == RENDER_NO_REVISION) { /* of none; to an editor a 404 is a page to begin,
                                               without what was typed */
        app_origin_fail(t->x, ERR_UNAVAILABLE, &r->note, 0);
    } else if (why == RENDER_REFUSED || why == RENDER_DENIED) {
        answer_refused(t);
    } else if (why != RENDER_FINE) {
        app_origin_fail(t->x, page_err_of_render(why), &r->note, 1000 * r->retry_after_s);
    } else if (t->fields.stash && t->kind == WIKITEXT_TO_HTML) {
        transform_keep(t);
    } else if (t->bundles && (t->kind == HTML_TO_HTML || t->kind == WIKITEXT_TO_HTML)) {
        t->job = (struct loop_job){ .run = unwrap_run, .done = unwrap_done };
        loop_job_start(t->app->loop, &t->job);
    } else {
        str headers = arena_printf(t->arena, "content-type: %.*s\n", STR_ARG(r->content_type));
        transform_answer(t, headers, r->reply, STR_NONE);
    }
}

static void ask_start(struct transform *t)
{
    bool of_bundle = (t->kind == HTML_TO_WIKITEXT && t->has_base) || t->kind == HTML_TO_HTML;
    /* Of a bundle's HTML the ids tie it to its data; other HTML carries the data inline. */
    bool to_bundle = t->bundles && (t->kind == WIKITEXT_TO_HTML || t->kind == HTML_TO_HTML);
    static const enum transform_empty empty[] = {
        [HOLDS_NOTHING] = EMPTY_FINE, [HOLDS_ELEMENTS] = EMPTY_IF_NAMED, [HOLDS_TEXT] = EMPTY_NEVER
    };
    t->ask = (struct transform_request){ .origin = t->target.domain->origin,
                                         .from = of_bundle ? "pagebundle" : kinds[t->kind].from,
                                         .to = to_bundle ? "pagebundle" : kinds[t->kind].to,
                                         .title = t->target.title,
                                         .rev = t->has_base ? t->base.name.rev : t->target.name.rev,
                                         .body = buf_str(&t->body),
                                         .empty = empty[t->holds],
                                         .accept = t->kind == HTML_TO_HTML ? header(t, "accept")
                                                                           : STR_NONE,
                                         .accept_language = header(t, "accept-language"),
                                         .cookie = cookie_of(t),
                                         .deadline = t->deadline,
                                         .arena = t->arena,
                                         .done = asked,
                                         .ctx = t };
    t->began = clock_store(t->app->clock);
    t->asking = true;
    transform_start(&t->ask);
}

/* ---- the original ---- */

static err part_take(struct transform *t, const struct page_body *from, struct transform_part *out)
{
    if (from->pieces_count == 0)
        return ERR_OK;
    if (!headers_find(from->headers, STR("content-type"), &out->type))
        out->type = STR("");
    return page_body_raw(from, t->arena, &out->body);
}

/* From what was read. */
static err original_take(struct transform *t)
{
    struct transform_part *const parts[] = { &t->original.html, &t->original.data_parsoid,
                                             &t->original.wikitext };
    err why = ERR_OK;
    for (unsigned i = 0; i < t->read.wanted_count && why == ERR_OK; i++)
        why = part_take(t, &t->read.bodies[i], parts[i]);
    if (why != ERR_OK)
        return why;
    if (t->original.html.body.p == NULL ||
        !transform_parsoid_has_ids(t->arena, t->original.data_parsoid.body)) {
        err_note_set(&t->note, "the stored render has no html, or no data-parsoid with ids");
        return ERR_BAD;
    }
    t->original.title = t->target.title;
    t->original.rev = t->base.name.rev;
    return ERR_OK;
}

static void prepared(struct task *task)
{
    struct transform *t = CONTAINER_OF(task, struct transform, task);
    if (t->why == ERR_OK) {
        ask_start(t);
        return;
    }
    buf_fini(&t->body);
    fail(t, t->why);
}

/* The body to ask with, once the original is there. Pool. */
static void prepare(struct transform *t)
{
    if (t->why == ERR_OK && t->kind == HTML_TO_WIKITEXT)
        transform_body_html(&t->body, t->fields.html, t->has_base ? &t->original : NULL);
    else if (t->why == ERR_OK && t->kind == HTML_TO_HTML)
        transform_body_updates(&t->body, &t->fields, &t->original);
    else if (t->why == ERR_OK)
        transform_body_wikitext(&t->body, t->fields.wikitext, t->fields.body_only);
    if (t->why == ERR_OK)
        t->why = buf_status(&t->body);
    t->task.run = prepared;
    home_post(loop_home(t->app->loop), &t->task);
}

static void original_start(struct transform *t, bool stash);

/* Where the tag says first, then in the other place. */
static void original_read(struct store_call *c)
{
    struct transform *t = CONTAINER_OF(c, struct transform, read.call);
    bool missing = c->why == ERR_NOT_FOUND || c->why == ERR_GONE;
    if (!t->elsewhere || !missing || (c->why == ERR_GONE && t->why == ERR_NOT_FOUND)) {
        t->why = c->why;
        t->trace = t->read.trace;
    }
    if (missing && !t->elsewhere) {
        t->elsewhere = true;
        original_start(t, !t->base.stash);
        return;
    }
    if (t->why == ERR_OK)
        t->why = original_take(t);
    prepare(t);
}

static void original_start(struct transform *t, bool stash)
{
    t->read =
        (struct page_read){ .call = { .home = loop_pool(t->app->loop), .done = original_read },
                            .bucket = stash ? t->app->stash : t->target.settings->bucket,
                            .which = { .domain = t->target.domain->number,
                                       .select = SELECT_EXACT,
                                       .name = t->base.name,
                                       .title = stash ? t->kept_title : t->target.title,
                                       .deleted_too =
                                           true }, /* who edits it still may save it anew */
                            .arena = t->arena,
                            .wanted_count = stash ? 3 : 2,
                            .wanted = { STR("html"), STR("data-parsoid"), STR("wikitext") } };
    if (stash)
        t->read.which.name.rev++;
    store_call_then(page_store_read(t->app->page.store, &t->read), &t->read.call);
}

static void prepare_run(struct task *task)
{
    struct transform *t = CONTAINER_OF(task, struct transform, task);
    t->why = ERR_OK;
    t->holds = t->kind == HTML_TO_WIKITEXT ? transform_holds(t->fields.html) : HOLDS_TEXT;
    if (t->has_base)
        original_start(t, t->base.stash);
    else
        prepare(t);
}

/* ---- starting ---- */

static void gone(struct http_exchange *x, void *ctx)
{
    struct transform *t = ctx;
    (void)x; /* whatever is under way answers it */
    if (t->asking)
        transform_cancel(&t->ask);
}

static void prepare_start(struct transform *t)
{
    buf_init(&t->body, t->app->config->http.arena_bytes_max);
    t->task.run = prepare_run;
    home_post(loop_pool(t->app->loop), &t->task);
}

static void user_asked(struct render_request *r, enum render_why why)
{
    struct transform *t = r->ctx;
    if (why != RENDER_FINE) {
        app_origin_fail(t->x, page_err_of_render(why), &r->note, 1000 * r->retry_after_s);
        return;
    }
    if (r->user_id != 0) /* no title holds # */
        t->kept_title =
            arena_printf(t->arena, "%" PRIu64 "#%.*s", r->user_id, STR_ARG(t->target.title));
    if (t->kept_title.p != NULL)
        prepare_start(t);
    else
        app_fail(t->x, ERR_LIMIT, NULL);
}

static void refuse_none(struct transform *t, const char *detail)
{
    app_problem(t->x, 404, "not_found#transform", NULL, str_of(detail), STR_NONE);
}

static void settled(struct title_wait *w);

static void transforms_told(struct siteinfo_waiter *s, enum render_why why,
                            const struct err_note *note)
{
    struct title_wait *w = CONTAINER_OF(s, struct title_wait, page.siteinfo);
    if (why == RENDER_FINE)
        settled(w);
    else
        app_origin_fail(w->x, page_err_of_render(why), note, 0);
}

static void settled(struct title_wait *w)
{
    struct transform *t = CONTAINER_OF(w, struct transform, wait);
    bool keeps = t->kind == WIKITEXT_TO_HTML && t->fields.stash;
    str cookie = cookie_of(t);
    struct origin *origin = t->target.domain->origin;
    enum origin_transforms has = origin_transforms(origin);
    if (has == TRANSFORMS_NONE) { /* which the rules of titles told, too */
        refuse_none(t, "This domain has no origin that transforms.");
        return;
    }
    if (has == TRANSFORMS_UNKNOWN) { /* without a title nobody asked for the rules */
        t->wait.page.siteinfo = (struct siteinfo_waiter){ .deadline = t->deadline,
                                                          .transforms = true,
                                                          .got = transforms_told };
        origin_siteinfo_wait(origin, &t->wait.page.siteinfo);
        return;
    }
    t->kept_title = t->target.title;
    if (cookie.n == 0 || (!t->has_base && !keeps)) {
        prepare_start(t);
        return;
    }
    t->meta = (struct render_request){ .origin = t->target.domain->origin,
                                       .want = WANT_USER,
                                       .cookie = cookie,
                                       .deadline = t->deadline,
                                       .arena = t->arena,
                                       .done = user_asked,
                                       .ctx = t };
    render_start(&t->meta);
}

static bool refuse(struct transform *t, const char *type, const char *detail)
{
    app_problem(t->x, 400, type, NULL, str_of(detail), STR_NONE);
    return false;
}

static bool parse_path(struct transform *t)
{
    struct http_exchange *x = t->x;
    str from = http_param(x, "from"), to = http_param(x, "to");
    if (!app_page_target_of_page(x, t->app, &t->target))
        return false;
    for (t->kind = 0; t->kind < TRANSFORM_KINDS; t->kind++)
        if (str_eq(from, str_of(kinds[t->kind].from)) && str_eq(to, str_of(kinds[t->kind].to)))
            break;
    struct origin *origin = t->target.domain->origin;
    t->bundles = origin != NULL && origin_opts_of(origin)->kind == ORIGIN_PARSOID;
    if (t->kind == TRANSFORM_KINDS)
        refuse_none(t, "There is no such transform.");
    else if (origin == NULL || origin_transforms(origin) == TRANSFORMS_NONE)
        refuse_none(t, "This domain has no origin that transforms.");
    else if (!t->bundles &&
             (t->kind == HTML_TO_HTML || (t->kind == HTML_TO_WIKITEXT && t->target.name.rev > 0)))
        refuse_none(
            t,
            "This domain's origin gives no page bundles: what was not edited would change, too.");
    else
        return true;
    return false;
}

/* What is brought up to date is a render that is stored. */
static bool parse_updates(struct transform *t)
{
    const struct transform_fields *f = &t->fields;
    if (t->target.title.n == 0 || t->target.name.rev == 0)
        return refuse(t, "bad_request#revision",
                      "Only a stored render can be updated: title and revision are wanted.");
    if (!f->redlinks && f->variant_target.n == 0)
        return refuse(t, "bad_request#updates",
                      "The field updates is missing: redlinks, or a variant.");
    return f->html.p != NULL || http_common(t->x)->if_match.n > 0 ||
           refuse(t, "bad_request#html", "Neither the field html nor If-Match names the render.");
}

static bool parse_body(struct transform *t)
{
    struct err_note note = { { 0 } };
    struct transform_fields *f = &t->fields;
    err why =
        transform_body_parse(t->arena, http_common(t->x)->content_type, http_body(t->x), f, &note);
    if (why == ERR_BAD)
        return refuse(t, "bad_request#invalid_body", note.text);
    if (why != ERR_OK) {
        app_fail(t->x, why, &note);
        return false;
    }
    if (t->kind == HTML_TO_HTML)
        return parse_updates(t);
    if (t->kind == HTML_TO_WIKITEXT)
        return f->html.p != NULL || refuse(t, "bad_request#html", "The field html is missing.");
    if (f->wikitext.p == NULL)
        return refuse(t, "bad_request#wikitext", "The field wikitext is missing.");
    if (!f->stash || t->kind != WIKITEXT_TO_HTML)
        return true;
    if (!t->bundles)
        return refuse(t, "bad_request#stash",
                      "This domain's origin gives no data to save it by later.");
    if (t->target.title.n == 0)
        return refuse(t, "bad_request#stash", "Data can be stashed only for a specific title.");
    if (f->body_only)
        return refuse(t, "bad_request#stash", "What is stashed is whole: not with body_only.");
    return stash_may_ask(t->x, t->app, t->target.settings);
}

/* Which render the document was made from. */
static bool parse_base(struct transform *t)
{
    str match = http_common(t->x)->if_match;
    bool of_html = t->bundles && (t->kind == HTML_TO_WIKITEXT || t->kind == HTML_TO_HTML);
    if (!of_html || t->target.title.n == 0)
        return true;
    t->has_base = match.n > 0 && page_edited_parse(match, &t->base);
    if (match.n == 0 && t->target.name.rev > 0) {
        t->has_base = render_head_tid(t->fields.html, &t->base.name.tid);
        t->base.name.rev = t->target.name.rev;
    }
    if (t->has_base || (match.n == 0 && t->target.name.rev == 0))
        return true;
    return refuse(t, "bad_request#no_etag",
                  "No or invalid If-Match header supplied, or missing mw:TimeUuid meta element in "
                  "the supplied HTML.");
}

/* A body is held several times over until the wiki has answered, which may take long. */
static bool charge(struct http_exchange *x, struct app *app)
{
    if (http_charge(x, &app->transform_bytes, http_body(x).n,
                    app->config->page_transform_bytes_max))
        return true;
    app_problem(x, 503, "overloaded", NULL,
                STR("The bodies of too many transforms are held already; try again later."),
                STR_NONE);
    return false;
}

void app_transform_post(struct http_exchange *x, void *app)
{
    if (!charge(x, app))
        return;
    struct transform *t = arena_calloc(http_arena(x), 1, sizeof *t);
    if (t == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *t = (struct transform){ .x = x, .app = app, .arena = http_arena(x) };
    if (!parse_path(t) || !parse_body(t) || !parse_base(t) || !app_page_may_wait(x))
        return;
    t->deadline = app_wait_deadline(x, app);
    t->wait = (struct title_wait){
        .x = x, .target = &t->target, .deadline = t->deadline, .go = settled, .deferred = true
    };
    http_defer(x);
    http_on_gone(x, gone, t);
    title_wait_start(&t->wait);
}
