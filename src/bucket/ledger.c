/* ledger.c - keeps the traces of renders that are gone, several to a row. Invariants: the names
 * of two rows never interleave, so one seek finds the only row that can hold a name; the count
 * in the title's row is the number of its traces. */
#include "bucket/ledger.h"

#include <string.h>

/* A trace stays on disk for up to one step longer than it is known. So one due row stands for
 * all traces of a title in that step. A step is this part of ledger_ttl, at most
 * TRACES_STEP_NS_MAX. */
enum { TRACES_STEPS = 64 };
#define TRACES_STEP_NS_MAX (6 * 3600 * NS_PER_S)

/* ---- rows ---- */

/* One row of the ledger as it was read: in memory, for one function. */
struct ledger_row {
    struct page_key key;     /* empty: it is new */
    struct page_name lowest; /* the key's */
    bool damaged;            /* t is not set: only the key counts */
    struct page_traces t;
};

/* Takes what a read found, damaged or not. ERR_CORRUPT: not even its key can be read. */
static err row_take(err why, const struct engine_row *found, struct ledger_row *out)
{
    struct page_key_parts parts;
    if (why != ERR_OK && why != ERR_CORRUPT)
        return why;
    page_key_of(&out->key, found->key);
    if (out->key.n == 0)
        return ERR_CORRUPT;
    /* A key that cannot be parsed counts as the lowest name: only a walk from the first name
     * meets it. */
    out->lowest = page_name_first;
    out->damaged = true;
    if (!page_key_parse(page_key_str(&out->key), &parts))
        return ERR_OK;
    out->lowest = parts.name;
    out->damaged = why != ERR_OK || page_traces_decode(found->value, parts.name, &out->t) != ERR_OK;
    return ERR_OK;
}

static err row_next(struct engine_cursor *c, struct ledger_row *out)
{
    struct engine_row found;
    err e = engine_cursor_next(c, &found);
    return row_take(e, &found, out);
}

/* Rows whose lowest name is at most name, greatest first: the first one is the row that can hold
 * name. */
static struct engine_cursor *rows_from(const struct look *k, struct page_name name)
{
    struct page_key from, until = k->key;
    page_key_name(&from, &k->key, name);
    page_key_title_end(&until);
    const struct engine_range range = { .space = SPACE_LEDGER,
                                        .from = page_key_str(&from),
                                        .until = page_key_str(&until) };
    return engine_cursor_open(k->view, &range);
}

/* Rows before the key `until`, lowest first, up to the row whose lowest name is `high`. Keys are
 * newest first: so the cursor is reversed. */
static struct engine_cursor *rows_above(const struct look *k, const struct page_key *until,
                                        struct page_name high)
{
    struct page_key from;
    page_key_name(&from, &k->key, high);
    const struct engine_range range = { .space = SPACE_LEDGER,
                                        .from = page_key_str(&from),
                                        .until = page_key_str(until),
                                        .reversed = true };
    return engine_cursor_open(k->view, &range);
}

/* The first row of a cursor, which is closed. */
static err row_first(struct engine_cursor *c, struct ledger_row *out)
{
    err e = row_next(c, out);
    engine_cursor_close(&c);
    return e;
}

/* The only row that can hold a name. */
static err row_of(const struct look *k, struct page_name name, struct ledger_row *out)
{
    return row_first(rows_from(k, name), out);
}

/* The index of a name in a row, or the one that it would get. A row is short: no search is worth
 * more. */
static unsigned place_of(const struct page_traces *t, struct page_name name, bool *there)
{
    unsigned i = 0;
    while (i < t->count && page_name_cmp(t->trace[i].trace.name, name) < 0)
        i++;
    *there = i < t->count && page_name_cmp(t->trace[i].trace.name, name) == 0;
    return i;
}

/* ---- reading ---- */

void ledger_open(struct ledger_walk *w, const struct look *k, struct page_name low,
                 struct page_name high, bool rising)
{
    struct ledger_row row;
    *w = (struct ledger_walk){ .low = low, .high = high, .rising = rising };
    if (!rising) {
        w->cursor = rows_from(k, high);
        return;
    }
    if (row_of(k, low, &row) !=
        ERR_OK) /* there is none, or the walk meets what is damaged by itself */
        page_key_name(&row.key, &k->key, low);
    /* The bound is exclusive: behind the row's own key. */
    page_key_after(&row.key);
    w->cursor = rows_above(k, &row.key, high);
}

