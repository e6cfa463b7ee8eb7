/* ask.c - one question to the wiki, and the marks that its answer leaves, for make.c and
 * transform.c.
 *
 *   ask (loop) -> a text: parsed (pool) -> heard by the store (pool, committer) -> done
 *             \-> no text: told (loop) ---^
 *
 * Invariant: the title's cell is held from the start until done, so a doubt in between is not
 * lost. */
#include "page/ask.h"

#include "base/log.h"
#include "page/behind.h"
#include "page/remake.h"
#include "page/trusted.h"

/* Marks count from before the question: what the wiki did later may not be in its answer. */
static void ask_add(struct page_ask *a, enum page_state state, uint64_t first, uint64_t last)
{
    a->marks[a->marks_count++] =
        (struct title_mark){ .state = state, .first = first, .last = last, .said_at = a->began };
}

/* Fills in the word on the title. False: the answer has none, or comes from an origin that may
 * answer out of a cache. */
static bool collect_word(struct page_ask *a)
{
    /* The clock of the wiki orders its words: an answer without it is no word. */
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

/* Without trust nobody asks again: then the answer is taken as it is, and words are not kept. */
static bool is_believed(const struct page_ask *a)
{
    return a->service->trust == NULL;
}

/* The marks that follow from the answer. An origin without api.php may answer from a cache of
 * its own: it is not believed that its newest revision went down. */
static void collect_marks(struct page_ask *a)
{
    const struct render_request *r = &a->request;
    bool named = r->rev != 0;
    uint64_t rev = named ? r->rev : r->meta.rev;
    a->marks_count = 0;
    switch (a->why) {
    case RENDER_FINE:
        /* A text that came shows its revision, whatever was stored of it. */
        ask_add(a, PAGE_CURRENT, rev, rev);
        /* With the newest revision at hand, all that is stored above it was deleted. */
        if (is_believed(a) && origin_has_api(r->origin) && (!named || render_is_latest(&r->meta)) &&
            rev < PAGE_REV_MAX)
            ask_add(a, PAGE_DELETED, rev + 1, PAGE_REV_MAX);
        return;
    /* No page: all revisions of the title. */
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
    /* Nothing of these says that a revision is hidden or there. */
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

/* Trusts what the store has heard, or is about to hear: the word of the title, and the one on
 * its revision. */
static void ask_trust(const struct page_ask *a)
{
    uint64_t rev = a->request.rev;
    /* A word that was overtaken is trusted only when it says the same. */
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

/* Denies what the wiki hid or deleted after the question. A failure counts too: the text may
 * have failed for that reason. */
static void ask_judge(struct page_ask *a)
{
    /* A copy that is behind may answer as of BEHIND_S before it was asked. */
    const int64_t unheard_ns = a->behind ? BEHIND_S * NS_PER_S : 0;
    const uint64_t named = a->request.rev, rev = named != 0 ? named : a->request.meta.rev;
    const store_time since = { .ns = a->began.ns - unheard_ns };
    const struct page_denied denied = page_denied_since(a->service, a->target, rev, since);
    if (denied.why == RENDER_FINE)
        return;
    a->why = denied.why;
    err_note_set(&a->request.note, "hidden or deleted at the wiki since it was asked for");
}

/* Is it an answer of a copy that is behind, which would have taken back what is known? */
static bool ask_lags(const struct page_ask *a)
{
    return a->behind && a->hear.call.why == ERR_OK && a->hear.is == WORD_LAGS;
}

/* The end of every question; on the pool. An answer that is fine is told to other servers when
 * it was news here. A denial was told when it came (ask_heed): others may have stored what this
 * server has not. */
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

/* The check's own outcome does not matter: ask_judge looks at the cells that it has filled. */
static void ask_checked(struct page_check *c)
{
    ask_over(CONTAINER_OF(c, struct page_ask, check));
}

/* Asks once more, by the checks: a revision is stored that is greater than the wiki's newest, or
 * a copy that is behind answered. They find out which. The wait is that of a reader. */
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

/* Is it a making of the latest? Then the maker itself looks for old renders of the title, once
 * its own is stored. */
static bool makes_latest(const struct page_ask *a)
{
    return a->want == WANT_RENDER && !a->target->has_rev;
}

static void ask_heard(struct store_call *c)
{
    struct page_ask *a = CONTAINER_OF(c, struct page_ask, hear.call);
    /* above: the store has a revision that the word does not know. */
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
    /* The word may have made renders of the title old. */
    if (c->why == ERR_OK && a->has_word && a->hear.is == WORD_NEWS && !makes_latest(a))
        page_remake_heard(a->service, a->target->domain, a->target->title);
    ask_over(a);
}

/* Gives word and marks to the store. Pool. Most answers change nothing, and the call is done at
 * once. */
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

/* From ask_asked: the store's hear must not run on the loop. */
static void hear_run(struct task *t)
{
    hear(CONTAINER_OF(t, struct page_ask, task));
}

/* Takes an answer in: the pause that it wants, the word, how far its database has come, and the
 * marks. */
static void ask_heed(struct page_ask *a, enum render_why why)
{
    a->why = why;
    page_heed(a->service, a->target, why, a->request.retry_after_s);
    a->has_word = !is_believed(a) && collect_word(a);
    a->behind = !is_believed(a) && origin_has_api(a->request.origin) &&
                page_checks_behind(a->service->checks, a->target->domain, &a->request.meta.newest,
                                   a->began);
    /* The newest change of a copy that is behind would make its word reach what it has not heard
     * of. */
    if (!a->behind)
        a->word.newest = a->request.meta.newest;
    collect_marks(a);
    if (why == RENDER_FINE || a->behind)
        return;
    /* A denial goes out and is trusted at once, before the store hears it: a making that ends
     * meanwhile looks at the cells. */
    ask_tell(a);
    if (!is_believed(a) && (a->has_word || a->marks_count > 0))
        ask_trust(
            a); /* before the store hears it: what is being made looks here, once it is stored */
}

/* An answer without a text. Loop. DENIED may be about this page alone: the checks find out
 * whether the whole wiki is closed. */
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

/* An answer with a text, on the pool that parsed it. */
static void parsed(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    ask_heed(a, why);
    hear(a);
}

/* Must the wiki drop what it has in its own cache? Always for a purge that was asked for; else
 * where it may have cached what it began before its last touch, and not too often. */
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
