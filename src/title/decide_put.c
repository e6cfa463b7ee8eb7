/* decide_put.c - decides puts: the answer, and its facts (title_decide_put). Pure.
 *
 * The order is that of answers: the caller's condition; a purge since; a word of the wiki since;
 * the same name or the same bytes stored already, which the put corrects and pins; else the new
 * render's place.
 * Invariant: rows that were seen on the way are left in t->seen: the title's newest as
 * place.latest, the render that answers as last, the place itself. So a put and its steps read each
 * row once. */
#include "title/decide.h"
#include "title/place.h"

#include <string.h>

/* One put while it is decided. */
struct put_work {
    struct title *t;
    const struct title_put *put;
    struct title_answer *a;
    struct page_name name; /* the tid is zero until it is given or minted */
    store_time said_at;
    /* the newest of its revision that is alive, as place.latest or row; NULL: none */
    const struct page_row *of_rev;
    struct page_row row;
};

/* The put is refused, and the trace says why. note: a static text. */
static err put_gone(struct put_work *w, enum page_state state, store_time at, const char *note)
{
    w->a->trace = (struct page_trace){ .name = w->name,
                                       .state = state,
                                       .at = at,
                                       .policy = w->t->plan->policy.kind,
                                       .superseded_at = STORE_TIME_NEVER };
    w->a->note = note;
    return ERR_GONE;
}

static struct fact *put_add_fact(struct put_work *w, enum fact_what what, struct page_name name)
{
    INVARIANT(w->a->facts_count < TITLE_FACTS_MAX);
    struct fact *f = &w->a->facts[w->a->facts_count++];
    *f = (struct fact){ .what = what, .at = w->t->now, .name = name };
    return f;
}

/* ---- looking ---- */

/* Sees the newest render of the title. It is place.latest only when it is shown: a hidden one says
 * nothing of the latest. */
static err see_newest(struct put_work *w)
{
    struct title_place *p = &w->t->seen->place;
    err e = title_newest_alive(w->t, page_name_first, page_name_last, &p->latest);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    p->has_latest = e == ERR_OK;
    p->latest_known = e == ERR_NOT_FOUND || p->latest.r.hidden == PAGE_CURRENT;
    return ERR_OK;
}

