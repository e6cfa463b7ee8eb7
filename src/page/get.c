/* get.c - the states of a read, and those that are about the store.
 *
 *   LOOK: read, deciding which bytes are wanted -> END
 *     |    |                        |-> KEEP: extend or stash -> END
 *     |    |                        \-> CHECK: is it still what the wiki says? -> LOOK
 *     |    \-> to be made anew ----\
 *     |-> missing, with an origin ---> SETTLE the title -> MAKE -> LOOK -> as above
 *     |-> an exact render is missing -> HOP: has another server it? -> LOOK -> as above
 *     \-> missing, with a secondary -> TAKE: has that store it? -> LOOK -> as above; else on
 *
 * A read that names a revision ends only after its longer life is on disk. Invariants: each state
 * has one thing under way, or none; what is under way calls get_go at home, and nothing of g is
 * touched meanwhile, but by page_get_leave. */
#include "page/get_impl.h"

#include "base/check.h"
#include "http/percent.h"
#include "page/headers.h"
#include "page/profile.h"
#include "page/stash.h"

/* A render that is older than this is made anew for who wants a newer specification. */
#define PROFILE_AGE_NS (120 * NS_PER_S)

enum { DATA_WANTED = 1 }; /* index of data-parsoid among the wanted contents */

static enum page_get_state look_enter(struct page_get *g);
static enum page_get_state keep_enter(struct page_get *g);

/* Each state's entry action, and the states that may follow. An entry action returns the next
 * state. */
static const struct {
    enum page_get_state (*enter)(struct page_get *g);
    unsigned next;
} states[STEPS] = {
    [STEP_WAITS] = { NULL, BIT(STEP_LOOK) },
    [STEP_LOOK] = { look_enter, BIT(STEP_LOOK) | BIT(STEP_CHECK) | BIT(STEP_SETTLE) |
                                    BIT(STEP_MAKE) | BIT(STEP_KEEP) | BIT(STEP_TAKE) |
                                    BIT(STEP_HOP) | BIT(STEP_END) },
    [STEP_CHECK] = { get_check_enter, BIT(STEP_LOOK) | BIT(STEP_END) },
    [STEP_SETTLE] = { get_settle_enter, BIT(STEP_LOOK) | BIT(STEP_MAKE) | BIT(STEP_END) },
    [STEP_MAKE] = { get_make_enter, BIT(STEP_LOOK) | BIT(STEP_END) },
    [STEP_KEEP] = { keep_enter, BIT(STEP_LOOK) | BIT(STEP_END) },
    [STEP_TAKE] = { get_take_enter, BIT(STEP_LOOK) | BIT(STEP_SETTLE) | BIT(STEP_MAKE) |
                                        BIT(STEP_HOP) | BIT(STEP_END) },
    [STEP_HOP] = { get_hop_enter, BIT(STEP_LOOK) | BIT(STEP_END) },
    [STEP_END] = { NULL, 0 },
};

/* done may free g: what g holds references of is taken out first. */
static void get_over(struct page_get *g)
{
    struct flight_value *made = g->made == NULL ? NULL : &g->made->v;
    struct trust_cell *cell = g->cell;
    g->done(g);
    trust_release(&cell);
    if (made != NULL)
        flight_value_unref(&made);
}

void get_go(struct page_get *g, enum page_get_state to)
{
    /* A loop, not a recursion: states that wait for nothing follow each other here. */
    while (to != STEP_WAITS) {
        INVARIANT((states[g->state].next & BIT(to)) != 0);
        g->state = to;
        if (to == STEP_END) {
            /* Each answer, from whatever state, may tell other servers that the render is here. */
            g->renews_at = get_renew(g);
            get_over(g);
            return;
        }
        to = states[to].enter(g);
    }
}

enum page_get_state get_end(struct page_get *g, enum page_outcome outcome)
{
    g->outcome = outcome;
    return STEP_END;
}

enum page_get_state get_end_why(struct page_get *g, enum page_outcome outcome, err why,
                                const struct err_note *note)
{
    g->why = why;
    g->note.text[0] = 0;
    if (note != NULL)
        g->note = *note;
    return get_end(g, outcome);
}

