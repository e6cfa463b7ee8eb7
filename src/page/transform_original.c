/* transform_original.c - the render that an editor began with: it is found in the store, and the
 * wiki's word on it is waited for, before any of it is read. */
#include "loop/loop.h"
#include "page/headers.h"
#include "page/stash.h"
#include "page/transform_impl.h"

#include <limits.h>

/* A part that the render lacks is no error here: transform_original_judge wants what is needed. */
static err part_take(struct page_transform *t, const struct page_body *from,
                     struct transform_part *out)
{
    if (from->pieces_count == 0)
        return ERR_OK;
    if (!headers_find(from->headers, STR("content-type"), &out->type))
        out->type = STR("");
    return page_body_raw(from, t->arena, &out->body);
}

enum transform_phase transform_original_judge(struct page_transform *t)
{
    t->original.title = t->target.title;
    t->original.rev = t->original_name.name.rev;
    if (t->original.html.body.p != NULL &&
        transform_parsoid_has_ids(t->arena, t->original.data_parsoid.body))
        return PHASE_WRITE;
    err_note_set(&t->note, "the stored render has no html, or no data-parsoid with ids");
    return transform_end(t, TRANSFORM_BAD_ORIGINAL);
}

/* Pool. The parts stand in the order of `wanted`. */
static enum transform_phase original_take(struct page_transform *t)
{
    struct transform_part *const parts[] = { &t->original.html, &t->original.data_parsoid,
                                             &t->original.wikitext };
    err why = ERR_OK;
    for (unsigned i = 0; i < t->read.wanted_count && why == ERR_OK; i++)
        why = part_take(t, &t->read.bodies[i], parts[i]);
    return why == ERR_OK ? transform_original_judge(t)
                         : transform_end_why(t, TRANSFORM_ORIGINAL_FAILED, why, NULL);
}

/* It is nowhere: asks the secondary, or ends. Hidden text is told as the origin would tell it. */
enum transform_phase transform_original_missing(struct page_transform *t)
{
    if (transform_may_take(t))
        return PHASE_TAKE;
    if (t->why == ERR_NOT_FOUND)
        return transform_end(t, TRANSFORM_NO_ORIGINAL);
    bool hidden = t->why == ERR_GONE && t->trace.state == PAGE_SUPPRESSED;
    return transform_end(t, hidden ? TRANSFORM_HIDDEN : TRANSFORM_ORIGINAL_FAILED);
}

static void original_start(struct page_transform *t, bool preview);

/* Is the wiki's word on what was found wanted first? A preview without a revision is of no text of
 * the wiki's. */
static bool must_check(const struct page_transform *t)
{
    return t->trusted.cell != NULL && !t->checked &&
           trust_need(&t->target.domain->trust, TRUST_SAVER, t->trusted.age_ns) != TRUST_FINE;
}

static bool may_check(const struct page_transform *t)
{
    return !t->checked && t->original_name.name.rev != 0 &&
           page_is_asked(t->service, t->target.domain);
}

/* Inside the store's read: reads nothing of what is to be checked first, else all that was wanted.
 */
static unsigned original_choose(struct page_read *r)
{
    struct page_transform *t = CONTAINER_OF(r, struct page_transform, read);
    if (may_check(t)) {
        trust_release(&t->trusted.cell);
        t->trusted = r->bucket == t->service->previews
                         ? page_trusted_rev(t->service, &t->target, t->original_name.name.rev)
                         : page_trusted_look(t->service, t->target.domain, r, true);
    }
    return must_check(t) ? 0 : UINT_MAX;
}

/* It is not here: asks another server, once the wiki was asked. */
static enum transform_phase original_elsewhere(struct page_transform *t)
{
    if (!transform_may_hop(t))
        return transform_original_missing(t);
    if (may_check(t)) {
        trust_release(&t->trusted.cell);
        t->trusted = page_trusted_rev(t->service, &t->target, t->original_name.name.rev);
    }
    return must_check(t) ? PHASE_CHECK : PHASE_HOP;
}

/* Pool. Ends when the text is hidden. Of a page that was deleted or moved the wiki itself says, at
 * the transform or the save, what becomes of the edit. */
static void transform_original_checked(struct page_check *c)
{
    struct page_transform *t = CONTAINER_OF(c, struct page_transform, check);
    const store_time before = { .ns = c->since.ns - 1 };
    /* before: a word that was asked for at `since` itself counts. */
    bool hidden =
        c->why == ERR_OK &&
        page_denied_since(t->service, &t->target, t->original_name.name.rev, before).why ==
            RENDER_SUPPRESSED;
    transform_go(t, hidden ? transform_end(t, TRANSFORM_HIDDEN) : PHASE_FIND);
}

enum transform_phase transform_check_enter(struct page_transform *t)
{
    const struct page_service *s = t->service;
    const struct page_domain *d = t->target.domain;
    store_time since = { .ns = clock_store(s->clock).ns - TRUST_RECENT_NS };
    mono soon = mono_add_ms(clock_mono(s->clock), d->check_wait_ms);
    t->checked = true;
    t->check =
        (struct page_check){ .checks = s->checks,
                             .domain = d,
                             .cell = t->trusted.cell,
                             .since = store_time_max(since, trust_doubted_at(t->trusted.cell)),
                             .deadline = soon.ns < t->deadline.ns ? soon : t->deadline,
                             .home = loop_pool(s->loop),
                             .done = transform_original_checked };
    page_check_start(&t->check);
    return PHASE_WAITS;
}

/* Pool. Looks where the tag says first, then in the other place; a trace from the second look does
 * not replace an answer of the first. */
static void original_read(struct store_call *c)
{
    struct page_transform *t = CONTAINER_OF(c, struct page_transform, read.call);
    bool missing = c->why == ERR_NOT_FOUND || c->why == ERR_GONE;
    if (!t->elsewhere || !missing || (c->why == ERR_GONE && t->why == ERR_NOT_FOUND)) {
        t->why = c->why;
        t->trace = t->read.trace;
    }
    if (missing && !t->elsewhere) {
        t->elsewhere = true;
        original_start(t, !t->original_name.stash);
        return;
    }
    transform_go(t, t->why != ERR_OK ? original_elsewhere(t)
                    : must_check(t)  ? PHASE_CHECK
                                     : original_take(t));
}

/* preview: in the bucket of previews, under the user's key. */
static void original_start(struct page_transform *t, bool preview)
{
    const struct page_service *s = t->service;
    t->read = (struct page_read){ .call = { .home = loop_pool(s->loop), .done = original_read },
                                  .bucket = preview ? s->previews : t->target.settings->bucket,
                                  .which = { .domain = t->target.domain->number,
                                             .select = SELECT_EXACT,
                                             .name = t->original_name.name,
                                             .title = preview ? t->kept_title : t->target.title,
                                             .deleted_too = true }, /* who edits it still may save
                                                                       it anew */
                                  .arena = t->arena,
                                  .heeds = true,
                                  .choose = original_choose,
                                  .wanted_count = preview ? 3 : 2,
                                  .wanted = { STR("html"), STR("data-parsoid"), STR("wikitext") } };
    if (preview)
        t->read.which.name.rev += PAGE_PREVIEW_REVS;
    store_call_then(page_store_read(s->store, &t->read), &t->read.call);
}

enum transform_phase transform_find_enter(struct page_transform *t)
{
    if (!t->has_original)
        return PHASE_WRITE;
    t->why = ERR_OK;
    t->elsewhere = false;
    original_start(t, t->original_name.stash);
    return PHASE_WAITS;
}
