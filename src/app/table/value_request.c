/* The way of a value between a request and its table. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "http/negotiate.h"
#include "table/table_write.h"

#include <string.h>

enum { VALUE_HEADERS_MAX = 128, GZIP_TRAILER_BYTES = 4, READ_SCANS_MAX = 16 };

static bool refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem(x, status, type, NULL, str_of(detail), STR_NONE);
    return false;
}

void value_fail(struct value_request *r, err why)
{
    const struct err_note *note = r->note.text[0] != 0 ? &r->note : &r->change.update.note;
    if (why == ERR_NOT_FOUND && r->configured != NULL)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
    else if (why == ERR_NOT_FOUND)
        app_problem(r->x, 404, "unknown_bucket", NULL, STR("There is no bucket of this name."),
                    STR_NONE);
    else
        table_fail(r->x, why, note, NULL);
}

bool value_defer(struct value_request *r)
{
    if (r->deferred)
        return true;
    if (!table_may_wait(r->x))
        return false;
    http_defer(r->x);
    r->deferred = true;
    return true;
}

/* ---- the path ---- */

static bool parse_bucket(struct value_request *r)
{
    str name = http_param(r->x, "bucket");
    const char *kind = r->kind == BUCKET_PLAIN ? "key_value" : "key_rev_value";
    bool dots =
        str_eq(name, STR(".")) || str_eq(name, STR("..")); /* clients take them out of a path */
    if (name.n == 0 || name.n > TABLE_NAME_BYTES_MAX - 16 || str_find(name, '/') < name.n || dots)
        return refuse(r->x, 404, "unknown_bucket", "No bucket can have this name.");
    r->table = arena_printf(http_arena(r->x), TABLE_OWN_PREFIX "%s.%.*s", kind, STR_ARG(name));
    if (r->table.p == NULL)
        app_fail(r->x, ERR_LIMIT, NULL);
    return r->table.p != NULL;
}

/* NULL: the configuration does not name it. */
static const struct config_bucket *find_configured(const struct config *c,
                                                   enum value_bucket_kind kind, str name)
{
    enum config_kind wanted = kind == BUCKET_PLAIN ? KIND_KEY_VALUE : KIND_KEY_REV_VALUE;
    for (unsigned i = 0; i < c->values_count; i++)
        if (c->values[i].kind == wanted && str_eq(name, str_of(c->values[i].page.name)))
            return &c->values[i];
    return NULL;
}

