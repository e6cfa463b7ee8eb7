/* page_transform.c - POST /{domain}/v1/transform/{from}/to/{to}[/{title}[/{revision}]]: what was
 * asked, as values for page/transform.h, and the words of HTTP for what came of it. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "page/transform.h"

struct transform_post {
    struct page_transform page;
    struct http_exchange *x;
    const struct app *app;
};

/* ---- answering ---- */

static void answer_document(struct transform_post *p)
{
    const struct page_transform *t = &p->page;
    struct answer w = { .status = 200, .body = t->body };
    bool kept = t->etag.n > 0;
    str domain = t->target.domain->name;
    answer_add_kept(&w, t->headers, HEADERS_X_STORE);
    str type = answer_add_type(&w, t->headers);
    if (kept)
        answer_add(&w, STR("etag"), arena_printf(t->arena, "\"%.*s\"", STR_ARG(t->etag)));
    answer_add(&w, STR("cache-control"), kept ? STR("no-cache") : STR(HEADERS_CACHE_PRIVATE));
    answer_add(&w, STR("vary"), STR("Accept, Accept-Language"));
    answer_add_security_and(&w, t->arena, type, domain, page_styles(p->app, t->arena, domain));
    answer_send(p->x, &w);
}

/* The origin refused, in words which editors show to their users. */
static void answer_words(struct transform_post *p)
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
    while (refusals[i].of_origin != 0 && refusals[i].of_origin != p->page.origin_status)
        i++;
    app_problem(p->x, refusals[i].status, refusals[i].type, NULL, p->page.words, STR_NONE);
}

/* False: answered. */
static bool is_allowed(struct http_exchange *x, enum transform_refusal refusal)
{
    static const struct {
        int status;
        const char *type, *detail;
    } words[TRANSFORM_REFUSALS] = {
        [TRANSFORM_NO_ORIGIN] = { 404, "not_found#transform",
                                  "This domain has no origin that transforms." },
        [TRANSFORM_NO_KIND] = { 404, "not_found#transform", "There is no such transform." },
        [TRANSFORM_NO_BUNDLES] = { 404, "not_found#transform",
                                   "This domain's origin gives no page bundles: what was not "
                                   "edited would change, too." },
        [TRANSFORM_NO_HTML] = { 400, "bad_request#html", "The field html is missing." },
        [TRANSFORM_NO_WIKITEXT] = { 400, "bad_request#wikitext", "The field wikitext is missing." },
        [TRANSFORM_NO_RENDER] = { 400, "bad_request#revision",
                                  "Only a stored render can be updated: title and revision are "
                                  "wanted." },
        [TRANSFORM_NO_UPDATES] = { 400, "bad_request#updates",
                                   "The field updates is missing: redlinks, or a variant." },
        [TRANSFORM_NO_NAME] = { 400, "bad_request#html",
                                "Neither the field html nor If-Match names the render." },
        [TRANSFORM_NO_DATA] = { 400, "bad_request#stash",
                                "This domain's origin gives no data to save it by later." },
        [TRANSFORM_KEEPS_NO_PAGE] = { 400, "bad_request#stash",
                                      "Data can be stashed only for a specific title." },
        [TRANSFORM_KEEPS_PART] = { 400, "bad_request#stash",
                                   "What is stashed is whole: not with body_only." },
        [TRANSFORM_BAD_TAG] = { 400, "bad_request#no_etag",
                                "No or invalid If-Match header supplied, or missing mw:TimeUuid "
                                "meta element in the supplied HTML." },
    };
    return refusal == TRANSFORM_ALLOWED ||
           app_refused(x, words[refusal].status, words[refusal].type, words[refusal].detail);
}

static void transform_done(struct page_transform *t)
{
    struct transform_post *p = CONTAINER_OF(t, struct transform_post, page);
    struct http_exchange *x = p->x;
    switch (t->outcome) {
    case TRANSFORM_DONE:
        answer_document(p);
        return;
    case TRANSFORM_NONE:
        (void)is_allowed(x, TRANSFORM_NO_ORIGIN);
        return;
    case TRANSFORM_BAD_TITLE:
        page_title_bad(x, t->why, &t->note);
        return;
    case TRANSFORM_NO_ORIGINAL:
        app_refused(x, 404, "not_found",
                    "The render that If-Match or the document's head names is not stored.");
        return;
    case TRANSFORM_BAD_ORIGINAL:
        app_refused(x, 400, "bad_request#original", t->note.text);
        return;
    case TRANSFORM_ORIGINAL_FAILED:
        page_fail(x, p->app, t->why, &t->trace, NULL);
        return;
    case TRANSFORM_REFUSED:
        answer_words(p);
        return;
    case TRANSFORM_DELETED:
        app_refused(x, 410, "deleted", "The page was deleted.");
        return;
    case TRANSFORM_HIDDEN:
        app_refused(x, 409, "restricted", "The text of this revision is hidden.");
        return;
    case TRANSFORM_FULL:
        stash_answer_full(x);
        return;
    case TRANSFORM_ORIGIN_FAILED:
        app_origin_fail(x, t->why, &t->note, t->retry_ms);
        return;
    case TRANSFORM_FAILED:
        app_fail(x, t->why, &t->note);
        return;
    }
}

/* ---- reading the request; false: answered ---- */

static bool parse_request(struct transform_post *p)
{
    struct http_exchange *x = p->x;
    struct page_transform *t = &p->page;
    struct err_note note = { { 0 } };
    if (!page_target_parse(x, p->app, &t->target))
        return false;
    t->kind = page_transform_kind(http_param(x, "from"), http_param(x, "to"));
    t->tag = http_common(x)->if_match;
    (void)http_header(x, "accept", &t->accept); /* absent is fine */
    (void)http_header(x, "accept-language", &t->accept_language);
    (void)http_header(x, "cookie", &t->cookie);
    if (!is_allowed(x, page_transform_can(t)))
        return false;
    err why = transform_body_parse(t->arena, http_common(x)->content_type, http_body(x), &t->fields,
                                   &note);
    if (why == ERR_BAD)
        app_refused(x, 400, "bad_request#invalid_body", note.text);
    else if (why != ERR_OK)
        app_fail(x, why, &note);
    if (why != ERR_OK || !is_allowed(x, page_transform_check(t)))
        return false;
    bool keeps = t->kind == WIKITEXT_TO_HTML && t->fields.stash;
    return !keeps || stash_may_ask(x, p->app, t->target.settings);
}

/* Whatever is under way answers. */
static void client_gone(struct http_exchange *x, void *ctx)
{
    struct transform_post *p = ctx;
    (void)x;
    page_transform_leave(&p->page);
}

void app_transform_post(struct http_exchange *x, void *app)
{
    struct app *a = app;
    /* A body is held several times over until the wiki has answered, which may take long. */
    if (!http_charge(x, &a->transform_bytes, http_body(x).n, a->config->page_transform_bytes_max)) {
        app_refused(x, 503, "overloaded",
                    "The bodies of too many transforms are held already; try again later.");
        return;
    }
    struct transform_post *p = app_new(x, sizeof *p);
    if (p == NULL)
        return;
    p->x = x;
    p->app = a;
    p->page = (struct page_transform){
        .service = &a->page, .arena = http_arena(x), .home = http_home(x), .done = transform_done
    };
    if (!parse_request(p) || !app_may_wait(x))
        return;
    p->page.deadline = page_wait_deadline(x, a);
    http_defer(x);
    http_on_gone(x, client_gone, p);
    page_transform_start(&p->page);
}
