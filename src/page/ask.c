/* ask.c - one question to the wiki, and the marks that its answer leaves.
 *
 *   ask (loop) -> a text: parsed (pool) -> heard by the store (pool, committer) -> done
 *             \-> no text: told (loop) ---^ */
#include "page/ask.h"

#include "base/log.h"
#include "page/behind.h"
#include "page/remake.h"
#include "page/trusted.h"

static void ask_add(struct page_ask *a, enum page_state state, uint64_t first, uint64_t last)
{
    a->marks[a->marks_count++] =
        (struct title_mark){ .state = state, .first = first, .last = last, .said_at = a->began };
}

/* What the wiki says of the title, where it says that. */
static bool collect_word(struct page_ask *a)
{
    const struct render_meta *m = &a->request.meta;
    if (m->said_s == 0 || !origin_has_api(a->request.origin))
        return false;
    a->word = (struct title_word){ .missing = a->why == RENDER_NO_PAGE,
                                   .said = m->said_s,
                                   .asked_at = a->began };
    if (a->word.missing)
        return true;
    a->word.page_id = m->page_id;
    a->word.rev = m->last_rev;
    a->word.touched = m->touched_s;
    a->word.redirect = m->redirect;
    return (a->why == RENDER_FINE || a->why == RENDER_SUPPRESSED) && m->last_rev != 0;
}

/* Where nobody asks again, what it says of its newest revision is taken as it is, and words are
 * not kept. */
static bool is_believed(const struct page_ask *a)
{
    return a->service->trust == NULL;
}

/* The marks there could be. Pure but for them. An origin without api.php may answer from a cache
 * of its own, so it is not believed that its newest revision went down. */
static void collect_marks(struct page_ask *a)
{
    const struct render_request *r = &a->request;
    bool named = r->rev != 0;
    uint64_t rev = named ? r->rev : r->meta.rev;
    a->marks_count = 0;
    switch (a->why) {
    case RENDER_FINE:
        ask_add(a, PAGE_CURRENT, rev, rev);
        if (is_believed(a) && origin_has_api(r->origin) && (!named || render_is_latest(&r->meta)) &&
            rev < PAGE_REV_MAX)
            ask_add(a, PAGE_DELETED, rev + 1, PAGE_REV_MAX);
        return;
    case RENDER_NO_PAGE:
        ask_add(a, PAGE_DELETED, 0, PAGE_REV_MAX);
        return;
    case RENDER_NO_REVISION:
        if (named)
            ask_add(a, PAGE_DELETED, rev, rev);
        return;
    case RENDER_SUPPRESSED:
        ask_add(a, PAGE_SUPPRESSED, rev, rev);
        return;
    case RENDER_OTHER_TITLE:
    case RENDER_DENIED:
    case RENDER_REFUSED:
    case RENDER_BUSY:
    case RENDER_FAILED:
    case RENDER_TIMEOUT:
    case RENDER_LIMIT:
    case RENDER_CANCELED:
    case RENDER_WHYS:
        return;
    }
}

static void ask_tell(const struct page_ask *a)
{
    for (unsigned i = 0; i < a->marks_count; i++)
        page_mark_tell(a->service, a->target->domain, a->target->title, &a->marks[i]);
}

static struct trust_cell *cell_hold(const struct page_ask *a, uint64_t rev)
{
    const struct trust_key k = { .domain = a->target->domain->number,
                                 .title = a->target->title,
                                 .rev = rev };
    return page_trust_hold(a->service->trust, &k);
}

/* What the store has heard is trusted. */
static void ask_trust(const struct page_ask *a)
{
    uint64_t rev = a->request.rev;
    if (a->has_word && (a->hear.is != WORD_OLD || a->hear.echoes))
        trust_hear_word(a->cell, &a->word, false); /* one that lags is asked for again by others */
    if (rev == 0)
        return;
    struct trust_cell *named = cell_hold(a, rev);
    trust_hear(named, a->began,
               a->why == RENDER_FINE         ? TRUST_SHOWN
               : a->why == RENDER_SUPPRESSED ? TRUST_HIDDEN
                                             : TRUST_GONE);
    trust_release(&named);
}

/* What was there when it was asked for, and is not any more, comes too late for all who wait. Its
 * text may have failed for that, too. */
static void ask_judge(struct page_ask *a)
{
    const int64_t unheard_ns = a->behind ? BEHIND_S * NS_PER_S : 0;
    const uint64_t named = a->request.rev, rev = named != 0 ? named : a->request.meta.rev;
    const store_time since = { .ns = a->began.ns - unheard_ns };
    const struct page_denied denied = page_denied_since(a->service, a->target, rev, since);
    if (denied.why == RENDER_FINE)
        return;
    a->why = denied.why;
    err_note_set(&a->request.note, "hidden or deleted at the wiki since it was asked for");
}

/* It would have taken back what is known. */
static bool ask_lags(const struct page_ask *a)
{
    return a->behind && a->hear.call.why == ERR_OK && a->hear.is == WORD_LAGS;
}

/* What is fine is told when it was news to us. A no was told when it came (ask_heed): others may
 * have stored what we have not. */
static void ask_over(struct page_ask *a)
{
    if (a->why == RENDER_FINE && (a->hear.changed || a->hear.call.why != ERR_OK))
        ask_tell(a);
    bool lags = ask_lags(a);
    if (lags) {
        a->why = RENDER_BUSY;
        err_note_set(&a->request.note, "a copy of the wiki's database answered that is behind");
    }
    if (lags || a->why == RENDER_FINE || a->why == RENDER_FAILED)
        ask_judge(a);
    trust_release(&a->cell);
    a->done(a);
}