/* The next trace of the row at hand, in the direction of the walk. It may lie outside the walk's
 * names. */
static const struct page_trace_row *row_tells(struct ledger_walk *w)
{
    unsigned left = w->left--;
    return &w->row.trace[w->rising ? w->row.count - left : left - 1];
}

err ledger_next(struct ledger_walk *w, struct page_trace_row *out)
{
    struct ledger_row row;
    for (;;) {
        while (w->left > 0) {
            const struct page_trace_row *t = row_tells(w);
            bool under = page_name_cmp(t->trace.name,
                                       w->low)<0, over = page_name_cmp(t->trace.name, w->high)> 0;
            /* Past the far end: rows that follow lie still further. */
            if (w->rising ? over : under)
                return ERR_NOT_FOUND;
            if (under || over)
                continue;
            *out = *t;
            return ERR_OK;
        }
        err e = row_next(w->cursor, &row);
        if (e != ERR_OK)
            return e;
        /* Of a damaged row only the lowest name is known. Below the walk it may hold anything,
         * and is left out. */
        if (row.damaged && page_name_cmp(row.lowest, w->low) >= 0)
            return ERR_CORRUPT;
        if (row.damaged)
            continue;
        w->row = row.t;
        w->left = row.t.count;
    }
}

void ledger_close(struct ledger_walk *w)
{
    engine_cursor_close(&w->cursor);
}

err ledger_get(const struct look *k, struct page_name name, struct page_trace_row *out)
{
    struct ledger_walk w;
    ledger_open(&w, k, name, name, false);
    err e = ledger_next(&w, out);
    ledger_close(&w);
    return e;
}

/* A walk that is not rising tells the greatest first. */
err ledger_greatest(const struct look *k, struct page_name low, struct page_name high,
                    struct page_name *out)
{
    struct ledger_walk w;
    struct page_trace_row t;
    ledger_open(&w, k, low, high, false);
    err e = ledger_next(&w, &t);
    ledger_close(&w);
    if (e == ERR_OK)
        *out = t.trace.name;
    return e;
}

/* ---- writing rows ---- */

/* Writes a row under its lowest name, which may be another one than before. A row without traces
 * is removed. */
static err row_write(struct edit *t, const struct ledger_row *row)
{
    struct page_key key = { .n = 0 };
    char value[PAGE_TRACES_BYTES_MAX];
    err e = ERR_OK;
    if (row->t.count > 0)
        page_key_name(&key, &t->look.key, row->t.trace[0].trace.name);
    if (row->key.n > 0 && !str_eq(page_key_str(&row->key), page_key_str(&key)))
        e = engine_txn_delete(t->txn, SPACE_LEDGER, page_key_str(&row->key));
    if (e != ERR_OK || row->t.count == 0)
        return e;
    return engine_txn_put(t->txn, SPACE_LEDGER, page_key_str(&key),
                          page_traces_encode(&row->t, value), STR_NONE);
}

/* A row of a store before may have a due row for itself alone: what is written in its place has
 * none. */
static err row_unfile(struct edit *t, const struct ledger_row *row)
{
    return row->t.alone ? due_unfile(t->txn, &page_due, row->t.trace[0].forget_at,
                                     page_due_row(DUE_LEDGER, page_key_str(&row->key)))
                        : ERR_OK;
}

/* The count never wraps: a title whose row was lost counts none, and its traces must still be
 * culled. */
static void uncount(struct edit *t, unsigned count)
{
    t->look.row.ledger_count -= count < t->look.row.ledger_count ? count : t->look.row.ledger_count;
}