/* The newest of the title is mostly of this revision, too: then no row is read. */
static err see_newest_of_rev(struct put_work *w)
{
    const struct title_place *p = &w->t->seen->place;
    if (!p->has_latest)
        return ERR_OK;
    if (p->latest.r.name.rev == w->put->rev) {
        w->of_rev = &p->latest;
        return ERR_OK;
    }
    err e =
        title_newest_alive(w->t, page_name_low(w->put->rev), page_name_high(w->put->rev), &w->row);
    if (e == ERR_OK)
        w->of_rev = &w->row;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* The caller's condition, on the latest that is shown; a hidden newest costs one read more. */
static err put_allowed(struct put_work *w)
{
    struct title_place *p = &w->t->seen->place;
    bool has = p->has_latest;
    if (w->put->allow == NULL)
        return ERR_OK;
    const struct page_row *latest = &p->latest;
    if (!p->latest_known) {
        err e = title_newest_shown(w->t, page_name_first, page_name_last, &w->row);
        if (e != ERR_OK && e != ERR_NOT_FOUND)
            return e;
        has = e == ERR_OK;
        latest = &w->row;
    }
    has = has && title_is_latest(&latest->r);
    return w->put->allow(w->put->allow_ctx, has ? &latest->r : NULL) ? ERR_OK : ERR_PRECONDITION;
}

/* A render whose tid is not newer than a purge of its names is refused. A minted tid is newer by
 * itself (title_mint). */
static err put_check_fence(struct put_work *w)
{
    bool fenced;
    store_time at;
    if (!w->put->has_tid)
        return ERR_OK;
    err e = w->t->ops->fence(w->t, w->put->rev, &w->put->tid, &fenced, &at);
    if (e != ERR_OK || !fenced || store_time_before(at, tid_time(w->put->tid)))
        return e;
    return put_gone(w, PAGE_PURGED, at, "purged: this render is not newer than the purge");
}

/* ---- what the wiki says ---- */

/* Does a hiding of this row count against an answer of the wiki at that instant? Two marks of one
 * instant are one answer: the answer that took a newest revision back gave the text of the revision
 * below it, too. */
static bool is_hidden_after(const struct title *t, const struct page_row *row, store_time said_at)
{
    return row->r.hidden != PAGE_CURRENT && said_at.ns != row->r.hidden_at.ns &&
           store_time_before(said_at, title_said_until(t, row->r.hidden_at));
}

/* Refuses a put that the wiki has hidden since. When the wiki gave the revision later than the
 * mark, the revision is there again: a fact takes the mark away. */
static err put_check_words(struct put_work *w)
{
    static const char note[] = "hidden or deleted at the wiki while it was made";
    struct title *t = w->t;
    const struct title_place *p = &t->seen->place;
    enum page_state state;
    store_time at;
    /* The store first: it may remember a word that hides renders which are not there yet. */
    err e = t->ops->silenced(t, w->put->rev, w->said_at, &state, &at);
    if (e != ERR_OK)
        return e;
    if (state != PAGE_CURRENT)
        return put_gone(w, state, at, note);
    /* The newest render is hidden since: the title may be deleted, so the put may be of what was
     * deleted. */
    if (p->has_latest && is_hidden_after(t, &p->latest, w->said_at))
        return put_gone(w, p->latest.r.hidden, p->latest.r.hidden_at, note);
    if (w->of_rev == NULL || w->of_rev->r.hidden == PAGE_CURRENT)
        return ERR_OK;
    if (is_hidden_after(t, w->of_rev, w->said_at))
        return put_gone(w, w->of_rev->r.hidden, w->of_rev->r.hidden_at, note);
    struct fact *f = put_add_fact(w, FACT_SHOWN, (struct page_name){ .rev = w->put->rev });
    f->rev_last = w->put->rev;
    f->said_at = w->said_at;
    /* Until the fact is stepped the place of the put must see the revision as shown. */
    t->seen->shows = true;
    t->seen->shows_rev = w->put->rev;
    t->seen->shows_said_at = w->said_at;
    return ERR_OK;
}

/* ---- what is stored already ---- */

/* A render that is made on request, and is not the latest, lives as after a read that names it. */
static bool wants_extension(const struct put_work *w, const struct page_render *r)
{
    return w->put->asked && !title_is_latest(r) &&
           retention_wants_extension(&w->t->plan->policy, r, w->t->now);
}

/* The put of a stored render says whether a greater revision exists. So the render may become
 * superseded, or the latest again, and *r becomes that render. *word: the wiki's latest revision
 * for a fact; 0: as before. */
static err put_correct_place(struct put_work *w, struct page_render *r, uint64_t *word)
{
    const struct page_policy *policy = &w->t->plan->policy;
    uint64_t behind = w->put->behind;
    struct page_row greatest;
    bool waits;
    *word = 0;
    /* The latest, and the caller knows of a greater revision: superseded by a render that is not
     * made yet. */
    if (title_is_latest(r)) {
        if (behind <= r->name.rev)
            return ERR_OK;
        *word = behind;
        w->a->superseded = true;
        retention_supersede(policy, r, (struct page_name){ .rev = behind }, w->t->now);
        return ERR_OK;
    }
    /* It waits for a greater revision, of which this put knows nothing: the wiki says that this
     * revision is its newest. */
    err e = title_waits(w->t, r, &waits);
    if (e != ERR_OK || !waits || behind != 0)
        return e;
    e = title_newest_shown(w->t, page_name_first, page_name_last, &greatest);
    if (e != ERR_OK || page_name_cmp(greatest.r.name, r->name) != 0)
        return e;
    *word = r->name.rev;
    retention_make_latest(policy, r);
    return ERR_OK;
}

/* The put is answered by a stored render: corrects its place, pins it, and notes a later making.
 * Pins come before the word, which else may leave nothing to pin. */
static err put_answer_stored(struct put_work *w, const struct page_row *row)
{
    struct title_seen *s = w->t->seen;
    struct page_render r = row->r;
    uint64_t word;
    s->last = *row;
    s->has_last = true;
    err e = put_correct_place(w, &r, &word);
    if (e != ERR_OK)
        return e;
    if (wants_extension(w, &r)) {
        retention_extend(&w->t->plan->policy, &r, w->t->now);
        put_add_fact(w, FACT_REQUEST, r.name)->until = r.requested_until;
    }
    store_time until = store_time_add(w->t->now, w->put->stash_ns);
    if (w->put->stash_ns > 0 && store_time_before(r.stash_until, until)) {
        put_add_fact(w, FACT_STASH, r.name)->until = until;
        w->a->pinned_ns = w->put->stash_ns - retention_stash_left(&r, w->t->now);
    }
    /* The same bytes, made later: the render is as fresh as this making. */
    if (title_under_later(w->put->made, r.made))
        put_add_fact(w, FACT_MADE, r.name)->made = w->put->made;
    if (word > 0)
        put_add_fact(w, FACT_WORD, (struct page_name){ .rev = word })->said_at = w->said_at;
    w->a->name = r.name;
    w->a->bytes = page_render_bytes(&r);
    w->a->latest = title_is_latest(&r);
    /* `before` is the making of the latest as it was until now. */
    if (title_is_latest(&row->r))
        w->a->before = row->r.made;
    return ERR_OK;
}

/* Looks for the name itself. ERR_CONFLICT: it has other bytes. ERR_NOT_FOUND: no render of its name
 * answers this put. */
static err put_find_same_name(struct put_work *w)
{
    struct title_place *p = &w->t->seen->place;
    const struct page_row *same = w->of_rev;
    if (!w->put->has_tid)
        return ERR_NOT_FOUND;
    if (same == NULL || page_name_cmp(same->r.name, w->name) != 0) {
        err e = title_get(w->t, w->name, &p->same);
        if (e != ERR_OK)
            return e;
        same = &p->same;
    }
    /* A gone row of this name is not in the way: the new render replaces it. */
    p->has_same = !title_alive(w->t, same);
    if (p->has_same)
        return ERR_NOT_FOUND;
    if (memcmp(same->digest, w->put->digest, PAGE_DIGEST_BYTES) != 0) {
        w->a->note = "this render is stored with other bytes";
        return ERR_CONFLICT;
    }
    return put_answer_stored(w, same);
}

/* The same page text as the newest of its revision, under another name: the stored render answers.
 * plain_digest leaves out marks that each making invents (store/bundle.h). */
static err put_find_duplicate(struct put_work *w)
{
    const struct page_row *row = w->of_rev;
    if (row == NULL || memcmp(row->plain_digest, w->put->plain_digest, PAGE_DIGEST_BYTES) != 0)
        return ERR_NOT_FOUND;
    return put_answer_stored(w, row);
}

/* ---- a new render ---- */

/* A tid has the instant when the making began, unless a purge or a known render is not below it:
 * then one tick more. */
err title_mint(const struct title *t, const struct title_mint *m, struct tid *out)
{
    bool fenced;
    store_time at;
    uint64_t ticks = tid_ticks(m->began);
    err e = t->ops->fence(t, m->rev, NULL, &fenced, &at);
    if (e != ERR_OK)
        return e;
    if (fenced && m->gone_if_purged && store_time_before(m->began, at))
        return ERR_GONE;
    /* A purge takes all up to its instant: the new render stands above it. */
    if (fenced && tid_ticks(at) >= ticks)
        ticks = tid_ticks(at) + 1;
    e = title_next_ticks(t, m->rev, &ticks);
    if (e == ERR_OK)
        *out = tid_make(ticks, m->random);
    return e;
}

static void put_fill_fact(const struct put_work *w, struct fact *f)
{
    const struct title_put *p = w->put;
    /* A serial store keeps no such instant in its rows, so a put counts as said at its arrival. */
    f->said_at = w->t->serial ? w->t->now : w->said_at;
    f->stash_until = p->stash_ns > 0 ? store_time_add(w->t->now, p->stash_ns) : STORE_TIME_ZERO;
    f->behind = p->behind;
    f->made = p->made;
    f->contents = p->contents;
    f->contents_count = p->contents_count;
    memcpy(f->digest, p->digest, PAGE_DIGEST_BYTES);
    memcpy(f->plain_digest, p->plain_digest, PAGE_DIGEST_BYTES);
}

/* Makes the fact of a new render. The place among the others says whether it is the latest, and how
 * long it stays. */
static err put_answer_new(struct put_work *w)
{
    struct title_place *p = &w->t->seen->place;
    struct title_answer *a = w->a;
    struct fact *f = put_add_fact(w, FACT_PUT, w->name);
    put_fill_fact(w, f);
    err e = title_place(w->t, f, PAGE_CURRENT, STORE_TIME_ZERO);
    if (e != ERR_OK)
        return e;
    if (wants_extension(w, &p->row.r)) {
        retention_extend(&w->t->plan->policy, &p->row.r, w->t->now);
        f->until = p->row.r.requested_until;
    }
    /* Under a policy without a window a late put may be gone at once: it is refused instead. */
    if (!title_alive(w->t, &p->row))
        return put_gone(w, PAGE_CULLED, w->t->now,
                        "expired: the policy of this bucket cannot keep this render");
    a->name = w->name;
    a->bytes = page_render_bytes(&p->row.r);
    a->latest = title_is_latest(&p->row.r);
    a->superseded = p->greatest && p->has_latest && title_is_latest(&p->latest.r);
    if (a->superseded)
        a->before = p->latest.r.made;
    a->pinned_ns = w->put->stash_ns;
    a->created = true;
    return ERR_OK;
}

/* The looks, each only when those before allow the put. */
static err put_look(struct put_work *w)
{
    err e = see_newest(w);
    if (e == ERR_OK)
        e = put_allowed(w);
    if (e == ERR_OK)
        e = put_check_fence(w);
    if (e == ERR_OK)
        e = see_newest_of_rev(w);
    return e == ERR_OK ? put_check_words(w) : e;
}

static err put_answer(struct put_work *w)
{
    const struct title_put *put = w->put;
    const struct title_mint m = { .rev = put->rev, .began = w->t->now, .random = put->random };
    err e = put_look(w);
    if (e != ERR_OK)
        return e;
    e = put_find_same_name(w);
    /* own_name: clients know the render by its name, so another name does not do. */
    if (e == ERR_NOT_FOUND && !put->own_name)
        e = put_find_duplicate(w);
    if (e != ERR_NOT_FOUND)
        return e;
    e = put->has_tid ? ERR_OK : title_mint(w->t, &m, &w->name.tid);
    return e == ERR_OK ? put_answer_new(w) : e;
}

err title_decide_put(struct title *t, const struct title_put *put, struct title_answer *a)
{
    struct put_work w = { .t = t, .put = put, .a = a, .name = { .rev = put->rev } };
    INVARIANT(t->seen != NULL);
    title_seen_init(t->seen);
    title_answer_init(a);
    /* An instant in the future would let the put win against each word until then. */
    w.said_at = put->said_at.ns == 0 ? t->now : store_time_min(put->said_at, t->now);
    if (put->has_tid)
        w.name.tid = put->tid;
    err e = put_answer(&w);
    if (e != ERR_OK)
        a->facts_count = 0;
    return e;
}
