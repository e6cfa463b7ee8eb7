/* check.c - what rows must hold among each other. Each title is looked at in one view; between
 * titles the view ends now and then, so that a long check keeps no space from being reused. */
#include "bucket/ledger.h"
#include "bucket/word.h"

#include <stdio.h>
#include <string.h>

/* Rows that are looked at in one view; bytes of the text of one damage. */
enum { CHECK_SLICE_ROWS = 4096, CHECK_TEXT_BYTES = 700 };

/* One call of pages_check, on its stack. */
struct check {
    struct pages *pages;
    void (*found)(void *ctx, const char *what);
    void *ctx;
    uint64_t damages;                     /* told so far; any makes the result ERR_CORRUPT */
    struct engine_view *view;             /* another one after each slice */
    char title[PAGE_TITLE_BYTES_MAX + 1]; /* being looked at, for the texts */
};

/* Tells of one damage of the title at hand. name NULL: it is not of one render. */
static void bucket_check_damage(struct check *c, const char *what, const struct page_name *name)
{
    char text[CHECK_TEXT_BYTES], tid[TID_TEXT_BYTES + 1] = "";
    c->damages++;
    /* Only ticks of 60 bits make a tid. The name of a damaged row may have more. */
    if (name != NULL && name->tid.ticks < (uint64_t)1 << 60)
        tid_format(name->tid, tid);
    /* With a precision of 0 the number 0 prints nothing: so a damage without a name shows none. */
    (void)snprintf(text, sizeof(text), "title \"%s\"%s%.0llu%s%s: %s", c->title,
                   name == NULL ? "" : " render ",
                   name == NULL ? 0ull : (unsigned long long)name->rev, tid[0] == 0 ? "" : "/", tid,
                   what);
    c->found(c->ctx, text);
}

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

/* due: when the row says that it is due. NEVER needs no due row. */
static void check_due_row(struct check *c, store_time due, enum page_due_kind kind, str row_key,
                          const struct page_name *name)
{
    struct engine_row found;
    if (!is_never(due) &&
        due_find(c->view, &page_due, due, page_due_row(kind, row_key), &found) != ERR_OK)
        bucket_check_damage(c, "its due row is missing", name);
}

static bool damaged_row(void *ctx, str title, const struct page_name *name)
{
    (void)title; /* c->title has it */
    bucket_check_damage(ctx, "its row is damaged", name);
    return true;
}

/* Is the render that superseded this one lost: neither stored, nor known to be gone, though its
 * trace is not to be forgotten yet? The latest may be gone by the rules: it ran out under policy
 * ttl, or waited for a revision not made. */
static bool successor_is_lost(const struct look *k, const struct page_render *r)
{
    struct look alone = *k;
    const struct title_which w = { .select = SELECT_EXACT, .name = r->superseded_by };
    const int64_t ledger_ttl_ns = k->title.plan->policy.ledger_ttl_ns;
    struct page_row row;
    /* What is damaged is told by the walk itself, not once more by this look. */
    alone.damage = NULL;
    alone.title.passed = NULL;
    return store_time_before(k->title.now, store_time_add(r->superseded_at, ledger_ttl_ns)) &&
           title_find(&alone.title, &w, &row, NULL) == ERR_NOT_FOUND;
}

/* Renders of one title; returns how many rows it has looked at. */
static unsigned check_renders(struct check *c, struct look *k)
{
    const struct page_each each = { .damaged = damaged_row, .ctx = c };
    struct look_damage passed = { .each = &each };
    struct title_walk w;
    struct page_row row;
    struct page_key key;
    unsigned rows = 0, alive = 0;
    err e;
    look_past_damage(k, &passed);
    title_walk_open(&w, &k->title, page_name_first, page_name_last, false);
    while ((e = title_walk_next(&w, &row)) == ERR_OK) {
        const struct page_name name = row.r.name;
        rows++;
        page_key_name(&key, &k->key, name);
        check_due_row(c, row.due_stored, DUE_RENDER, page_key_str(&key), &name);
        /* Due, and not culled yet: the rules on supersession do not hold for it. */
        if (!title_alive(&k->title, &row))
            continue;
        bool latest = is_never(row.r.superseded_at);
        /* Invariant 3 of title/title.h: what is hidden is superseded. */
        if (row.r.hidden != PAGE_CURRENT) {
            if (latest)
                bucket_check_damage(c, "it is hidden, yet the latest", &name);
            continue;
        }
        /* The walk goes from the newest down: only the first shown render may be the latest. */
        if (alive++ > 0 && latest)
            bucket_check_damage(c, "a greater render is stored, yet it is not superseded", &name);
        /* unmade: superseded by a revision that the wiki has, and of which no render is stored. */
        bool unmade = !latest && page_name_is_unmade(row.r.superseded_by);
        if (alive == 1 && !latest && !unmade && successor_is_lost(k, &row.r))
            bucket_check_damage(c, "it is the greatest render, yet superseded", &name);
        if (!latest && (unmade ? row.r.superseded_by.rev < name.rev
                               : page_name_cmp(row.r.superseded_by, name) <= 0))
            bucket_check_damage(c, "it is superseded by a lesser render", &name);
    }
    title_walk_close(&w);
    /* check_ledger looks by k next: there a damaged row is an error. */
    k->damage = NULL;
    k->title.passed = NULL;
    if (e != ERR_NOT_FOUND)
        bucket_check_damage(c, "more rows of it are damaged than are told", NULL);
    return rows + passed.count;
}

