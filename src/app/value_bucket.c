/* Creating, dropping and listing buckets of values. */
#include "app/value_request.h"

#include "app/errors.h"
#include "app/token.h"
#include "codec/base64.h"
#include "codec/json.h"

#include <inttypes.h>
#include <string.h>

/* ---- creating and dropping ---- */

struct bucket_request {
    struct value_request *r;
    struct table_schema_change change;
};

/* Tables of buckets are of version 5000 and up, so that the layout can change under versions of clients. */
enum { BUCKET_VERSION_BASE = 5000 };

static const char *const plain_schema =
    "\"attributes\":{\"key\":\"string\",\"headers\":\"string\",\"etag\":\"string\",\"coding\":\"string\","
    "\"value\":\"blob\"},"
    "\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"}]";
static const char *const revs_schema =
    "\"attributes\":{\"key\":\"string\",\"rev\":\"long\",\"tid\":\"timeuuid\",\"headers\":\"string\","
    "\"coding\":\"string\",\"value\":\"blob\"},\"index\":[{\"attribute\":\"key\",\"type\":\"hash\"},"
    "{\"attribute\":\"rev\",\"type\":\"range\",\"order\":\"desc\"},"
    "{\"attribute\":\"tid\",\"type\":\"range\",\"order\":\"desc\"}]";

static bool word_is(const json_t *json, const char *name, const char *const *words)
{
    const json_t *value = json_object_get(json, name);
    for (; value != NULL && json_is_string(value) && *words != NULL; words++)
        if (strcmp(json_string_value(value), *words) == 0)
            return true;
    return value == NULL;
}

/* Options of a table from those of a bucket. */
static err options_text(struct arena *a, const json_t *json, str *out)
{
    json_t *options = json_object();
    static const char *const same[] = { "compression", "updates", "default_time_to_live", "durability" };
    int failed = options == NULL;
    for (unsigned i = 0; failed == 0 && i < COUNT_OF(same); i++) {
        json_t *value = json_object_get(json, same[i]);
        if (value != NULL)
            failed = json_object_set(options, same[i], value);
    }
    char *text = failed == 0 ? json_dumps(options, JSON_COMPACT) : NULL;
    *out = text == NULL ? STR_NONE : arena_copy(a, str_of(text));
    free(text);
    json_decref(options);
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

static err schema_of(struct value_request *r, const json_t *json, str *out, struct err_note *note)
{
    static const char *const known[] = { "keyType", "valueType", "version", "compression", "updates", "durability",
                                         "default_time_to_live", "options", "table", "domain", NULL };
    static const char *const key_types[] = { "string", NULL };
    static const char *const value_types[] = { "blob", "string", "json", NULL };
    int64_t version = 1;
    str options;
    err why = json_body_only(json, known, note);
    if (why == ERR_OK && (!word_is(json, "keyType", key_types) || !word_is(json, "valueType", value_types))) {
        err_note_set(note, "keyType must be string, valueType blob, string or json");
        why = ERR_BAD;
    }
    if (why == ERR_OK) {
        why = json_body_i64(json, "version", 1, INT32_MAX, &version, note);
        why = why == ERR_NOT_FOUND ? ERR_OK : why;
    }
    if (why == ERR_OK)
        why = options_text(http_arena(r->x), json, &options);
    if (why != ERR_OK)
        return why;
    *out = arena_printf(http_arena(r->x), "{\"version\":%" PRId64 ",%s,\"options\":%.*s}",
                        BUCKET_VERSION_BASE + version,
                        r->kind == BUCKET_PLAIN ? plain_schema : revs_schema, STR_ARG(options));
    return out->p == NULL ? ERR_LIMIT : ERR_OK;
}

static err schema_read(struct value_request *r, str *out, struct err_note *note)
{
    json_t *json;
    str body = http_body(r->x);
    err why = json_body_parse(body.n == 0 ? STR("{}") : body, &json, note);
    if (why != ERR_OK)
        return why;
    if (json_is_object(json)) {
        why = schema_of(r, json, out, note);
    } else {
        err_note_set(note, "the options of a bucket are a JSON object");
        why = ERR_BAD;
    }
    json_decref(json);
    return why;
}

static void change_answer(struct bucket_request *b, err why)
{
    b->r->note = b->change.note;
    if (why != ERR_OK)
        value_fail(b->r, why);
    else if (b->change.action == SCHEMA_DROP)
        http_answer(b->r->x, 204, STR_NONE);
    else
        answer_json(b->r->x, 201, STR("{\"type\":\"table_created\",\"title\":\"The bucket is there.\"}"), NULL);
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
    struct bucket_request *b = arena_calloc(http_arena(x), 1, sizeof *b);
    if (b == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    b->r = r;
    b->change = (struct table_schema_change){ .action = action, .domain = r->domain->number, .table = r->table,
                                              .arena = http_arena(x), .deadline = table_deadline(app),
                                              .done = change_done };
    err why = action == SCHEMA_CREATE ? schema_read(r, &b->change.json, &b->change.note) : ERR_OK;
    if (why != ERR_OK) {
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

/* A listing under way. Its buffers live in list_run only: an answer frees the arena that it is in. */
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
    if (page.n > 0 && page.n <= TOKEN_TEXT_BYTES_MAX && token_unbase64(a, page, &bytes) == ERR_OK &&
        base64_encode(a, bytes, next) == ERR_OK)
        return true;
    app_problem(r->x, 400, "bad_request#invalid_paging_token", NULL, STR("page is not a token that a listing gave."),
                STR_NONE);
    return false;
}

static bool limit_in(struct value_request *r, uint32_t *limit)
{
    uint64_t n = VALUE_LIMIT_DEFAULT;
    str text;
    bool fine = !http_query(r->x, "limit", &text) || (str_to_u64(text, &n) && n > 0 && n <= VALUE_LIMIT_MAX);
    *limit = (uint32_t)n;
    if (!fine)
        app_problem(r->x, 400, "bad_request#invalid_limit", NULL, STR("limit is a number from 1 to 1000."), STR_NONE);
    return fine;
}

static bool key_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    str text = app_json_string(http_arena(l->r->x), table_row_value(row, STR("key")));
    if (l->count++ > 0)
        buf_put_c(&l->out, ',');
    buf_put(&l->out, text);
    return true;
}

static void put_rev(struct buf *b, const struct table_row *row)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(table_tid(table_row_value(row, STR("tid"))), tid);
    buf_printf(b, "\"revision\":%" PRId64 ",\"tid\":\"%s\"", table_long(table_row_value(row, STR("rev"))), tid);
}

static bool rev_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    buf_put(&l->out, l->count++ > 0 ? STR(",{") : STR("{"));
    put_rev(&l->out, row);
    buf_put_c(&l->out, '}');
    return true;
}