bool get_can_be_made(const struct page_get *g)
{
    return (g->flags & GET_AT) == 0 && page_target_can_be_made(&g->target);
}

bool get_wants_anew(const struct page_get *g)
{
    return (g->flags & GET_NO_CACHE) != 0 && (g->flags & GET_AT) == 0 && !g->target.has_tid;
}

/* Redirects that were followed, other titles, pins and taken renders are answered to this reader
 * alone. */
bool page_get_lasts(const struct page_get *g, store_time *until)
{
    const struct page_render *r = &g->read.render;
    if ((g->outcome != GOT_CONTENT && g->outcome != GOT_SAME) || g->how != HOW_HIT || g->hops > 0 ||
        (g->was & (WAS_UNLIKE | WAS_WRITTEN | WAS_TAKEN)) != 0)
        return false;
    if (page_is_asked(g->service, g->target.domain) &&
        (g->cell == NULL || g->trusted != GET_TRUSTED))
        return false; /* nothing would end it, or the next is to be told otherwise */
    /* Other servers write to the store, and nothing tells when. */
    if (g->service->shared_store && g->service->hot_ttl_ns == 0)
        return false;
    *until = r->due_at;
    if (g->service->shared_store)
        *until = store_time_min(*until, store_time_add(g->looked_at, g->service->hot_ttl_ns));
    if (r->state == PAGE_RECENT)
        *until =
            store_time_min(*until, store_time_add(r->superseded_at,
                                                  g->target.settings->opts->policy.grace_ttl_ns));
    *until = store_time_min(*until, get_old_at(g));
    *until = store_time_min(*until, get_settles_at(g)); /* a reader is to have it made once more */
    *until = store_time_min(*until, g->renews_at);
    if (g->read.which.select != SELECT_LATEST)
        *until = store_time_min(*until, g->read.lasts_until);
    return true;
}

/* Only an answer that every waiter of the flight would get: nothing in it is this reader's own. */
bool page_get_may_be_shape(const struct page_get *g)
{
    return g->shape >= 0 && g->made != NULL && g->outcome == GOT_CONTENT && g->how == HOW_MISS &&
           g->hops == 0 && (g->was & WAS_COLLAPSED) != 0 &&
           (g->was & (WAS_UNLIKE | WAS_WRITTEN)) == 0;
}

/* ---- deciding ---- */

static bool outcome_has_body(enum page_outcome o)
{
    return o == GOT_CONTENT || o == GOT_PART || o == GOT_REDIRECT;
}

/* Sets the outcome that the request asks for, once render and content are known. Pure but for g. */
static void get_decide(struct page_get *g)
{
    const struct page_content *content = g->read.contents[0];
    struct page_condition condition = g->condition;
    bool codable = page_coding_choose(g->accept_encoding, content->codec, &g->coding);
    if (get_wants_anew(g) && g->how != HOW_HIT)
        condition.dated = false; /* it asked whether to make it anew, and that was done */
    switch (page_condition_judge(&condition, g->read.render.name)) {
    case CONDITION_SAME:
        g->outcome = GOT_SAME;
        return;
    case CONDITION_FAILS:
        g->outcome = GOT_PRECONDITION;
        return;
    case CONDITION_HOLDS:
        break;
    }
    g->outcome = codable ? GOT_CONTENT : GOT_UNACCEPTABLE;
    /* Ranges are of the plain bytes: a coded answer is always whole. */
    if (!codable || g->coding != CODING_IDENTITY)
        return;
    g->range = page_range(&g->range_fields, g->read.render.name, content->raw_bytes);
    if (g->range.kind == RANGE_ONE)
        g->outcome = GOT_PART;
    else if (g->range.kind == RANGE_UNSATISFIABLE)
        g->outcome = GOT_NO_RANGE;
}

/* Looks at the stored headers: do they redirect, or name a specification that the client does
 * not want? */
