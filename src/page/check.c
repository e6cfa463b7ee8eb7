/* check.c - decides which words are asked for, and in which call. Loop.
 *
 *   wanted -> QUEUED -> ASKED -> heard (check_call.c, pool) -> over
 *               ^          |-> a revision is stored above it: QUEUED, for that
 *               |          |-> it lags: RESTS, then QUEUED, earlier where a reader comes
 *               \----------/-> somebody came too late for it
 *
 * Invariants
 *  1. An item is in its domain's table; and in one of its lists, unless it is ASKED.
 *  2. An item has waiters, or is wanted behind an answer, or is ASKED.
 *  3. A domain has two calls at most: calls[0] is urgent, calls[1] is for what is wanted behind
 *     answers. */
#include "page/check_impl.h"

#include "base/hash.h"
#include "loop/loop.h"

#include <stdatomic.h>
#include <stdlib.h>

static void domain_turn(struct check_domain *d);

static mono now_of(const struct check_domain *d)
{
    return clock_mono(d->all->service->clock);
}

/* Domains of checks and of the service have the same index. */
static struct check_domain *domain_of(struct page_checks *c, const struct page_domain *domain)
{
    return &c->domains[domain - c->service->domains];
}

/* ---- items ---- */

/* Fibonacci hashing (Knuth, TAOCP 3, 6.4): the low bits of an address are always the same. */
static uint64_t cell_hash(const struct trust_cell *c)
{
    return (uint64_t)(uintptr_t)c * 0x9e3779b97f4a7c15u >> 16;
}

/* NULL: too many items. There is more room for items that somebody waits for. */
static struct check_item *item_new(struct check_domain *d, struct trust_cell *c, bool waited)
{
    if (d->items.count >= CHECK_ITEMS_MAX + (waited ? CHECK_ITEMS_WAITED : 0)) {
        atomic_fetch_add_explicit(&d->full, 1, memory_order_relaxed);
        return NULL;
    }
    struct check_item *i = calloc(1, sizeof *i);
    INVARIANT(i != NULL);
    i->of = d;
    i->cell = trust_hold(c);
    list_init(&i->link);
    list_init(&i->waiters);
    hash_add(&d->items, &i->node, cell_hash(c));
    return i;
}

/* The cell's item, or a new one, which the caller queues. NULL as above. */
static struct check_item *item_get(struct check_domain *d, struct trust_cell *c, bool waited)
{
    uint64_t hash = cell_hash(c);
    for (struct hash_node *n = hash_first(&d->items, hash); n != NULL; n = hash_next(n)) {
        struct check_item *i = CONTAINER_OF(n, struct check_item, node);
        if (i->cell == c)
            return i;
    }
    return item_new(d, c, waited);
}

static void item_free(struct check_item *i)
{
    INVARIANT(list_empty(&i->waiters));
    list_remove(&i->link);
    hash_remove(&i->of->items, &i->node);
    trust_release(&i->cell);
    free(i);
}

/* A stored revision above the wiki's newest is asked for by its number, although its item is a
 * title. */
static enum check_kind item_kind(const struct check_item *i)
{
    return i->above != 0 || trust_key_of(i->cell).rev != 0 ? KIND_REVISIONS : KIND_TITLES;
}

/* Is anything queued with this rank? */
static bool some(const struct check_domain *d, enum check_rank rank)
{
    const struct list *lists = d->queued[rank];
    return !list_empty(&lists[KIND_TITLES]) || !list_empty(&lists[KIND_REVISIONS]);
}

/* Moves an item to the end of a queue, wherever it was. The first that is gathered sets when the
 * gathering ends; later ones do not extend it. */
static void item_queue(struct check_item *i, enum check_rank rank)
{
    struct check_domain *d = i->of;
    list_remove(&i->link);
    i->state = ITEM_QUEUED;
    i->rank = rank;
    if (rank == RANK_LATER && !d->gathers)
        d->gathered_at = mono_add_ms(now_of(d), CHECK_GATHER_MS);
    d->gathers |= rank == RANK_LATER;
    list_append(&d->queued[rank][item_kind(i)], &i->link);
}