bool value_path(str path)
{
    str rest = str_skip(path, str_find(str_skip(path, 1), '/') + 1); /* behind the domain */
    return str_starts(rest, STR("/v1/key_value/")) || str_starts(rest, STR("/v1/key_rev_value/"));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Cuts the first character off, however it is encoded, in lower case; a broken escape is a '%'. */
static char take_char(str *s)
{
    char c = s->p[0];
    int high = c == '%' && s->n > 2 ? hex_digit(s->p[1]) : -1,
        low = high >= 0 ? hex_digit(s->p[2]) : -1;
    *s = str_skip(*s, low >= 0 ? 3 : 1);
    c = low >= 0 ? (char)(high * 16 + low) : c;
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Does s begin with word, however it is encoded? *rest is what follows. */
static bool reads(str s, str word, str *rest)
{
    for (size_t i = 0; i < word.n; i++)
        if (s.n == 0 || take_char(&s) != word.p[i])
            return false;
    *rest = s;
    return true;
}

/* Behind the next slash, however that is encoded. */
static str behind_slash(str s)
{
    while (s.n > 0 && take_char(&s) != '/')
        continue;
    return s;
}

/* No route of values took the target: whatever is behind a kind and a name may be a key that was
 * meant for a bucket. */
static str odd_target_logged(str target)
{
    for (str at = target, rest; at.n > 0; at = str_skip(at, 1))
        if (reads(at, STR("key_value"), &rest) || reads(at, STR("key_rev_value"), &rest)) {
            rest = behind_slash(behind_slash(rest));
            return str_take(target, target.n - rest.n);
        }
    return target;
}

str value_target_logged(const struct http_exchange *x)
{
    enum { PARTS_LOGGED = 5 }; /* "", domain, v1, kind, bucket */
    const struct http_route *route = http_route(x);
    str target = http_target(x), rest = target,
        pattern = route == NULL ? STR("") : str_of(route->pattern);
    if (route == NULL ||
        str_starts(pattern,
                   STR("/{domain}/v1/{"))) /* of buckets by any name: of none, or of pages */
        return odd_target_logged(target);
    if (!value_path(pattern))
        return target;
    for (unsigned i = 0; i < PARTS_LOGGED; i++)
        (void)str_split(&rest, '/'); /* not logged is what is left */
    return str_take(target, target.n - rest.n);
}

void value_share(struct http_exchange *x, const struct app *app)
{
    str rest = str_skip(http_target(x), 1), name;
    (void)str_split(&rest, '/'); /* the domain */
    bool v1 = str_eq(str_split(&rest, '/'), STR("v1"));
    str kind = str_split(&rest, '/');
    bool plain = str_eq(kind, STR("key_value"));
    if (!v1 || (!plain && !str_eq(kind, STR("key_rev_value"))))
        return;
    if (http_decode(http_arena(x), str_split(&rest, '/'), false, &name) != ERR_OK)
        return;
    const struct config_bucket *b =
        find_configured(app->config, plain ? BUCKET_PLAIN : BUCKET_REVS, name);
    if (b == NULL ? app->config->value_access.cors : b->access.cors)
        http_share(x);
}

static bool parse_name(struct value_request *r)
{
    str rev = http_param(r->x, "rev"), tid = http_param(r->x, "tid");
    r->has_rev = rev.p != NULL;
    r->has_tid = tid.p != NULL;
    if (r->has_rev && (!str_to_i64(rev, &r->rev) || r->rev < 0))
        return refuse(r->x, 400, "bad_request#invalid_revision",
                      "A revision is a number from 0 to 2^63-1.");
    if (r->has_tid && !tid_parse(tid, &r->tid))
        return refuse(r->x, 400, "bad_request#invalid_tid", "A tid is a version-1 UUID.");
    return true;
}

struct value_request *value_request_new(struct http_exchange *x, struct app *app,
                                        enum value_bucket_kind kind)
{
    const struct page_domain *domain = app_domain_of(x, app);
    if (domain == NULL)
        return NULL;
    struct value_request *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return NULL;
    }
    r->x = x;
    r->app = app;
    r->domain = domain;
    r->kind = kind;
    r->key = http_param(x, "key");
    r->configured = find_configured(app->config, kind, http_param(x, "bucket"));
    r->access = r->configured == NULL ? &app->config->value_access : &r->configured->access;
    return parse_bucket(r) && parse_name(r) ? r : NULL;
}

unsigned value_predicates(struct value_request *r)
{
    struct arena *a = http_arena(r->x);
    unsigned count = 0;
    r->predicates[count++] = (struct table_predicate){ .name = STR("key"), .value = r->key };
    if (r->has_rev)
        r->predicates[count++] =
            (struct table_predicate){ .name = STR("rev"), .value = table_value_long(a, r->rev) };
    if (r->has_tid)
        r->predicates[count++] =
            (struct table_predicate){ .name = STR("tid"), .value = table_value_tid(a, r->tid) };
    return r->predicates[count - 1].value.p == NULL ? 0 : count;
}

/* ---- reading ---- */

/* A copy in the arena; a null stays one. */
static str keep(struct value_request *r, const struct table_row *row, const char *name)
{
    str value = table_row_value(row, str_of(name));
    if (value.p == NULL)
        return STR_NONE;
    str copy = arena_copy(http_arena(r->x), value);
    if (copy.p == NULL)
        r->why = ERR_LIMIT;
    return copy;
}

static bool take_row(void *ctx, const struct table_row *row)
{
    struct value_request *r = ctx;
    r->row = (struct value_row){
        .found = true,
        .rev = table_long(table_row_value(row, STR("rev"))),
        .tid = table_tid(table_row_value(row, STR("tid"))),
        .headers = keep(r, row, "headers"),
        .etag = keep(r, row, "etag"),
        .coding = keep(r, row, "coding"),
        .body = keep(r, row, "value"),
    };
    return true;
}

static err read_try(struct value_request *r, bool now)
{
    static const str key_only[] = { { .p = "rev", .n = 3 }, { .p = "tid", .n = 3 } };
    struct table_get g = { .table = r->table, .predicates = r->predicates, .limit = 1 };
    struct table_reader reader = { .tables = r->app->tables,
                                   .arena = http_arena(r->x),
                                   .now = now,
                                   .each = take_row,
                                   .ctx = r,
                                   .note = &r->note };
    str next = STR_NONE;
    g.predicates_count = value_predicates(r);
    g.proj = key_only;
    g.proj_count = r->with_body ? 0 : COUNT_OF(key_only);
    if (g.predicates_count == 0)
        return ERR_LIMIT;
    r->row = (struct value_row){ .found = false };
    r->why = ERR_OK;
    reader.view = engine_view_begin(r->app->engine);
    err why = ERR_OK;
    unsigned scans = 0;
    do { /* one get gives up after TABLE_SCAN_ROWS_MAX rows, expired ones mostly, and says where to
            go on */
        why = scans++ == READ_SCANS_MAX ? ERR_LIMIT
                                        : tables_get(&reader, r->domain->number, &g, &next);
        g.next = next;
        if (why == ERR_OK && now && !r->row.found && next.n > 0)
            why = ERR_AGAIN; /* that long: on the pool */
    } while (why == ERR_OK && !r->row.found && next.n > 0);
    engine_view_end(&reader.view);
    return why == ERR_OK ? r->why : why;
}

err value_read_wait(struct value_request *r)
{
    r->with_body = true;
    return read_try(r, false);
}

static void read_run(struct loop_job *j)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    r->why = read_try(r, false);
}

