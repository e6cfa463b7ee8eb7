#include "bucket/ledger.h"
#include "bucket/page_write.h"

#include <string.h>

struct engine_cursor *look_names_open(const struct look *k, struct page_name low,
                                      struct page_name high, bool rising)
{
    struct page_key from, until; /* the greatest name has the least key */
    page_key_name(&from, &k->title, high);
    page_key_name(&until, &k->title, low);
    page_key_after(&until);
    const struct engine_range range = { .space = SPACE_RENDER,
                                        .from = page_key_str(&from),
                                        .until = page_key_str(&until),
                                        .reversed = rising };
    return engine_cursor_open(k->view, &range);
}

/* Do `count` renders that stay precede this one in its group? The greater ones that are out do not
 * change the answer: as many that stay precede those too. */
static err group_is_full(const struct look *k, struct page_name name, bool *full)
{
    const struct page_plan *plan = &k->bucket->plan;
    struct page_name low, high;
    struct page_key_parts parts;
    struct page_row row;
    struct engine_row found;
    uint32_t count = 0;
    err e = ERR_OK;
    retention_group(&plan->policy, name, &low, &high);
    struct engine_cursor *c = look_names_open(k, name, high, false);
    while (count < plan->policy.count && e == ERR_OK) {
        e = engine_cursor_next(c, &found);
        if (e != ERR_OK)
            break;
        if (!page_key_parse(found.key, &parts)) {
            e = ERR_CORRUPT;
            break;
        }
        if (page_name_cmp(parts.name, name) <= 0)
            break;
        e = page_row_decode(found.value, &row);
        if (e == ERR_OK)
            count += store_time_before(row.plan == plan->number ? k->now : plan->changed_at,
                                       row.due_stored);
    }
    engine_cursor_close(&c);
    *full = count == plan->policy.count;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

_Static_assert(sizeof(struct engine_blob) == sizeof(struct page_where),
               "a blob fits where it is kept");

static err settle(const struct look *k, struct page_row *row)
{
    const struct page_plan *plan = &k->bucket->plan;
    bool full = false;
    if (row->plan == plan->number)
        return ERR_OK;
    if (row->plan > plan->number)
        return ERR_CORRUPT;
    if (!store_time_before(plan->changed_at, row->due_stored))
        return ERR_OK; /* was gone before */
    if (retention_grouped(&plan->policy)) {
        err e = group_is_full(k, row->r.name, &full);
        if (e != ERR_OK)
            return e;
    }
    retention_replan(plan, row->policy, &row->r, full);
    row->policy = plan->policy.kind;
    return ERR_OK;
}

err look_decode(const struct look *k, struct page_name name, const struct engine_row *found,
                struct page_row *out)
{
    struct engine_blob blob = found->blob;
    err e = page_row_decode(found->value, out);
    if (e != ERR_OK)
        return e;
    const struct page_content *last = &out->r.contents[out->r.contents_count - 1];
    if (blob.n != (uint64_t)last->offset + last->headers_bytes + last->stored_bytes)
        return ERR_CORRUPT;
    out->r.name = name;
    memcpy(&out->r.where, &blob, sizeof(blob));
    e = settle(k, out);
    out->r.state = retention_state(&k->bucket->plan.policy, &out->r, k->now);
    return e;
}

err look_get(const struct look *k, struct page_name name, struct page_row *out)
{
    struct page_key key;
    struct engine_row found;
    page_key_name(&key, &k->title, name);
    err e = engine_get(k->view, SPACE_RENDER, page_key_str(&key), &found);
    return e == ERR_OK ? look_decode(k, name, &found, out) : e;
}

void look_walk_open(struct look_walk *w, const struct look *k, struct page_name low,
                    struct page_name high, bool rising)
{
    *w = (struct look_walk){ .look = k, .cursor = look_names_open(k, low, high, rising) };
}

bool look_passes(const struct look *k, str key)
{
    struct look_damage *d = k->damage;
    struct page_key_parts parts;
    if (d == NULL || d->each->damaged == NULL || d->count == PAGE_DAMAGED_MAX || key.n == 0)
        return false;
    bool named = page_key_parse(key, &parts) && parts.name.rev >= 1 &&
                 parts.name.rev <= PAGE_REV_MAX && parts.name.tid.ticks <= TID_TICKS_MAX;
    d->stopped =
        !d->each->damaged(d->each->ctx, named ? parts.title : STR(""), named ? &parts.name : NULL);
    if (d->stopped)
        return false;
    d->count++;
    atomic_fetch_add(&k->bucket->pages->damaged, 1);
    return true;
}

err look_walk_next(struct look_walk *w, struct page_row *out)
{
    struct engine_row found;
    struct page_key_parts parts;
    struct page_key key;
    for (;;) {
        err e = engine_cursor_next(w->cursor, &found);
        if (e != ERR_OK && e != ERR_CORRUPT)
            return e;
        page_key_of(&key, found.key);
        if (e == ERR_OK)
            e = !page_key_parse(page_key_str(&key), &parts)
                    ? ERR_CORRUPT
                    : look_decode(w->look, parts.name, &found, out);
        if (e != ERR_CORRUPT || !look_passes(w->look, page_key_str(&key)))
            return e;
    }
}

err look_walk_alive(struct look_walk *w, struct page_row *out)
{
    for (;;) {
        err e = look_walk_next(w, out);
        if (e != ERR_OK || look_alive(w->look, out))
            return e;
    }
}

void look_walk_close(struct look_walk *w)
{
    engine_cursor_close(&w->cursor);
}

static err first_shown(const struct look *k, struct page_name low, struct page_name high,
                       bool rising, struct page_row *out)
{
    struct look_walk w;
    look_walk_open(&w, k, low, high, rising);
    err e;
    do
        e = look_walk_alive(&w, out);
    while (e == ERR_OK && out->r.hidden != PAGE_CURRENT);
    look_walk_close(&w);
    return e;
}

err look_newest_alive(const struct look *k, struct page_name low, struct page_name high,
                      struct page_row *out)
{
    struct look_walk w;
    look_walk_open(&w, k, low, high, false);
    err e = look_walk_alive(&w, out);
    look_walk_close(&w);
    return e;
}

err look_newest_shown(const struct look *k, struct page_name low, struct page_name high,
                      struct page_row *out)
{
    return first_shown(k, low, high, false, out);
}

err look_oldest_shown(const struct look *k, struct page_name low, struct page_name high,
                      struct page_row *out)
{
    return first_shown(k, low, high, true, out);
}

static err greatest_stored(const struct look *k, struct page_name low, struct page_name high,
                           struct page_name *out)
{
    struct engine_row found;
    struct page_key_parts parts;
    struct engine_cursor *c = look_names_open(k, low, high, false);
    err e = engine_cursor_next(c, &found);
    if (e == ERR_OK && !page_key_parse(found.key, &parts))
        e = ERR_CORRUPT;
    if (e == ERR_OK)
        *out = parts.name;
    engine_cursor_close(&c);
    return e;
}

err look_greatest_known(const struct look *k, struct page_name low, struct page_name high,
                        struct page_name *out)
{
    struct page_name stored = page_name_first, traced = page_name_first;
    err e = greatest_stored(k, low, high, &stored);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    err e2 = ledger_greatest(k, low, high, &traced);
    if (e2 != ERR_OK && e2 != ERR_NOT_FOUND)
        return e2;
    *out = page_name_cmp(stored, traced) > 0 ? stored : traced;
    return e == ERR_OK ? e : e2;
}

/* ---- traces ---- */

void look_trace_of(const struct look *k, const struct page_row *gone, struct page_trace_row *out)
{
    const struct page_plan *plan = &k->bucket->plan;
    *out = (struct page_trace_row){
        .trace = { .name = gone->r.name,
                   .state = PAGE_CULLED,
                   .at = gone->r.due_at,
                   .policy = gone->policy,
                   .superseded_at = gone->r.superseded_at,
                   .superseded_by = gone->r.superseded_by },
        .stored_at = gone->r.stored_at,
        .forget_at = store_time_add(gone->r.due_at, plan->policy.ledger_ttl_ns),
    };
}

static err newest_ledger(const struct look *k, struct page_name low, struct page_name high,
                         struct page_trace_row *out)
{
    struct ledger_walk w;
    err e;
    ledger_open(&w, k, low, high, false);
    do
        e = ledger_next(&w, out);
    while (e == ERR_OK && !look_trace_alive(k, out));
    ledger_close(&w);
    return e;
}

static err newest_gone(const struct look *k, struct page_name low, struct page_name high,
                       struct page_trace_row *out)
{
    struct look_walk w;
    struct page_row row;
    look_walk_open(&w, k, low, high, false);
    err e;
    while ((e = look_walk_next(&w, &row)) == ERR_OK) {
        if (look_alive(k, &row))
            continue;
        look_trace_of(k, &row, out);
        if (look_trace_alive(k, out))
            break;
    }
    look_walk_close(&w);
    return e;
}

err look_newest_trace(const struct look *k, struct page_name low, struct page_name high,
                      struct page_trace_row *out)
{
    struct page_trace_row gone;
    err e = newest_ledger(k, low, high, out);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    err e2 = newest_gone(k, low, high, &gone);
    if (e2 != ERR_OK)
        return e2 == ERR_NOT_FOUND ? e : e2;
    if (e == ERR_NOT_FOUND || page_name_cmp(gone.trace.name, out->trace.name) > 0)
        *out = gone;
    return ERR_OK;
}

err look_allowed(const struct look *k, page_allow_fn *allow, const void *ctx)
{
    struct page_row row;
    if (allow == NULL)
        return ERR_OK;
    err e = look_newest_shown(k, page_name_first, page_name_last, &row);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    bool is_latest = e == ERR_OK && row.r.superseded_at.ns == INT64_MAX;
    return allow(ctx, is_latest ? &row.r : NULL) ? ERR_OK : ERR_PRECONDITION;
}
