/* pages.c - the page store on Cassandra itself: buckets, domains, and the work on one title that
 * each request does.
 *
 * A work goes  load -> pass over -> derive -> `loaded` of its request -> stamp -> rows of lists ->
 * facts -> `appended`.  Each step may end it (work_end).
 * Invariants:
 *   1 times of this server's facts rise strictly: `last` is raised under the lock;
 *   2 a work ends once, and its request with it;
 *   3 a put and an order decide on the title as of the stamp that their facts get. */
#include "cassandra/due.h"
#include "cassandra/lists_pages.h"
#include "cassandra/policies.h"
#include "cassandra/skew.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- the store ---- */

struct cassandra_pages *cassandra_pages_new(const struct cassandra_pages_opts *o,
                                            struct err_note *note)
{
    if (o->buckets_count > CASSANDRA_BUCKETS_MAX) {
        err_note_set(note, "at most %d page buckets", CASSANDRA_BUCKETS_MAX);
        return NULL;
    }
    /* A policy that pins cannot rely on is refused before anything is made. */
    for (unsigned i = 0; i < o->buckets_count; i++)
        if (policies_fit(&o->buckets[i], o->max_skew_ns, note) != ERR_OK)
            return NULL;
    struct cassandra_pages *p = calloc(1, sizeof *p);
    INVARIANT(p != NULL);
    p->magic = CASSANDRA_PAGES_MAGIC;
    p->opts = *o;
    p->blame.log = o->log;
    p->blame.clock = o->clock;
    INVARIANT(pthread_mutex_init(&p->lock, NULL) == 0);
    for (unsigned i = 0; i < o->buckets_count; i++) {
        p->buckets[i].pages = p;
        p->buckets[i].opts = o->buckets[i];
        p->buckets[i].number = (uint16_t)i;
        bucket_plans_init(&p->buckets[i]);
    }
    return p;
}

void cassandra_pages_free(struct cassandra_pages **pp)
{
    struct cassandra_pages *p = *pp;
    *pp = NULL;
    if (p == NULL)
        return;
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    for (uint32_t i = 0; i < p->domains_count; i++)
        free(p->domains[i]);
    free(p->domains);
    for (unsigned i = 0; i < p->opts.buckets_count; i++)
        bucket_plans_fini(&p->buckets[i]);
    frame_pool_fini(&p->frames);
    /* Requests that wait for an extension would never end. */
    INVARIANT(p->extensions.count == 0);
    hash_fini(&p->extensions);
    INVARIANT(pthread_mutex_destroy(&p->lock) == 0);
    p->magic = 0;
    free(p);
}

/* Under the lock. Names are never freed before the store: requests borrow them (pages_domain_name).
 */
static err domain_add(struct cassandra_pages *p, str name, uint32_t *out)
{
    if (p->domains_count == CASSANDRA_DOMAINS_MAX || name.n > TITLES_NAME_BYTES_MAX)
        return ERR_LIMIT;
    p->domains = realloc(p->domains, (p->domains_count + 1) * sizeof *p->domains);
    INVARIANT(p->domains != NULL);
    char *copy = malloc(name.n + 1);
    INVARIANT(copy != NULL);
    INVARIANT(str_to_cstr(name, copy, name.n + 1));
    p->domains[p->domains_count] = copy;
    *out = p->domains_count++;
    return ERR_OK;
}

err cassandra_pages_domain(struct cassandra_pages *p, str name, uint32_t *out)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    err e = ERR_NOT_FOUND;
    /* Domains are few, and a server looks each up once. */
    pages_lock(p);
    for (uint32_t i = 0; e == ERR_NOT_FOUND && i < p->domains_count; i++)
        if (str_eq(str_of(p->domains[i]), name)) {
            *out = i;
            e = ERR_OK;
        }
    if (e == ERR_NOT_FOUND)
        e = domain_add(p, name, out);
    pages_unlock(p);
    return e;
}

