/* rows.c - rows of SPACE_TIMELINE, and the entries they are. By title the newest comes first, so
 * the entry sought is the first at or after a seek. */
#include "timeline/rows.h"

#include "base/buf.h"

#include <string.h>

_Static_assert((int)TIMELINE_KEY_BYTES_MAX <= (int)ENGINE_KEY_BYTES_MAX,
               "a timeline key fits the engine's");
_Static_assert(TIMELINE_DOMAIN_BYTES + TIMELINE_TITLE_BYTES_MAX + 1 + 8 + TIMELINE_TAIL_BYTES ==
                   TIMELINE_KEY_BYTES_MAX,
               "the longest key is that of a render by title");

const char *timeline_kind_name(enum timeline_kind kind)
{
    static const char *const names[TIMELINE_KINDS] = {
        [TIMELINE_REVISION] = "revision", [TIMELINE_RENDER] = "render"
    };
    INVARIANT(kind < TIMELINE_KINDS);
    return names[kind];
}

/* ---- keys ---- */

static void key_put(struct timeline_key *k, str bytes)
{
    memcpy(k->p + k->n, bytes.p, bytes.n);
    k->n += bytes.n;
}

static void key_byte(struct timeline_key *k, unsigned byte)
{
    k->p[k->n++] = (char)(unsigned char)byte;
}

static void key_be64(struct timeline_key *k, uint64_t n)
{
    put_be64(k->p + k->n, n);
    k->n += 8;
}

void timeline_key_domain(struct timeline_key *k, unsigned form, uint32_t domain)
{
    k->n = 0;
    key_byte(k, form);
    put_be32(k->p + k->n, domain);
    k->n += 4;
    k->prefix = k->n;
}

err timeline_key_prefix(struct timeline_key *k, const struct timeline_where *w)
{
    if (w->title.n == 0 || w->title.n > TIMELINE_TITLE_BYTES_MAX ||
        memchr(w->title.p, 0, w->title.n) != NULL)
        return ERR_LIMIT;
    timeline_key_domain(k, w->kind, w->domain);
    key_put(k, w->title);
    key_byte(k, 0);
    if (w->kind == TIMELINE_RENDER)
        key_be64(k, ~w->rev);
    k->prefix = k->n;
    return ERR_OK;
}

/* Instants before 1970 do not happen in a store; they sort as 0. */
static uint64_t at_bits(store_time at)
{
    return at.ns < 0 ? 0 : (uint64_t)at.ns;
}

void timeline_key_tail(struct timeline_key *k, const struct timeline_entry *e)
{
    k->n = k->prefix;
    key_be64(k, ~at_bits(e->at));
    key_be64(k, ~e->rev);
    key_be64(k, ~e->tid.ticks);
    key_be64(k, ~e->tid.low);
}

void timeline_key_time(struct timeline_key *k, const struct timeline_where *w,
                       const struct timeline_entry *e)
{
    timeline_key_domain(k, TIMELINE_BY_TIME, w->domain);
    key_be64(k, at_bits(e->at));
    key_byte(k, w->kind);
    key_put(k, w->title);
    key_byte(k, 0);
    key_be64(k, e->rev);
    key_be64(k, e->tid.ticks);
    key_be64(k, e->tid.low);
    k->prefix = k->n;
}

/* Up to its zero byte. */
static str title_take(struct cursor *c)
{
    size_t n = str_find(c->rest, '\0');
    str title = cursor_bytes(c, n);
    (void)cursor_u8(c); /* the zero byte; a key without one is not done, or past its end */
    return title;
}

static bool parse_by_time(struct cursor *c, struct timeline_where *w, struct timeline_entry *e)
{
    w->domain = cursor_be32(c);
    e->at.ns = (int64_t)cursor_be64(c);
    uint8_t kind = cursor_u8(c);
    w->title = title_take(c);
    e->rev = cursor_be64(c);
    e->tid.ticks = cursor_be64(c);
    e->tid.low = cursor_be64(c);
    w->kind = kind == TIMELINE_RENDER ? TIMELINE_RENDER : TIMELINE_REVISION;
    w->rev = e->rev;
    return kind < TIMELINE_KINDS;
}

static bool parse_by_title(struct cursor *c, unsigned form, struct timeline_where *w,
                           struct timeline_entry *e)
{
    w->kind = (enum timeline_kind)form;
    w->domain = cursor_be32(c);
    w->title = title_take(c);
    uint64_t whose = form == TIMELINE_RENDER ? ~cursor_be64(c) : 0;
    e->at.ns = (int64_t)~cursor_be64(c);
    e->rev = ~cursor_be64(c);
    e->tid.ticks = ~cursor_be64(c);
    e->tid.low = ~cursor_be64(c);
    w->rev = e->rev;
    return form == TIMELINE_REVISION || whose == e->rev;
}

bool timeline_key_parse(str key, bool *by_time, struct timeline_where *w, struct timeline_entry *e)
{
    struct cursor c = { .rest = key };
    uint8_t form = cursor_u8(&c);
    bool fits = form == TIMELINE_BY_TIME ? parse_by_time(&c, w, e)
                : form < TIMELINE_KINDS  ? parse_by_title(&c, form, w, e)
                                         : false;
    *by_time = form == TIMELINE_BY_TIME;
    return fits && cursor_done(&c) && w->title.n > 0 && w->title.n <= TIMELINE_TITLE_BYTES_MAX &&
           e->at.ns >= 0;
}

