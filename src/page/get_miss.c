/* get_miss.c - the states of a read that waits for others: for the rules of its title, for its
 * render.
 *
 *   TAKE what the secondary has (get_secondary.c) -> look; else on
 *        |
 *   SETTLE the title -> the wiki writes it otherwise: the client goes there
 *        |      \-> its key is another one: look under that -> here again when it is missing
 *        |-> not to be made (an exact render, an instant): nothing
 *        \-> MAKE: join the flight -> look by the name that was made -> as any read
 *                    |    \-> the wiki writes the title otherwise: as above, or look under that
 *                    |    \-> asked for as others do: the shape that one of them has built
 *                    \-> failed -> what is stored, if it may be stale -> else why
 */
#include "page/get_impl.h"

#include "page/trusted.h"

/* The title may be written otherwise than the wiki writes it: only its rules, or the wiki, say
 * so. */
bool get_may_be_unlike(const struct page_get *g)
{
    const struct origin *origin = g->target.domain->origin;
    return g->why == ERR_NOT_FOUND && (g->was & WAS_SETTLED) == 0 && origin != NULL &&
           origin_has_api(origin);
}

/* ---- failing ---- */

/* Only a render that was to be made anew may be stale: what is missing cannot be given. */
static bool may_be_stale(const struct page_get *g, err why)
{
    bool was_asked = get_wants_anew(g) || get_is_old(g);
    return g->found == FOUND_OLD && was_asked && (g->flags & GET_NO_STALE) == 0 &&
           page_may_be_stale(g->service, &g->target, why, g->read.render.name.tid);
}

/* The making failed, or was not tried: gives the old render, the page before the redirect, or
 * the reason. */
static enum page_get_state miss_failed(struct page_get *g, err why, const struct err_note *note,
                                       int64_t remembered_ms)
{
    if (why == ERR_NOT_FOUND && get_turn_back(g))
        return STEP_LOOK;
    if (may_be_stale(g, why)) {
        g->how = HOW_STALE;
        g->how_detail = "stale-error";
        return STEP_LOOK;
    }
    if (why == ERR_GONE) { /* hidden, stored or not */
        g->trace = (struct page_trace){ .state = PAGE_SUPPRESSED,
                                        .at = clock_store(g->service->clock),
                                        .policy = g->target.settings->opts->policy.kind };
        return get_end_why(g, GOT_GONE, why, note);
    }
    g->retry_ms = page_retry_ms(g->service, &g->target, why, remembered_ms);
    return get_end_why(g, GOT_ORIGIN_FAILED, why, note);
}

bool page_title_sends_on(struct page_title_seen seen, unsigned flags)
{
    return seen.changed && !seen.user && (flags & (GET_NO_CACHE | GET_SCRIPT)) == 0;
}

/* Has the wiki lately denied what is missing here? Then *to is the answer, as any reader got it.
 * For a reader that must not ask, or not wait. */
static bool told_denied(struct page_get *g, enum page_get_state *to)
{
    static const struct err_note note = { .text = "so the wiki said when it was asked last" };
    uint64_t rev = g->target.has_rev ? g->target.name.rev : 0;
    if (g->found != FOUND_NOTHING || !get_can_be_made(g) || get_wants_anew(g))
        return false;
    enum render_why why =
        page_known_denied(g->service, &g->target, rev, g->target.domain->trust.max_ns);
    if (why == RENDER_FINE)
        return false;
    *to = miss_failed(g, page_err_of_render(why), &note, 0);
    return true;
}

/* ---- MAKE ---- */

/* Lets go what an earlier flight gave. */
static void made_forget(struct page_get *g)
{
    struct flight_value *v = g->made == NULL ? NULL : &g->made->v;
    g->made = NULL;
    if (v != NULL)
        flight_value_unref(&v);
}

/* The wiki has the page under another title: sends the client there, or looks under that. Twice
 * in a row is a failure, not a walk in circles. */
