/* put.c - a render takes its sorted place.
 *
 * Invariants, after every update, over the renders of a title that are neither gone nor hidden:
 *   1 at most one has superseded_at NEVER, and it is the greatest; there is exactly one, unless the
 *     greatest one that ever was ran out under policy ttl, or the greatest is superseded by a
 *     revision not made yet;
 *   2 grouped policies: those with out_at NEVER are the newest `count` of their group;
 *   3 a row has a due row exactly when due_stored is not NEVER, and it is filed under due_stored.
 * A put reads the title's row, the fences over its name, the row of its name, the newest of its
 * revision and of its title, its next greater neighbour, and at most `count` rows of its group:
 * nothing grows with history. */
#include "bucket/bundle.h"
#include "bucket/mark.h"
#include "bucket/page_write.h"

#include <string.h>

struct insert {
    struct page_put *put;
    struct title title;
    struct page_row row;  /* the new one */
    struct page_row same; /* of its name: gone, to be replaced */
    bool has_same;
    struct page_row latest; /* the greatest that is not gone */
    bool has_latest;
    bool greatest;          /* the new one is greater than all that are not gone */
    struct page_row faller; /* grouped: the one that falls out */
    bool has_faller;
};

static err gone(struct page_put *p, enum page_state state, store_time at, const char *note)
{
    p->trace = (struct page_trace){ .name = { .rev = p->rev, .tid = p->tid },
                                    .state = state,
                                    .at = at,
                                    .policy = p->bucket->plan.policy.kind,
                                    .superseded_at = STORE_TIME_NEVER };
    err_note_set(&p->note, "%s", note);
    return ERR_GONE;
}

/* ---- what is stored already ---- */

/* What is made on request, and is not the latest, lives as after a read that names it. True: it
 * lives longer now. */
static bool extend_asked(const struct page_put *p, struct page_render *r, store_time now)
{
    const struct page_policy *policy = &p->bucket->plan.policy;
    if (!p->asked || r->superseded_at.ns == INT64_MAX || !retention_wants_extension(policy, r, now))
        return false;
    retention_extend(policy, r, now);
    return true;
}

/* Is a greater revision known now, or no longer? *row as the put says it. */
static err correct_place(struct insert *in, struct page_row *row)
{
    const struct page_policy *policy = &in->put->bucket->plan.policy;
    struct page_put *p = in->put;
    bool latest = row->r.superseded_at.ns == INT64_MAX;
    if (latest && p->behind > row->r.name.rev) {
        retention_supersede(policy, &row->r, (struct page_name){ .rev = p->behind },
                            in->title.look.now);
        p->changed = p->superseded = true;
    } else if (!latest && p->behind == 0 && page_name_is_unmade(row->r.superseded_by)) {
        struct page_row greatest;
        err e = look_newest_shown(&in->title.look, page_name_first, page_name_last, &greatest);
        if (e != ERR_OK)
            return e;
        if (page_name_cmp(greatest.r.name, row->r.name) == 0) {
            retention_make_latest(policy, &row->r);
            p->changed = true;
        }
    }
    p->changed |= extend_asked(p, &row->r, in->title.look.now);
    return ERR_OK;
}

static err answer_stored(struct insert *in, struct page_row *row)
{
    struct page_put *p = in->put;
    err e = correct_place(in, row);
    store_time until = store_time_add(in->title.look.now, p->stash_ns);
    if (e == ERR_OK && p->stash_ns > 0 && store_time_before(row->r.stash_until, until)) {
        p->pinned_ns = p->stash_ns - retention_stash_left(&row->r, in->title.look.now);
        row->r.stash_until = until;
        retention_repin(&p->bucket->plan.policy, &row->r, in->title.look.now);
        p->changed = true;
    }
    p->stored = row->r.name;
    p->bytes = page_render_bytes(&row->r);
    p->latest = row->r.superseded_at.ns == INT64_MAX;
    p->applied = p->created = false;
    return e == ERR_OK && p->changed ? title_update(&in->title, row) : e;
}

/* ERR_NOT_FOUND: nothing stored answers this put. */
static err find_same_name(struct insert *in)
{
    struct page_put *p = in->put;
    if (!p->has_tid)
        return ERR_NOT_FOUND;
    struct page_name name = { .rev = p->rev, .tid = p->tid };
    err e = look_get(&in->title.look, name, &in->same);
    if (e != ERR_OK)
        return e;
    if (!look_alive(&in->title.look, &in->same)) {
        in->has_same = true;
        return ERR_NOT_FOUND;
    }
    if (memcmp(in->same.digest, p->digest, PAGE_DIGEST_BYTES) != 0) {
        err_note_set(&p->note, "this render is stored with other bytes");
        return ERR_CONFLICT;
    }
    return answer_stored(in, &in->same);
}

