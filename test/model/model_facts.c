/* Goal: what a page bucket keeps of a title is what derive says of the facts it gave out. Method:
 * random histories on two titles (puts of all kinds, pins, marks, purges, policies, new starts)
 * through the embedded store; after each step every answer of the store's rows is compared with
 * those of rows derived from the facts, and at the end at each later instant at which something
 * ends. Beside: facts in any order, given twice, culled and forgotten as title/derive.h allows, and
 * partly come back, say the same. Facts of many servers are for model_derive.c.
 *
 *   model_facts [--seed N] [--histories N] [--steps N] [--seconds N] [--dir DIR]     0 histories:
 *     without end */
#include "base/rng.h"
#include "bucket/look.h"
#include "facts.h"
#include "store.h"
#include "sync.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)
#define TTL_LEDGER (1000 * NS_PER_S)
enum { TITLES = 2, REVS = 5, TEXTS = 5 };

struct model {
    struct facts_log logs[TITLES];
    struct facts_log thin[TITLES]; /* the same, but for what was culled and forgotten */
    struct facts_plans plans;
    struct fake_clock clock;
    struct model_store store;
    struct pages *pages;
    struct page_bucket *bucket;
    struct page_policy policy;
    uint32_t domain;
    struct rng rng;
    uint64_t seed, step, puts, orders, facts, forgotten, starts;
};

static const char *const title_names[TITLES] = { "Main_Page", "Main_Page2" };

_Noreturn static void model_fail(const struct model *m, const char *format, ...) PRINTF_LIKE(2, 3);
static void model_fail(const struct model *m, const char *format, ...)
{
    va_list args;
    (void)fprintf(stderr, "model_facts: --seed %llu --histories 1, step %llu, policy %s: ",
                  (unsigned long long)m->seed, (unsigned long long)m->step,
                  page_policy_name(m->policy.kind));
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    _exit(1);
}

static uint64_t below(struct model *m, uint64_t bound)
{
    return rng_below(&m->rng, bound);
}

static store_time model_now(const struct model *m)
{
    return (store_time){ .ns = m->clock.now_ns };
}

/* ---- comparing ---- */

static void compare(struct model *m, const struct title *a, const struct title *b,
                    const struct facts_log *log, const char *what)
{
    struct facts_difference d;
    if (facts_compare(a, b, log, &m->rng, &d))
        return;
    facts_print(log, &m->plans);
    model_fail(m, "%s, at %lld: %s", what, (long long)(a->now.ns - T0), d.text);
}

static void derive_log(struct model *m, const struct facts_log *log, store_time now,
                       struct arena *arena, struct title_memory *out)
{
    if (facts_derive(log, &m->plans, now, arena, out) != ERR_OK)
        model_fail(m, "the facts of a title cannot be derived");
}