/* Under the lock because the array may move; the name itself stays where it is. */
str pages_domain_name(struct cassandra_pages *p, uint32_t domain)
{
    pages_lock(p);
    INVARIANT(domain < p->domains_count);
    str name = str_of(p->domains[domain]);
    pages_unlock(p);
    return name;
}

struct page_bucket *cassandra_pages_bucket(struct cassandra_pages *p, str name)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    for (unsigned i = 0; i < p->opts.buckets_count; i++)
        if (str_eq(str_of(p->buckets[i].opts.name), name))
            return &p->buckets[i];
    return NULL;
}

uint16_t cassandra_pages_bucket_number(const struct page_bucket *b)
{
    return b->number;
}

void cassandra_pages_number(struct cassandra_pages *p, uint32_t srv)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    p->opts.srv = srv;
}

void cassandra_pages_listen(struct cassandra_pages *p, const struct page_listener *l)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    p->listener = *l;
}

void cassandra_pages_stats(struct cassandra_pages *p, struct pages_stats *out)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    *out = (struct pages_stats){ .puts = atomic_load(&p->puts),
                                 .duplicates = atomic_load(&p->duplicates),
                                 .purged = atomic_load(&p->purged),
                                 .extended = atomic_load(&p->extended) };
}

/* ---- work on a title ---- */

/* A work holds two kinds of memory: itself, and an arena for facts and rows derived from them. Both
 * go in work_free. */
struct work *work_new(struct cassandra_pages *p, struct page_bucket *b, struct store_call *call)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    INVARIANT(b->pages == p);
    struct work *w = calloc(1, sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct work){ .pages = p, .bucket = b, .call = call };
    arena_init(&w->arena, CASSANDRA_WORK_BYTES_MAX);
    return w;
}

void work_free(struct work *w)
{
    if (w->newest != NULL)
        titles_newest_fini(w->newest);
    arena_fini(&w->arena);
    free(w);
}

void work_end(struct work *w, err why)
{
    /* The caller may free the request once it ends, so the work goes first. */
    struct store_call *call = w->call;
    work_free(w);
    store_call_end(call, why);
}

/* The first note stays: it is nearest to the cause. */
static void work_note(struct work *w, const struct err_note *note)
{
    if (w->note != NULL && w->note->text[0] == '\0')
        *w->note = *note;
}

err pages_blame(struct cassandra_pages *p, const struct store_call *call,
                const struct err_note *note, str title)
{
    bool due = blame_is_due(call->why, call);
    return due ? blame_cluster(&p->blame, call->why, note, false, title, NULL) : call->why;
}

/* For operators: the render's put failed, or is under way for longer than a read takes. */
void work_tell_lost(struct work *w)
{
    struct err_note note;
    err_note_set(&note, "no quorum has the bytes of a render that was never acknowledged: it is "
                        "passed over until it is put again");
    blame_log(&w->pages->blame, ERR_NOT_FOUND, &note, w->key.title);
}

err work_blame(struct work *w, err why, bool unknown, const struct err_note *note)
{
    struct err_note told;
    /* A write that may have happened is told as such, whatever the error is. */
    if (why == ERR_OK || !(unknown || blame_is_due(why, w->call)))
        return why;
    why = blame_cluster(&w->pages->blame, why, note, unknown, w->key.title, &told);
    work_note(w, &told);
    return why;
}

/* ---- deriving ---- */

static void work_go_on(struct work *w)
{
    if (w->derived == ERR_OK)
        w->loaded(w);
    else
        work_end(w, w->derived);
}

/* Back at home from the pool. The client may stop only behind what goes on here. */
static void derive_back(struct task *t)
{
    struct work *w = CONTAINER_OF(t, struct work, task);
    struct cql *client = w->pages->opts.titles->client;
    work_go_on(w);
    cql_release(client);
}