/* Each trace has a due row: one of its own, as in a store before, or the row that all traces of
 * its title and step share. */
static void check_trace_due(struct check *c, const struct look *k, str row_key,
                            const struct page_trace_row *t)
{
    struct engine_row found;
    if (is_never(t->forget_at))
        return;
    if (due_find(c->view, &page_due, t->forget_at, page_due_row(DUE_LEDGER, row_key), &found) !=
        ERR_OK)
        check_due_row(c, ledger_due(t), DUE_TRACES, page_key_str(&k->key), &t->trace.name);
}

/* Order and due rows of the traces of one title; returns how many there are. */
static unsigned check_ledger(struct check *c, struct look *k)
{
    struct page_trace_row t;
    struct page_key key;
    struct page_title_row title = { 0 };
    struct engine_row found;
    unsigned rows = 0;
    err e = engine_get(c->view, SPACE_TITLE, page_key_str(&k->key), &found);
    if (e == ERR_OK && page_title_decode(found.value, &title) != ERR_OK)
        bucket_check_damage(c, "its own row is damaged", NULL);
    struct page_name above = page_name_last;
    struct ledger_walk w;
    ledger_open(&w, k, page_name_first, page_name_last, false);
    while ((e = ledger_next(&w, &t)) == ERR_OK) {
        struct page_row row;
        rows++;
        if (page_name_cmp(t.trace.name, above) >= 0)
            bucket_check_damage(c, "its traces are not in order", &t.trace.name);
        above = t.trace.name;
        /* A name has a render or a trace, never both. */
        page_key_name(&key, &k->key, t.trace.name);
        check_trace_due(c, k, page_key_str(&key), &t);
        if (look_get(&k->title, t.trace.name, &row) != ERR_NOT_FOUND)
            bucket_check_damage(c, "it has a trace, yet it is stored", &t.trace.name);
    }
    ledger_close(&w);
    if (e != ERR_NOT_FOUND)
        bucket_check_damage(c, "a trace of it is damaged", NULL);
    if (rows != title.ledger_count)
        bucket_check_damage(c, "its row counts another number of traces", NULL);
    return rows;
}

/* The title whose prefix starts the first key at or after from in this space; false: none. */
static bool next_title(struct check *c, enum engine_space space, const struct page_key *from,
                       struct page_key *out)
{
    const struct engine_range range = { .space = space, .from = page_key_str(from) };
    struct engine_cursor *cursor = engine_cursor_open(c->view, &range);
    struct engine_row found;
    err e = engine_cursor_next(cursor, &found);
    /* A key that can be a title's: bucket and domain, a title, and its NUL (key.h). */
    bool ok = e == ERR_OK && found.key.n > 7 && found.key.n <= PAGE_KEY_BYTES_MAX &&
              str_find(str_skip(found.key, 6), '\0') < found.key.n - 6;
    if (ok)
        page_key_prefix_of(out, found.key);
    else if (e != ERR_NOT_FOUND)
        bucket_check_damage(c, "a key is damaged behind this title", NULL);
    engine_cursor_close(&cursor);
    return ok;
}

/* Titles with renders, traces or a row of their own, in key order. */
static bool next_of_all(struct check *c, const struct page_key *from, struct page_key *out)
{
    static const enum engine_space spaces[] = { SPACE_RENDER, SPACE_LEDGER, SPACE_TITLE };
    bool any = false;
    for (unsigned i = 0; i < COUNT_OF(spaces); i++) {
        struct page_key k;
        if (!next_title(c, spaces[i], from, &k))
            continue;
        if (!any || str_cmp(page_key_str(&k), page_key_str(out)) < 0)
            *out = k;
        any = true;
    }
    return any;
}

/* All titles of all buckets. No policy is known for a bucket number that the catalog does not
 * have. */
