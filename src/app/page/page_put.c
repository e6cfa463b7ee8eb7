/* PUT of a bundle or of one content: reads the body, then hands it to the bucket and answers when
 * it is on disk. */
#include "app/answer.h"
#include "app/coded.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "app/page/page_stash.h"
#include "app/page/page_title.h"
#include "codec/json_text.h"
#include "page/bundle.h"
#include "page/content.h"
#include "page/stash.h"

enum { PUT_HEADERS_MAX = 128 };

struct put {
    struct http_exchange *x;
    const struct app *app;
    struct page_target target;
    struct title_wait wait;
    struct coded_body body;
    struct page_put op;
    bool pin;       /* stash=true */
    uint64_t taken; /* of what may be kept for editors */
};

static void answer_stored(struct put *p)
{
    struct arena *a = http_arena(p->x);
    char tag[PAGE_TAG_BYTES + 1], tid[TID_TEXT_BYTES + 1];
    (void)page_tag(p->op.stored, tag);
    tid_format(p->op.stored.tid, tid);
    str etag = arena_printf(a, "\"%s\"", tag);
    str body =
        arena_printf(a, "{\"title\":%.*s,\"rev\":%llu,\"tid\":\"%s\",\"latest\":%s,\"applied\":%s}",
                     STR_ARG(json_text_quote(a, p->target.title)),
                     (unsigned long long)p->op.stored.rev, tid, p->op.latest ? "true" : "false",
                     p->op.applied ? "true" : "false");
    http_reply_header(p->x, STR("etag"), etag);
    answer_json(p->x, p->op.created ? 201 : 200, body, NULL);
}

static void answer_refused(struct put *p, err why)
{
    if (why == ERR_GONE && p->op.trace.state != PAGE_PURGED &&
        p->op.trace.state != PAGE_SUPPRESSED) {
        const struct err_note *note = &p->op.note;
        app_problem(p->x, 410, "expired", NULL,
                    note->text[0] != 0 ? str_of(note->text)
                                       : STR("The policy of this bucket cannot keep this render."),
                    arena_printf(http_arena(p->x), ",\"reason\":\"expired\",\"policy\":\"%s\"",
                                 page_policy_name(p->target.settings->opts->policy.kind)));
        return;
    }
    app_page_fail(p->x, p->app, why, &p->op.trace, &p->op.note);
}

static void put_done(struct store_call *c)
{
    struct put *p = CONTAINER_OF(c, struct put, op.call);
    page_stash_keep_put(&p->app->page, p->taken, &p->op);
    if (c->why == ERR_OK)
        answer_stored(p);
    else
        answer_refused(p, c->why);
}

/* It passes a limit of its own, and not one of the store's. */
static void put_too_large(struct put *p)
{
    const struct err_note *note = &p->op.note;
    page_stash_keep_put(&p->app->page, p->taken, &p->op);
    app_problem(p->x, 413, "content_too_large", NULL,
                note->text[0] != 0 ? str_of(note->text) : STR("The contents pass a limit."),
                STR_NONE);
}

/* ---- starting ---- */

static struct put *put_new(struct http_exchange *x, struct app *app)
{
    struct put *p = app_new(x, sizeof *p);
    if (p == NULL)
        return NULL;
    *p = (struct put){ .x = x, .app = app };
    if (!app_page_target_parse(x, app, &p->target) || !app_page_may_wait(x))
        return NULL;
    str coding = STR_NONE;
    (void)http_header(x, "content-encoding", &coding); /* absent is fine */
    return coded_body_read(x, app, coding, app->config->page_body_bytes_max, &p->body) ? p : NULL;
}