static void derive_run(struct work *w)
{
    const struct cassandra_pages_opts *o = &w->pages->opts;
    /* A stamped work is derived as of its stamp, so that the decision holds for the facts to come.
     */
    bool stamped = w->stamp.ns != STORE_TIME_ZERO.ns;
    store_time now = stamped ? w->stamp : clock_store(o->clock);
    w->derived = title_derive(&w->facts, now, &w->arena, &w->memory);
}

static void derive_on_pool(struct task *t)
{
    struct work *w = CONTAINER_OF(t, struct work, task);
    derive_run(w);
    t->run = derive_back;
    home_post(w->load.call.home, t);
}

/* Derives at home, or on the pool when that takes a moment. 1,000 facts take 1.5 to 10 ms, 10,000
 * take 20 to 90 ms: the loop thread has no such time. */
static void derive_start(struct work *w)
{
    struct home *pool = w->pages->opts.pool;
    if (pool != NULL && w->load.call.home != pool && w->facts.facts_count > WORK_FACTS_AT_HOME) {
        w->task.run = derive_on_pool;
        cql_hold(w->pages->opts.titles->client); /* what goes on asks it for more */
        home_post(pool, &w->task);
        return;
    }
    derive_run(w);
    work_go_on(w);
}

/* Not all facts of a title of many renders were read (load.more). Is the newest put the latest,
 * whatever the others are? Then the title is derived of that put alone. */
static bool newest_is_enough(struct work *w)
{
    struct title_facts acts = w->facts;
    size_t puts_at = 0;
    /* There is a put: load.more says so (newest_is_there in load.c). The other facts stand before
     * it. */
    while (w->load.facts[puts_at].what != FACT_PUT)
        puts_at++;
    acts.facts_count = puts_at;
    w->facts.facts_count = puts_at + 1;
    return title_is_surely_latest(&acts, &w->load.facts[puts_at]);
}

/* The whole title, where its newest put says too little: once, since `latest` is off from then on.
 */
void work_load_all(struct work *w)
{
    w->latest = false;
    work_load(w, w->load.call.home);
}

/* All loads are over. Runs on whichever thread ended last, which is the home of the loads. */
static void work_derive(struct work *w)
{
    const struct cassandra_pages_opts *o = &w->pages->opts;
    struct titles_load *l = &w->load;
    err e = work_blame(w, l->call.why, false, &l->note);
    if (e != ERR_OK) {
        work_end(w, e);
        return;
    }
    /* Read after the facts: a policy that is not known yet comes into force later than these facts
     * say (pages_plans.c). */
    const struct bucket_plans *plans = bucket_plans(w->bucket);
    w->facts = (struct title_facts){ .facts = l->facts,
                                     .facts_count = l->facts_count,
                                     .plans = plans->at,
                                     .plans_count = plans->count,
                                     .skew_ns = 2 * o->max_skew_ns,
                                     .linger_ns = o->max_skew_ns == 0
                                                      ? 0
                                                      : 2 * o->max_skew_ns + o->write_timeout_ns };
    if (l->more && !newest_is_enough(w)) {
        work_load_all(w);
        return;
    }
    e = work_pass_over(w);
    if (e == ERR_OK)
        derive_start(w);
    else
        work_end(w, e);
}

/* The last of the loads goes on. */
static void work_joined(struct work *w)
{
    if (atomic_fetch_sub(&w->waits, 1) == 1)
        work_derive(w);
}

static void work_loaded(struct store_call *c)
{
    struct titles_load *l = CONTAINER_OF(c, struct titles_load, call);
    work_joined(CONTAINER_OF(l, struct work, load));
}

/* Words and newest may fail: a reader does without, and a put looks at words.call.why itself. */
static void work_joins(struct store_call *c)
{
    work_joined(c->own);
}

