/* page_put.c - PUT of a bundle or of one content: reads the body, then hands it to the bucket and
 * answers when it is on disk. */
#include "app/answer.h"
#include "app/coded.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "codec/json_text.h"
#include "page/bundle.h"
#include "page/content.h"
#include "page/stash.h"

enum { PUT_HEADERS_MAX = 128 };

struct put {
    struct page_request r;
    struct title_wait wait;
    struct coded_body body;
    struct page_put op;
    bool pin;       /* stash=true */
    uint64_t taken; /* of what may be kept for editors */
};

/* ---- answering ---- */

static void answer_stored(struct put *p)
{
    struct arena *a = http_arena(p->r.x);
    char tid[TID_TEXT_BYTES + 1];
    tid_format(p->op.stored.tid, tid);
    http_reply_header(p->r.x, STR("etag"), page_etag(a, p->op.stored));
    answer_json(p->r.x, p->op.created ? 201 : 200,
                arena_printf(a,
                             "{\"title\":%.*s,\"rev\":%llu,\"tid\":\"%s\",\"latest\":%s,"
                             "\"applied\":%s}",
                             STR_ARG(json_text_quote(a, p->r.target.title)),
                             (unsigned long long)p->op.stored.rev, tid,
                             p->op.latest ? "true" : "false", p->op.applied ? "true" : "false"),
                NULL);
}

static void answer_refused(struct put *p, err why)
{
    const struct err_note *note = &p->op.note;
    enum page_state state = p->op.trace.state;
    if (why != ERR_GONE || state == PAGE_PURGED || state == PAGE_SUPPRESSED) {
        page_fail(p->r.x, p->r.app, why, &p->op.trace, note);
        return;
    }
    app_problem(p->r.x, 410, "expired", NULL,
                note->text[0] != 0 ? str_of(note->text)
                                   : STR("The policy of this bucket cannot keep this render."),
                arena_printf(http_arena(p->r.x), ",\"reason\":\"expired\",\"policy\":\"%s\"",
                             page_policy_name(p->r.target.settings->opts->policy.kind)));
}

static void put_done(struct store_call *c)
{
    struct put *p = CONTAINER_OF(c, struct put, op.call);
    page_stash_keep_put(&p->r.app->page, p->taken, &p->op);
    if (c->why == ERR_OK)
        answer_stored(p);
    else
        answer_refused(p, c->why);
}

/* note: of a limit that the contents pass; empty: they pass it as a whole. */
static void too_large(struct http_exchange *x, const struct err_note *note, const char *all)
{
    app_refused(x, 413, "content_too_large", note->text[0] != 0 ? note->text : all);
}

/* ---- starting ---- */

/* What compresses runs at x's home. */
static void put_settled(struct page_request *r)
{
    struct put *p = CONTAINER_OF(r, struct put, r);
    const struct page_service *s = &r->app->page;
    const struct page_target *t = &r->target;
    uint64_t taken = p->pin ? page_stash_put_bytes(&p->op) : 0;
    if (p->pin && !page_stash_take(s, taken)) {
        stash_answer_full(r->x);
        return;
    }
    p->taken = taken;
    p->op.call.deadline = page_write_deadline(s);
    p->op.bucket = t->settings->bucket;
    p->op.domain = t->domain->number;
    p->op.title = t->title;
    p->op.rev = t->name.rev;
    p->op.has_tid = t->has_tid;
    p->op.tid = t->name.tid;
    p->op.stash_ns = p->pin ? t->settings->opts->policy.stash_ttl_ns : 0;
    p->op.arena = http_arena(r->x);
    if (page_store_put(s->store, &p->op) == STORE_LATER)
        return;
    if (p->op.call.why != ERR_LIMIT) {
        put_done(&p->op.call);
        return;
    }
    page_stash_keep_put(s, taken, &p->op);
    too_large(r->x, &p->op.note, "The contents pass a limit."); /* their own, not the store's */
}

static struct put *put_new(struct http_exchange *x, struct app *app)
{
    struct put *p = page_request_new(x, app, sizeof *p);
    str coding = STR_NONE;
    if (p == NULL || !app_may_wait(x))
        return NULL;
    (void)http_header(x, "content-encoding", &coding); /* absent is fine */
    return coded_body_read(x, app, coding, app->config->page_body_bytes_max, &p->body) ? p : NULL;
}

/* With its contents. */
static void put_start(struct put *p)
{
    struct http_exchange *x = p->r.x;
    struct page_condition_fields fields;
    if (!page_flag(x, "stash", &p->pin) ||
        (p->pin && !stash_may_ask(x, p->r.app, p->r.target.settings)) ||
        !page_condition_of(x, &fields, &p->op.condition))
        return;
    p->op.call.home = http_home(x);
    p->op.call.done = put_done;
    title_wait_start(&p->wait, &p->r, put_settled);
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
        too_large(x, &note, "The body is too large for one request.");
    else if (why != ERR_OK)
        app_refused(x, 400, "bad_request#invalid_body", note.text);
    else
        put_start(p);
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
    static const enum page_codec codecs[] = {
        [FRAME_IDENTITY] = PAGE_IDENTITY, [FRAME_GZIP] = PAGE_GZIP, [FRAME_ZSTD] = PAGE_ZSTD
    };
    struct put *p = put_new(x, app);
    if (p == NULL)
        return;
    if (!page_content_is_fine(p->r.target.content)) {
        app_refused(x, 400, "bad_request#invalid_content", "This cannot be the name of a content.");
        return;
    }
    struct err_note note = { { 0 } };
    struct page_put_content *c = &p->op.contents[0];
    *c = (struct page_put_content){ .name = p->r.target.content,
                                    .raw = p->body.raw,
                                    .packed = p->body.frame,
                                    .packed_codec = codecs[p->body.coding] };
    p->op.contents_count = 1;
    err why = raw_headers(x, &c->headers, &note);
    if (why == ERR_LIMIT && note.text[0] == 0)
        app_fail(x, why, NULL); /* memory, not the headers */
    else if (why != ERR_OK)
        app_refused(x, 400, "bad_request#invalid_headers", note.text);
    else
        put_start(p);
}
