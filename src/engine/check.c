/* check.c - verifies that a store is whole: every row, every record, every byte accounted for.
 *
 *   1. rows: each row's sum; how many own a value in the log
 *   2. segments: walked from end to end (walk.c); each live record must be the blob of exactly its
 *      row, its bytes must fit the hash; the dead bytes must add up to what the index counts
 *   3. rows again, only when 1 and 2 do not match: which rows point to no record
 *   4. rows that are not indexed yet: their values
 * Works on one view, so a running store may go on; the view keeps what it sees from being
 * punched. */
#include "engine/store.h"
#include "engine/walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

enum { REPORTED_MAX = 1024, PACE_BYTES = 1 << 20 };

struct check {
    struct engine *engine;
    const struct engine_check_opts *opts;
    struct engine_view *view;
    uint64_t found;
    uint64_t rows_in_log, records_matched;
    /* each leaves one record without an owner, which is no damage of its own */
    uint64_t rows_damaged;
    uint64_t done, total;
    uint64_t since_pause;
    struct vlog_extent reported[REPORTED_MAX]; /* ranges of a log that cannot be read */
    size_t reported_count;
};

enum { FILE_TEXT_BYTES = 8 + VLOG_NAME_BYTES, INDEX = 0 };

/* The file as it is called in the store's folder. segment INDEX: the index. */
static const char *file_text(uint32_t segment, char out[FILE_TEXT_BYTES])
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(segment, name);
    (void)snprintf(out, FILE_TEXT_BYTES, "%s%s", segment == INDEX ? "index/" : "log/",
                   segment == INDEX ? "data.mdb" : name);
    return out;
}

/* Damage of a file, and a sentence that goes on behind its name. */
static void found(struct check *c, uint32_t segment, const char *format, ...) PRINTF_LIKE(3, 4);
static void found(struct check *c, uint32_t segment, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    size_t n = strlen(file_text(segment, text));
    (void)vsnprintf(text + n, sizeof(text) - n, format, args);
    va_end(args);
    if (segment != INDEX && c->opts->damaged != NULL)
        c->opts->damaged(c->opts->ctx, segment);
    c->found++;
    if (c->opts->found != NULL)
        c->opts->found(c->opts->ctx, text);
}

static void progress(struct check *c, uint64_t bytes)
{
    c->done += bytes;
    if (c->opts->progress != NULL)
        c->opts->progress(c->opts->ctx, c->done < c->total ? c->done : c->total, c->total);
    c->since_pause += bytes;
    if (c->opts->pace_bytes_per_s == 0 || c->since_pause < PACE_BYTES)
        return;
    uint64_t ns = c->since_pause * 1000 / c->opts->pace_bytes_per_s * 1000000;
    struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000),
                           .tv_nsec = (long)(ns % 1000000000) };
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL); /* shorter is fine */
    c->since_pause = 0;
}

/* A key for a sentence: at most 40 bytes, what is not printable as dots. */
static const char *key_text(str key, char out[48])
{
    size_t n = key.n < 40 ? key.n : 40;
    for (size_t i = 0; i < n; i++)
        out[i] = key.p[i] > ' ' && key.p[i] < 127 ? key.p[i] : '.';
    out[n] = '\0';
    return out;
}

/* ---- rows ---- */

typedef void row_fn(struct check *c, str key, const struct engine_row *row);

static void each_row(struct check *c, row_fn *fn, bool report)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(c->view->txn, c->engine->rows, &cursor);
    INVARIANT(rc == 0);
    MDB_val k, v;
    char text[48];
    for (rc = mdb_cursor_get(cursor, &k, &v, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) {
        str key = { .p = k.mv_data, .n = k.mv_size };
        struct engine_row row;
        if (index_row_decode(key, v, &row) == ERR_OK) {
            fn(c, key, &row);
        } else if (report) {
            c->rows_damaged++;
            found(c, INDEX, ": row %s in space %d fails its checksum",
                  key_text(str_skip(key, 1), text), key.n > 0 ? (unsigned char)key.p[0] : 0);
        }
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND && report)
        found(c, INDEX, " cannot be read to its end: %s", mdb_strerror(rc));
}

static void count_row(struct check *c, str key, const struct engine_row *row)
{
    char text[48];
    if (blob_in_log(&row->blob))
        c->rows_in_log++;
    else if (row->blob.n > 0 && XXH3_64bits(row->blob.mem, row->blob.n) != row->blob.hash)
        found(c, INDEX, ": the value in row %s fails its checksum",
              key_text(str_skip(key, 1), text));
}

