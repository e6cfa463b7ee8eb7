/* look.c - rows of one title in a view: settled by the policy in force, found by their keys. */
#include "bucket/ledger.h"

#include <string.h>

_Static_assert(sizeof(struct engine_blob) == sizeof(struct page_where),
               "a render has room for where its blob is");
_Static_assert(sizeof(struct ledger_walk) <= TITLE_TRACE_WALK_BYTES,
               "a walk over traces has room for that of the ledger");

/* CONTAINER_OF, for a const title. */
static const struct look *look_of(const struct title *t)
{
    return (const struct look *)(const void *)((const char *)t - offsetof(struct look, title));
}

void look_init_key(struct look *k, struct page_bucket *b, struct engine_view *v,
                   const struct page_key *key)
{
    /* The caller has begun its view. A row in it may still be of a plan that comes into force
     * just now (look_settle). */
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    const struct page_plan *plan = bucket_plan(b);
    *k = (struct look){ .title = { .ops = &edit_ops,
                                   .plan = plan,
                                   .now = clock_store(b->pages->clock),
                                   /* One committer decides all requests of the store. */
                                   .serial = true },
                        .bucket = b,
                        .view = v };
    k->key.n = key->n;
    memcpy(k->key.p, key->p, key->n);
}

void look_init(struct look *k, struct page_bucket *b, struct engine_view *v, uint32_t domain,
               str title)
{
    struct page_key key;
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    page_key_title(&key, b->number, domain, title);
    look_init_key(k, b, v, &key);
}

void look_past_damage(struct look *k, struct look_damage *d)
{
    k->damage = d;
    /* The title counts damaged rows by this: an answer found behind one may be incomplete. */
    k->title.passed = &d->count;
}

struct engine_cursor *look_names_open(const struct look *k, struct page_name low,
                                      struct page_name high, bool rising)
{
    struct page_key from, until; /* the greatest name has the least key */
    page_key_name(&from, &k->key, high);
    page_key_name(&until, &k->key, low);
    page_key_after(&until);
    const struct engine_range range = { .space = SPACE_RENDER,
                                        .from = page_key_str(&from),
                                        .until = page_key_str(&until),
                                        .reversed = rising };
    return engine_cursor_open(k->view, &range);
}

/* ---- one row ---- */

/* Do `count` renders that stay come before this one in its group? Greater ones that are out do
 * not matter: as many that stay come before those as well. */
static err group_is_full(const struct look *k, struct page_name name, bool *full)
{
    const struct page_plan *plan = k->title.plan;
    struct page_name low, high;
    struct page_key_parts parts;
    struct page_row row;
    struct engine_row found;
    uint32_t count = 0;
    err e = ERR_OK;
    /* Newest first, from the top of the group down to this name. */
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
        /* Rows of the plan in force stay as long as they are not due; older rows, if they
         * were not due when the plan came. */
        if (e == ERR_OK)
            count += store_time_before(row.plan >= plan->number ? k->title.now : plan->changed_at,
                                       row.due_stored);
    }
    engine_cursor_close(&c);
    *full = count == plan->policy.count;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Sees a row of an earlier plan as the plan in force would have planned it. The row on disk
 * stays: replanning, or the next edit, writes it. */
static err look_settle(const struct look *k, struct page_row *row)
{
    const struct page_plan *plan = k->title.plan;
    bool full = false;
    if (row->plan == plan->number)
        return ERR_OK;
    if (row->plan > plan->number) /* of one that has just come into force: as it should be */
        return row->plan <= atomic_load(&k->bucket->plan_max) ? ERR_OK : ERR_CORRUPT;
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

/* Fills all that the value does not hold: the name, where the blob is, the state. */
err look_decode(const struct look *k, struct page_name name, const struct engine_row *found,
                struct page_row *out)
{
    struct engine_blob blob = found->blob;
    err e = page_row_decode(found->value, out);
    if (e != ERR_OK)
        return e;
    /* The contents fill the blob: its size is the end of the last one. */
    const struct page_content *last = &out->r.contents[out->r.contents_count - 1];
    if (blob.n != (uint64_t)last->offset + last->headers_bytes + last->stored_bytes)
        return ERR_CORRUPT;
    out->r.name = name;
    memcpy(&out->r.where, &blob, sizeof(blob));
    /* Before it is settled: what changed is told against what was written. */
    out->was = feed_row_was(out);
    e = look_settle(k, out);
    out->r.state = retention_state(&k->title.plan->policy, &out->r, k->title.now);
    return e;
}

err look_get(const struct title *t, struct page_name name, struct page_row *out)
{
    const struct look *k = look_of(t);
    struct page_key key;
    struct engine_row found;
    page_key_name(&key, &k->key, name);
    err e = engine_get(k->view, SPACE_RENDER, page_key_str(&key), &found);
    return e == ERR_OK ? look_decode(k, name, &found, out) : e;
}

/* ---- walks ---- */

void look_walk_open(struct title_walk *w)
{
    w->cursor = look_names_open(look_of(w->title), w->low, w->high, w->rising);
}

/* The limit and the call for one damaged row that a walk would go past. False: the walk ends
 * there. */
bool look_passes(const struct look *k, str key)
{
    struct look_damage *d = k->damage;
    struct page_key_parts parts;
    if (d == NULL || d->each->damaged == NULL || d->count == PAGE_DAMAGED_MAX || key.n == 0)
        return false;
    /* The key may be what is damaged: an impossible name is not told. */
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

err look_walk_next(struct title_walk *w, struct page_row *out)
{
    const struct look *k = look_of(w->title);
    struct engine_row found;
    struct page_key_parts parts;
    struct page_key key;
    for (;;) {
        err e = engine_cursor_next(w->cursor, &found);
        if (e != ERR_OK && e != ERR_CORRUPT)
            return e;
        /* A copy: decoding a row may read others, which ends what the cursor lent. */
        page_key_of(&key, found.key);
        if (e == ERR_OK)
            e = !page_key_parse(page_key_str(&key), &parts)
                    ? ERR_CORRUPT
                    : look_decode(k, parts.name, &found, out);
        if (e != ERR_CORRUPT || !look_passes(k, page_key_str(&key)))
            return e;
    }
}

void look_walk_close(struct title_walk *w)
{
    struct engine_cursor *c = w->cursor;
    engine_cursor_close(&c);
    w->cursor = NULL;
}

/* The next name of a walk over names. A row that fails its sum has a name, too. Where the key is
 * damaged, the row is gone past, and pages_check tells of it. */
static err next_name(struct engine_cursor *c, struct page_name after, struct page_name *out)
{
    struct page_key_parts parts;
    struct engine_row found;
    for (unsigned passed = 0; passed < PAGE_DAMAGED_MAX; passed++) {
        err e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0))
            return e;
        /* A name that falls back is a damaged key: going on from it would walk in circles. */
        if (!page_key_parse(found.key, &parts) || page_name_cmp(parts.name, after) < 0)
            continue;
        *out = parts.name;
        return ERR_OK;
    }
    return ERR_CORRUPT;
}