/* ---- calls ---- */

/* The store has heard the word. Readers that came after the question stay: for them it is asked
 * for again. */
static void item_heard(struct check_item *i, const struct check_call *call,
                       const struct check_asked *a)
{
    check_waits_heard(&i->waiters, call, a);
    i->rested = 0;
    i->early = i->listed = false;
    i->lags_at = STORE_TIME_ZERO;
    i->above = 0;
    if (!list_empty(&i->waiters))
        item_queue(i, RANK_URGENT);
    /* A hint came after the question. */
    else if (i->again)
        item_queue(i, RANK_LOOKED);
    else
        item_free(i);
}

/* No word came. Readers are told why; the cell may ask anew. */
static void item_unheard(struct check_item *i, err why, int64_t retry_after_s)
{
    check_waits_end(&i->waiters, why, retry_after_s);
    trust_unheard(i->cell);
    item_free(i);
}

/* The word lags: readers that it is good enough for are told, and the item rests before its next
 * question. */
static void item_rest(struct check_item *i, const struct check_call *call,
                      const struct check_asked *a)
{
    struct check_domain *d = i->of;
    bool waits = false, early = i->early;
    store_time now = clock_store(d->all->service->clock);
    atomic_fetch_add_explicit(&d->lagging, 1, memory_order_relaxed);
    i->unreached = (struct check_unreached){ .says = 0 };
    /* The wiki may list the change in a moment: readers wait on for that once. */
    if (check_item_awaits_list(i, call, a)) {
        check_item_await_list(i, now);
        return;
    }
    /* The word of the title was asked for before the question about `above`. */
    if (a->became == CHECK_UNREACHED) {
        i->unreached.asked_at = a->above != 0 ? a->word.asked_at : call->asked_at;
        i->unreached.says = a->says;
        waits = check_waits_unreached(&i->waiters, &i->unreached);
    }
    i->above = 0;
    i->early = false;
    if (i->lags_at.ns == STORE_TIME_ZERO.ns)
        i->lags_at = now;
    /* Somebody said again that it changed: the rests begin anew, with a question at once. */
    if (i->again) {
        i->rested = 0;
        item_queue(i, waits ? RANK_URGENT : RANK_LOOKED);
        return;
    }
    /* A question in the middle of a rest leaves the rest as it is. */
    if (!early)
        check_item_tire(i, now);
    i->early = waits;
    if (waits)
        item_queue(i, RANK_URGENT);
    else
        check_item_lay(i);
}

/* Sorts an item by what became of it in a call. */
static void item_became(struct check_item *i, const struct check_call *call,
                        const struct check_asked *a)
{
    switch (a->became) {
    case CHECK_HEARD:
        item_heard(i, call, a);
        return;
    case CHECK_LAGS:
    case CHECK_UNREACHED:
        item_rest(i, call, a);
        return;
    /* The same item, with another question: is that revision there? */
    case CHECK_ABOVE:
        i->word = a->word;
        i->above = a->above;
        i->known = a->known;
        item_queue(i, RANK_URGENT);
        return;
    case CHECK_OVERTAKEN:
        i->above = 0; /* of a word that counts no more */
        item_queue(i, RANK_URGENT);
        return;
    case CHECK_UNANSWERED:
    case CHECK_UNHEARD:
        check_waits_answered(&i->waiters);
        break;
    case CHECK_UNWRITTEN:
        break;
    }
    item_unheard(i, ERR_CORRUPT, 0);
}

/* Closes a wiki that bars all questions for CHECK_BARRED_S. A single 403 may come from a server
 * before the wiki that wants fewer requests. */
static void call_barred(struct check_domain *d)
{
    store_time now = clock_store(d->all->service->clock);
    if (d->barred_at.ns == STORE_TIME_ZERO.ns)
        d->barred_at = now;
    else if (!store_time_before(now, store_time_add(d->barred_at, CHECK_BARRED_S * NS_PER_S)))
        checks_close(d->all, d->domain, true);
}