static void read_done(struct loop_job *j, bool canceled)
{
    struct value_request *r = CONTAINER_OF(j, struct value_request, job);
    r->read_done(r, canceled ? ERR_SHUTDOWN : r->why);
}

void value_read(struct value_request *r, bool with_body,
                void (*done)(struct value_request *r, err why))
{
    r->with_body = with_body;
    r->read_done = done;
    err why = read_try(r, true);
    if (why != ERR_AGAIN) {
        done(r, why);
        return;
    }
    if (!value_defer(r))
        return;
    r->job = (struct loop_job){ .run = read_run, .done = read_done };
    loop_job_start(r->app->loop, &r->job);
}

/* ---- writing ---- */

/* A member of gzip is stored as it came, once all of it was looked at: those who take it get it
 * without any work. */
bool value_take_body(struct value_request *r, enum headers_rule rule)
{
    str sent = STR_NONE, named = STR_NONE;
    struct coded_body body;
    (void)http_header(r->x, "content-encoding", &sent); /* absent is fine */
    if (rule == HEADERS_VALUE)
        (void)http_header(r->x, "x-store-content-encoding", &named); /* absent is fine */
    if (sent.n > 0 && named.n > 0 && !coded_same(sent, named))
        return refuse(
            r->x, 400, "bad_request#invalid_coding",
            "Content-Encoding and x-store-content-encoding name different codings of one body.");
    if (!coded_body_read(r->x, r->app, named.n > 0 ? named : sent, VALUE_BODY_BYTES_MAX, &body))
        return false;
    bool as_it_came = body.coding == FRAME_GZIP;
    r->coding = as_it_came ? str_of(frame_coding_name(FRAME_GZIP)) : STR_NONE;
    r->raw = body.raw;
    r->body = as_it_came ? http_body(r->x) : body.raw;
    if (r->body.p == NULL)
        r->body = STR("");
    return true;
}

bool value_kept(struct value_request *r, enum headers_rule rule, str *lines, str *coding)
{
    struct http_pair fields[VALUE_HEADERS_MAX];
    struct err_note note = { .text = "" };
    unsigned count = http_headers_all(r->x, fields, VALUE_HEADERS_MAX);
    err why = headers_keep(http_arena(r->x), fields, count, rule, lines, &note);
    if (why == ERR_OK) {
        *coding = r->coding;
        return true;
    }
    if (note.text[0] != 0)
        return refuse(r->x, 400, "bad_request#invalid_headers", note.text);
    app_fail(r->x, why, NULL);
    return false;
}

static void change_done(struct table_change *c, err why)
{
    struct value_request *r = CONTAINER_OF(c, struct value_request, change);
    r->write_done(r, why);
}

static void change_start(struct value_request *r)
{
    r->change.app = r->app;
    r->change.done = change_done;
    r->change.update.domain = r->domain->number;
    r->change.update.writes = &r->write;
    r->change.update.writes_count = 1;
    r->write.table = r->table;
    if (value_defer(r))
        table_change_start(&r->change, r->x);
}

void value_write(struct value_request *r, const struct value_row *row,
                 void (*done)(struct value_request *r, err why))
{
    struct arena *a = http_arena(r->x);
    unsigned n = 0;
    r->attrs[n++] = (struct table_attr){ STR("key"), r->key };
    r->attrs[n++] = (struct table_attr){ STR("value"), r->body };
    r->attrs[n++] = (struct table_attr){ STR("headers"), row->headers };
    r->attrs[n++] = (struct table_attr){ STR("coding"), row->coding };
    if (r->kind == BUCKET_PLAIN) {
        r->attrs[n++] = (struct table_attr){ STR("etag"), row->etag };
    } else {
        r->attrs[n++] = (struct table_attr){ STR("rev"), table_value_long(a, r->rev) };
        r->attrs[n++] = (struct table_attr){ STR("tid"), table_value_tid(a, r->tid) };
    }
    r->write.attrs = r->attrs; /* a condition is set already */
    r->write.attrs_count = n;
    r->write_done = done;
    change_start(r);
}