static void put_begin(struct put *p)
{
    const struct page_target *t = &p->target;
    uint64_t taken = p->pin ? page_stash_put_bytes(&p->op) : 0;
    if (p->pin && !page_stash_take(&p->app->page, taken)) {
        stash_answer_full(p->x);
        return;
    }
    p->taken = taken;
    p->op.call.deadline = page_write_deadline(&p->app->page);
    p->op.bucket = t->settings->bucket;
    p->op.domain = t->domain->number;
    p->op.title = t->title;
    p->op.rev = t->name.rev;
    p->op.has_tid = t->has_tid;
    p->op.tid = t->name.tid;
    p->op.stash_ns = p->pin ? t->settings->opts->policy.stash_ttl_ns : 0;
    p->op.arena = http_arena(p->x);
    if (page_store_put(p->app->page.store, &p->op) == STORE_LATER)
        return;
    if (p->op.call.why == ERR_LIMIT)
        put_too_large(p);
    else
        put_done(&p->op.call);
}

/* What compresses runs at x's worker. */
static void put_settled(struct title_wait *w)
{
    struct put *p = CONTAINER_OF(w, struct put, wait);
    put_begin(p);
}

static void put_start(struct put *p)
{
    struct page_condition_fields fields;
    if (!app_page_flag(p->x, "stash", &p->pin))
        return;
    if (p->pin && !stash_may_ask(p->x, p->app, p->target.settings))
        return;
    if (!app_page_condition(p->x, &fields, &p->op.condition))
        return;
    p->op.call.home = http_home(p->x);
    p->op.call.done = put_done;
    p->wait = (struct title_wait){ .x = p->x,
                                   .target = &p->target,
                                   .deadline = app_wait_deadline(p->x, p->app),
                                   .go = put_settled };
    title_wait_start(&p->wait);
}

void app_page_put_bundle(struct http_exchange *x, void *app)
{
    struct put *p = put_new(x, app);
    if (p == NULL)
        return;
    struct err_note note = { { 0 } };
    err why =
        bundle_parse(http_arena(x), p->body.raw, p->op.contents, &p->op.contents_count, &note);
    if (why == ERR_LIMIT)
        app_problem(x, 413, "content_too_large", NULL,
                    note.text[0] != 0 ? str_of(note.text)
                                      : STR("The body is too large for one request."),
                    STR_NONE);
    else if (why != ERR_OK)
        app_problem(x, 400, "bad_request#invalid_body", NULL, str_of(note.text), STR_NONE);
    else
        put_start(p);
}

static enum page_codec page_codec_of(enum frame_coding coding)
{
    return coding == FRAME_GZIP ? PAGE_GZIP : coding == FRAME_ZSTD ? PAGE_ZSTD : PAGE_IDENTITY;
}

/* The headers of a raw body: its content-type, and x-store-NAME as NAME. */
static err raw_headers(struct http_exchange *x, str *lines, struct err_note *note)
{
    struct http_pair fields[PUT_HEADERS_MAX + 1];
    unsigned count = http_headers_all(x, fields, PUT_HEADERS_MAX);
    str type;
    if (!http_header(x, "content-type", &type))
        fields[count++] = (struct http_pair){ .name = STR("content-type"),
                                              .value = STR("application/octet-stream") };
    return headers_keep(http_arena(x), fields, count, HEADERS_X_STORE, lines, note);
}

void app_page_put_content(struct http_exchange *x, void *app)
{
    struct put *p = put_new(x, app);
    if (p == NULL)
        return;
    if (!page_content_is_fine(p->target.content)) {
        app_problem(x, 400, "bad_request#invalid_content", NULL,
                    STR("This cannot be the name of a content."), STR_NONE);
        return;
    }
    struct err_note note = { { 0 } };
    struct page_put_content *c = &p->op.contents[0];
    *c = (struct page_put_content){ .name = p->target.content,
                                    .raw = p->body.raw,
                                    .packed = p->body.frame,
                                    .packed_codec = page_codec_of(p->body.coding) };
    err why = raw_headers(x, &c->headers, &note);
    if (why == ERR_LIMIT && note.text[0] == 0) {
        app_fail(x, why, NULL); /* memory, not the headers */
        return;
    }
    if (why != ERR_OK) {
        app_problem(x, 400, "bad_request#invalid_headers", NULL, str_of(note.text), STR_NONE);
        return;
    }
    p->op.contents_count = 1;
    put_start(p);
}
