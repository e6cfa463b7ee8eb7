/* wiki_get.c - one read of what only the wiki knows, for handlers.
 *
 *   settle the title -> join the flight that asks the wiki -> its word
 *                |                  \-> it has the page under another title: join once more
 *                \-> no rules, no word ----> what is stored, if that may be said instead
 *
 * Invariant: one thing is under way, or none; it goes on at home. */
#include "page/wiki_get.h"

#include "page/trusted.h"

/* done may free g: the reference is taken out first. */
static void wiki_over(struct page_wiki_get *g, enum wiki_outcome outcome)
{
    struct flight_value *v = g->word == NULL ? NULL : &g->word->v;
    g->outcome = outcome;
    g->done(g);
    if (v != NULL)
        flight_value_unref(&v);
}

/* ---- what is stored, when the wiki does not say ---- */

static void stored_start(struct page_wiki_get *g, void (*done)(struct store_call *c))
{
    g->stored = (struct page_read){ .call = { .home = g->home, .done = done },
                                    .bucket = g->target.settings->bucket,
                                    .which = page_target_which(&g->target),
                                    .arena = g->arena };
    if (page_store_read(g->service->store, &g->stored) == STORE_DONE)
        done(&g->stored.call);
    else
        (void)g->wait(g, WAIT_READ); /* which is never refused */
}

/* The wiki failed: the stored render may be told instead, as far as it may be stale. */
static void stale_read(struct store_call *c)
{
    struct page_wiki_get *g = CONTAINER_OF(c, struct page_wiki_get, stored.call);
    bool may = c->why == ERR_OK && (g->flags & GET_NO_STALE) == 0 &&
               page_may_be_stale(g->service, &g->target, g->why, g->stored.render.name.tid);
    wiki_over(g, may ? WIKI_STORED : WIKI_FAILED);
}

/* Only of metadata the store knows anything. */
static void wiki_failed(struct page_wiki_get *g, err why, const struct err_note *note,
                        int64_t remembered_ms)
{
    g->why = why;
    g->note = note != NULL ? *note : (struct err_note){ { 0 } };
    g->retry_ms = page_retry_ms(g->service, &g->target, why, remembered_ms);
    if (g->want == WANT_META)
        stored_start(g, stale_read);
    else
        wiki_over(g, WIKI_FAILED);
}

static void wiki_closed(struct page_wiki_get *g)
{
    g->why = ERR_DENIED;
    g->note.text[0] = 0;
    g->retry_ms = 0;
    wiki_over(g, WIKI_FAILED);
}

/* Nobody is asked, or waited for. Has the wiki denied it lately? Then that is the answer. */
static bool told_denied(struct page_wiki_get *g)
{
    uint64_t rev = g->target.has_rev ? g->target.name.rev : 0;
    enum render_why why =
        page_known_denied(g->service, &g->target, rev, g->target.domain->trust.max_ns);
    if (why == RENDER_FINE)
        return false;
    g->why = page_err_of_render(why);
    err_note_set(&g->note, "so the wiki said when it was asked last");
    g->retry_ms = 0;
    wiki_over(g, WIKI_FAILED);
    return true;
}

static void wiki_uncached(struct page_wiki_get *g)
{
    if (!told_denied(g))
        wiki_over(g, WIKI_UNCACHED);
}

static void alone_read(struct store_call *c)
{
    struct page_wiki_get *g = CONTAINER_OF(c, struct page_wiki_get, stored.call);
    if (c->why == ERR_OK)
        wiki_over(g, WIKI_STORED);
    else
        wiki_uncached(g);
}

/* ---- joining ---- */

static void wiki_join(struct page_wiki_get *g);

/* Goes to the title that the wiki has, once, as get_miss.c does. */
static void wiki_moved(struct page_wiki_get *g)
{
    static const struct err_note again = {
        .text = "the wiki knows the page by another title, and that by another"
    };
    struct flight_value *v = &g->word->v;
    err why = page_title_take(g->arena, &g->target, g->word->moved_to, g->word->namespace_id,
                              &g->title_seen);
    flight_value_unref(&v);
    g->word = NULL;
    if (why != ERR_OK || g->moved) {
        wiki_failed(g, ERR_UNAVAILABLE, &again, 0);
    } else if (page_title_sends_on(g->title_seen, g->flags)) {
        wiki_over(g, WIKI_MOVED);
    } else {
        g->moved = true;
        wiki_join(g);
    }
}

