/* why.c - gathers why a reader of a title gets what it gets, for operators: one read of each
 * bucket, one after the other. */
#include "page/why.h"

#include "page/check.h"
#include "page/trusted.h"

static unsigned read_nothing(struct page_read *r)
{
    (void)r;
    return 0;
}

/* The store keeps no word of a title without renders: takes what was told, or what the cells know.
 */
static void hear_elsewhere(struct page_why *w)
{
    const struct page_service *s = w->service;
    int64_t age_ns = page_missing_age_ns(s, w->domain, w->title);
    w->heard = w->told != NULL || age_ns != TRUST_NEVER;
    if (w->told != NULL)
        w->word = *w->told;
    else if (w->heard)
        w->word = (struct title_word){ .missing = true,
                                       .asked_at = { .ns = clock_store(s->clock).ns - age_ns } };
}

/* After the first read: what is known of the title, in whatever bucket. */
static void look_at_trust(struct page_why *w)
{
    const struct page_service *s = w->service;
    const struct trust_key k = { .domain = w->domain->number, .title = w->title };
    struct trust_cell *cell = page_trust_hold(s->trust, &k);
    w->age_ns = w->heard ? trust_age_ns(cell, title_word_hash(&w->word), clock_store(s->clock))
                         : TRUST_NEVER;
    w->doubted_at = w->age_ns == TRUST_NEVER ? trust_doubted_at(cell) : STORE_TIME_ZERO;
    w->need = trust_need(&w->domain->trust, TRUST_PLAIN, w->age_ns);
    trust_release(&cell);
}

/* One bucket was read. The word is of the title, so the first read has it. */
static void why_take(struct page_why *w)
{
    const struct page_read *r = &w->read;
    struct page_why_bucket *b = &w->buckets[w->count];
    *b = (struct page_why_bucket){ .settings = &page_settings_now(w->service)[w->count],
                                   .why = r->call.why,
                                   .trace = r->trace };
    if (w->count == 0) {
        w->heard = r->heard;
        w->word = r->word;
    }
    if (w->count == 0 && w->is_checked && !w->heard)
        hear_elsewhere(w);
    if (w->count == 0 && w->is_checked)
        look_at_trust(w);
    if (w->is_checked)
        b->line =
            page_remake_place(w->service->remakes, &(struct page_target){ .domain = w->domain,
                                                                          .settings = b->settings,
                                                                          .title = w->title });
    if (r->call.why == ERR_OK) {
        b->render = r->render;
        b->dated = r->dated;
        if (b->dated == DATED_NOT && w->is_checked && r->heard &&
            title_is_unsettled(&r->word, &r->render, w->settle_s))
            b->dated = DATED_UNSETTLED;
        b->old = w->is_checked ? page_old(w->domain, r, clock_store(w->service->clock)) : OLD_NOT;
    }
    w->count++;
}

static enum store_start read_start(struct page_why *w, void (*done)(struct store_call *c))
{
    w->read = (struct page_read){
        .call = { .home = w->call.home, .done = done },
        .bucket = page_settings_now(w->service)[w->count].bucket,
        .which = { .domain = w->domain->number, .title = w->title, .select = SELECT_LATEST },
        .arena = w->arena,
        .heeds = true,
        .choose = read_nothing
    };
    return page_store_read(w->service->store, &w->read);
}

/* At home. */
static void read_done(struct store_call *c)
{
    struct page_why *w = CONTAINER_OF(c, struct page_why, read.call);
    enum store_start start = STORE_DONE;
    why_take(w);
    while (w->count < w->service->buckets_count && (start = read_start(w, read_done)) == STORE_DONE)
        why_take(w);
    if (start == STORE_DONE)
        store_call_end(&w->call, ERR_OK);
}

enum store_start page_why_start(struct page_why *w)
{
    const struct page_service *s = w->service;
    const struct origin *origin = w->domain->origin;
    w->is_checked = s->trust != NULL && origin != NULL && origin_has_api(origin);
    w->age_ns = TRUST_NEVER;
    w->settle_s = w->is_checked ? page_checks_settle_s(s->checks, w->domain) : 0;
    w->buckets = arena_calloc(w->arena, s->buckets_count, sizeof *w->buckets);
    if (w->buckets == NULL)
        return store_call_done(&w->call, ERR_LIMIT);
    while (w->count < s->buckets_count) {
        if (read_start(w, read_done) == STORE_LATER)
            return STORE_LATER;
        why_take(w);
    }
    return store_call_done(&w->call, ERR_OK);
}