static enum page_get_state made_moved(struct page_get *g)
{
    static const struct err_note again = {
        .text = "the wiki knows the page by another title, and that by another"
    };
    err why = page_title_take(g->arena, &g->target, str_of(g->made->moved_to),
                              g->made->namespace_id, &g->title_seen);
    if (why != ERR_OK || (g->was & WAS_MOVED) != 0)
        return miss_failed(g, ERR_UNAVAILABLE, &again, 0);
    if (page_title_sends_on(g->title_seen, g->flags))
        return get_end(g, GOT_MOVED);
    g->was = (g->was & ~(unsigned)(WAS_CHECKED | WAS_NEWEST | WAS_SECONDARY | WAS_TAKEN)) |
             WAS_MOVED | WAS_UNLIKE;
    g->read.which.title = g->target.title;
    return STEP_LOOK;
}

/* The answer that another waiter has built, if this reader would get the same. */
static void *shape_of(const struct page_get *g)
{
    if (g->shape < 0 || g->how != HOW_MISS || g->hops > 0 || (g->was & WAS_COLLAPSED) == 0 ||
        (g->was & WAS_UNLIKE) != 0)
        return NULL;
    return atomic_load(&g->made->shapes[g->shape]);
}

/* Does this reader mind that the making began before it came? An editor does. Others do, when
 * somebody said meanwhile that the title changed. */
static bool minds_making(const struct page_get *g)
{
    return g->flight.detail == FLIGHT_WAITED &&
           ((g->flags & GET_STASH) != 0 ||
            (!g->made->found && page_doubted_since(g->service, &g->target, g->made->began)));
}

/* Did the making begin before this read, here or at another server, so that the wiki may say
 * something else by now? Then the render is judged as a stored one, once. */
static bool made_before(struct page_get *g)
{
    if ((!g->made->arrived && !minds_making(g)) || g->found != FOUND_NOTHING ||
        !page_is_asked(g->service, g->target.domain) || (g->was & WAS_ARRIVED) != 0)
        return false;
    g->how = HOW_MISS;
    g->how_detail = flight_detail_name(g->flight.detail);
    g->was |= WAS_ARRIVED | WAS_COLLAPSED;
    g->read.which = page_target_which(&g->target);
    return true;
}

/* At home. The flight has landed: look for what was made, by its name. */
static void made_run(struct task *t)
{
    struct page_get *g = CONTAINER_OF(t, struct page_get, task);
    enum flight_detail detail = g->flight.detail;
    if (detail == FLIGHT_NEGATIVE)
        origin_count_remembered(g->target.domain->origin);
    if (g->why != ERR_OK) {
        struct err_note note = g->note;
        get_go(g, miss_failed(g, g->why, &note, g->flight.retry_after_ms));
        return;
    }
    if (g->made->moved_to != NULL) {
        get_go(g, made_moved(g));
        return;
    }
    if (made_before(g)) {
        get_go(g, STEP_LOOK);
        return;
    }
    g->how = g->made->found ? HOW_HIT : g->found == FOUND_OLD ? HOW_RENEWED : HOW_MISS;
    g->how_detail = flight_detail_name(detail);
    g->was = (g->was & ~(unsigned)WAS_COLLAPSED) | WAS_MADE |
             (detail != FLIGHT_LED ? (unsigned)WAS_COLLAPSED : 0);
    g->shaped = shape_of(g);
    g->read.which.select = SELECT_EXACT;
    g->read.which.name = g->made->name;
    get_go(g, g->shaped != NULL ? get_end(g, GOT_SHAPE) : STEP_LOOK);
}

/* Loop. Takes a reference of the value; all else happens at home. */
static void get_miss_landed(struct flight_waiter *w, err why, struct flight_value *v,
                            const struct err_note *note)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, flight);
    g->waiting = false;
    g->why = why;
    g->note.text[0] = 0;
    if (note != NULL)
        g->note = *note;
    g->made = why == ERR_OK ? page_made_of(flight_value_ref(v)) : NULL;
    g->task.run = made_run;
    home_post(g->home, &g->task);
}

