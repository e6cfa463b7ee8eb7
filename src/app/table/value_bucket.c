/* Creating, dropping and listing buckets of values. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "app/token.h"
#include "codec/base64.h"
#include "codec/json_text.h"

#include <inttypes.h>
#include <string.h>

/* ---- creating and dropping ---- */

struct bucket_request {
    struct value_request *r;
    struct table_schema_change change;
};

static void change_answer(struct bucket_request *b, err why)
{
    b->r->note = b->change.note;
    if (why != ERR_OK)
        value_fail(b->r, why);
    else if (b->change.action == SCHEMA_DROP)
        http_answer(b->r->x, 204, STR_NONE);
    else
        answer_json(b->r->x, 201,
                    STR("{\"type\":\"table_created\",\"title\":\"The bucket is there.\"}"), NULL);
}

static void change_done(struct table_schema_change *c, err why)
{
    change_answer(CONTAINER_OF(c, struct bucket_request, change), why);
}

static void change_start(struct http_exchange *x, struct app *app, enum value_bucket_kind kind,
                         enum table_schema_action action)
{
    struct value_request *r = value_request_new(x, app, kind);
    if (r == NULL)
        return;
    if (r->configured != NULL && action == SCHEMA_DROP) {
        app_problem(
            x, 409, "conflict", NULL,
            STR("This bucket stands in the configuration (buckets): take it out there first."),
            STR_NONE);
        return;
    }
    struct bucket_request *b = arena_calloc(http_arena(x), 1, sizeof *b);
    if (b == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    b->r = r;
    b->change = (struct table_schema_change){ .action = action,
                                              .domain = r->domain->number,
                                              .table = r->table,
                                              .arena = http_arena(x),
                                              .deadline = table_deadline(app),
                                              .done = change_done };
    err why =
        action == SCHEMA_CREATE ? value_schema_read(r, &b->change.json, &b->change.note) : ERR_OK;
    if (why != ERR_OK || (r->configured != NULL && action == SCHEMA_CREATE)) {
        change_answer(b, why);
        return;
    }
    if (!value_defer(r))
        return;
    why = tables_change(app->tables, &b->change);
    if (why != ERR_OK)
        change_answer(b, why);
}

void value_bucket_create(struct http_exchange *x, struct app *app, enum value_bucket_kind kind)
{
    change_start(x, app, kind, SCHEMA_CREATE);
}

void value_bucket_drop(struct http_exchange *x, struct app *app, enum value_bucket_kind kind)
{
    change_start(x, app, kind, SCHEMA_DROP);
}

/* ---- listings ---- */

/* A listing under way. Its buffers live in list_run only: an answer frees the arena that it is
 * in. */
struct listing {
    struct value_request *r;
    struct table_get get;
    bool (*each)(void *ctx, const struct table_row *row);
    struct buf out, damaged;
    unsigned count, damaged_count;
    str body;
    err why;
    struct loop_job job;
};

/* Tokens of tables are base64; in a query parameter they are base64url. */
static bool token_in(struct value_request *r, str *next)
{
    str page, bytes;
    *next = STR_NONE;
    if (!http_query(r->x, "page", &page))
        return true;
    struct arena *a = http_arena(r->x);
    if (page.n > 0 && page.n <= TOKEN_TEXT_BYTES_MAX &&
        base64_decode(a, page, BASE64_TOKEN, &bytes) == ERR_OK &&
        base64_encode(a, bytes, next) == ERR_OK)
        return true;
    app_problem(r->x, 400, "bad_request#invalid_paging_token", NULL,
                STR("page is not a token that a listing gave."), STR_NONE);
    return false;
}

static bool limit_in(struct value_request *r, uint32_t *limit)
{
    uint64_t n = VALUE_LIMIT_DEFAULT;
    str text;
    bool fine = !http_query(r->x, "limit", &text) ||
                (str_to_u64(text, &n) && n > 0 && n <= VALUE_LIMIT_MAX);
    *limit = (uint32_t)n;
    if (!fine)
        app_problem(r->x, 400, "bad_request#invalid_limit", NULL,
                    STR("limit is a number from 1 to 1000."), STR_NONE);
    return fine;
}

static bool key_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    str text = json_text_quote(http_arena(l->r->x), table_row_value(row, STR("key")));
    if (l->count++ > 0)
        buf_put_c(&l->out, ',');
    buf_put(&l->out, text);
    return true;
}

static void put_rev(struct buf *b, const struct table_row *row)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(table_tid(table_row_value(row, STR("tid"))), tid);
    buf_printf(b, "\"revision\":%" PRId64 ",\"tid\":\"%s\"",
               table_long(table_row_value(row, STR("rev"))), tid);
}

static bool rev_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    buf_put(&l->out, l->count++ > 0 ? STR(",{") : STR("{"));
    put_rev(&l->out, row);
    buf_put_c(&l->out, '}');
    return true;
}

/* {"key":...,"revision":...,"tid":...}, the latter two in key_rev_value; {}: not even the key can
 * be read. */