/* As an edit sees it: with its fences. */
static void look_at(struct model *m, struct engine_view *v, unsigned i, struct look *k)
{
    struct engine_row found;
    look_init(k, m->bucket, v, m->domain, str_of(title_names[i]));
    err e = engine_get(v, SPACE_TITLE, page_key_str(&k->key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &k->row);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        model_fail(m, "the row of a title cannot be read");
}

/* The store's rows, those of all its facts, those of the facts left. */
static void compare_title(struct model *m, struct engine_view *v, unsigned i)
{
    struct arena arena;
    struct title_memory derived, thin;
    struct look k;
    look_at(m, v, i, &k);
    arena_init(&arena, 1u << 26);
    derive_log(m, &m->logs[i], model_now(m), &arena, &derived);
    compare(m, &k.title, &derived.title, &m->logs[i], "the store and its facts");
    derive_log(m, &m->thin[i], model_now(m), &arena, &thin);
    compare(m, &derived.title, &thin.title, &m->logs[i], "all facts and those left");
    arena_fini(&arena);
}

static void compare_all(struct model *m)
{
    struct engine_view *v = engine_view_begin(m->store.engine);
    for (unsigned i = 0; i < TITLES; i++)
        compare_title(m, v, i);
    engine_view_end(&v);
}

static void compare_shuffled(struct model *m, unsigned i)
{
    struct arena arena;
    struct title_memory derived, again;
    struct facts_log *shuffled = facts_shuffled(&m->logs[i], &m->rng);
    arena_init(&arena, 1u << 26);
    derive_log(m, &m->logs[i], model_now(m), &arena, &derived);
    derive_log(m, shuffled, model_now(m), &arena, &again);
    compare(m, &derived.title, &again.title, &m->logs[i], "facts in order and in any order");
    arena_fini(&arena);
    free(shuffled);
}

static void damage_found(void *ctx, const char *what)
{
    struct model *dm = ctx;
    facts_print(&dm->logs[0], &dm->plans);
    facts_print(&dm->logs[1], &dm->plans);
    model_fail(ctx, "check: %s", what);
}

/* ---- steps ---- */

static void facts_told(void *ctx, uint16_t bucket, uint32_t domain, str title,
                       const struct fact *facts, unsigned count)
{
    struct model *m = ctx;
    (void)bucket, (void)domain; /* there is one of each */
    unsigned i = str_eq(title, str_of(title_names[0])) ? 0 : 1;
    for (unsigned j = 0; j < count; j++)
        if (!facts_add(&m->logs[i], &facts[j]) || !facts_add_any(&m->thin[i], &facts[j]))
            model_fail(m, "a fact is given that is no fact, or out of its time");
    m->facts += count;
}

static struct page_name some_name(struct model *m, unsigned title, bool known)
{
    struct page_name name;
    if (known && facts_some_name(&m->logs[title], &m->rng, &name))
        return name;
    int64_t ns = m->clock.now_ns + ((int64_t)below(m, 120) - 114) * NS_PER_S;
    return (struct page_name){ .rev = 1 + below(m, REVS), .tid = tid_at(ns, 1 + below(m, 2)) };
}

/* A wiki that deletes, moves and edits, asked a while ago. */
static struct title_word some_word(struct model *m)
{
    struct title_word w = { .missing = below(m, 8) == 0,
                            .asked_at.ns = m->clock.now_ns - (int64_t)below(m, 30) * NS_PER_S };
    if (w.missing)
        return w;
    w.page_id = 1 + (below(m, 10) == 0);
    w.rev = 1 + below(m, REVS);
    w.said = w.asked_at.ns / NS_PER_S;
    w.touched = w.said - (int64_t)below(m, 20);
    return w;
}

static void step_put(struct model *m, unsigned title)
{
    const struct title_word word = some_word(m);
    const struct page_name name = some_name(m, title, below(m, 4) == 0);
    char text[64];
    unsigned number = (unsigned)below(m, TEXTS);
    (void)snprintf(text, sizeof(text), "<p about=\"#mwt%u\">text %u</p>", (unsigned)below(m, 2),
                   number);
    struct page_put p = { .domain = m->domain,
                          .title = str_of(title_names[title]),
                          .rev = name.rev,
                          .has_tid = below(m, 3) != 0,
                          .tid = name.tid,
                          .contents_count = 1,
                          .asked = below(m, 4) == 0,
                          .heeds = below(m, 2) == 0 };
    if (p.heeds && !word.missing && below(m, 2) == 0)
        p.word = &word;
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(text) };
    if (below(m, 10) == 0)
        p.stash_ns = (int64_t)below(m, 90) * NS_PER_S;
    if (below(m, 6) == 0)
        p.behind = name.rev + below(m, 3);
    if (below(m, 4) == 0)
        p.said_at.ns = m->clock.now_ns - (int64_t)below(m, 30) * NS_PER_S;
    err e = sync_put(m->bucket, &p);
    if (e != ERR_OK && e != ERR_GONE && e != ERR_CONFLICT && e != ERR_BAD)
        model_fail(m, "put of %llu: %s", (unsigned long long)name.rev, err_name(e));
    m->puts++;
}

static void order(struct model *m, unsigned title, struct page_order *o)
{
    o->domain = m->domain;
    o->title = str_of(title_names[title]);
    err e = sync_order(m->bucket, o);
    if (e != ERR_OK && e != ERR_NOT_FOUND && e != ERR_GONE && e != ERR_BAD)
        model_fail(m, "order %d: %s", (int)o->kind, err_name(e));
    m->orders++;
}

static void step_order(struct model *m, unsigned title)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_EXTEND,  ORDER_STASH,
                                                  ORDER_HOLD,   ORDER_RELEASE, ORDER_UNSTASH,
                                                  ORDER_PURGE };
    struct page_order o = { .kind = kinds[below(m, COUNT_OF(kinds))] };
    if (o.kind == ORDER_PURGE && below(m, 2) == 0)
        o.kind = ORDER_UNSTASH;
    o.has_rev = below(m, 8) != 0 || o.kind == ORDER_UNSTASH;
    o.has_tid = o.has_rev && (below(m, 3) != 0 || o.kind == ORDER_UNSTASH);
    o.name = some_name(m, title, below(m, 5) != 0);
    o.until.ns = m->clock.now_ns + ((int64_t)below(m, 200) - 10) * NS_PER_S;
    o.named = below(m, 2) == 0;
    o.drop = below(m, 3) == 0;
    o.elsewhere = below(m, 3) == 0;
    order(m, title, &o);
}

