/* get_check.c - is what was found still what the wiki says?
 *
 *   found -> the last word is young enough ---------------------------> on, as it was found
 *      |  \-> it is old, and nobody has to wait: asked for behind it --> on
 *      \-> CHECK: asked for first -> looked for once more
 *                     \-> no word came: what may be given all the same, or the failure
 *
 * How old the last word may be is for trust.h to say: who edits wants a new one, who names a
 * revision or a render wants one of that revision. */
#include "page/get_impl.h"

#include "page/behind.h"
#include "page/check.h"
#include "page/old.h"
#include "page/remake.h"
#include "page/trusted.h"

/* Does the read name a revision? One that was looked for as the wiki's newest names none. */
static bool names_revision(const struct page_get *g)
{
    return g->read.which.select != SELECT_LATEST && (g->was & WAS_NEWEST) == 0;
}

enum trust_reader get_reader(const struct page_get *g)
{
    return (g->flags & GET_STASH) != 0 ? TRUST_EDITOR
           : names_revision(g)         ? TRUST_NAMED
                                       : TRUST_PLAIN;
}

void get_check_forget(struct page_get *g)
{
    trust_release(&g->cell);
}

/* Takes the trust of what was read; an earlier cell is let go. */
static void look_at_trust(struct page_get *g)
{
    const struct page_trusted l =
        page_trusted_look(g->service, g->target.domain, &g->read, names_revision(g));
    get_check_forget(g);
    g->cell = l.cell;
    g->says = l.says;
    g->word_age_ns = l.age_ns;
    g->title_age_ns = l.title_age_ns;
}

/* Since when nothing is known: since the wiki's last answer. A wiki that answers, and says
 * nothing of this, leaves it unknown since its last word. */
static store_time unknown_since(const struct page_get *g, err why)
{
    const struct page_service *s = g->service;
    store_time now = clock_store(s->clock);
    if (why != ERR_CORRUPT)
        return store_time_max(s->began, page_checks_answered(s->checks, g->target.domain));
    if (g->word_age_ns != TRUST_NEVER)
        return (store_time){ .ns = now.ns - g->word_age_ns };
    return g->read.heard ? store_time_max(s->began, g->read.word.asked_at) : s->began;
}

/* How old the last word on it is, of whatever question: the reader wanted a younger one, but
 * there is none. */
static int64_t known_ns(const struct page_get *g)
{
    return g->word_age_ns < g->title_age_ns ? g->word_age_ns : g->title_age_ns;
}

/* Did no word come only because the client does not wait long enough? That is no outage of the
 * wiki. */
static bool is_hurried(const struct page_get *g, err why)
{
    return why == ERR_TIMEOUT && (g->was & WAS_HURRIED) != 0;
}

/* May it be given though nobody is asked? A text that is named by its revision may be hidden by
 * now: so within ttl only, or within max when it is known that the wiki is away. */
static bool may_be_unasked(const struct page_get *g, int64_t known_ns)
{
    const struct page_domain *d = g->target.domain;
    bool away = g->reader != TRUST_NAMED || page_checks_away(g->service->checks, d);
    return known_ns != TRUST_NEVER && known_ns <= (away ? d->trust.max_ns : d->trust.ttl_ns);
}

/* May it be given though no word came? An editor gets what is stored: the wiki finds conflicts
 * at the save. */
static bool may_be_unchecked(const struct page_get *g, err why)
{
    const struct page_service *s = g->service;
    int64_t known = known_ns(g);
    bool recent = known != TRUST_NEVER && known <= g->target.domain->trust.max_ns;
    if ((g->flags & GET_ONLY_CACHED) != 0) /* that it was not asked is no outage */
        return may_be_unasked(g, known);
    if (is_hurried(g, why) && g->reader != TRUST_EDITOR)
        return may_be_unasked(g, known);
    switch (g->reader) {
    case TRUST_EDITOR:
    case TRUST_SAVER:
        return true;
    case TRUST_NAMED:
        return recent;
    case TRUST_PLAIN:
        break;
    }
    /* A plain reader gets it as long as stale_if_error allows. */
    int64_t max_ns = g->target.settings->stale_if_error_ns;
    return (g->flags & GET_NO_STALE) == 0 &&
           store_time_before(clock_store(s->clock), store_time_add(unknown_since(g, why), max_ns));
}

/* The age of the last word that the store has, which survives a restart of this server. */
static int64_t stored_age_ns(const struct page_get *g)
{
    int64_t age_ns = clock_store(g->service->clock).ns - g->read.word.asked_at.ns;
    bool known = g->read.heard && g->read.word.asked_at.ns > 0; /* another server's has none */
    return !known ? TRUST_NEVER : age_ns > 0 ? age_ns : 0;
}

static bool is_closed(const struct page_get *g)
{
    return page_is_closed(g->service, g->target.domain);
}