/* Counts the traces of the title anew: nobody knows how many went with a damaged row. */
static err recount(struct edit *t)
{
    struct ledger_row row;
    uint64_t count = 0;
    struct engine_cursor *c = rows_from(&t->look, page_name_last);
    err e;
    while ((e = row_next(c, &row)) == ERR_OK)
        count += row.damaged ? 0 : row.t.count;
    engine_cursor_close(&c);
    if (e == ERR_NOT_FOUND)
        t->look.row.ledger_count = count;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* ---- putting ---- */

/* A row of a store before is rewritten only when its own name is put again. */
static bool takes_more(const struct ledger_row *row)
{
    return !row->damaged && !row->t.alone && row->t.count < PAGE_ROW_TRACES_MAX;
}

/* The row that a name goes into: the one it lies in; the one below or above it, if that has
 * room; else a new one. */
static err row_for(const struct edit *t, struct page_name name, struct ledger_row *out)
{
    struct page_key key;
    err e = row_of(&t->look, name, out);
    if (e == ERR_OK && takes_more(out))
        return ERR_OK;
    /* The name lies within a row that takes no more. It goes there all the same, and a full row
     * is split. */
    if (e == ERR_OK && !out->damaged &&
        page_name_cmp(out->t.trace[out->t.count - 1].trace.name, name) >= 0)
        return ERR_OK;
    if (e == ERR_OK || e == ERR_NOT_FOUND) {
        page_key_name(&key, &t->look.key, name);
        e = row_first(rows_above(&t->look, &key, page_name_last), out);
    }
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !takes_more(out))) {
        /* An empty row: row_insert fills it, and row_write finds no key to delete. */
        *out = (struct ledger_row){ .t = { .count = 0 } };
        e = ERR_OK;
    }
    return e;
}

/* Splits a row that has one trace too many. A trace put at its end goes alone, as traces mostly
 * come in rising order; else the upper half goes. */
static err row_split(struct edit *t, struct ledger_row *row, unsigned put_at)
{
    struct ledger_row upper = { .t = { .count = 0 } };
    unsigned keep = put_at == PAGE_ROW_TRACES_MAX ? PAGE_ROW_TRACES_MAX : row->t.count / 2;
    upper.t.count = row->t.count - keep;
    memcpy(upper.t.trace, row->t.trace + keep, upper.t.count * sizeof(upper.t.trace[0]));
    row->t.count = keep;
    return row_write(t, &upper);
}

/* Puts a trace into its row, in the place of one of its name. */
static err row_insert(struct edit *t, const struct page_trace_row *trace)
{
    struct ledger_row row;
    bool there = false;
    err e = row_for(t, trace->trace.name, &row);
    if (e != ERR_OK)
        return e;
    unsigned at = place_of(&row.t, trace->trace.name, &there);
    e = row_unfile(t, &row);
    row.t.alone = false;
    if (!there) {
        memmove(row.t.trace + at + 1, row.t.trace + at,
                (row.t.count - at) * sizeof(row.t.trace[0]));
        row.t.count++;
        t->look.row.ledger_count++;
    }
    row.t.trace[at] = *trace;
    if (e == ERR_OK && row.t.count > PAGE_ROW_TRACES_MAX)
        e = row_split(t, &row, at);
    return e == ERR_OK ? row_write(t, &row) : e;
}

/* forget_at, rounded up to the end of its step. */
store_time ledger_due(const struct page_trace_row *trace)
{
    /* Rounding up must not overflow; so late means never. */
    int64_t forget = trace->forget_at.ns;
    if (forget > INT64_MAX - TRACES_STEP_NS_MAX)
        return STORE_TIME_NEVER;
    /* How long the trace is known gives the step, so neighbours of one policy share it. */
    int64_t known =
        store_time_before(trace->trace.at, trace->forget_at) ? forget - trace->trace.at.ns : 0;
    int64_t step = known / TRACES_STEPS;
    step = step < 1 ? 1 : step > TRACES_STEP_NS_MAX ? TRACES_STEP_NS_MAX : step;
    int64_t over = forget % step;
    return (store_time){ .ns = over > 0 ? forget - over + step : forget - over };
}

/* One due row for each title and step: it is filed with the first trace in it. */
static err trace_file(struct edit *t, const struct page_trace_row *trace)
{
    struct engine_row found;
    const struct due_row of = page_due_row(DUE_TRACES, page_key_str(&t->look.key));
    store_time due = ledger_due(trace);
    err e = due_find(t->look.view, &page_due, due, of, &found);
    return e == ERR_NOT_FOUND ? due_file(t->txn, &page_due, due, of, STR("")) : e;
}

/* ---- forgetting ---- */