/* The whole call failed: its items are over, and the domain pauses. */
static void call_failed(struct check_domain *d, struct check_call *call)
{
    if (call->barred)
        call_barred(d);
    else if (call->plain || call->why == RENDER_DENIED)
        d->barred_at = STORE_TIME_ZERO; /* the wiki itself answered */
    /* A closed wiki is no outage: readers are told that it is not for us to read. */
    const err why = atomic_load(d->domain->closed) ? ERR_DENIED : page_err_of_render(call->why);
    int64_t asked_s = call->request.retry_after_s;
    int64_t wants_s = asked_s < CHECK_ASKED_PAUSE_S_MAX ? asked_s : CHECK_ASKED_PAUSE_S_MAX;
    /* 1, 2, 4, 8, 16 s, then the maximum. */
    int64_t own_s = d->failures < 5 ? 1 << d->failures : CHECK_PAUSE_S_MAX;
    d->failures++;
    atomic_fetch_add_explicit(&d->failed, 1, memory_order_relaxed);
    int64_t pause_s = wants_s > 0 ? wants_s : own_s;
    d->paused_until = mono_add_ms(now_of(d), 1000 * pause_s);
    /* Away until it could have been asked again, and trust_ttl longer: readers need not wait for
     * it meanwhile. */
    store_time asked_at = store_time_add(clock_store(d->all->service->clock),
                                         pause_s * NS_PER_S); /* at the soonest */
    atomic_store(&d->away_ns, store_time_add(asked_at, d->domain->trust.ttl_ns).ns);
    for (unsigned n = 0; n < call->count; n++)
        item_unheard(call->asked[n].item, why, wants_s);
}

static void call_end(struct check_domain *d, struct check_call *call)
{
    d->calls[call->urgent ? 0 : 1] = NULL;
    check_call_free(&call);
    domain_turn(d);
}

/* Loop. The items of the call are ASKED until they are sorted here. */
static void call_over(struct check_call *call)
{
    struct check_domain *d = call->ctx;
    if (call->why != RENDER_FINE || d->all->stopped) {
        call_failed(d, call);
        call_end(d, call);
        return;
    }
    d->failures = 0;
    d->barred_at = STORE_TIME_ZERO;
    atomic_store(&d->away_ns, 0);
    atomic_store(&d->answered_ns, clock_store(d->all->service->clock).ns);
    atomic_fetch_add_explicit(&d->words, call->count, memory_order_relaxed);
    for (unsigned n = 0; n < call->count; n++)
        item_became(call->asked[n].item, call, &call->asked[n]);
    call_end(d, call);
}

/* Moves items from a queue into the call, as many as fit. */
static void call_take(struct check_call *call, struct list *from)
{
    store_time now = clock_store(call->service->clock);
    while (call->count < WORDS_MAX) {
        struct list *l = list_take(from);
        if (l == NULL)
            return;
        struct check_item *i = CONTAINER_OF(l, struct check_item, link);
        i->state = ITEM_ASKED;
        i->again &= i->above != 0; /* what it says of the title was asked for before */
        call->asked[call->count++] = (struct check_asked){ .item = i,
                                                           .cell = i->cell,
                                                           .word = i->word,
                                                           .above = i->above,
                                                           .known = i->known,
                                                           .believe = check_item_believes(i, now) };
    }
}

/* Titles and revisions cannot share a call: they take turns, when both are wanted. */
static enum check_kind kind_of(struct check_domain *d, enum check_rank rank)
{
    enum check_kind other = d->last == KIND_TITLES ? KIND_REVISIONS : KIND_TITLES;
    d->last = list_empty(&d->queued[rank][other]) ? d->last : other;
    return d->last;
}