/* {"key":...,"revision":...,"tid":...}, the latter two in key_rev_value; {}: not even the key can be read. */
static bool damaged_item(void *ctx, const struct table_row *row)
{
    struct listing *l = ctx;
    str key = table_row_value(row, STR("key"));
    buf_put(&l->damaged, l->damaged_count++ > 0 ? STR(",{") : STR("{"));
    if (key.p != NULL) {
        buf_put(&l->damaged, STR("\"key\":"));
        buf_put(&l->damaged, app_json_string(http_arena(l->r->x), key));
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
    if (next.n > 0 && base64_decode(a, next, &bytes) == ERR_OK) {
        str token = token_base64url(a, bytes);
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
    struct table_reader reader = { .tables = r->app->tables, .arena = http_arena(r->x), .each = l->each,
                                   .damaged = damaged_item, .ctx = l, .note = &r->note };
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
    if (why != ERR_OK)
        value_fail(r, why);
    else if (l->count == 0 && l->damaged_count == 0 && l->get.predicates_count > 0 && l->get.next.n == 0)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."), STR_NONE);
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
    *l = (struct listing){ .r = r, .get = *get, .each = each, .job = { .run = list_run, .done = list_done } };
    l->get.table = r->table;
    if (limit_in(r, &l->get.limit) && token_in(r, &l->get.next) && value_defer(r))
        loop_job_start(r->app->loop, &l->job);
}

void value_bucket_keys(struct http_exchange *x, struct app *app, enum value_bucket_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind);
    struct table_get g = { .distinct = true };
    if (r != NULL)
        list(r, &g, key_item);
}

void value_key_revs(struct http_exchange *x, void *app)
{
    static const str names[] = { { .p = "rev", .n = 3 }, { .p = "tid", .n = 3 } };
    struct value_request *r = value_request_new(x, app, BUCKET_REVS);
    if (r == NULL)
        return;
    struct table_get g = { .predicates = r->predicates, .predicates_count = value_predicates(r), .proj = names,
                           .proj_count = COUNT_OF(names) };
    if (g.predicates_count == 0)
        app_fail(x, ERR_LIMIT, NULL); /* without them it would be a listing of the whole bucket */
    else
        list(r, &g, rev_item);
}