/* All loads go out at once; they share no arena, since they may end on several threads. */
void work_load(struct work *w, struct home *home)
{
    struct titles *t = w->pages->opts.titles;
    const struct store_call call = { .home = home,
                                     .part_of = w->call,
                                     .deadline = w->call->deadline };
    struct words_load *words = w->words;
    /* A new look needs a new stamp: its facts may be later than the old one. */
    w->stamp = STORE_TIME_ZERO;
    /* With bytes that are lost the newest put may be the one to pass over, so all facts are wanted.
     */
    w->load = (struct titles_load){
        .call = call, .key = w->key, .arena = &w->arena, .latest = w->latest && w->lost_count == 0
    };
    w->load.call.done = work_loaded;
    struct titles_newest *newest = w->newest;
    atomic_init(&w->waits, 1u + (words != NULL ? 1 : 0) + (newest != NULL ? 1 : 0));
    if (words != NULL) {
        memset(words, 0, sizeof *words);
        words->call = call;
        words->call.done = work_joins;
        words->call.own = w;
        words->domain = w->key.domain;
        words->title = w->key.title;
    }
    if (newest != NULL) {
        /* A second load of one work, as when bytes were missing: the first answer is given back. */
        titles_newest_fini(newest);
        *newest = (struct titles_newest){ .content = newest->content };
        newest->call = call;
        newest->call.done = work_joins;
        newest->call.own = w;
        newest->key = w->key;
    }
    /* The last load that ends may take w with it: nothing of w is looked at behind the first start.
     */
    store_call_then(titles_load(t, &w->load), &w->load.call);
    if (words != NULL)
        store_call_then(words_load(t, words), &words->call);
    if (newest != NULL)
        store_call_then(titles_newest(t, newest), &newest->call);
}

/* Begins the work, or ends it at once (by post) when the request makes no sense or policies are not
 * known. */
void work_start(struct work *w, uint32_t domain, str title, struct home *home)
{
    struct cassandra_pages *p = w->pages;
    if (title.n < 1 || title.n > PAGE_TITLE_BYTES_MAX) {
        work_end(w, ERR_BAD);
        return;
    }
    struct err_note unknown;
    if (!pages_plans_known(p, &unknown)) {
        work_note(w, &unknown);
        work_end(w, ERR_UNAVAILABLE);
        return;
    }
    w->domain = domain;
    /* The arena of words is the work's, but the load writes into its own struct alone: no
     * allocation happens on other threads. */
    if (w->heeds)
        w->words = arena_calloc(&w->arena, 1, sizeof *w->words);
    if (w->heeds && w->words == NULL) {
        work_end(w, ERR_LIMIT);
        return;
    }
    w->key = (struct titles_key){ .bucket = str_of(w->bucket->opts.name),
                                  .domain = pages_domain_name(p, domain),
                                  .title = title };
    work_load(w, home);
}

/* ---- facts ---- */

/* Words and notes have a clock of their own: their times need only differ from each other. */
store_time pages_stamp(struct cassandra_pages *p)
{
    pages_lock(p);
    store_time at = store_time_max(clock_store(p->opts.clock), store_time_add(p->last_word, 1));
    p->last_word = at;
    pages_unlock(p);
    return at;
}

/* False: the title is ahead of this clock by more than clocks may be apart; the request is over. */
static bool stamp_take(struct work *w)
{
    struct cassandra_pages *p = w->pages;
    store_time clock = clock_store(p->opts.clock);
    struct err_note note;
    /* Behind the reading of the clock: a clock that was set before it is seen here. */
    if (p->opts.guard != NULL && !skew_guard_holds(p->opts.guard, p->opts.clock)) {
        err_note_set(&note, "clock_skew/1: this server's clock was set, and is compared again");
        work_note(w, &note);
        work_end(w, ERR_UNAVAILABLE);
        return false;
    }
    /* Held from reading `last` to raising it: two works of one title on two threads get different
     * stamps. */
    pages_lock(p);
    /* Behind what is passed over, too: if that was written after all, it came before. */
    store_time at = title_stamp(&w->facts, clock, store_time_max(p->last, w->lost_at));
    /* A server whose clock is right is ahead of another by skew_ns at most. More means that one
     * clock is wrong, and facts that follow it would carry the error along. */
    bool fine = at.ns - clock.ns <= w->facts.skew_ns + NS_PER_MS;
    if (fine)
        p->last = at;
    pages_unlock(p);
    w->stamp = at;
    if (fine)
        return true;
    err_note_set(&note,
                 "clock_skew: the title %.*s was written by a clock that is ahead of this one by "
                 "more than max_skew",
                 STR_ARG(str_take(w->key.title, 100)));
    work_note(w, &note);
    work_end(w, ERR_UNAVAILABLE);
    return false;
}