void value_write_again(struct value_request *r)
{
    table_change_again(&r->change);
}

static void delete_done(struct value_request *r, err why)
{
    bool unmade = why == ERR_NOT_FOUND && r->configured != NULL; /* nothing was ever stored in it */
    if (unmade)
        (void)value_allows(r, NULL); /* sets unmet */
    if (why != ERR_OK && !unmade)
        value_fail(r, why);
    else if (r->unmet)
        value_unmet(r);
    else
        http_answer(r->x, 204, STR_NONE);
}

void value_delete(struct value_request *r)
{
    r->write = (struct table_write){ .is_delete = true };
    r->write_done = delete_done;
    if (value_judge(r))
        change_start(r);
}

/* ---- answering ---- */

bool value_unchanged(const struct value_request *r, str etag)
{
    str field = http_common(r->x)->if_none_match;
    bool weak;
    str tag = http_etag_bare(etag, &weak);
    return str_eq(str_trim(field), STR("*")) ||
           (field.n > 0 && tag.n > 0 && http_etag_matches(field, tag, true));
}

/* The bytes of a gzip frame whose trailer names their size. */
static err gunzip(struct value_request *r, str frame, str *raw)
{
    if (frame.n < GZIP_TRAILER_BYTES)
        return ERR_CORRUPT;
    const unsigned char *end = (const unsigned char *)frame.p + frame.n - GZIP_TRAILER_BYTES;
    size_t size =
        (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
    struct frame_codec *codec = frame_codec_new();
    err why = frame_decompress(codec, FRAME_GZIP, frame, size, http_arena(r->x), raw);
    frame_codec_free(&codec);
    return why;
}

/* The body in a coding the client takes; *coded: it stays in gzip. False: answered. */
static bool body_for(struct value_request *r, str *body, bool *coded)
{
    *body = r->row.body;
    *coded = r->row.coding.n > 0;
    if (!*coded)
        return true;
    struct http_accept accept = http_accept_encoding(http_common(r->x)->accept_encoding);
    if (accept.weight[CODING_GZIP] > 0 &&
        accept.weight[CODING_GZIP] >= accept.weight[CODING_IDENTITY])
        return true;
    *coded = false;
    err why = gunzip(r, r->row.body, body);
    if (why == ERR_OK)
        return true;
    if (why != ERR_CORRUPT) { /* memory */
        app_fail(r->x, why, NULL);
        return false;
    }
    app_problem(r->x, 406, "not_acceptable", NULL,
                STR("The value was stored in gzip, which the client does not accept and which "
                    "cannot be undone."),
                STR_NONE);
    return false;
}

/* The gzip of a value is another representation than its bytes: no strong tag is of both (RFC 9110
 * 8.8.3). */
static str tag_of_coded(const struct value_request *r, str etag)
{
    if (r->app->config->compat_etag == ETAG_STRONG || !str_starts(etag, STR("\"")))
        return etag;
    return arena_printf(http_arena(r->x), "W/%.*s", STR_ARG(etag));
}

void value_answer(struct value_request *r, str etag)
{
    struct answer w = { .status = 200 };
    str type;
    bool coded = false;
    if (!body_for(r, &w.body, &coded))
        return;
    if (value_unchanged(r, etag)) {
        w.status = 304;
        w.body.p = NULL; /* its size is the one of the 200 */
    }
    if (!headers_find(r->row.headers, STR("content-type"), &type)) {
        type = STR("application/octet-stream");
        answer_add(&w, STR("content-type"), type);
    }
    answer_add_kept(&w, r->row.headers, r->kind == BUCKET_PLAIN ? HEADERS_VALUE : HEADERS_ALL);
    if (etag.n > 0)
        answer_add(&w, STR("etag"), coded ? tag_of_coded(r, etag) : etag);
    if (r->row.coding.n > 0)
        answer_add_vary(&w, http_arena(r->x), STR("Accept-Encoding"));
    if (coded && w.status == 200)
        answer_add(&w, STR("content-encoding"), r->row.coding);
    answer_add(&w, STR("cache-control"), str_of(r->access->cache_control));
    answer_add_security(&w, http_arena(r->x), type, r->domain->name);
    answer_send(r->x, &w);
}