/* Nothing is given of a wiki that only some may read. */
static enum page_get_state closed(struct page_get *g)
{
    static const struct err_note note = { .text = "the wiki says that only some may read it" };
    g->retry_ms = 0;
    return get_end_why(g, GOT_ORIGIN_FAILED, ERR_DENIED, &note);
}

/* No word came: gives what may be given all the same, or says why not. */
static enum page_get_state unchecked(struct page_get *g, err why)
{
    if (why == ERR_DENIED || is_closed(g))
        return closed(g);
    if (may_be_unchecked(g, why)) {
        g->trusted = GET_UNCHECKED;
        g->word_age_ns = known_ns(g);
        if (g->word_age_ns == TRUST_NEVER)
            g->word_age_ns = stored_age_ns(g);
        return get_found(g);
    }
    if ((g->flags & GET_ONLY_CACHED) != 0)
        return get_end(g, GOT_UNCACHED);
    if (why == ERR_SHUTDOWN)
        return get_end(g, GOT_REFUSED);
    struct err_note note = { "" };
    g->retry_ms = 0;
    if (is_hurried(g, why)) {
        err_note_set(&note, "the wiki is asked whether this is still what it has; it is waited for "
                            "no longer");
        return get_end_why(g, GOT_ORIGIN_FAILED, ERR_TIMEOUT, &note);
    }
    err_note_set(&note, why == ERR_LIMIT
                            ? "too many questions wait for the wiki that has this"
                            : "the wiki could not be asked whether this is still what it has");
    g->retry_ms = page_retry_ms(g->service, &g->target, ERR_AGAIN, 1000 * g->check.retry_after_s);
    return get_end_why(g, GOT_ORIGIN_FAILED, ERR_AGAIN, &note);
}

/* A revision that is named does not grow old: it is what was asked for. */
store_time get_old_at(const struct page_get *g)
{
    return names_revision(g) || !page_is_asked(g->service, g->target.domain)
               ? STORE_TIME_NEVER
               : page_old_at(g->target.domain, &g->read.render);
}

bool get_is_old(const struct page_get *g)
{
    return !names_revision(g) &&
           page_old(g->target.domain, &g->read, clock_store(g->service->clock)) != OLD_NOT;
}

static bool has_waited(const struct page_get *g)
{
    return (g->was & WAS_CHECKED) != 0 && g->check.why == ERR_OK;
}

/* Does the reader need a word? One that waited for a word needs no other, however little is
 * trusted by now. */
static enum trust_need need_of(const struct page_get *g)
{
    if (is_closed(g))
        return TRUST_FIRST;
    return has_waited(g) && g->word_age_ns != TRUST_NEVER
               ? TRUST_FINE
               : trust_need(&g->target.domain->trust, g->reader, g->word_age_ns);
}

static bool may_ask(const struct page_get *g)
{
    return (g->was & WAS_CHECKED) == 0 && (g->flags & GET_ONLY_CACHED) == 0;
}

/* How old the word is that this reader waited for, if the store heard it and nobody trusts it:
 * for this reader it counts. */
static int64_t unreached_age_ns(const struct page_get *g)
{
    if (!has_waited(g) || !g->check.unreached || g->says != g->check.says)
        return TRUST_NEVER;
    int64_t age_ns = clock_store(g->service->clock).ns - g->check.asked_at.ns;
    return age_ns > 0 ? age_ns : 0;
}

/* Runs inside the store's read (get_choose): trust is looked at before bytes are read. */
bool get_check_look(struct page_get *g)
{
    if (!page_is_asked(g->service, g->target.domain) || (g->was & WAS_MADE) != 0)
        return false;
    g->reader = get_reader(g);
    look_at_trust(g);
    if (g->word_age_ns == TRUST_NEVER && has_waited(g)) /* a doubt came meanwhile */
        g->word_age_ns =
            trust_waited_ns(g->cell, g->says, g->check.since, clock_store(g->service->clock));
    if (g->word_age_ns == TRUST_NEVER)
        g->word_age_ns = unreached_age_ns(g);
    return need_of(g) == TRUST_FIRST && may_ask(g);
}

/* Is the render to be made once more because it was made too soon after a touch? */
static bool is_unsettled(const struct page_get *g, store_time *settles_at)
{
    const struct page_domain *d = g->target.domain;
    return !names_revision(g) && page_is_asked(g->service, d) && get_can_be_made(g) &&
           d->rerender != RERENDER_NEVER && page_is_unsettled(g->service, d, &g->read, settles_at);
}

store_time get_settles_at(const struct page_get *g)
{
    const struct page_read *r = &g->read;
    store_time at;
    if (is_unsettled(g, &at))
        return at;
    /* A copy found behind makes it unsettled for longer: the answer must not be kept past that. */
    at = title_settles_at(&r->word, BEHIND_S);
    bool may = !names_revision(g) && r->heard && title_is_unsettled(&r->word, &r->render, BEHIND_S);
    return may && store_time_before(clock_store(g->service->clock), at) ? at : STORE_TIME_NEVER;
}