static void step_hear(struct model *m, unsigned title)
{
    static const enum page_state states[] = { PAGE_CURRENT, PAGE_SUPPRESSED, PAGE_DELETED };
    struct title_mark mark = { .state = states[below(m, COUNT_OF(states))] };
    if (below(m, 3) == 0) {
        mark.last = PAGE_REV_MAX;
    } else {
        mark.first = 1 + below(m, REVS);
        mark.last = mark.first + below(m, 2);
    }
    mark.said_at.ns = m->clock.now_ns - ((int64_t)below(m, 40) - 5) * NS_PER_S;
    const struct title_word word = some_word(m);
    struct page_hear h = { .domain = m->domain,
                           .title = str_of(title_names[title]),
                           .word = below(m, 2) == 0 ? &word : NULL,
                           .believe = below(m, 3) == 0,
                           .marks = &mark,
                           .marks_count = 1 };
    if (h.word != NULL && below(m, 2) == 0)
        h.marks_count = 0;
    err e = sync_hear(m->pages, &h);
    if (e != ERR_OK)
        model_fail(m, "hear: %s", err_name(e));
    m->orders++;
}

/* More fences than a title may have: they become one. */
static void step_fences(struct model *m, unsigned title)
{
    for (unsigned i = 0; i <= PAGE_FENCES_MAX; i++) {
        struct page_order o = { .kind = ORDER_PURGE, .has_rev = true, .has_tid = true };
        o.name = (struct page_name){ .rev = 1 + below(m, REVS),
                                     .tid = tid_at(m->clock.now_ns - 200 * NS_PER_S, 10 + i) };
        order(m, title, &o);
    }
}

static void step_clock(struct model *m)
{
    const struct facts_log *log = &m->logs[below(m, TITLES)];
    int64_t due;
    if (below(m, 3) == 0 && facts_some_due(log, &m->plans, model_now(m), &m->rng, &due)) {
        due += (int64_t)below(m, 3) - 1; /* just before, at, just after */
        if (due > m->clock.now_ns)
            fake_clock_advance(&m->clock, due - m->clock.now_ns);
        return;
    }
    fake_clock_advance(&m->clock, (int64_t)below(m, below(m, 10) == 0 ? 400 : 15) * NS_PER_S +
                                      (int64_t)below(m, 2));
}

static void step_upkeep(struct model *m)
{
    store_time next;
    if (sync_upkeep(m->pages, &next) != ERR_OK || next.ns <= m->clock.now_ns)
        model_fail(m, "upkeep fails, or leaves something due");
    if (pages_check(m->pages, damage_found, m) != ERR_OK)
        model_fail(m, "check fails");
}

static void step_forget(struct model *m, unsigned title)
{
    unsigned forgotten;
    store_time horizon = store_time_add(model_now(m), -1); /* more may come in this instant */
    if (below(m, 2) == 0)
        horizon.ns -= (int64_t)below(m, 100) * NS_PER_S;
    if (facts_thin(&m->thin[title], &m->plans, horizon, &m->rng, &forgotten) != ERR_OK)
        model_fail(m, "what may be forgotten cannot be said");
    m->forgotten += forgotten;
    if (below(m, 4) == 0 && !facts_revive(&m->thin[title], &m->logs[title], &m->rng))
        model_fail(m, "no room for what comes back");
}

static void step(struct model *m)
{
    unsigned title = (unsigned)below(m, TITLES);
    uint64_t what = below(m, 1000);
    if (what < 430)
        step_put(m, title);
    else if (what < 610)
        step_order(m, title);
    else if (what < 680)
        step_hear(m, title);
    else if (what < 684)
        step_fences(m, title);
    else if (what < 870)
        step_clock(m);
    else if (what < 930)
        step_upkeep(m);
    else
        step_forget(m, title);
    compare_all(m);
    if (below(m, 8) == 0)
        compare_shuffled(m, title);
}

/* ---- lives ---- */