static err find_duplicate(struct insert *in)
{
    struct page_put *p = in->put;
    struct page_row newest;
    err e =
        look_newest_alive(&in->title.look, page_name_low(p->rev), page_name_high(p->rev), &newest);
    if (e != ERR_OK)
        return e;
    if (memcmp(newest.plain_digest, p->plain_digest, PAGE_DIGEST_BYTES) != 0)
        return ERR_NOT_FOUND;
    return answer_stored(in, &newest);
}

static err check_fence(struct insert *in)
{
    struct page_put *p = in->put;
    bool fenced;
    store_time at;
    if (!p->has_tid)
        return ERR_OK;
    err e = title_fence(&in->title, p->rev, &p->tid, &fenced, &at);
    if (e != ERR_OK || !fenced || store_time_before(at, tid_time(p->tid)))
        return e;
    return gone(p, PAGE_PURGED, at, "purged: this render is not newer than the purge");
}

/* It is there again: a mark on its revision goes, unless that is the later word. */
static err show(struct insert *in)
{
    struct page_put *p = in->put;
    const struct look *k = &in->title.look;
    struct title_mark m = { .low = page_name_low(p->rev),
                            .high = page_name_high(p->rev),
                            .state = PAGE_CURRENT,
                            .said_at = p->said_at.ns == 0 ? k->now : p->said_at };
    struct page_row newest, same;
    err e = look_newest_alive(k, page_name_first, page_name_last, &newest);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (title_mark_is_after(&newest, m.said_at))
        return gone(p, newest.r.hidden, newest.r.hidden_at,
                    "hidden or deleted at the wiki while it was made");
    e = look_newest_alive(k, m.low, m.high, &same);
    if (e != ERR_OK || same.r.hidden == PAGE_CURRENT)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (title_mark_is_after(&same, m.said_at))
        return gone(p, same.r.hidden, same.r.hidden_at,
                    "hidden or deleted at the wiki while it was made");
    e = title_mark_set(&in->title, &m);
    p->changed = m.changed;
    return e;
}

/* ---- its place ---- */

/* Greater than every tid of the revision that is stored, was culled, or is fenced off. */
static err mint(struct insert *in)
{
    struct page_put *p = in->put;
    bool fenced;
    store_time at;
    uint64_t ticks = tid_ticks(in->title.look.now);
    err e = title_fence(&in->title, p->rev, NULL, &fenced, &at);
    if (e != ERR_OK)
        return e;
    if (fenced && tid_ticks(at) >= ticks)
        ticks = tid_ticks(at) + 1;
    e = look_next_ticks(&in->title.look, p->rev, &ticks);
    if (e != ERR_OK)
        return e;
    in->row.r.name.tid = tid_make(ticks, rng_next(&p->bucket->pages->rng));
    return ERR_OK;
}

static err place_among_all(struct insert *in)
{
    const struct page_policy *policy = &in->put->bucket->plan.policy;
    struct look *k = &in->title.look;
    struct page_row greater;
    err e = look_newest_shown(k, page_name_first, page_name_last, &in->latest);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    in->has_latest = e == ERR_OK;
    in->row.r.stored_at = k->now;
    retention_make_latest(policy, &in->row.r);
    in->greatest = !in->has_latest || page_name_cmp(in->row.r.name, in->latest.r.name) > 0;
    if (in->greatest && in->put->behind > in->put->rev)
        retention_supersede(policy, &in->row.r, (struct page_name){ .rev = in->put->behind },
                            k->now);
    if (in->greatest)
        return ERR_OK;
    e = look_oldest_shown(k, in->row.r.name, page_name_last,
                          &greater); /* its own name is not there, or gone */
    if (e == ERR_OK)
        retention_supersede(policy, &in->row.r, greater.r.name, k->now);
    return e == ERR_NOT_FOUND ? ERR_CORRUPT : e;
}

/* Grouped policies: is the new render among the newest `count` of its group, and which one does it
 * push out? */