/* Has the render made once more behind this answer, when it may be settled by now. */
static void settle_behind(const struct page_get *g)
{
    struct page_target t = g->target;
    t.title = g->read.which.title;
    store_time settles_at;
    if (is_unsettled(g, &settles_at) && g->how == HOW_HIT && (g->flags & GET_ONLY_CACHED) == 0 &&
        !store_time_before(clock_store(g->service->clock), settles_at))
        page_remake(g->service->remakes, &t);
}

/* How old the word is under which this was made. The wiki was asked before it began to make it,
 * perhaps long ago for others. A render that was made once more and came out the same stands
 * there under the later touch, and an undelete sets touched back: so a making of this read
 * itself counts. */
static int64_t made_age_ns(const struct page_get *g)
{
    const struct title_under *made = &g->read.render.made;
    bool own = g->made != NULL && !g->made->found && !g->made->arrived;
    store_time at = own ? store_time_max(made->asked_at, g->made->began) : made->asked_at;
    int64_t age_ns = clock_store(g->service->clock).ns - at.ns;
    return made->said == 0 || age_ns < 0 ? 0 : age_ns;
}

/* After each look that found something: give it, ask the wiki first, or have it made anew. */
enum page_get_state get_check_judge(struct page_get *g)
{
    if (!page_is_asked(g->service, g->target.domain))
        return get_found(g);
    if ((g->was & WAS_MADE) != 0) {
        g->word_age_ns = made_age_ns(g);
        return get_found(g);
    }
    bool asked = (g->was & WAS_CHECKED) != 0;
    switch (need_of(g)) {
    case TRUST_FINE:
        break;
    case TRUST_BEHIND:
        if ((g->flags & GET_ONLY_CACHED) == 0)
            trust_soon(g->cell);
        break;
    case TRUST_FIRST:
        if (may_ask(g))
            return STEP_CHECK;
        /* CORRUPT: the wiki answered, and this is still not known. */
        return unchecked(g, asked && g->check.why != ERR_OK ? g->check.why
                            : is_closed(g)                  ? ERR_DENIED
                                                            : ERR_CORRUPT);
    }
    g->trusted = asked ? GET_CHECKED : GET_TRUSTED;
    if (!get_is_old(g)) {
        settle_behind(g);
        return get_found(g);
    }
    /* A miss is what another server made, a while ago: it was not made for this read. */
    bool given = g->how != HOW_HIT && g->how != HOW_MISS;
    if (given || (g->flags & GET_ONLY_CACHED) != 0 || !get_can_be_made(g)) {
        g->trusted = GET_DATED;
        return get_found(g);
    }
    g->found = FOUND_OLD;
    return get_miss(g);
}

/* ---- CHECK ---- */

/* At home. The word's outcome stands in g->check; the next look judges by the cells. */
static void get_check_checked(struct page_check *c)
{
    struct page_get *g = CONTAINER_OF(c, struct page_get, check);
    g->checking = false;
    g->was |= WAS_CHECKED;
    get_go(g, STEP_LOOK);
}

/* Half of the wait that is usual: a client with less patience is told that it was its own. */
bool get_is_hurried(const struct page_get *g)
{
    mono soon = mono_add_ms(clock_mono(g->service->clock), g->target.domain->check_wait_ms / 2);
    return g->deadline.ns < soon.ns;
}

enum page_get_state get_check_enter(struct page_get *g)
{
    const struct page_service *s = g->service;
    int64_t recent_ns = g->reader == TRUST_EDITOR ? 0 : TRUST_RECENT_NS;
    store_time since = { .ns = clock_store(s->clock).ns - recent_ns };
    if (!g->wait(g, WAIT_OTHERS))
        return get_end(g, GOT_REFUSED);
    mono soon = mono_add_ms(clock_mono(s->clock), g->target.domain->check_wait_ms);
    if (get_is_hurried(g))
        g->was |= WAS_HURRIED;
    g->check = (struct page_check){ .checks = s->checks,
                                    .domain = g->target.domain,
                                    .cell = g->cell,
                                    /* A word from after the doubt is needed, but no newer one. */
                                    .since = store_time_max(since, trust_doubted_at(g->cell)),
                                    .deadline = soon.ns < g->deadline.ns ? soon : g->deadline,
                                    .home = g->home,
                                    .done = get_check_checked };
    g->checking = true;
    page_check_start(&g->check);
    return STEP_WAITS;
}

bool get_check_leave(struct page_get *g)
{
    if (!g->checking || !page_check_leave(&g->check))
        return false;
    g->checking = false;
    return true;
}