static bool damaged_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    str key = table_row_value(row, STR("key"));
    buf_put(&l->damaged, l->damaged_count++ > 0 ? STR(",{") : STR("{"));
    if (key.p != NULL) {
        buf_put(&l->damaged, STR("\"key\":"));
        buf_put(&l->damaged, json_text_quote(http_arena(l->r->x), key));
    }
    if (key.p != NULL && l->r->kind == BUCKET_REVS) {
        buf_put_c(&l->damaged, ',');
        put_rev(&l->damaged, row);
    }
    buf_put_c(&l->damaged, '}');
    return true;
}

/* ERR_LIMIT. */
static err listing_body(struct listing *l, str next)
{
    struct arena *a = http_arena(l->r->x);
    str bytes;
    buf_put_c(&l->out, ']');
    if (l->damaged_count > 0) {
        l->out.failed = l->out.failed || l->damaged.failed;
        buf_put(&l->out, STR(",\"damaged\":["));
        buf_put(&l->out, buf_str(&l->damaged));
        buf_put_c(&l->out, ']');
    }
    if (next.n > 0 && base64_decode(a, next, BASE64_STRICT, &bytes) == ERR_OK) {
        str token = base64_url(a, bytes);
        buf_printf(&l->out, ",\"next\":\"%.*s\"", STR_ARG(token));
    }
    buf_put_c(&l->out, '}');
    l->body = buf_status(&l->out) == ERR_OK ? arena_copy(a, buf_str(&l->out)) : STR_NONE;
    return l->body.p == NULL ? ERR_LIMIT : ERR_OK;
}

static void list_run(struct loop_job *j)
{
    struct listing *l = CONTAINER_OF(j, struct listing, job);
    struct value_request *r = l->r;
    struct table_reader reader = { .tables = r->app->tables,
                                   .arena = http_arena(r->x),
                                   .each = l->each,
                                   .damaged = damaged_item,
                                   .ctx = l,
                                   .note = &r->note };
    str next;
    buf_init(&l->out, TABLE_ANSWER_BYTES_MAX);
    buf_init(&l->damaged, TABLE_ANSWER_BYTES_MAX);
    buf_put(&l->out, STR("{\"items\":["));
    reader.view = engine_view_begin(r->app->engine);
    l->why = tables_get(&reader, r->domain->number, &l->get, &next);
    engine_view_end(&reader.view);
    if (l->why == ERR_OK)
        l->why = listing_body(l, next);
    buf_fini(&l->out);
    buf_fini(&l->damaged);
}

static void list_done(struct loop_job *j, bool canceled)
{
    struct listing *l = CONTAINER_OF(j, struct listing, job);
    struct value_request *r = l->r;
    err why = canceled ? ERR_SHUTDOWN : l->why;
    table_tell_damage(r->app, r->x, r->table, l->damaged_count);
    if (why == ERR_NOT_FOUND && r->configured != NULL && l->get.predicates_count == 0)
        answer_json(r->x, 200, STR("{\"items\":[]}"), NULL); /* nothing was put yet */
    else if (why != ERR_OK)
        value_fail(r, why);
    else if (l->count == 0 && l->damaged_count == 0 && l->get.predicates_count > 0 &&
             l->get.next.n == 0)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
    else
        answer_json(r->x, 200, l->body, NULL);
}

/* On the pool: one may look at TABLE_SCAN_ROWS_MAX rows. */
static void list(struct value_request *r, const struct table_get *get,
                 bool (*each)(void *ctx, const struct table_row *row))
{
    struct listing *l = arena_calloc(http_arena(r->x), 1, sizeof *l);
    if (l == NULL) {
        app_fail(r->x, ERR_LIMIT, NULL);
        return;
    }
    *l = (struct listing){
        .r = r, .get = *get, .each = each, .job = { .run = list_run, .done = list_done }
    };
    l->get.table = r->table;
    if (limit_in(r, &l->get.limit) && token_in(r, &l->get.next) && value_defer(r))
        loop_job_start(r->app->loop, &l->job);
}

void value_bucket_keys(struct http_exchange *x, struct app *app, enum value_bucket_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind);
    struct table_get g = { .distinct = true };
    if (r == NULL)
        return;
    if (r->access->listing)
        list(r, &g, key_item);
    else
        app_problem(
            x, 403, "forbidden#listing", NULL,
            STR("The keys of this bucket are not listed: they may be secrets. The configuration "
                "allows it "
                "(buckets.NAME.listing, or value.listing for buckets that it does not name)."),
            STR_NONE);
}

void value_key_revs(struct http_exchange *x, void *app)
{
    static const str names[] = { { .p = "rev", .n = 3 }, { .p = "tid", .n = 3 } };
    struct value_request *r = value_request_new(x, app, BUCKET_REVS);
    if (r == NULL)
        return;
    struct table_get g = { .predicates = r->predicates,
                           .predicates_count = value_predicates(r),
                           .proj = names,
                           .proj_count = COUNT_OF(names) };
    if (g.predicates_count == 0)
        app_fail(x, ERR_LIMIT, NULL); /* without them it would be a listing of the whole bucket */
    else
        list(r, &g, rev_item);
}