static bool is_reported(const struct check *c, const struct engine_blob *b)
{
    for (size_t i = 0; i < c->reported_count; i++) {
        const struct vlog_extent *x = &c->reported[i];
        if (x->segment == b->segment && b->extent_offset < x->offset + x->size &&
            b->extent_offset + b->extent_size > x->offset)
            return true;
    }
    return false;
}

/* Does the record that the row points to stand there? */
static bool record_stands(struct check *c, str key, const struct engine_blob *b)
{
    char head[RECORD_VALUE_BYTES + ENGINE_KEY_BYTES_MAX];
    size_t n = RECORD_VALUE_BYTES + key.n - 1;
    if (b->value_offset < n || n > sizeof(head))
        return false;
    uint64_t at = b->extent_offset + b->value_offset - n;
    if (vlog_read(c->engine->log, b->segment, at, n, head) != ERR_OK)
        return false;
    struct record_value v;
    struct record_spot spot = { .id = c->engine->id, .segment = b->segment, .offset = at };
    if (record_value_decode((str){ .p = head, .n = n }, spot, &v) != ERR_OK)
        return false;
    str there = { .p = head + RECORD_VALUE_BYTES, .n = v.key_bytes };
    return v.space == (uint8_t)key.p[0] && str_eq(there, str_skip(key, 1)) && v.hash == b->hash;
}

static void find_lost(struct check *c, str key, const struct engine_row *row)
{
    char text[48];
    const struct engine_blob *b = &row->blob;
    if (!blob_in_log(b) || is_reported(c, b))
        return;
    struct vlog_extent dead;
    err why = index_dead_at(c->engine, c->view->txn, b->segment, b->extent_offset, &dead);
    bool is_dead = why == ERR_OK && dead.offset <= b->extent_offset;
    if (is_dead || !record_stands(c, key, b))
        found(c, b->segment, " at offset %llu: the value of row %s is not there",
              (unsigned long long)b->extent_offset, key_text(str_skip(key, 1), text));
}

/* ---- segments ---- */

static void check_owner(struct check *c, const struct walk_record *r)
{
    char buf[DB_KEY_BYTES_MAX];
    char text[48];
    str key = { .p = r->key, .n = r->key_n };
    str full = db_key(r->space, key, buf);
    MDB_val k = { .mv_data = buf, .mv_size = full.n };
    MDB_val v;
    struct engine_row row;
    int rc = mdb_get(c->view->txn, c->engine->rows, &k, &v);
    if (rc == 0 && index_row_decode(full, v, &row) != ERR_OK)
        return; /* told as a damaged row */
    if (rc == 0 && blob_same_place(&row.blob, &r->blob)) {
        c->records_matched++;
        if (row.blob.n != r->blob.n || row.blob.hash != r->blob.hash)
            found(c, r->blob.segment,
                  " at offset %llu: the record and its row %s in index/data.mdb differ",
                  (unsigned long long)r->blob.extent_offset, key_text(key, text));
        return;
    }
    if (c->rows_damaged > 0)
        c->rows_damaged--;
    else
        found(c, r->blob.segment, " at offset %llu: %u bytes belong to no row (%s)",
              (unsigned long long)r->blob.extent_offset, r->blob.extent_size, key_text(key, text));
}

static void check_value(struct check *c, const struct engine_blob *b, str key)
{
    char text[48];
    char *bytes = malloc(b->n + 1);
    INVARIANT(bytes != NULL);
    err why = engine_blob_read(c->engine, b, 0, b->n, bytes);
    bool fits = why == ERR_OK && XXH3_64bits(bytes, b->n) == b->hash;
    free(bytes);
    if (!fits)
        found(c, b->segment, " at offset %llu: the value of row %s %s",
              (unsigned long long)b->extent_offset, key_text(key, text),
              why == ERR_IO ? "cannot be read" : "fails its checksum");
}

static void report_gap(struct check *c, const struct walk *w, uint64_t from)
{
    found(c, w->segment, " at offset %llu: %llu bytes are neither dead nor a record",
          (unsigned long long)from, (unsigned long long)(w->at - from));
    if (c->reported_count < REPORTED_MAX)
        c->reported[c->reported_count++] =
            (struct vlog_extent){ .segment = w->segment, .offset = from, .size = w->at - from };
}