/* ---- entries ---- */

/* The revision of a render's timeline is that of its entries. */
static struct timeline_where where_of(const struct timeline_where *w,
                                      const struct timeline_entry *e)
{
    struct timeline_where own = *w;
    own.rev = e->rev;
    return own;
}

err timeline_add(struct engine_txn *t, const struct timeline_where *w,
                 const struct timeline_entry *e)
{
    const struct timeline_where own = where_of(w, e);
    struct timeline_key by_title, by_time;
    err why = timeline_key_prefix(&by_title, &own);
    if (why != ERR_OK)
        return why;
    timeline_key_tail(&by_title, e);
    timeline_key_time(&by_time, &own, e);
    why = engine_txn_put(t, SPACE_TIMELINE, timeline_key_str(&by_title), STR_NONE, STR_NONE);
    if (why == ERR_OK)
        why = engine_txn_put(t, SPACE_TIMELINE, timeline_key_str(&by_time), STR_NONE, STR_NONE);
    return why;
}

/* A cursor over the entries of w with at <= not_after, newest first. */
static err entries_from(struct engine_view *v, const struct timeline_where *w, store_time not_after,
                        struct engine_cursor **out)
{
    struct timeline_key k;
    char end[TIMELINE_KEY_BYTES_MAX];
    err why = timeline_key_prefix(&k, w);
    if (why != ERR_OK)
        return why;
    str until = engine_prefix_end(timeline_key_str(&k), end);
    timeline_key_tail(&k, &(struct timeline_entry){
                              .at = not_after,
                              .rev = UINT64_MAX,
                              .tid = { .ticks = UINT64_MAX, .low = UINT64_MAX } });
    *out = engine_cursor_open(v, &(struct engine_range){ .space = SPACE_TIMELINE,
                                                         .from = timeline_key_str(&k),
                                                         .until = until });
    return ERR_OK;
}

/* ERR_NOT_FOUND: there are no more. */
static err entry_next(struct engine_cursor *c, struct timeline_entry *out)
{
    struct engine_row row;
    struct timeline_where w;
    struct timeline_entry e;
    bool by_time;
    err why = engine_cursor_next(c, &row);
    if (why != ERR_OK)
        return why;
    if (!timeline_key_parse(row.key, &by_time, &w, &e))
        return ERR_CORRUPT;
    *out = e;
    return ERR_OK;
}

err timeline_find(struct engine_view *v, const struct timeline_where *w, store_time not_after,
                  struct timeline_entry *out)
{
    struct engine_cursor *c;
    err why = entries_from(v, w, not_after, &c);
    if (why != ERR_OK)
        return why;
    why = entry_next(c, out);
    engine_cursor_close(&c);
    return why;
}

err timeline_has(struct engine_view *v, const struct timeline_where *w,
                 const struct timeline_entry *e, bool *out)
{
    const struct timeline_where own = where_of(w, e);
    struct engine_cursor *c;
    struct timeline_entry one;
    bool has = false;
    err why = entries_from(v, &own, e->at, &c);
    if (why != ERR_OK)
        return why;
    for (unsigned i = 0; i < TIMELINE_LOOK_BACK && !has && why == ERR_OK; i++) {
        why = entry_next(c, &one);
        has = why == ERR_OK && one.rev == e->rev && tid_cmp(one.tid, e->tid) == 0;
    }
    engine_cursor_close(&c);
    *out = has;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err timeline_applied(struct engine_txn *t, const struct timeline_where *w,
                     const struct timeline_entry *entry, unsigned *count)
{
    struct engine_cursor *c;
    struct timeline_entry e;
    struct timeline_key by_time;
    unsigned n = 0;
    err why = entries_from(engine_txn_view(t), w, entry->at, &c);
    if (why != ERR_OK)
        return why;
    while (n < TIMELINE_FORGET_MAX && (why = entry_next(c, &e)) == ERR_OK) {
        struct timeline_key by_title;
        why = timeline_key_prefix(&by_title, w);
        if (why != ERR_OK)
            break;
        timeline_key_tail(&by_title, &e);
        timeline_key_time(&by_time, w, &e);
        why = engine_txn_delete(t, SPACE_TIMELINE, timeline_key_str(&by_title));
        if (why == ERR_OK)
            why = engine_txn_delete(t, SPACE_TIMELINE, timeline_key_str(&by_time));
        if (why != ERR_OK)
            break;
        n++;
    }
    engine_cursor_close(&c);
    *count = n;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err timeline_count(struct engine_view *v, enum timeline_kind kind, uint32_t domain, uint64_t *out)
{
    struct timeline_key k;
    char end[TIMELINE_DOMAIN_BYTES];
    timeline_key_domain(&k, kind, domain);
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = timeline_key_str(&k),
                                  .until = engine_prefix_end(timeline_key_str(&k), end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    uint64_t n = 0;
    err why;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK)
        n++;
    engine_cursor_close(&c);
    if (why != ERR_NOT_FOUND)
        return why;
    *out = n;
    return ERR_OK;
}
