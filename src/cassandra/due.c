/* due.c - when a title has something due, and rows of the table `due` that say so, for pages.c
 * (behind each append), listings and upkeep.
 *
 * Filing is a hint: nobody waits for a row, and a row that fails is left to the sweep. */
#include "cassandra/due.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* Do so many traces lie below the lowest stored render that upkeep has to forget some? Only these
 * can go: names are forgotten from the lowest up. */
static bool traces_crowd(const struct title_memory *m)
{
    /* Traces and rows are in the order of names, so those below the first row come first. */
    size_t below = 0;
    while (
        below < m->traces_count &&
        (m->rows_count == 0 || page_name_cmp(m->traces[below].trace.name, m->rows[0]->r.name) < 0))
        below++;
    return below > TITLES_TRACES_SPARED &&
           m->traces_count > TITLES_TRACES_MAX + TITLES_TRACES_SPARED;
}

store_time dues_next(const struct title_facts *in, const struct title_memory *m, size_t spared)
{
    store_time next = STORE_TIME_NEVER;
    size_t dead = 0; /* puts that have bytes, and are no render any more */
    /* A render runs out. */
    for (size_t i = 0; i < m->rows_count; i++)
        next = store_time_min(next, m->rows[i]->r.due_at);
    for (size_t i = 0; i < m->traces_count; i++)
        next = store_time_min(next, m->traces[i].forget_at);
    /* A put that no row stands for: its bytes can go, unless others of its name are still shown.
     * `spared` says how many of these the caller has deleted already. */
    for (size_t i = 0; i < in->facts_count; i++) {
        struct page_row row;
        const struct fact *f = &in->facts[i];
        if (f->what == FACT_PUT && f->contents_count > 0)
            dead += title_get(&m->title, f->name, &row) != ERR_OK;
    }
    return dead > spared || traces_crowd(m) ? store_time_min(next, m->title.now) : next;
}

/* ---- filing ---- */

/* One row on its way. It belongs to nobody and frees itself. */
struct filing {
    struct titles *titles;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
};

static void filing_done(struct cql_request *q)
{
    struct filing *f = CONTAINER_OF(q, struct filing, request);
    struct titles *t = f->titles;
    /* Figures, and the count that limits how many are under way. The count goes last: by then the
     * filing is freed. */
    atomic_fetch_add(q->out.why == ERR_OK ? &t->filed : &t->unfiled, 1);
    cql_outcome_fini(&q->out);
    cql_values_fini(&f->values);
    free(f);
    atomic_fetch_sub(&t->filing, 1);
}

void dues_file(struct cassandra_pages *p, const struct titles_key *key, store_time at)
{
    struct titles *t = p->opts.titles;
    store_time now = clock_store(p->opts.clock);
    const char *dc = p->opts.dc == NULL ? "" : p->opts.dc;
    /* NEVER minus the clock would say a number: it is taken for itself. */
    int64_t ahead_s = at.ns == INT64_MAX ? INT64_MAX : (at.ns - now.ns) / NS_PER_S;
    if (ahead_s > DUE_AHEAD_S || p->opts.due_sample <= 0)
        return;
    /* Added first and then looked at, so that two threads cannot both take the last place. */
    if (atomic_fetch_add(&t->filing, 1) >= DUE_FILING_MAX) {
        atomic_fetch_sub(&t->filing, 1);
        atomic_fetch_add(&t->unfiled, 1);
        return;
    }
    struct filing *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    /* Without a deadline of a call, titles_request gives its own. Its home is none: filing_done
     * runs on the client's loop. */
    const struct store_call none = { .home = NULL };
    f->titles = t;
    cql_values_init(&f->values, TITLES_KEY_BYTES_MAX + 128);
    cql_put_bytes(&f->values, str_of(dc));
    cql_put_i32(&f->values, due_hour(at));
    /* Shards of `due` are coarser than those of listings; both follow from the title alone. */
    cql_put_i8(&f->values, (int8_t)(lists_shard(key->title) % DUE_SHARDS));
    cql_put_i64(&f->values, at.ns);
    titles_put_key(&f->values, key);
    /* The row lives until a week after its hour, whatever happens: nobody deletes it. */
    cql_put_i32(&f->values, (int32_t)(DUE_KEPT_S + DUE_HOUR_S + (ahead_s > 0 ? ahead_s : 0)));
    f->part = (struct cql_part){ .statement = t->statements[TITLES_DUE_PUT], .values = &f->values };
    f->request = titles_request(t, &none, filing_done);
    f->request.parts = &f->part;
    f->request.params.consistency = CQL_LOCAL_ONE;
    f->request.params.timestamp_us = titles_write_us(now);
    f->request.class = CQL_BACKGROUND;
    cql_start(t->client, &f->request);
}