err ledger_remove(struct edit *t, struct page_name name)
{
    struct ledger_row row;
    bool there = false;
    /* Most puts meet no traces at all: no seek then. */
    if (t->look.row.ledger_count == 0)
        return ERR_OK;
    err e = row_of(&t->look, name, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    /* A damaged row is known by its lowest name alone, and found by that alone. */
    if (row.damaged)
        return page_name_cmp(row.lowest, name) == 0 ? ERR_CORRUPT : ERR_OK;
    unsigned at = place_of(&row.t, name, &there);
    if (!there)
        return ERR_OK;
    e = row_unfile(t, &row); /* the due row it shares with others stays, and finds what is left */
    row.t.count--;
    memmove(row.t.trace + at, row.t.trace + at + 1, (row.t.count - at) * sizeof(row.t.trace[0]));
    uncount(t, 1);
    return e == ERR_OK ? row_write(t, &row) : e;
}

/* How many traces of a row are to be forgotten by now. */
static unsigned count_dead(const struct edit *t, const struct page_traces *traces)
{
    unsigned dead = 0;
    for (unsigned i = 0; i < traces->count; i++)
        dead += !title_trace_alive(&t->look.title, &traces->trace[i]);
    return dead;
}

/* Removes the dead traces of the row of this key; with all, each of them. A damaged row is
 * deleted, and *damaged set. */
static err row_forget(struct edit *t, const struct page_key *key, bool all, bool *damaged)
{
    struct engine_row found;
    struct ledger_row row;
    unsigned kept = 0;
    err e = engine_get(t->look.view, SPACE_LEDGER, page_key_str(key), &found);
    /* row_take reads the key of what was found, which a damaged row does not give. */
    found.key = page_key_str(key);
    e = row_take(e, &found, &row);
    if (e != ERR_OK)
        return e;
    *damaged |= row.damaged;
    if (row.damaged)
        return engine_txn_delete(t->txn, SPACE_LEDGER, page_key_str(key));
    e = row_unfile(t, &row);
    for (unsigned i = 0; i < row.t.count; i++)
        if (!all && title_trace_alive(&t->look.title, &row.t.trace[i]))
            row.t.trace[kept++] = row.t.trace[i];
    uncount(t, row.t.count - kept);
    row.t.count = kept;
    return e == ERR_OK ? row_write(t, &row) : e;
}

/* Behind a damaged row the count is not to be trusted: it is taken anew. */
static err rows_forget(struct edit *t, const struct page_key *keys, unsigned count, bool all)
{
    bool damaged = false;
    err e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = row_forget(t, &keys[i], all, &damaged);
    return e == ERR_OK && damaged ? recount(t) : e;
}

/* All rows of the title, lowest first. */
static struct engine_cursor *rows_rising(const struct edit *t)
{
    struct page_key end = t->look.key;
    page_key_title_end(&end);
    return rows_above(&t->look, &end, page_name_last);
}

/* Makes room for a title with too many traces: a batch of the lowest goes. One at a time would
 * cost more, as a search for the lowest steps over deleted rows that are not indexed yet. */
static err drop_lowest(struct edit *t)
{
    struct page_key keys[PAGE_LEDGER_DROP];
    struct ledger_row row;
    unsigned count = 0, traces = 0;
    struct engine_cursor *c = rows_rising(t);
    err e = ERR_OK;
    /* A full title has many rows: keys are collected first, as rows are not to be deleted under
     * a cursor. */
    while (count < PAGE_LEDGER_DROP && traces < PAGE_LEDGER_DROP &&
           (e = row_next(c, &row)) == ERR_OK) {
        keys[count++] = row.key;
        traces += row.damaged ? 0 : row.t.count;
    }
    engine_cursor_close(&c);
    return e == ERR_OK || e == ERR_NOT_FOUND ? rows_forget(t, keys, count, true) : e;
}

err ledger_forget_due(struct edit *t, unsigned *looked, bool *more)
{
    struct page_key keys[PAGE_LEDGER_DROP];
    struct ledger_row row;
    unsigned count = 0;
    struct engine_cursor *c = rows_rising(t);
    err e = ERR_OK;
    while (count < PAGE_LEDGER_DROP && (e = row_next(c, &row)) == ERR_OK) {
        /* What was looked at counts for the committer's time, whether or not it goes (cull.c). */
        *looked += row.damaged ? 1 : row.t.count;
        if (row.damaged || count_dead(t, &row.t) > 0)
            keys[count++] = row.key;
    }
    engine_cursor_close(&c);
    *more = e == ERR_OK;
    return e == ERR_OK || e == ERR_NOT_FOUND ? rows_forget(t, keys, count, false) : e;
}

err ledger_put(struct edit *t, const struct page_trace_row *trace)
{
    err e = row_insert(t, trace);
    if (e == ERR_OK)
        e = trace_file(t, trace);
    return e == ERR_OK && t->look.row.ledger_count > PAGE_TITLE_TRACES_MAX ? drop_lowest(t) : e;
}