static void ask_checked(struct page_check *c)
{
    ask_over(CONTAINER_OF(c, struct page_ask, check));
}

/* A revision is stored that is greater than the wiki's newest, or the wiki answered from a copy
 * that is behind: the checks find out which, and are waited for as by readers. */
static void ask_again(struct page_ask *a)
{
    const struct page_service *s = a->service;
    mono soon = mono_add_ms(clock_mono(s->clock), a->target->domain->check_wait_ms);
    a->check = (struct page_check){ .checks = s->checks,
                                    .domain = a->target->domain,
                                    .cell = a->cell,
                                    .since = a->began,
                                    .deadline = soon.ns < a->deadline.ns ? soon : a->deadline,
                                    .home = loop_pool(s->loop),
                                    .done = ask_checked };
    page_check_start(&a->check);
}

/* Then its maker looks for what is old of the title, once it is stored. */
static bool makes_latest(const struct page_ask *a)
{
    return a->want == WANT_RENDER && !a->target->has_rev;
}

static void ask_heard(struct store_call *c)
{
    struct page_ask *a = CONTAINER_OF(c, struct page_ask, hear.call);
    bool doubtful = ask_lags(a) || (a->has_word && (a->hear.is == WORD_LAGS || a->hear.above != 0));
    if (c->why != ERR_OK)
        log_event(a->service->log, LOG_WARN, "page.mark_failed",
                  LOG_STR("domain", a->target->domain->name), LOG_STR("title", a->target->title),
                  LOG_CSTR("why", err_name(c->why)));
    if (c->why == ERR_OK && doubtful) {
        ask_again(a);
        return;
    }
    if (c->why == ERR_OK && a->has_word && a->hear.is == WORD_NEWS)
        page_word_tell(a->service, a->target->domain, a->target->title, &a->word);
    if (c->why == ERR_OK && a->service->trust != NULL && (a->has_word || a->marks_count > 0))
        ask_trust(a);
    if (c->why == ERR_OK && a->has_word && a->hear.is == WORD_NEWS && !makes_latest(a))
        page_remake_heard(a->service, a->target->domain, a->target->title);
    ask_over(a);
}

/* Most of it changes nothing, and is forgotten. Pool. */
static void hear(struct page_ask *a)
{
    a->hear = (struct page_hear){ .call = { .deadline = page_write_deadline(a->service),
                                            .home = loop_pool(a->service->loop),
                                            .done = ask_heard },
                                  .domain = a->target->domain->number,
                                  .title = a->target->title,
                                  .word = a->has_word ? &a->word : NULL,
                                  .behind = a->behind,
                                  .marks = a->marks,
                                  .marks_count = a->marks_count };
    store_call_then(page_store_hear(a->service->store, &a->hear), &a->hear.call);
}

static void hear_run(struct task *t)
{
    hear(CONTAINER_OF(t, struct page_ask, task));
}

static void ask_heed(struct page_ask *a, enum render_why why)
{
    a->why = why;
    page_heed(a->service, a->target, why, a->request.retry_after_s);
    a->has_word = !is_believed(a) && collect_word(a);
    a->behind = !is_believed(a) && origin_has_api(a->request.origin) &&
                page_checks_behind(a->service->checks, a->target->domain, &a->request.meta.newest,
                                   a->began);
    if (!a->behind)
        a->word.newest = a->request.meta.newest;
    collect_marks(a);
    if (why == RENDER_FINE || a->behind)
        return;
    ask_tell(a);
    if (!is_believed(a) && (a->has_word || a->marks_count > 0))
        ask_trust(
            a); /* before the store hears it: what is being made looks here, once it is stored */
}

/* There is no text. A page may be for some alone; that the wiki is, the checks are told. Loop. */
static void ask_asked(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    ask_heed(a, why);
    if (why == RENDER_DENIED && page_is_asked(a->service, a->target->domain) &&
        !page_is_closed(a->service, a->target->domain))
        (void)page_checks_look(a->service->checks, a->target->domain, a->cell); /* or who reads */
    a->task.run = hear_run;
    home_post(loop_pool(a->service->loop), &a->task);
}

/* Pool. */
static void parsed(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    ask_heed(a, why);
    hear(a);
}

/* By the word under which it would be made. */
static bool is_fresh(const struct render_request *r)
{
    const struct page_ask *a = r->ctx;
    const struct title_word w = { .rev = r->meta.last_rev, .touched = r->meta.touched_s };
    return a->purge.is || (a->cell != NULL && title_is_astride(&w, &a->purge.before) &&
                           trust_may_purge(a->cell, a->began));
}

void page_ask_start(struct page_ask *a)
{
    a->began = clock_store(a->service->clock);
    a->cell = a->service->trust == NULL ? NULL : cell_hold(a, 0);
    a->request = (struct render_request){ .origin = a->target->domain->origin,
                                          .want = a->want,
                                          .fresh = is_fresh,
                                          .title = a->target->title,
                                          .rev = a->target->has_rev ? a->target->name.rev : 0,
                                          .deadline = a->deadline,
                                          .pass = a->pass,
                                          .arena = a->arena,
                                          .done = ask_asked,
                                          .parsed = parsed,
                                          .ctx = a };
    render_start(&a->request);
}

void page_ask_cancel(struct page_ask *a)
{
    if (a->request.origin != NULL)
        render_cancel(&a->request);
}