static void inspect(struct page_get *g)
{
    str type, headers = g->read.bodies[0].headers;
    if (!get_can_be_made(g))
        return;
    bool redirects =
        (g->flags & GET_FOLLOW) != 0 && headers_find(headers, STR("location"), &g->location);
    if (redirects && !get_wants_anew(g)) {
        g->outcome = GOT_REDIRECT;
        return;
    }
    if (redirects) /* who has it made anew wants this page, not the other */
        g->was |= WAS_UNFOLLOWED;
    else
        g->was &= ~(unsigned)WAS_UNFOLLOWED;
    if (g->accept.n == 0 || !headers_find(headers, STR("content-type"), &type))
        return;
    enum profile_verdict verdict = profile_judge(g->arena, g->accept, type);
    store_time young = store_time_add(tid_time(g->read.render.name.tid), PROFILE_AGE_NS);
    /* A young render is of the newest version that the wiki has: another making would give the
     * same. */
    if (verdict == PROFILE_NEWER && g->how == HOW_HIT &&
        store_time_before(young, clock_store(g->service->clock)))
        g->found = FOUND_OLD;
    else if (verdict != PROFILE_SERVES)
        g->outcome = GOT_UNACCEPTABLE;
}

/* Puts the body into the coding of the answer, once it was read. */
static err body_take(struct page_get *g)
{
    const struct page_body *body = &g->read.bodies[0];
    if (g->coding == CODING_IDENTITY)
        return page_body_raw(body, g->arena, &g->body);
    g->body = page_body_whole(body, g->arena);
    return g->body.p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- LOOK ---- */

/* Does an editor ask for the HTML of a wiki's page? Then data-parsoid is looked for, too,
 * without its bytes: that it is there is enough. */
static bool looks_for_data(const struct page_get *g)
{
    return (g->flags & GET_STASH) != 0 && g->target.domain->origin != NULL &&
           str_eq(g->target.content, STR("html"));
}

/* Says which bytes to read, once the render is known. Inside the store's read. Headers are
 * wanted for GOT_SAME, too: a redirect or a specification stands there. */
static unsigned get_choose(struct page_read *r)
{
    struct page_get *g = CONTAINER_OF(r, struct page_get, read);
    if (r->contents[0] == NULL)
        return 0;
    g->found = FOUND_OLD;
    /* It will be made anew: no bytes are needed. */
    if (g->how == HOW_HIT && get_wants_anew(g) && get_can_be_made(g) &&
        !page_condition_spares(&g->condition, r->render.name))
        return 0;
    g->found = FOUND_READY;
    get_decide(g);
    if (get_check_look(g))
        return 0;
    bool wanted = g->outcome == GOT_CONTENT || g->outcome == GOT_PART ||
                  (g->outcome == GOT_SAME && get_can_be_made(g));
    return wanted ? 1 : 0;
}

/* Turns what was read into what was found; g->why has the store's error. */
static enum page_found found_of(struct page_get *g)
{
    const struct page_read *r = &g->read;
    g->why = r->call.why;
    if (!r->found)
        return g->why == ERR_NOT_FOUND || g->why == ERR_GONE ? FOUND_NOTHING : FOUND_FAILURE;
    if (get_is_not_newest(g)) {
        g->why = ERR_NOT_FOUND;
        return FOUND_NOTHING;
    }
    if (r->contents[0] == NULL)
        return FOUND_NO_CONTENT;
    if (g->why == ERR_OK && r->bodies[0].pieces_count > 0) {
        inspect(g);
        if (g->found == FOUND_READY && outcome_has_body(g->outcome))
            g->why = body_take(g);
    }
    return g->why == ERR_OK ? g->found : FOUND_FAILURE;
}

/* Goes on to the page that a redirect leads to, for a script of another site, which cannot
 * follow it itself. False: there is nothing to follow. */
static bool get_follow(struct page_get *g)
{
    str key, target = str_take(g->location, str_find(g->location, '#'));
    if (g->outcome != GOT_REDIRECT || g->hops == PAGE_HOPS_MAX || (g->flags & GET_SCRIPT) == 0 ||
        http_decode(g->arena, target, false, &key) != ERR_OK)
        return false;
    /* The first page is kept: a redirect that leads nowhere is answered with it (get_turn_back). */
    if (g->hops++ == 0)
        g->from = (struct page_from){ .target = g->target,
                                      .name = g->read.render.name,
                                      .how = g->how,
                                      .how_detail = g->how_detail };
    g->target.title = key;
    g->target.has_rev = false;
    g->was &= ~(unsigned)(WAS_MADE | WAS_SETTLED | WAS_CHECKED | WAS_ARRIVED | WAS_NEWEST |
                          WAS_SECONDARY | WAS_TAKEN);
    g->was |= WAS_UNLIKE; /* the answer stands under another title than its own */
    g->how = HOW_HIT;
    g->how_detail = NULL;
    g->read.which = page_target_which(&g->target);
    return true;
}

/* Looks for the first page by its exact name: nothing new is asked for it. */
bool get_turn_back(struct page_get *g)
{
    if (g->hops == 0)
        return false;
    g->hops = 0;
    g->flags &= ~(unsigned)(GET_FOLLOW | GET_NO_CACHE);
    g->was |= WAS_MADE | WAS_SETTLED; /* it is there: nothing more is asked for */
    g->target = g->from.target;
    g->how = g->from.how;
    g->how_detail = g->from.how_detail;
    g->read.which = page_target_which(&g->target);
    g->read.which.select = SELECT_EXACT;
    g->read.which.name = g->from.name;
    return true;
}

enum page_get_state get_answer(struct page_get *g)
{
    return get_follow(g) ? STEP_LOOK : STEP_END;
}

/* Must a read of it make its life longer first, or pin it? */
static bool must_write(const struct page_get *g)
{
    if (!outcome_has_body(g->outcome) && g->outcome != GOT_SAME)
        return false;
    return (g->flags & GET_STASH) != 0 ||
           (g->target.has_rev &&
            store_time_before(g->read.lasts_until, clock_store(g->service->clock)));
}

/* Was the render purged between its making and this look? */
static bool was_purged_unread(const struct page_get *g)
{
    return (g->was & (WAS_MADE | WAS_REMADE)) == WAS_MADE && g->why == ERR_GONE &&
           g->read.trace.state == PAGE_PURGED;
}

enum page_get_state get_nothing(struct page_get *g)
{
    bool made = (g->was & WAS_MADE) != 0;
    /* Once: the second time it is gone for this reader. */
    if (was_purged_unread(g)) {
        g->was = (g->was | WAS_REMADE) & ~(unsigned)WAS_MADE;
        g->read.which = page_target_which(&g->target);
        return get_miss(g);
    }
    if (!made && (get_can_be_made(g) || get_may_be_unlike(g)))
        return get_miss(g);
    /* The order is from near to far: an origin, another server, the secondary, and in the end
     * the page that redirected here. */
    if (get_may_hop(g))
        return STEP_HOP;
    if (get_may_take(g))
        return STEP_TAKE;
    if (get_turn_back(g))
        return STEP_LOOK;
    g->trace = g->read.trace;
    return get_end_why(g, g->why == ERR_NOT_FOUND ? GOT_NOTHING : GOT_GONE, g->why, NULL);
}

/* Does an editor ask for it, and has the wiki made it without the data that a save needs? What
 * somebody put is kept as it is. */
static bool cannot_be_saved(const struct page_get *g)
{
    return looks_for_data(g) && g->read.contents[DATA_WANTED] == NULL &&
           g->read.render.made.said > 0;
}

enum page_get_state get_found(struct page_get *g)
{
    if (!must_write(g))
        return get_answer(g);
    return cannot_be_saved(g) ? get_end(g, GOT_NO_DATA) : STEP_KEEP;
}

/* At home, after each look. */
static enum page_get_state look_judge(struct page_get *g)
{
    g->found = found_of(g);
    switch (g->found) {
    case FOUND_READY:
        return get_check_judge(g);
    case FOUND_OLD:
        return get_miss(g);
    case FOUND_NOTHING:
        return get_nothing(g);
    case FOUND_NO_CONTENT:
        /* Every origin gives HTML, and to an editor a 404 is a page that is not there. */
        if ((g->was & WAS_MADE) == 0 && str_eq(g->target.content, STR("html")) &&
            get_can_be_made(g))
            return get_miss(g);
        return get_turn_back(g) ? STEP_LOOK : get_end(g, GOT_NO_CONTENT);
    case FOUND_FAILURE:
        break;
    }
    return get_end_why(g, GOT_FAILED, g->why, NULL);
}

static void read_done(struct store_call *c)
{
    struct page_get *g = CONTAINER_OF(c, struct page_get, read.call);
    get_go(g, look_judge(g));
}

/* The counter is seen before the read: a change during the read then shows. */
static enum page_get_state look_enter(struct page_get *g)
{
    const struct page_service *s = g->service;
    struct page_read *r = &g->read;
    struct page_bucket *bucket = g->target.settings->bucket;
    g->seen = page_changes_see(s->changes, page_store_bucket_number(s->store, bucket),
                               r->which.domain, r->which.title);
    /* Other servers' changes move no counter here: answers of a shared store last hot_ttl from
     * this instant. */
    if (s->shared_store)
        g->looked_at = clock_store(s->clock);
    r->call = (struct store_call){ .home = g->home, .done = read_done };
    r->bucket = bucket;
    r->arena = g->arena;
    r->heeds = g->target.domain->origin != NULL;
    r->eager = page_condition_is_none(&g->condition);
    r->wanted_count = 1;
    r->wanted[0] = g->target.content;
    if (looks_for_data(g))
        r->wanted[r->wanted_count++] = STR("data-parsoid");
    r->choose = get_choose;
    if (page_store_read(s->store, r) == STORE_DONE)
        return look_judge(g);
    (void)g->wait(g, WAIT_READ); /* which is never refused */
    return STEP_WAITS;
}

/* ---- KEEP ---- */

static void order_done(struct store_call *c)
{
    struct page_get *g = CONTAINER_OF(c, struct page_get, by.order.call);
    const struct page_order *o = &g->by.order;
    int64_t ttl_ns = g->target.settings->opts->policy.stash_ttl_ns;
    /* What was taken from the quota stays taken only as far as the pin adds to it. */
    uint64_t n = page_render_bytes(&g->read.render);
    page_stash_keep(g->service, g->taken,
                    c->why == ERR_OK ? page_stash_part(n, o->pinned_ns, ttl_ns) : 0);
    /* On a full or busy store the render is given all the same: it lives as long as it did. */
    bool unwritten = o->kind == ORDER_EXTEND && (c->why == ERR_FULL || c->why == ERR_AGAIN);
    g->was |= WAS_WRITTEN;
    g->trace = o->trace;
    /* The reader goes on once other servers can find the pin. */
    if (c->why == ERR_OK && o->kind == ORDER_STASH && get_note(g))
        return;
    if (c->why == ERR_OK || unwritten)
        get_go(g, get_answer(g));
    else
        get_go(g, get_end_why(g, c->why == ERR_GONE ? GOT_GONE : GOT_FAILED, c->why, &o->note));
}

static enum page_get_state keep_enter(struct page_get *g)
{
    const struct page_service *s = g->service;
    /* The quota is taken before the write: of two editors at once, one finds no room. */
    int64_t ttl_ns = g->target.settings->opts->policy.stash_ttl_ns;
    bool stash = (g->flags & GET_STASH) != 0;
    g->taken = stash ? page_stash_pin_bytes(&g->read.render, ttl_ns, clock_store(s->clock)) : 0;
    if (stash && !page_stash_take(s, g->taken))
        return get_end(g, GOT_FULL);
    if (!g->wait(g, WAIT_WRITE)) {
        page_stash_keep(s, g->taken, 0);
        return get_end(g, GOT_REFUSED);
    }
    g->by.order = (struct page_order){
        .call = { .deadline = page_write_deadline(s), .home = g->home, .done = order_done },
        .bucket = g->target.settings->bucket,
        .kind = stash ? ORDER_STASH : ORDER_EXTEND,
        .domain = g->read.which.domain,
        .title = g->target.title,
        .has_rev = true,
        .has_tid = true,
        .name = g->read.render.name,
        .named = g->target.has_rev
    };
    store_call_then(page_store_order(s->store, &g->by.order), &g->by.order.call);
    return STEP_WAITS;
}

void page_get_start(struct page_get *g)
{
    g->shape = -1;
    g->word_age_ns = g->title_age_ns = TRUST_NEVER;
    get_go(g, STEP_LOOK);
}
