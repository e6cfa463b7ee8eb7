/* read.c - reads one value, and lists keys and revisions. */
#include "codec/frame.h"
#include "value/value_impl.h"

enum { READ_SCANS_MAX = 16, GZIP_TRAILER_BYTES = 4 };

/* The last predicate stands for all: a full arena stays full. */
bool value_predicates(struct value_call *c)
{
    const struct value_target *t = &c->target;
    struct table_predicate *p = c->predicates;
    unsigned n = 0;
    p[n++] = (struct table_predicate){ .name = STR("key"), .value = t->key };
    if (t->has_rev)
        p[n++] = (struct table_predicate){ .name = STR("rev"),
                                           .value = table_value_long(c->arena, t->rev) };
    if (t->has_tid)
        p[n++] = (struct table_predicate){ .name = STR("tid"),
                                           .value = table_value_tid(c->arena, t->tid) };
    c->predicates_count = n;
    return p[n - 1].value.p != NULL;
}

/* ---- one value ---- */

static value_next_fn find_over;

static enum store_start find_scan(struct value_call *c, str from)
{
    static const str key_only[] = { { .p = "rev", .n = 3 }, { .p = "tid", .n = 3 } };
    c->step.rows =
        (struct table_rows){ .call = value_step(c, find_over),
                             .domain = c->target.domain_number,
                             .get = { .table = c->table,
                                      .predicates = c->predicates,
                                      .predicates_count = c->predicates_count,
                                      .proj = key_only,
                                      .proj_count = c->with_body ? 0 : COUNT_OF(key_only),
                                      .limit = 1,
                                      .next = from },
                             .arena = c->arena };
    return value_go(c, table_store_rows(c->service->store, &c->step.rows));
}

/* A get gives up after TABLE_SCAN_ROWS_MAX rows, mostly expired ones, and says where to go on: so
 * it is repeated, READ_SCANS_MAX times. */
static enum store_start find_over(struct value_call *c, err why)
{
    const struct table_rows *rows = &c->step.rows;
    if (why == ERR_OK && rows->rows_count == 0 && rows->next.n > 0) {
        if (++c->scans < READ_SCANS_MAX)
            return find_scan(c, rows->next);
        why = ERR_LIMIT;
    }
    if (why == ERR_OK && rows->rows_count > 0) {
        const struct table_row *row = rows->rows;
        c->row = (struct value_row){ .found = true,
                                     .rev = table_long(table_row_value(row, STR("rev"))),
                                     .tid = table_tid(table_row_value(row, STR("tid"))),
                                     .headers = table_row_value(row, STR("headers")),
                                     .etag = table_row_value(row, STR("etag")),
                                     .coding = table_row_value(row, STR("coding")),
                                     .body = table_row_value(row, STR("value")) };
    }
    if (why != ERR_OK)
        c->note = rows->note;
    return c->found(c, why);
}

enum store_start value_find(struct value_call *c, bool with_body, value_next_fn *then)
{
    c->with_body = with_body;
    c->found = then;
    c->scans = 0;
    c->row = (struct value_row){ .found = false };
    return value_predicates(c) ? find_scan(c, STR_NONE) : then(c, ERR_LIMIT);
}

static enum store_start read_over(struct value_call *c, err why)
{
    return value_over(c, why, NULL);
}

/* A value that is not there is no error: row.found says so. */
enum store_start value_read(struct value_service *s, struct value_read *r)
{
    return value_begin(&r->of, s) ? value_find(&r->of, true, read_over)
                                  : value_over(&r->of, ERR_LIMIT, NULL);
}

/* The trailer of a gzip frame (RFC 1952) names the size, which bounds what is decoded. */
err value_raw(const struct value_row *row, struct arena *a, str *raw)
{
    str frame = row->body;
    *raw = frame;
    if (row->coding.n == 0)
        return ERR_OK;
    if (frame.n < GZIP_TRAILER_BYTES)
        return ERR_CORRUPT;
    const unsigned char *end = (const unsigned char *)frame.p + frame.n - GZIP_TRAILER_BYTES;
    size_t size =
        (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
    struct frame_codec *codec = frame_codec_new();
    err why = frame_decompress(codec, FRAME_GZIP, frame, size, a, raw);
    frame_codec_free(&codec);
    return why;
}

/* ---- listings ---- */

/* Rows as items; false: the arena is full. */
static bool items_of(struct arena *a, const struct table_row *rows, unsigned count,
                     const struct value_item **out)
{
    struct value_item *items = arena_calloc(a, count, sizeof *items);
    if (items == NULL)
        return false;
    for (unsigned i = 0; i < count; i++)
        items[i] = (struct value_item){ .key = table_row_value(&rows[i], STR("key")),
                                        .rev = table_long(table_row_value(&rows[i], STR("rev"))),
                                        .tid = table_tid(table_row_value(&rows[i], STR("tid"))) };
    *out = items;
    return true;
}

static enum store_start list_over(struct value_call *c, err why)
{
    struct value_list *l = CONTAINER_OF(c, struct value_list, of);
    const struct table_rows *rows = &c->step.rows;
    if (why != ERR_OK)
        return value_over(c, why, &rows->note);
    if (!items_of(c->arena, rows->rows, rows->rows_count, &l->items) ||
        !items_of(c->arena, rows->damaged, rows->damaged_count, &l->damaged))
        return value_over(c, ERR_LIMIT, NULL);
    l->items_count = rows->rows_count;
    l->damaged_count = rows->damaged_count;
    l->next = rows->next;
    return value_over(c, ERR_OK, NULL);
}

enum store_start value_list(struct value_service *s, struct value_list *l)
{
    static const str names[] = { { .p = "rev", .n = 3 }, { .p = "tid", .n = 3 } };
    struct value_call *c = &l->of;
    /* Without a key the keys themselves are listed, each once. */
    bool keys = c->target.key.n == 0;
    if (!value_begin(c, s) || (!keys && !value_predicates(c)))
        return value_over(c, ERR_LIMIT, NULL);
    c->step.rows = (struct table_rows){ .call = value_step(c, list_over),
                                        .domain = c->target.domain_number,
                                        .get = { .table = c->table,
                                                 .predicates = c->predicates,
                                                 .predicates_count = keys ? 0 : c->predicates_count,
                                                 .proj = names,
                                                 .proj_count = keys ? 0 : COUNT_OF(names),
                                                 .distinct = keys,
                                                 .limit = l->limit,
                                                 .next = l->from },
                                        .past_damage = true,
                                        .arena = c->arena };
    return value_go(c, table_store_rows(s->store, &c->step.rows));
}