enum page_get_state get_make_enter(struct page_get *g)
{
    const struct page_domain *d = g->target.domain;
    const bool dated = g->found == FOUND_OLD && !get_wants_anew(g) && get_is_old(g);
    const struct page_wish wish = {
        .domain = d,
        .settings = g->target.settings,
        .title = g->target.title,
        .rev = g->target.has_rev ? g->target.name.rev : 0,
        .fresh = g->found != FOUND_NOTHING || get_wants_anew(g) || (g->was & WAS_ARRIVED) != 0,
        .dated = dated,
        .purge = dated ? page_old_purge(d, &g->read, clock_store(g->service->clock))
                       : (struct page_purge){ .is = get_wants_anew(g) },
        /* the last look of a purged one was for its name alone */
        .seen = (g->was & WAS_REMADE) != 0 ? NULL : &g->seen
    };
    enum page_get_state to;
    bool hurried = page_is_asked(g->service, g->target.domain) && get_is_hurried(g);
    if (hurried && g->target.has_rev && told_denied(g, &to))
        return to; /* of the latest a newer word is asked for behind the answer */
    made_forget(g);
    g->flight = (struct flight_waiter){ .deadline = g->deadline, .done = get_miss_landed };
    g->waiting = true;
    err why = page_make(g->service, &wish, &g->flight);
    if (why == ERR_OK)
        return STEP_WAITS; /* it may have been answered, and be gone */
    g->waiting = false;
    return miss_failed(g, why, NULL, 0);
}

bool page_get_leave(struct page_get *g)
{
    bool left = get_check_leave(g) || get_take_leave(g);
    if (!left && g->waiting && flight_leave(g->service->flights, &g->flight)) {
        g->waiting = false;
        left = true;
    }
    if (!left)
        return false; /* whoever has it answers */
    get_check_forget(g);
    made_forget(g);
    return true;
}

/* ---- SETTLE ---- */

/* The title has its key, or none: go there, look under it, make it, or refuse. */
static enum page_get_state get_miss_settled(struct page_get *g)
{
    const struct page_title_wait *w = &g->by.title;
    bool same = str_eq(g->read.which.title, g->target.title);
    if (w->end == TITLE_NO_RULES)
        return miss_failed(g, w->why, &w->note, 0);
    if (w->end == TITLE_BAD) {
        bool no_title = w->why == ERR_BAD || w->why == ERR_NOT_FOUND;
        return no_title && get_turn_back(g) ? STEP_LOOK
                                            : get_end_why(g, GOT_BAD_TITLE, w->why, &w->note);
    }
    g->was |= WAS_SETTLED | (w->seen.changed ? (unsigned)WAS_UNLIKE : 0);
    g->title_seen = w->seen;
    if (page_title_sends_on(g->title_seen, g->flags))
        return get_end(g, GOT_MOVED);
    if (!same) /* of that title nothing was asked */
        g->was &= ~(unsigned)(WAS_CHECKED | WAS_NEWEST | WAS_SECONDARY | WAS_TAKEN);
    g->read.which.title = g->target.title;
    return same && get_can_be_made(g) ? STEP_MAKE : STEP_LOOK; /* settled: what is not found then is
                                                                missing */
}

static void title_done(struct page_title_wait *w)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, by.title);
    get_go(g, get_miss_settled(g));
}

static struct page_title_wait title_wait_of(struct page_get *g)
{
    return (struct page_title_wait){ .target = &g->target,
                                     .arena = g->arena,
                                     .deadline = g->deadline,
                                     .home = g->home,
                                     .done = title_done };
}

enum page_get_state get_settle_enter(struct page_get *g)
{
    g->by.title = title_wait_of(g);
    if (page_title_settle(&g->by.title))
        return get_miss_settled(g);
    page_title_wait(&g->by.title);
    return STEP_WAITS;
}