/* Does a render fall due, or a policy come into force, between the look and its stamp? Then the
 * decision may be another one at the stamp. */
static bool stamp_is_late(const struct work *w)
{
    const struct title_memory *m = &w->memory;
    bool late = !store_time_before(w->stamp, m->due_min);
    for (size_t i = 0; i < w->facts.plans_count; i++) {
        store_time at = w->facts.plans[i].at;
        late = late || (store_time_before(m->title.now, at) && !store_time_before(w->stamp, at));
    }
    return late;
}

/* Once is enough: the second decision is of the instant of its stamp, which stays. */
bool work_stamp(struct work *w)
{
    if (w->stamp.ns != STORE_TIME_ZERO.ns)
        return true;
    if (!stamp_take(w))
        return false;
    if (!stamp_is_late(w))
        return true;
    /* The stamp stays, so the title is derived as of it, and `loaded` runs once more. */
    derive_start(w);
    return false;
}

static void append_start(struct work *w)
{
    store_call_then(titles_append(w->pages->opts.titles, &w->append), &w->append.call);
}

/* The rows by which listings find the title are written: facts may follow. */
static void work_listed(struct store_call *c)
{
    struct lists_put *l = CONTAINER_OF(c, struct lists_put, call);
    struct work *w = l->call.own;
    err e = work_blame(w, c->why, false, l->note); /* no fact was written yet */
    if (e == ERR_OK)
        append_start(w);
    else
        work_end(w, e);
}

/* Says which rows listings need before these facts are written. False: none; listings find the
 * title already. */
static bool lists_wanted(const struct work *w, struct lists_put *out)
{
    *out = (struct lists_put){ .key = w->key };
    for (unsigned i = 0; i < w->append.facts_count; i++) {
        const struct fact *f = &w->append.facts[i];
        out->there = out->there || f->what == FACT_PUT;
        if (f->what == FACT_PUT)
            out->stashed_to = store_time_max(out->stashed_to, f->stash_until);
        if (f->what == FACT_STASH)
            out->stashed_to = store_time_max(out->stashed_to, f->until);
    }
    /* A put that saw another put leaves the row to that one (lists.h). */
    out->there = out->there && !title_has_puts(&w->facts);
    return out->there || out->stashed_to.ns != STORE_TIME_ZERO.ns;
}

/* The facts are written, or may be. Ready answers of this server are out of date either way. */
static void work_appended(struct store_call *c)
{
    struct titles_append *a = CONTAINER_OF(c, struct titles_append, call);
    struct work *w = CONTAINER_OF(a, struct work, append);
    struct lists_put listed;
    pages_tell(w->bucket, w->domain, w->key.title);
    err e = work_blame(w, c->why, a->unknown, &a->note);
    if (e == ERR_OK) {
        dues_appended(w);
        w->appended(w);
        return;
    }
    /* The row of `titles` may be there without a title: upkeep looks, and takes it away. */
    if (lists_wanted(w, &listed) && listed.there)
        dues_file(w->pages, &w->key, clock_store(w->pages->opts.clock));
    work_end(w, e);
}