static void walk_segment(struct check *c, struct walk *w)
{
    for (;;) {
        struct walk_record r;
        uint64_t from = w->at;
        err why = walk_next(w, &r);
        if (why == ERR_NOT_FOUND)
            return;
        if (why == ERR_CORRUPT || why == ERR_IO) {
            from = w->at > from ? w->at : from;
            if (walk_resync(w) != ERR_OK)
                w->at = w->end;
            report_gap(c, w, from);
            if (w->at >= w->end)
                return;
            continue;
        }
        check_owner(c, &r);
        check_value(c, &r.blob, (str){ .p = r.key, .n = r.key_n });
        progress(c, w->at - from);
    }
}

static void check_header(struct check *c, uint32_t number)
{
    char header[RECORD_SEGMENT_BYTES];
    struct record_spot spot = { .id = c->engine->id, .segment = number };
    err why = vlog_read(c->engine->log, number, 0, sizeof(header), header);
    if (why == ERR_OK)
        why = record_segment_decode((str){ .p = header, .n = sizeof(header) }, spot);
    if (why != ERR_OK)
        found(c, number, ": its header is damaged");
}

static void check_segment(struct check *c, const struct index_segment *s)
{
    struct vlog_segment file;
    if (s->dead + RECORD_SEGMENT_BYTES == s->end)
        return; /* empty: the view keeps nothing of it, so it may be gone at any moment */
    if (vlog_segment_next(c->engine->log, s->number, &file) != ERR_OK || file.number != s->number) {
        found(c, s->number, " is missing");
        if (c->reported_count < REPORTED_MAX)
            c->reported[c->reported_count++] =
                (struct vlog_extent){ .segment = s->number, .size = s->end };
        return;
    }
    check_header(c, s->number);
    struct walk w;
    walk_init(&w, c->engine, c->view->txn, s->number, s->end);
    size_t gaps = c->reported_count;
    walk_segment(c, &w);
    if (w.dead_bytes != s->dead && gaps == c->reported_count)
        found(c, INDEX, " counts %llu dead bytes in segment %u, which has %llu",
              (unsigned long long)s->dead, s->number, (unsigned long long)w.dead_bytes);
    walk_fini(&w);
}

static void each_segment(struct check *c, bool count_only)
{
    struct index_segment s = { .number = 0 };
    err why = index_segment_next(c->engine, c->view->txn, 0, &s);
    while (why == ERR_OK) {
        if (count_only)
            c->total += s.end;
        else
            check_segment(c, &s);
        why = index_segment_next(c->engine, c->view->txn, s.number + 1, &s);
    }
    if (why == ERR_CORRUPT && !count_only)
        found(c, INDEX, ": the list of segments fails its checksum behind segment %u", s.number);
}

/* ---- what is not indexed yet ---- */

/* Of one segment, when it is to be that one alone. */
static void check_overlay(struct check *c, const struct overlay *o, uint64_t seq)
{
    uint32_t only = c->opts->segment;
    if (o == NULL)
        return;
    for (const struct overlay_node *n = overlay_next(o, NULL, seq); n != NULL;
         n = overlay_next(o, n, seq))
        if (blob_in_log(&n->blob) && (only == 0 || n->blob.segment == only))
            check_value(c, &n->blob, str_skip(overlay_key(n), 1));
}

static void check_unindexed(struct check *c)
{
    check_overlay(c, c->view->layers[2], c->view->seqs[2]);
    check_overlay(c, c->view->layers[1], c->view->seqs[1]);
}

static void check_all(struct check *c)
{
    each_segment(c, true);
    each_row(c, count_row, true);
    each_segment(c, false);
    if (c->rows_in_log != c->records_matched)
        each_row(c, find_lost, false);
    check_unindexed(c);
    progress(c, c->total - (c->done < c->total ? c->done : c->total));
}

static void check_one(struct check *c, uint32_t segment)
{
    struct index_segment s;
    if (index_segment_next(c->engine, c->view->txn, segment, &s) == ERR_OK && s.number == segment)
        check_segment(c, &s);
    check_unindexed(c);
}

err engine_check(struct engine *e, const struct engine_check_opts *opts)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    err why = opts->segment == 0 ? engine_flush(e) : ERR_OK;
    if (why != ERR_OK)
        return why;
    struct check *c = calloc(1, sizeof(*c));
    INVARIANT(c != NULL);
    c->engine = e;
    c->opts = opts;
    c->view = engine_view_begin(e);
    if (c->view->broken)
        why = ERR_IO;
    else if (opts->segment != 0)
        check_one(c, opts->segment);
    else
        check_all(c);
    engine_view_end(&c->view);
    if (why == ERR_OK && c->found > 0)
        why = ERR_CORRUPT;
    free(c);
    return why;
}