err look_names(const struct title *t, struct page_name low, struct page_name high,
               struct title_names *out)
{
    struct page_name *names = out->names;
    err e = ERR_OK;
    /* From low up, as step_purge.c works off names chunk by chunk. */
    struct engine_cursor *c = look_names_open(look_of(t), low, high, true);
    out->count = 0;
    while (out->count < TITLE_NAMES_MAX && e == ERR_OK) {
        e = next_name(c, out->count > 0 ? names[out->count - 1] : low, &names[out->count]);
        out->count += e == ERR_OK;
    }
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* ---- traces ---- */

/* The ledger's walk lies in the machine's one, which has room for it. */
void look_traces_open(struct title_trace_walk *w)
{
    ledger_open((struct ledger_walk *)(void *)w->own, look_of(w->title), w->low, w->high,
                w->rising);
}

err look_traces_next(struct title_trace_walk *w, struct page_trace_row *out)
{
    return ledger_next((struct ledger_walk *)(void *)w->own, out);
}

void look_traces_close(struct title_trace_walk *w)
{
    ledger_close((struct ledger_walk *)(void *)w->own);
}

/* The greatest name of a stored render between two, damaged values included: only the key is
 * read. */
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

err look_greatest_known(const struct title *t, struct page_name low, struct page_name high,
                        struct page_name *out)
{
    struct page_name stored = page_name_first, traced = page_name_first;
    const struct look *k = look_of(t);
    err e = greatest_stored(k, low, high, &stored);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    err e2 = ledger_greatest(k, low, high, &traced);
    if (e2 != ERR_OK && e2 != ERR_NOT_FOUND)
        return e2;
    /* Names start above page_name_first: what was not found loses. */
    *out = page_name_cmp(stored, traced) > 0 ? stored : traced;
    return e == ERR_OK ? e : e2;
}

/* ---- fences and words ---- */

/* Adds the fence of one key to what is known: the latest counts. */
static err fence_get(const struct look *k, const uint64_t *rev, const struct tid *tid, bool *fenced,
                     store_time *at)
{
    struct page_key key;
    struct engine_row found;
    store_time stored;
    page_key_fence(&key, &k->key, rev, tid);
    err e = engine_get(k->view, SPACE_TITLE, page_key_str(&key), &found);
    if (e == ERR_OK)
        e = page_fence_decode(found.value, &stored);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    *at = *fenced ? store_time_max(*at, stored) : stored;
    *fenced = true;
    return ERR_OK;
}

err look_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
               store_time *at)
{
    const struct look *k = look_of(t);
    *fenced = k->row.fenced;
    *at = k->row.fence_at;
    /* Most titles have no fences: no seek then. */
    if (k->row.fence_count == 0)
        return ERR_OK;
    err e = fence_get(k, &rev, NULL, fenced, at);
    if (e == ERR_OK && tid != NULL)
        e = fence_get(k, &rev, tid, fenced, at);
    return e;
}

/* Nothing is kept for later: a put that was asked for before the word was refused (put_heed),
 * and what the word hid says so in its row. */
err look_silenced(const struct title *t, uint64_t rev, store_time said_at, enum page_state *state,
                  store_time *at)
{
    (void)t, (void)rev, (void)said_at;
    *state = PAGE_CURRENT;
    *at = STORE_TIME_ZERO;
    return ERR_OK;
}