/* At home. */
static void word_run(struct task *t)
{
    struct page_wiki_get *g = CONTAINER_OF(t, struct page_wiki_get, task);
    struct err_note note = g->note;
    g->detail = g->flight.detail;
    if (g->detail == FLIGHT_NEGATIVE)
        origin_count_remembered(g->target.domain->origin);
    if (g->word == NULL)
        wiki_failed(g, g->why, &note, g->flight.retry_after_ms);
    else if (g->word->moved_to.n > 0)
        wiki_moved(g);
    else
        wiki_over(g, WIKI_TOLD);
}

/* Loop. */
static void wiki_get_landed(struct flight_waiter *w, err why, struct flight_value *v,
                            const struct err_note *note)
{
    struct page_wiki_get *g = CONTAINER_OF(w, struct page_wiki_get, flight);
    g->why = why;
    g->note = note != NULL ? *note : (struct err_note){ { 0 } };
    g->word = why == ERR_OK ? page_word_of(flight_value_ref(v)) : NULL;
    g->task.run = word_run;
    home_post(g->home, &g->task);
}

/* Joins the flight; g may be over and gone behind it. */
static void wiki_join(struct page_wiki_get *g)
{
    g->flight = (struct flight_waiter){ .deadline = g->deadline, .done = wiki_get_landed };
    err why = page_word_ask(g->service, &g->target, g->want, &g->flight);
    if (why != ERR_OK)
        wiki_failed(g, why, NULL, 0);
}

/* ---- the title ---- */

static void bad_title(struct page_wiki_get *g)
{
    g->why = g->title.why;
    g->note = g->title.note;
    wiki_over(g, WIKI_BAD_TITLE);
}

/* As get_is_hurried, of a revision: what is said of the latest may have changed. */
static bool is_hurried(const struct page_wiki_get *g)
{
    mono soon = mono_add_ms(clock_mono(g->service->clock), g->target.domain->check_wait_ms / 2);
    return g->target.has_rev && (g->flags & GET_NO_CACHE) == 0 &&
           page_is_asked(g->service, g->target.domain) && g->deadline.ns < soon.ns;
}

static void title_done(struct page_title_wait *w)
{
    struct page_wiki_get *g = CONTAINER_OF(w, struct page_wiki_get, title);
    g->title_seen = w->seen;
    if (w->end == TITLE_BAD)
        bad_title(g);
    else if (w->end == TITLE_NO_RULES)
        wiki_failed(g, w->why, &w->note, 0);
    else if (page_title_sends_on(w->seen, g->flags))
        wiki_over(g, WIKI_MOVED);
    else if (!g->wait(g, WAIT_OTHERS))
        wiki_over(g, WIKI_REFUSED);
    else if (!is_hurried(g) || !told_denied(g))
        wiki_join(g);
}

/* Nobody may be asked, not even for the rules of titles: answers by what is known. */
static void stored_alone(struct page_wiki_get *g)
{
    bool known = page_title_settle(&g->title);
    g->title_seen = g->title.seen;
    if (known && g->title.end == TITLE_BAD)
        bad_title(g);
    else if (page_is_closed(g->service, g->target.domain))
        wiki_closed(g);
    else if (g->want == WANT_META)
        stored_start(g, alone_read);
    else
        wiki_uncached(g);
}

void page_wiki_get_start(struct page_wiki_get *g)
{
    g->title = (struct page_title_wait){
        .target = &g->target, .arena = g->arena, .home = g->home, .done = title_done
    };
    if ((g->flags & GET_ONLY_CACHED) != 0) {
        stored_alone(g);
    } else if (page_title_settle(&g->title)) {
        title_done(&g->title);
    } else if (g->wait(g, WAIT_OTHERS)) {
        g->title.deadline = g->deadline;
        page_title_wait(&g->title);
    } else {
        wiki_over(g, WIKI_REFUSED);
    }
}