/* The rows by which the title is found, then the facts. */
static void lists_then_append(struct work *w)
{
    struct lists_put wanted;
    if (!lists_wanted(w, &wanted)) {
        append_start(w);
        return;
    }
    struct lists_put *l = arena_alloc(&w->arena, sizeof *l);
    if (l == NULL) {
        work_end(w, ERR_LIMIT);
        return;
    }
    *l = wanted;
    l->call = (struct store_call){ .home = w->append.call.home,
                                   .done = work_listed,
                                   .deadline = w->append.call.deadline };
    l->call.own = w;
    /* Rows carry the time of their facts, so that upkeep, which deletes rows before an instant,
     * spares them. */
    l->at = fact_arrived(&w->append.facts[0]);
    l->note = &w->append.note;
    store_call_then(lists_put(w->pages->opts.titles, l), &l->call);
}

void work_append(struct work *w, struct fact *facts, unsigned count,
                 const struct titles_bytes *bytes)
{
    if (w->stamp.ns == STORE_TIME_ZERO.ns && !stamp_take(w))
        return;
    store_time at = w->stamp;
    w->stamp = STORE_TIME_ZERO; /* the facts of the next batch are later */
    for (unsigned i = 0; i < count; i++) {
        /* A fact's name is its time, its place among those of one decision, and the server. */
        facts[i].srv = w->pages->opts.srv;
        facts[i].n = i;
        if (fact_is_joined(&facts[i]))
            facts[i].joined_at = at;
        else
            facts[i].at = at;
    }
    w->append = (struct titles_append){
        .call = { .home = w->load.call.home, .done = work_appended, .deadline = w->call->deadline },
        .key = w->key,
        .facts = facts,
        .facts_count = count,
        .bytes = bytes,
        .everywhere = w->everywhere,
        .arena = &w->arena
    };
    lists_then_append(w);
}

/* Facts that add to a title; the caller can ask again later. Purges, marks and releases hide or end
 * something, and go on. */
static bool fact_can_wait(const struct fact *f)
{
    return f->what == FACT_PUT || f->what == FACT_MADE || fact_is_pin(f);
}

/* A title is read with all its facts at each request, and a title that has too many cannot be read.
 * So what shows or keeps something is refused long before what hides or ends something. A crowded
 * title can still be purged, and upkeep makes room. */
err work_room(struct work *w, const struct fact *facts, size_t count)
{
    size_t there = w->facts.facts_count;
    bool waits = false;
    struct err_note note;
    for (size_t i = 0; i < count; i++)
        waits = waits || fact_can_wait(&facts[i]);
    if (count == 0 || there < (waits ? TITLES_FACTS_CROWDED : TITLES_FACTS_FULL))
        return ERR_OK;
    err_note_set(&note,
                 "too_many_renders: the title has %zu renders, traces, pins and purges: a put or a "
                 "pin waits until some are forgotten",
                 there);
    work_note(w, &note);
    return ERR_AGAIN;
}

/* The facts of the answer have their times by now (work_append), so the fold puts them where
 * readers will see them. */
err work_after(struct work *w, const struct title_answer *a, struct title_memory *out)
{
    size_t count = w->facts.facts_count + a->facts_count;
    struct fact *facts = arena_alloc(&w->arena, count * sizeof *facts);
    if (facts == NULL)
        return ERR_LIMIT;
    memcpy(facts, w->facts.facts, w->facts.facts_count * sizeof *facts);
    memcpy(facts + w->facts.facts_count, a->facts, a->facts_count * sizeof *facts);
    struct title_facts in = w->facts;
    in.facts = facts;
    in.facts_count = count;
    return title_derive(&in, w->memory.title.now, &w->arena, out);
}

static bool condition_allow(const void *ctx, const struct page_render *latest)
{
    return page_condition_holds(ctx, latest == NULL ? NULL : &latest->name);
}

/* NULL means that there is no condition: decisions need not look for the latest then. */
page_allow_fn *work_allow(const struct page_condition *c)
{
    return page_condition_is_none(c) ? NULL : condition_allow;
}

struct title_which work_which(const struct page_which *w)
{
    return (struct title_which){
        .select = w->select, .name = w->name, .at = w->at, .deleted_too = w->deleted_too
    };
}