/* Starts a call for this rank, and fills it up with items of lower ranks, which ride along. */
static void call_start(struct check_domain *d, enum check_rank rank)
{
    enum check_kind kind = kind_of(d, rank);
    struct check_call *call = check_call_new(d->all->service, d->domain);
    call->of_revisions = kind == KIND_REVISIONS;
    call->urgent = rank == RANK_URGENT;
    call->over = call_over;
    call->ctx = d;
    /* Ranks are in order of haste. */
    for (unsigned r = rank; r < RANKS; r++)
        call_take(call, &d->queued[r][kind]);
    d->gathers &= some(d, RANK_LATER);
    d->calls[call->urgent ? 0 : 1] = call;
    atomic_fetch_add_explicit(&d->calls_made, 1, memory_order_relaxed);
    check_call_start(call);
}

/* ---- turns ---- */

/* NULL: none has come to the end of that rest. */
static struct check_item *rested_first(struct check_domain *d, unsigned rest, store_time now)
{
    struct list *l = list_first(&d->resting[rest]);
    struct check_item *i = l == NULL ? NULL : CONTAINER_OF(l, struct check_item, link);
    return i == NULL || store_time_before(now, i->due) ? NULL : i;
}

/* Items whose rest is over are asked for with the urgent ones. */
static void resting_wake(struct check_domain *d)
{
    store_time now = clock_store(d->all->service->clock);
    for (unsigned rest = 0; rest < CHECK_RESTS; rest++)
        for (struct check_item *i = rested_first(d, rest, now); i != NULL;
             i = rested_first(d, rest, now))
            item_queue(i, RANK_URGENT);
}

static bool some_rest(const struct check_domain *d)
{
    bool some = false;
    for (unsigned rest = 0; rest < CHECK_RESTS; rest++)
        some |= !list_empty(&d->resting[rest]);
    return some;
}

static void check_earlier(mono *next, mono at)
{
    if (at.ns < next->ns)
        *next = at;
}

/* Sets the timer to the first of: a reader's deadline, the end of a rest, of a pause, of a
 * gathering. */
static void timer_set(struct check_domain *d)
{
    mono now = now_of(d), next = { .ns = INT64_MAX };
    check_earlier(&next, check_waits_until(&d->waits));
    if (some_rest(d)) /* by the clock of what is stored, which tests move */
        check_earlier(&next, mono_add_ms(now, CHECK_RESTS_LOOK_MS));
    /* An urgent item needs no timer: it starts at once, or when its call ends. */
    if (d->calls[1] == NULL && some(d, RANK_LOOKED))
        check_earlier(&next, d->paused_until);
    else if (d->calls[1] == NULL && some(d, RANK_LATER))
        check_earlier(&next,
                      d->gathered_at.ns > d->paused_until.ns ? d->gathered_at : d->paused_until);
    if (next.ns == INT64_MAX)
        loop_timer_stop(d->timer);
    else
        loop_timer_start(d->timer, next.ns <= now.ns ? 0 : (next.ns - now.ns) / NS_PER_MS + 1, 0);
}

/* Tells readers to come again when the pause is over. Their items stay, and are asked for behind
 * answers. */
static void urgent_refuse(struct check_domain *d)
{
    int64_t left_s = (d->paused_until.ns - now_of(d).ns) / NS_PER_S + 1;
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (struct list *l = list_first(&d->queued[RANK_URGENT][kind]); l != NULL;
             l = list_first(&d->queued[RANK_URGENT][kind])) {
            struct check_item *i = CONTAINER_OF(l, struct check_item, link);
            check_waits_end(&i->waiters, atomic_load(d->domain->closed) ? ERR_DENIED : ERR_AGAIN,
                            left_s);
            item_queue(i, RANK_LATER);
        }
}

/* Did all readers of it leave, with nobody else who wants it? */
static bool is_left(const struct check_item *i)
{
    return list_empty(&i->waiters) && i->rested == 0 && i->above == 0 && !i->again &&
           i->lags_at.ns == STORE_TIME_ZERO.ns;
}

/* Readers that left must not keep others waiting. Their items go from the head of the queue,
 * until a call's worth of wanted ones stands there. Over the limit they are dropped, else they
 * wait with the gathered ones. */