static void check_titles(struct check *c)
{
    struct page_key from = { .n = 0 }, title;
    unsigned rows = 0;
    while (next_of_all(c, &from, &title)) {
        struct page_bucket *bucket = pages_numbered(c->pages, get_be16(title.p));
        struct look k;
        (void)str_to_cstr(str_take(str_skip(page_key_str(&title), 6), title.n - 7), c->title,
                          sizeof(c->title));
        if (bucket != NULL) {
            look_init_key(&k, bucket, c->view, &title);
            rows += check_renders(c, &k) + check_ledger(c, &k) + 1;
        }
        /* Behind every key of this title, in each of the spaces. */
        from = title;
        page_key_title_end(&from);
        if (rows < CHECK_SLICE_ROWS)
            continue;
        /* A new view now and then lets the engine reuse space while the check runs. */
        rows = 0;
        engine_view_end(&c->view);
        c->view = engine_view_begin(c->pages->engine);
    }
}

/* The other direction of check_due_row: is there what a due row is filed for, and is it due
 * then? */
static void check_due(struct check *c, const struct due_entry *due)
{
    struct page_key_parts parts;
    struct page_trace_row trace;
    struct page_row row;
    enum page_due_kind kind;
    str row_key;
    if (!page_due_parse(due_of(due), &kind, &row_key)) {
        bucket_check_damage(c, "a due row is damaged", NULL);
        return;
    }
    if (kind == DUE_TRACES || !page_key_parse(row_key, &parts))
        return; /* its traces may have gone by other ways */
    struct page_bucket *bucket = pages_numbered(c->pages, parts.bucket);
    struct look k;
    if (bucket == NULL)
        return;
    look_init(&k, bucket, c->view, parts.domain, parts.title);
    (void)str_to_cstr(parts.title, c->title, sizeof(c->title));
    bool right =
        kind == DUE_RENDER
            ? look_get(&k.title, parts.name, &row) == ERR_OK && row.due_stored.ns == due->at.ns
            : ledger_get(&k, parts.name, &trace) == ERR_OK && trace.forget_at.ns == due->at.ns;
    if (!right)
        bucket_check_damage(c, "a due row is filed for what is not there", &parts.name);
}

static void check_word(struct check *c, const struct engine_row *found, err read)
{
    struct title_word word;
    /* Bucket and domain are 6 bytes before the title; a NUL stands behind it (key.h). */
    str title = found->key.n > 7 ? str_take(str_skip(found->key, 6), found->key.n - 7) : STR("");
    (void)str_to_cstr(title, c->title, sizeof(c->title));
    if (read == ERR_CORRUPT || title_word_decode(found->value, &word) != ERR_OK)
        bucket_check_damage(c, "the wiki's word on it is damaged", NULL);
}

/* In slices, each in a view of its own. from: the last key that was looked at. */
static err check_words(struct check *c)
{
    struct page_key from = { .n = 0 };
    for (;;) {
        const struct engine_range range = { .space = SPACE_WORD, .from = page_key_str(&from) };
        struct engine_cursor *cursor = engine_cursor_open(c->view, &range);
        struct engine_row found;
        err e = ERR_OK;
        for (unsigned rows = 0; rows < CHECK_SLICE_ROWS && (e == ERR_OK || e == ERR_CORRUPT);
             rows++) {
            e = engine_cursor_next(cursor, &found);
            if (e != ERR_OK && e != ERR_CORRUPT)
                break;
            check_word(c, &found, e);
            page_key_of(&from, found.key);
        }
        engine_cursor_close(&cursor);
        if (e != ERR_OK && e != ERR_CORRUPT)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        page_key_after(&from);
        engine_view_end(&c->view);
        c->view = engine_view_begin(c->pages->engine);
    }
}

/* As check_words: slice by slice. due: the last entry that was looked at. */
static err check_dues(struct check *c)
{
    struct due_entry due = { .key.n = 0 };
    for (;;) {
        const struct engine_range range = { .space = SPACE_DUE, .from = due_key_str(&due.key) };
        struct engine_cursor *cursor = engine_cursor_open(c->view, &range);
        struct engine_row found;
        err e = ERR_OK;
        for (unsigned rows = 0; rows < CHECK_SLICE_ROWS; rows++) {
            e = engine_cursor_next(cursor, &found);
            if (e != ERR_OK)
                break;
            due_parse(&page_due, found.key, &due);
            check_due(c, &due);
        }
        engine_cursor_close(&cursor);
        if (e != ERR_OK)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        due.key.p[due.key.n++] = 0; /* just behind it */
        engine_view_end(&c->view);
        c->view = engine_view_begin(c->pages->engine);
    }
}

err pages_check(struct pages *p, void (*found)(void *ctx, const char *what), void *ctx)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    struct check c = { .pages = p, .found = found, .ctx = ctx };
    c.view = engine_view_begin(p->engine);
    check_titles(&c);
    err e = check_dues(&c);
    if (e == ERR_OK)
        e = check_words(&c);
    engine_view_end(&c.view);
    if (e != ERR_OK)
        return e;
    return c.damages == 0 ? ERR_OK : ERR_CORRUPT;
}