/* Nobody may be asked. Where the wiki's rules are known already, the page may be stored under
 * the title as they write it: that is looked for, once. */
static enum page_get_state miss_uncached(struct page_get *g)
{
    enum page_get_state to;
    if (told_denied(g, &to))
        return to;
    if ((g->was & WAS_SETTLED) != 0)
        return get_end(g, GOT_UNCACHED);
    g->by.title = title_wait_of(g);
    if (!page_title_settle(&g->by.title))
        return get_end(g, GOT_UNCACHED);
    if (g->by.title.end != TITLE_SETTLED)
        return get_end_why(g, GOT_BAD_TITLE, g->by.title.why, &g->by.title.note);
    bool same = str_eq(g->read.which.title, g->target.title);
    g->was |= WAS_SETTLED | (same ? 0 : (unsigned)WAS_UNLIKE);
    g->read.which.title = g->target.title;
    return STEP_LOOK;
}

/* Is the wiki's newest revision being looked for by its number? */
static bool looks_for_newest(const struct page_get *g)
{
    return (g->was & (WAS_NEWEST | WAS_MADE)) == WAS_NEWEST && !g->target.has_rev &&
           g->read.which.select == SELECT_REV;
}

bool get_is_not_newest(const struct page_get *g)
{
    const struct page_render *r = &g->read.render;
    return looks_for_newest(g) && r->superseded_by.rev <= r->name.rev;
}

/* Looks for the wiki's newest revision by its number, once. A greater revision may be stored, as
 * of an imported history: then the store has no latest. */
static bool look_for_newest(struct page_get *g)
{
    struct page_read *r = &g->read;
    bool was_looked_for = (g->was & WAS_NEWEST) != 0;
    if (looks_for_newest(g))
        r->which.select = SELECT_LATEST; /* in vain */
    if (was_looked_for || g->found != FOUND_NOTHING || r->which.select != SELECT_LATEST ||
        !r->heard || r->word.missing || get_wants_anew(g) ||
        !page_is_asked(g->service, g->target.domain))
        return false;
    g->was |= WAS_NEWEST;
    r->which.select = SELECT_REV;
    r->which.name.rev = r->word.rev;
    return true;
}

/* Has the wiki said lately that there is no such page? A reader that names a revision may know
 * of a page that was made since: the wiki is asked then. */
static bool is_known_missing(const struct page_get *g)
{
    const struct page_domain *d = g->target.domain;
    if (g->found != FOUND_NOTHING || g->read.which.select != SELECT_LATEST || !get_can_be_made(g) ||
        get_wants_anew(g) || (g->was & WAS_REMADE) != 0 || !page_is_asked(g->service, d))
        return false;
    int64_t age_ns = page_missing_age_ns(g->service, d, g->read.which.title);
    bool asked = (g->was & WAS_CHECKED) != 0 && g->check.why == ERR_OK;
    return (asked && age_ns != TRUST_NEVER) ||
           trust_need(&d->trust, get_reader(g), age_ns) == TRUST_FINE;
}

/* What is cheapest comes first: what is known, what may be stored elsewhere, and only then the
 * origin. */
enum page_get_state get_miss(struct page_get *g)
{
    static const struct err_note none = { .text = "the wiki has no such page" };
    if (look_for_newest(g))
        return STEP_LOOK;
    if (is_known_missing(g))
        return miss_failed(g, ERR_NOT_FOUND, &none, 0);
    if ((g->flags & GET_ONLY_CACHED) != 0)
        return miss_uncached(g);
    if (get_can_be_made(g) && get_may_take(g))
        return STEP_TAKE;
    if (!g->wait(g, WAIT_OTHERS))
        return get_end(g, GOT_REFUSED);
    return (g->was & WAS_SETTLED) != 0 ? STEP_MAKE : STEP_SETTLE;
}