static void urgent_sift(struct check_domain *d, struct list *queued)
{
    unsigned waited = 0;
    for (struct list *l = queued->next, *next = l->next; l != queued && waited < WORDS_MAX;
         l = next, next = l->next) {
        struct check_item *i = CONTAINER_OF(l, struct check_item, link);
        if (!is_left(i))
            waited++;
        else if (d->items.count > CHECK_ITEMS_MAX)
            item_unheard(i, ERR_LIMIT, 0);
        else
            item_queue(i, RANK_LATER);
    }
}

/* All that may happen next in a domain: after each call, each timer, and each new wish. */
static void domain_turn(struct check_domain *d)
{
    check_waits_late(&d->waits, now_of(d));
    resting_wake(d);
    mono now = now_of(d);
    if (now.ns < d->paused_until.ns)
        urgent_refuse(d);
    /* While it is stopped nothing starts; calls under way still end here. */
    else if (!d->all->stopped) {
        for (unsigned kind = 0; kind < KINDS && d->calls[0] == NULL; kind++)
            urgent_sift(d, &d->queued[RANK_URGENT][kind]);
        if (d->calls[0] == NULL && some(d, RANK_URGENT))
            call_start(d, RANK_URGENT);
        if (d->calls[1] == NULL && some(d, RANK_LOOKED))
            call_start(d, RANK_LOOKED);
        if (d->calls[1] == NULL && some(d, RANK_LATER) && now.ns >= d->gathered_at.ns)
            call_start(d, RANK_LATER);
    }
    if (!d->all->stopped)
        timer_set(d);
}

static void domain_timer(void *ctx)
{
    domain_turn(ctx);
}

/* ---- from outside ---- */

/* Loop. A new reader: it is told at once, joins an item that is asked for, or has it queued. */
static void start_run(struct task *t)
{
    struct page_check *c = CONTAINER_OF(t, struct page_check, task);
    struct check_domain *d = domain_of(c->checks, c->domain);
    /* left: it left while this task was on its way. */
    if (c->checks->stopped || c->left) {
        check_wait_end(c, ERR_SHUTDOWN);
        return;
    }
    struct check_item *i = item_get(d, c->cell, !c->behind);
    if (i == NULL) {
        check_wait_end(c, ERR_LIMIT);
        return;
    }
    /* The title rests, and its last word was good enough for nobody. */
    bool unreached = i->state == ITEM_RESTS && i->unreached.asked_at.ns != 0 && !c->behind;
    /* That word was asked for late enough for this reader: another question would say no more. */
    if (unreached && !store_time_before(i->unreached.asked_at, c->since)) {
        check_wait_unreached(c, &i->unreached);
        return;
    }
    check_wait_begin(&d->waits, &i->waiters, c);
    /* The question comes before the rest is over, and does not shorten it. */
    i->early |= unreached;
    if (unreached)
        item_queue(i, RANK_URGENT);
    if (i->state == ITEM_NEW || (i->state == ITEM_QUEUED && !c->behind))
        item_queue(i, c->behind ? RANK_LATER : RANK_URGENT);
    domain_turn(d);
}

/* Any thread: the loop has the items. */
void page_check_start(struct page_check *c)
{
    c->waits = NULL;
    c->left = c->answered = c->news = c->unreached = c->has_word = false;
    c->task.run = start_run;
    home_post(loop_home(c->checks->service->loop), &c->task);
}

/* Somebody said that the title changed: the next question is not one that is under way. */
static void item_look(struct check_item *i)
{
    i->again |= i->state == ITEM_ASKED || i->above != 0; /* its word was asked for before */
    if (i->early && i->state == ITEM_QUEUED) {
        i->early = false;
        i->rested = 0;
    }
    /* In a call, or about to be: `again` has it asked once more behind that. */
    if (i->state == ITEM_ASKED || (i->state == ITEM_QUEUED && i->rank != RANK_LATER))
        return;
    i->rested = 0;
    item_queue(i, RANK_LOOKED);
}

/* The timer runs after the caller's turn: one call then takes all titles that were told of
 * together. */