/* The earliest instant at which a put or a pin may make something due, by the policy's shortest
 * window. `at` for all other facts: a purge or a word makes bytes due at once. */
static store_time due_soonest(const struct work *w, store_time at)
{
    const struct page_policy *p = &w->memory.title.plan->policy;
    const int64_t windows[] = { p->grace_ttl_ns, p->historical_ttl_ns, p->stash_ttl_ns, p->ttl_ns };
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < w->append.facts_count; i++) {
        const struct fact *f = &w->append.facts[i];
        if (f->what != FACT_PUT && !fact_is_pin(f))
            return at;
        if (f->stash_until.ns > at.ns && f->stash_until.ns - at.ns < least)
            least = f->stash_until.ns - at.ns;
    }
    /* 0: the policy has no such window. */
    for (unsigned i = 0; i < COUNT_OF(windows); i++)
        if (windows[i] > 0 && windows[i] < least)
            least = windows[i];
    return store_time_add(at, least);
}

/* True with the probability of the sample. */
static bool due_drawn(struct cassandra_pages *p, store_time at)
{
    struct rng rng;
    if (p->opts.due_sample >= 1)
        return true;
    rng_init(&rng, (uint64_t)at.ns ^ (uint64_t)p->opts.srv << 32); /* no two of a server */
    return rng_unit(&rng) < p->opts.due_sample;
}

static size_t acts_count(const struct fact *facts, size_t count)
{
    size_t acts = 0;
    for (size_t i = 0; i < count; i++)
        acts += facts[i].what != FACT_PUT;
    return acts;
}

/* Facts that are no puts pile up where the wiki is asked again and again: hidden pages, or renders
 * that come out the same. Each read of the title reads them all, and few say anything that later
 * ones do not. */
static void acts_file(struct work *w)
{
    struct cassandra_pages *p = w->pages;
    size_t before = acts_count(w->facts.facts, w->facts.facts_count);
    size_t after = before + acts_count(w->append.facts, w->append.facts_count);
    store_time at = clock_store(p->opts.clock);
    if (after / DUE_ACTS_TOLD > before / DUE_ACTS_TOLD) /* by then these may be forgotten */
        dues_file(p, &w->key, store_time_add(at, 2 * pages_behind_ns(p)));
}

/* Called behind each append, at the home of its facts, while the work's arena is still there. It
 * may do nothing: the sweep finds the title as well. */
void dues_appended(struct work *w)
{
    struct cassandra_pages *p = w->pages;
    bool sampled = p->opts.due_sample < 1;
    store_time at = fact_arrived(&w->append.facts[0]);
    if (p->opts.due_sample <= 0 || !due_drawn(p, at))
        return;
    if (w->append.facts[0].what == FACT_FORGOTTEN)
        return; /* a cull says itself when it is to come again */
    acts_file(w);
    /* The title's last change has filed this instant, or is about to. */
    store_time before = dues_next(&w->facts, &w->memory, 0);
    /* The cheap test first: deriving again takes as long as the request did. */
    if (!sampled && !store_time_before(due_soonest(w, at), before))
        return; /* it is filed as early as this can be due */
    struct title_facts in = w->facts;
    struct title_memory after;
    /* The title as it is with the facts that were just written. */
    struct fact *facts =
        arena_alloc(&w->arena, (in.facts_count + w->append.facts_count) * sizeof *facts);
    if (facts == NULL)
        return;
    if (in.facts_count > 0)
        memcpy(facts, in.facts, in.facts_count * sizeof *facts);
    memcpy(facts + in.facts_count, w->append.facts, w->append.facts_count * sizeof *facts);
    in.facts = facts;
    in.facts_count += w->append.facts_count;
    if (title_derive(&in, w->memory.title.now, &w->arena, &after) != ERR_OK)
        return;
    store_time next = dues_next(&in, &after, 0);
    /* A sample files the title whenever it is drawn: each draw stands for the changes that were not
     * drawn. */
    if (next.ns != INT64_MAX && (sampled || store_time_before(next, before)))
        dues_file(p, &w->key, next);
}
