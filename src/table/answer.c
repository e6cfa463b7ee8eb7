/* answer.c - a query in JSON to its answer in JSON, within the memory of its request. */
#include "codec/base64.h"
#include "codec/json_text.h"
#include "table/jsontext.h"
#include "table/query.h"
#include "table/store.h"
#include "table/value.h"

/* Beside the rows: schemas, the token, headers; what is damaged. */
enum { BESIDE_ROWS_BYTES = 128 << 10, DAMAGED_BYTES_MAX = 2 << 20 };

struct json_answer {
    struct buf out, damaged;
    size_t bytes_max; /* of both */
    struct err_note *note;
    const struct schema *schema;
    unsigned rows, damaged_rows;
    err status;
};

static void json_attrs(struct json_answer *j, struct buf *to, const struct table_row *row)
{
    for (unsigned i = 0; i < row->count && j->status == ERR_OK; i++) {
        if (i > 0)
            buf_put_c(to, ',');
        json_text_append(to, row->attrs[i].name);
        buf_put_c(to, ':');
        j->status = value_to_json(to, schema_find(j->schema, row->attrs[i].name)->kind,
                                  row->attrs[i].value);
    }
}

static bool json_damaged(void *ctx, const struct table_row *row)
{
    struct json_answer *j = ctx;
    buf_put(&j->damaged, j->damaged_rows++ == 0 ? STR("{") : STR(",{"));
    json_attrs(j, &j->damaged, row);
    buf_put_c(&j->damaged, '}');
    return j->status == ERR_OK;
}

/* One that does not fit is for the next answer; if it is the first, for none. */
static bool row_over(struct json_answer *j, size_t before)
{
    bool starved = buf_is_starved(&j->out);
    j->out.failed = false;
    j->out.n = before;
    if (j->rows > 0)
        return false;
    if (starved) {
        err_note_set(j->note, STORE_STARVED_TEXT);
        j->status = ERR_UNAVAILABLE;
        return false;
    }
    err_note_set(
        j->note,
        "an answer of %zu bytes (%s) cannot hold the row that comes next: name fewer of its "
        "attributes in proj; next goes on behind it",
        j->bytes_max,
        j->bytes_max < TABLE_ANSWER_BYTES_MAX ? "what http.arena_bytes_max leaves"
                                              : "TABLE_ANSWER_BYTES_MAX");
    j->status = ERR_LIMIT;
    return false;
}

static bool json_fits(void *ctx, const struct table_row *row)
{
    struct json_answer *j = ctx;
    size_t before = j->out.n;
    buf_put(&j->out, j->rows == 0 ? STR("{") : STR(",{"));
    json_attrs(j, &j->out, row);
    if (row->with_ttl && row->ttl_s > 0)
        buf_printf(&j->out, "%s\"_ttl\":%lld", row->count > 0 ? "," : "", (long long)row->ttl_s);
    buf_put_c(&j->out, '}');
    bool over = j->out.failed || j->out.n + j->damaged.n > j->bytes_max;
    return j->status != ERR_OK || !over || row_over(j, before);
}

static bool json_row(void *ctx, const struct table_row *row)
{
    struct json_answer *j = ctx;
    (void)row; /* it is written: json_fits */
    j->rows++;
    return j->status == ERR_OK && j->out.n < TABLE_ANSWER_BYTES_FULL;
}

static err json_finish(struct json_answer *j, str next, struct table_query *q)
{
    buf_put_c(&j->out, ']');
    if (j->damaged_rows > 0) {
        j->out.failed |= j->damaged.failed;
        buf_put(&j->out, STR(",\"damaged\":["));
        buf_put(&j->out, buf_str(&j->damaged));
        buf_put_c(&j->out, ']');
    }
    if (next.p != NULL) {
        buf_put(&j->out, STR(",\"next\":\""));
        jsontext_base64(&j->out, next);
        buf_put_c(&j->out, '"');
    }
    buf_put_c(&j->out, '}');
    if (j->status != ERR_OK)
        return j->status;
    if (buf_status(&j->out) != ERR_OK)
        return ERR_LIMIT;
    q->json = arena_copy(q->arena, buf_str(&j->out));
    q->rows = j->rows;
    q->damaged = j->damaged_rows;
    q->more = next.p != NULL;
    return q->json.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* Bytes that an answer may have: no more than are left of the arena. */
static size_t answer_room(const struct arena *a)
{
    size_t left = a->bytes_max - a->total;
    size_t room = left > BESIDE_ROWS_BYTES ? left - BESIDE_ROWS_BYTES : 0;
    return room < TABLE_ANSWER_BYTES_MAX ? room : TABLE_ANSWER_BYTES_MAX;
}

static err answer_make(const struct table_reader *r, const struct table_get *g,
                       struct table_query *q)
{
    struct json_answer *j = r->ctx;
    str next;
    j->bytes_max = answer_room(r->arena);
    buf_init(&j->out, j->bytes_max + DAMAGED_BYTES_MAX);
    buf_init(&j->damaged, DAMAGED_BYTES_MAX);
    buf_put(&j->out, STR("{\"items\":["));
    err e = tables_get(r, q->domain, g, &next);
    if (e == ERR_OK)
        e = json_finish(j, next, q);
    buf_fini(&j->out);
    buf_fini(&j->damaged);
    return e;
}

/* What is no base64 is no token either: it is refused where tokens are. */
static err next_decode(struct arena *a, struct table_get *g)
{
    str next;
    if (g->next.n == 0)
        return ERR_OK;
    err e = base64_decode(a, g->next, BASE64_STRICT, &next);
    g->next = e == ERR_OK && next.n > 0 ? next : STR("?");
    return e == ERR_LIMIT ? e : ERR_OK;
}

err tables_query(struct tables *ts, struct table_query *q, bool now)
{
    struct schema *schema;
    struct table_get g;
    struct err_note why = { .text = "" };
    struct store_look look = { .tables = ts,
                               .view = engine_view_begin(ts->engine),
                               .domain = q->domain,
                               .now = now,
                               .arena = q->arena,
                               .note = &why };
    err e = store_schema(&look, q->table, &schema);
    if (e == ERR_OK)
        e = query_get(q->arena, schema, q->query, &g, &why);
    if (e == ERR_OK)
        e = next_decode(q->arena, &g);
    if (e == ERR_OK) {
        struct json_answer j = { .schema = schema, .note = &why, .status = ERR_OK };
        struct table_reader r = { .tables = ts,
                                  .call = &q->call,
                                  .view = look.view,
                                  .schema = schema,
                                  .arena = q->arena,
                                  .now = now,
                                  .each = json_row,
                                  .fits = json_fits,
                                  .damaged = json_damaged,
                                  .ctx = &j,
                                  .note = &why };
        q->went_on = g.next.n > 0;
        e = answer_make(&r, &g, q);
    }
    engine_view_end(&look.view);
    store_memory_note(e, q->arena, &why);
    if (e != ERR_OK && e != ERR_AGAIN)
        q->note = why;
    return e;
}