static err place_in_group(struct insert *in)
{
    const struct page_policy *policy = &in->put->bucket->plan.policy;
    struct page_name low, high;
    struct look_walk w;
    bool placed = false;
    uint32_t rank = 0;
    err e = ERR_OK;
    retention_group(policy, in->row.r.name, &low, &high);
    look_walk_open(&w, &in->title.look, low, high, false);
    while (e == ERR_OK) {
        e = look_walk_alive(&w, &in->faller);
        if (e == ERR_NOT_FOUND)
            break;
        if (!placed && rank < policy->count &&
            page_name_cmp(in->faller.r.name, in->row.r.name) < 0) {
            placed = true;
            rank++;
        }
        if (rank == policy->count)
            break;
        rank++;
    }
    look_walk_close(&w);
    in->has_faller = e == ERR_OK && placed && in->faller.r.out_at.ns == INT64_MAX;
    if (e == ERR_NOT_FOUND)
        placed = rank < policy->count || placed;
    if (!placed)
        retention_drop(policy, &in->row.r, in->title.look.now);
    if (in->has_faller)
        retention_drop(policy, &in->faller.r, in->title.look.now);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err place(struct insert *in)
{
    struct page_put *p = in->put;
    const struct page_policy *policy = &p->bucket->plan.policy;
    store_time now = in->title.look.now;
    err e = place_among_all(in);
    if (e == ERR_OK && retention_grouped(policy))
        e = place_in_group(in);
    if (e != ERR_OK)
        return e;
    if (p->stash_ns > 0)
        in->row.r.stash_until = store_time_add(now, p->stash_ns);
    in->row.r.due_at = retention_due(policy, &in->row.r);
    (void)extend_asked(p, &in->row.r, now); /* it is written in any case */
    if (store_time_before(now, in->row.r.due_at))
        return ERR_OK;
    return gone(p, PAGE_CULLED, now, "expired: the policy of this bucket cannot keep this render");
}

/* ---- what it changes ---- */

static err write_or_cull(struct insert *in, struct page_row *row)
{
    if (look_alive(&in->title.look, row))
        return title_update(&in->title, row);
    return title_remove(&in->title, row, PAGE_CULLED);
}

static err apply(struct insert *in)
{
    struct page_put *p = in->put;
    bool latest = in->row.r.superseded_at.ns == INT64_MAX;
    bool supersedes = in->greatest && in->has_latest && in->latest.r.superseded_at.ns == INT64_MAX;
    bool one =
        supersedes && in->has_faller && page_name_cmp(in->faller.r.name, in->latest.r.name) == 0;
    err e = ERR_OK;
    if (one)
        in->latest.r.out_at = in->faller.r.out_at;
    if (supersedes) {
        retention_supersede(&p->bucket->plan.policy, &in->latest.r, in->row.r.name,
                            in->title.look.now);
        e = write_or_cull(in, &in->latest);
    }
    if (e == ERR_OK && in->has_faller && !one)
        e = write_or_cull(in, &in->faller);
    if (e == ERR_OK)
        e = title_insert(&in->title, &in->row, p->bundle, in->has_same ? &in->same : NULL);
    p->stored = in->row.r.name;
    p->bytes = page_render_bytes(&in->row.r);
    p->latest = latest;
    p->applied = p->created = p->changed = true;
    p->pinned_ns = p->stash_ns;
    p->superseded = supersedes;
    return e;
}

static err put_decide(struct engine_txn *t, void *ctx)
{
    struct page_put *p = ctx;
    struct page_key key;
    struct insert in = { .put = p };
    p->changed = p->superseded = false;
    p->pinned_ns = 0;
    page_key_title(&key, p->bucket->number, p->domain, p->title);
    err e = title_begin(&in.title, t, p->bucket, &key);
    if (e == ERR_OK)
        e = look_allowed(&in.title.look, p->allow, p->allow_ctx);
    if (e == ERR_OK)
        e = check_fence(&in);
    if (e == ERR_OK)
        e = show(&in);
    if (e != ERR_OK)
        return e;
    e = find_same_name(&in);
    if (e == ERR_NOT_FOUND)
        e = find_duplicate(&in);
    if (e != ERR_NOT_FOUND)
        return e;
    in.row.r = p->row;
    in.row.r.name = (struct page_name){ .rev = p->rev, .tid = p->tid };
    memcpy(in.row.digest, p->digest, PAGE_DIGEST_BYTES);
    memcpy(in.row.plain_digest, p->plain_digest, PAGE_DIGEST_BYTES);
    e = p->has_tid ? ERR_OK : mint(&in);
    if (e == ERR_OK)
        e = place(&in);
    if (e == ERR_OK)
        e = apply(&in);
    return e == ERR_OK ? title_end(&in.title) : e;
}

static void put_done(void *ctx, err why)
{
    struct page_put *p = ctx;
    struct pages *pages = p->bucket->pages;
    if (why == ERR_OK) {
        atomic_fetch_add(p->applied ? &pages->puts : &pages->duplicates, 1);
        atomic_fetch_add(&pages->superseded, p->superseded);
        if (p->changed)
            pages_tell(pages, p->bucket->number, p->domain, p->title);
    }
    p->done(p, why);
}

/* ---- what is wrong without looking ---- */

static err refuse(struct page_put *p, const char *note)
{
    err_note_set(&p->note, "%s", note);
    return ERR_BAD;
}

static bool name_is_fine(str name)
{
    if (name.n < 1 || name.n > PAGE_CONTENT_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= ' ' || name.p[i] >= 0x7f || name.p[i] == '/')
            return false;
    return true;
}

static bool name_is_allowed(const struct page_bucket *b, str name)
{
    if (b->opts.contents == NULL)
        return true;
    for (unsigned i = 0; i < b->opts.contents_count; i++)
        if (str_eq(name, str_of(b->opts.contents[i])))
            return true;
    return false;
}

static err check_content(struct page_put *p, unsigned i)
{
    const struct page_put_content *c = &p->contents[i];
    unsigned lines = 0;
    if (!name_is_fine(c->name))
        return refuse(p,
                      "a content name is empty, too long, or holds other than visible characters");
    if (!name_is_allowed(p->bucket, c->name)) {
        err_note_set(&p->note, "this bucket has no content %.*s", STR_ARG(c->name));
        return ERR_BAD;
    }
    for (unsigned j = 0; j < i; j++)
        if (str_eq(c->name, p->contents[j].name))
            return refuse(p, "a content is given twice");
    for (size_t at = 0; at < c->headers.n; at++)
        lines += c->headers.p[at] == '\n';
    if (c->headers.n > PAGE_HEADERS_BYTES_MAX || lines > PAGE_HEADERS_MAX) {
        err_note_set(&p->note, "headers of a content: at most %d lines and %d bytes",
                     PAGE_HEADERS_MAX, PAGE_HEADERS_BYTES_MAX);
        return ERR_LIMIT;
    }
    return ERR_OK;
}

static err check_put(struct page_put *p)
{
    if (p->rev < 1 || p->rev > PAGE_REV_MAX)
        return refuse(p, "a revision is 1 to 2^63-1");
    if (p->title.n < 1 || p->title.n > PAGE_TITLE_BYTES_MAX ||
        str_find(p->title, '\0') < p->title.n)
        return refuse(p, "the title is empty, too long, or holds a zero byte");
    if (p->contents_count < 1 || p->contents_count > PAGE_CONTENTS_MAX)
        return refuse(p, "a bundle has 1 to 16 contents");
    for (unsigned i = 0; i < p->contents_count; i++) {
        err e = check_content(p, i);
        if (e != ERR_OK)
            return e;
    }
    store_time ahead = store_time_add(clock_store(p->bucket->pages->clock), PAGE_TID_AHEAD_NS);
    if (p->has_tid && store_time_before(ahead, tid_time(p->tid)))
        return refuse(p, "the tid is more than 5 s in the future");
    return ERR_OK;
}

err page_put_start(struct page_bucket *b, struct page_put *p)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    p->bucket = b;
    p->row = (struct page_render){ .superseded_at = STORE_TIME_NEVER };
    err e = check_put(p);
    if (e != ERR_OK)
        return e;
    if (!p->has_tid)
        p->tid = (struct tid){ 0 };
    bundle_digests(p->contents, p->contents_count, p->digest, p->plain_digest);
    struct bundle_way way = { .codec = b->opts.codec,
                              .frames = frame_pool_take(&b->pages->frames) };
    e = bundle_build(&way, p->contents, p->contents_count, p->arena, &p->row, &p->bundle);
    frame_pool_give(&b->pages->frames, &way.frames);
    if (e != ERR_OK) {
        err_note_set(&p->note, "the bundle is too large");
        return e;
    }
    p->update = (struct engine_update){ .decide = put_decide,
                                        .done = put_done,
                                        .ctx = p,
                                        .deadline = p->deadline,
                                        .partition = STR_NONE };
    engine_submit(b->pages->engine, &p->update);
    return ERR_OK;
}