/* The times of one server rise strictly, over its starts, too. */
static void life_begin(struct model *m)
{
    struct err_note note = { "" };
    const struct page_bucket_opts opts = { .name = "page",
                                           .policy = m->policy,
                                           .codec = PAGE_IDENTITY };
    fake_clock_advance(&m->clock, 1);
    model_store_open(&m->store, &m->clock.clock);
    const struct pages_opts all = { m->store.engine, &m->clock.clock, rng_next(&m->rng), &opts, 1 };
    if (pages_new(&all, &m->pages, &note) != ERR_OK)
        model_fail(m, "pages_new: %s", note.text);
    m->bucket = pages_find(m->pages, STR("page"));
    if (pages_domain(m->pages, STR("en.example.test"), &m->domain) != ERR_OK)
        model_fail(m, "pages_domain fails");
    pages_on_facts(m->pages, facts_told, m);
    if (!facts_plan(&m->plans, page_bucket_plan(m->bucket), model_now(m)))
        model_fail(m, "too many policies");
    m->starts++;
}

static void policy_live(struct model *m)
{
    struct err_note note = { "" };
    const struct pages_policy one = { .bucket = STR("page"),
                                      .policy = facts_draw_policy(&m->rng, TTL_LEDGER) };
    fake_clock_advance(&m->clock, 1); /* times of one server rise strictly */
    if (pages_policies(m->pages, &one, 1, NULL, &note) != ERR_OK)
        model_fail(m, "pages_policies: %s", note.text);
    m->policy = one.policy;
    if (!facts_plan(&m->plans, page_bucket_plan(m->bucket), model_now(m)))
        model_fail(m, "too many policies");
    compare_all(m);
}

static void life_end(struct model *m, bool last)
{
    pages_free(&m->pages);
    model_store_close(&m->store, last);
}

/* Nothing happens any more, but that time passes. */
static void history_end(struct model *m)
{
    for (unsigned i = 0; i < 40; i++) {
        int64_t due;
        if (!facts_some_due(&m->logs[i % TITLES], &m->plans, model_now(m), &m->rng, &due))
            continue;
        due += (int64_t)below(m, 3) - 1;
        if (due > m->clock.now_ns)
            fake_clock_advance(&m->clock, due - m->clock.now_ns);
        if (below(m, 4) == 0)
            step_upkeep(m);
        step_forget(m, i % TITLES);
        compare_all(m);
    }
}

static void history(struct model *m, uint64_t seed, uint64_t steps)
{
    m->seed = seed;
    m->plans.count = 0;
    for (unsigned i = 0; i < TITLES; i++)
        m->logs[i].count = m->thin[i].count = 0;
    rng_init(&m->rng, seed);
    fake_clock_init(&m->clock, T0);
    m->policy = facts_draw_policy(&m->rng, TTL_LEDGER);
    life_begin(m);
    for (m->step = 1; m->step <= steps && !facts_full(m->logs, TITLES); m->step++) {
        if (below(m, 40) == 0) {
            life_end(m, false);
            if (below(m, 2) == 0)
                m->policy = facts_draw_policy(&m->rng, TTL_LEDGER);
            life_begin(m);
            compare_all(m);
        }
        if (below(m, 40) == 0 && m->plans.count < FACTS_PLANS_MAX / 2)
            policy_live(m);
        step(m);
    }
    history_end(m);
    life_end(m, true);
}

/* ---- */

static int forget_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    static struct model m;
    uint64_t seed = 1, histories = 20, steps = 150, seconds = UINT32_MAX, done = 0;
    char dir[256] = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0        ? &seed
                           : strcmp(argv[i], "--histories") == 0 ? &histories
                           : strcmp(argv[i], "--steps") == 0     ? &steps
                           : strcmp(argv[i], "--seconds") == 0   ? &seconds
                                                                 : NULL;
        if (number != NULL ? !str_to_u64(str_of(argv[i + 1]), number)
                           : strcmp(argv[i], "--dir") != 0)
            return 2;
        if (number == NULL)
            (void)snprintf(dir, sizeof(dir), "%s", argv[i + 1]);
    }
    if (dir[0] == 0)
        (void)snprintf(dir, sizeof(dir), "model_facts.%ld", (long)getpid());
    m.store.dir = dir;
    time_t end = time(NULL) + (time_t)seconds;
    for (; (histories == 0 || done < histories) && time(NULL) < end; done++, seed++) {
        history(&m, seed, steps);
        if (model_store_survives)
            (void)nftw(dir, forget_file, 16, FTW_DEPTH | FTW_PHYS);
    }
    (void)printf("%llu histories up to seed %llu: %llu puts, %llu orders, %llu starts; %llu facts, "
                 "%llu forgotten\n",
                 (unsigned long long)done, (unsigned long long)seed - 1, (unsigned long long)m.puts,
                 (unsigned long long)m.orders, (unsigned long long)m.starts,
                 (unsigned long long)m.facts, (unsigned long long)m.forgotten);
    return 0;
}