bool page_checks_look(struct page_checks *c, const struct page_domain *domain,
                      struct trust_cell *cell)
{
    struct check_domain *d = domain_of(c, domain);
    struct check_item *i = c->stopped ? NULL : item_get(d, cell, false);
    if (i == NULL)
        return false;
    item_look(i);
    loop_timer_start(d->timer, 0, 0);
    return true;
}

static const struct page_domain *domain_numbered(const struct page_service *s, uint32_t number)
{
    for (unsigned i = 0; i < s->domains_count; i++)
        if (s->domains[i].number == number)
            return &s->domains[i];
    return NULL;
}

/* The trust wants a word behind an answer (trust_soon). At the loop's home; the cell is held
 * while it runs. */
static void soon(void *ctx, struct trust_cell *cell)
{
    struct page_checks *c = ctx;
    const struct page_domain *domain = domain_numbered(c->service, trust_key_of(cell).domain);
    struct check_item *i = NULL;
    if (domain != NULL && !c->stopped) {
        struct check_domain *d = domain_of(c, domain);
        i = item_get(d, cell, false);
        if (i != NULL && i->state == ITEM_NEW)
            item_queue(i, RANK_LATER);
        domain_turn(d);
    }
    /* Without an item nobody will end the wish: the cell may wish anew. */
    if (i == NULL)
        trust_unheard(cell);
}

/* ---- the whole ---- */

static void domain_init(struct page_checks *c, unsigned n)
{
    struct check_domain *d = &c->domains[n];
    d->all = c;
    d->domain = &c->service->domains[n];
    hash_init(&d->items);
    check_waits_init(&d->waits);
    page_behind_init(&d->behind);
    for (unsigned rest = 0; rest < CHECK_RESTS; rest++)
        list_init(&d->resting[rest]);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned rank = 0; rank < RANKS; rank++)
            list_init(&d->queued[rank][kind]);
    d->timer = loop_timer_new(c->service->loop, domain_timer, d);
}

struct page_checks *page_checks_new(const struct page_service *s)
{
    struct page_checks *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->service = s;
    c->domains_count = s->domains_count;
    c->domains = calloc(s->domains_count + 1, sizeof *c->domains);
    INVARIANT(c->domains != NULL);
    for (unsigned n = 0; n < c->domains_count; n++)
        domain_init(c, n);
    page_trust_on_soon(s->trust, loop_home(s->loop), soon, c);
    return c;
}

/* ASKED items are freed when their call ends. */
static void item_stop(void *ctx, struct hash_node *n)
{
    struct check_item *i = CONTAINER_OF(n, struct check_item, node);
    (void)ctx;
    check_waits_end(&i->waiters, ERR_SHUTDOWN, 0);
    if (i->state != ITEM_ASKED)
        item_free(i);
}

void page_checks_stop(struct page_checks *c)
{
    c->stopped = true;
    for (unsigned n = 0; n < c->domains_count; n++) {
        struct check_domain *d = &c->domains[n];
        loop_timer_stop(d->timer);
        hash_each(&d->items, item_stop, NULL);
        /* A canceled call ends soon, as a failure. */
        for (size_t k = 0; k < COUNT_OF(d->calls); k++)
            if (d->calls[k] != NULL)
                words_cancel(&d->calls[k]->request);
    }
}

bool page_checks_idle(const struct page_checks *c)
{
    for (unsigned n = 0; n < c->domains_count; n++)
        if (c->domains[n].calls[0] != NULL || c->domains[n].calls[1] != NULL)
            return false;
    return true;
}

void page_checks_free(struct page_checks **cp)
{
    struct page_checks *c = *cp;
    if (c == NULL)
        return;
    INVARIANT(page_checks_idle(c));
    /* No cell may call soon any more. */
    page_trust_on_soon(c->service->trust, NULL, NULL, NULL);
    for (unsigned n = 0; n < c->domains_count; n++) {
        struct check_domain *d = &c->domains[n];
        INVARIANT(d->items.count == 0);
        loop_timer_free(&d->timer);
        hash_fini(&d->items);
        check_waits_fini(&d->waits);
        page_behind_fini(&d->behind);
    }
    free(c->domains);
    free(c);
    *cp = NULL;
}
