/* Goal: what several servers acknowledge holds, though each has a clock of its own and does not yet
 * see what the others are writing. Method: a wiki whose revisions are hidden and shown; three
 * servers, whose clocks are wrong within max_skew and drift; each reads what is written, decides
 * over what derive says of that, and writes; writes take a while. Facts are culled and forgotten
 * behind a horizon that derive.h calls settled, and come back. In real time, which no server knows:
 *   1 no render is shown that the wiki said last to be hidden, among all that was heard
 *   2 a pinned render is there until then, unless somebody ended the pin or took the render
 *   3 a render that a purge saw is gone, unless it was put again beside it
 *   4 under app_ttl each render lives for grace_ttl from its arrival, however late it came
 *   5 the facts that are left say the same as all
 *
 *   model_promises [--seed N] [--histories N] [--seconds N]     0 histories: without end */
#include "facts.h"
#include "title/decide.h"
#include "title/step.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)
#define TTL_LEDGER (60 * NS_PER_S)
#define WRITE_NS (400 * NS_PER_MS) /* a write takes no longer */
#define MAKE_NS (3 * NS_PER_S)     /* nor does a making, from when the wiki was asked */
enum { SERVERS = 3, REVS = 4, STEPS = 90, SAYINGS_MAX = 256, WRITES_MAX = 64 };

/* The wiki, in real time: what it says of a revision from then on. */
struct saying {
    store_time at;
    uint64_t rev;
    enum page_state state;
};
struct server {
    int64_t wrong_ns;
    store_time last;
};
/* Facts of one decision, on their way. */
struct writing {
    store_time done_at;
    struct fact facts[TITLE_FACTS_MAX];
    unsigned count, saw;
    store_time asked; /* the wiki, in real time; ZERO: not */
};
struct world {
    struct facts_log log, thin;
    store_time asked[FACTS_MAX]; /* of the facts of log */
    unsigned saw[FACTS_MAX];     /* how many of them their decisions saw */
    struct facts_plans plans;
    int64_t max_skew_ns;
    store_time real, horizon;
    struct server servers[SERVERS];
    struct saying sayings[SAYINGS_MAX];
    unsigned sayings_count;
    struct writing writes[WRITES_MAX];
    unsigned writes_count, texts;
    struct rng rng;
    uint64_t seed, step, facts, pins, purges, hidden, graces, forgotten;
};

_Noreturn static void world_fail(const struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);
static void world_fail(const struct world *w, const char *format, ...)
{
    va_list args;
    facts_print(&w->log, &w->plans);
    (void)fprintf(stderr, "left:\n");
    facts_print(&w->thin, &w->plans);
    (void)fprintf(stderr, "model_promises: --seed %llu --histories 1, step %llu, at %lld: ",
                  (unsigned long long)w->seed, (unsigned long long)w->step,
                  (long long)(w->real.ns - T0));
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(1);
}

static uint64_t below(struct world *w, uint64_t bound)
{
    return rng_below(&w->rng, bound);
}

static const struct page_policy *policy(const struct world *w)
{
    return &w->plans.plans[0].plan.policy;
}

/* ---- the wiki ---- */

static void wiki_changes(struct world *w)
{
    static const enum page_state states[] = { PAGE_CURRENT, PAGE_CURRENT, PAGE_DELETED,
                                              PAGE_SUPPRESSED };
    if (w->sayings_count < SAYINGS_MAX)
        w->sayings[w->sayings_count++] = (struct saying){
            .at = w->real, .rev = 1 + below(w, REVS), .state = states[below(w, COUNT_OF(states))]
        };
}

static enum page_state wiki_says(const struct world *w, uint64_t rev, store_time at)
{
    enum page_state state = PAGE_CURRENT;
    for (unsigned i = 0; i < w->sayings_count; i++)
        if (w->sayings[i].rev == rev && !store_time_before(at, w->sayings[i].at))
            state = w->sayings[i].state;
    return state;
}

/* ---- writing ---- */

static void write_ends(struct world *w, const struct writing *x)
{
    for (unsigned i = 0; i < x->count; i++) {
        unsigned at = w->log.count;
        if (!facts_add_any(&w->log, &x->facts[i]) || !facts_add_any(&w->thin, &x->facts[i]))
            world_fail(w, "a fact is none");
        if (w->log.count == at)
            world_fail(w, "two facts of one server and time");
        w->asked[at] = x->asked;
        w->saw[at] = x->saw;
        w->facts++;
    }
}

/* Those that are over by now; all: whenever they would be. */
static void writes_end(struct world *w, bool all)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < w->writes_count; i++)
        if (all || !store_time_before(w->real, w->writes[i].done_at))
            write_ends(w, &w->writes[i]);
        else
            w->writes[kept++] = w->writes[i];
    w->writes_count = kept;
}

/* ---- a server ---- */

struct turn {
    struct world *w;
    unsigned number;
    struct server *server;
    struct arena arena;
    struct facts_log *seen; /* which title borrows */
    struct title_memory title;
    struct title_answer answer;
};

static store_time server_clock(const struct turn *t, store_time real)
{
    return store_time_add(real, t->server->wrong_ns);
}

static void turn_begin(struct turn *t, struct world *w)
{
    *t = (struct turn){ .w = w, .number = (unsigned)below(w, SERVERS) };
    t->server = &w->servers[t->number];
    title_answer_init(&t->answer);
    const struct title_facts in = { .facts = w->thin.facts, .facts_count = w->thin.count };
    store_time at = title_stamp(&in, server_clock(t, w->real), t->server->last);
    t->seen = facts_shuffled(&w->thin, &w->rng);
    arena_init(&t->arena, 1u << 26);
    if (facts_derive(t->seen, &w->plans, at, &t->arena, &t->title) != ERR_OK)
        world_fail(w, "what is seen cannot be derived");
    t->title.title.now = at;
    t->server->last = at;
}

static void turn_end(struct turn *t, store_time asked)
{
    struct world *w = t->w;
    struct writing x = { .count = t->answer.facts_count, .saw = w->log.count, .asked = asked };
    x.done_at = store_time_add(w->real, (int64_t)below(w, (uint64_t)WRITE_NS));
    for (unsigned i = 0; i < x.count; i++) {
        x.facts[i] = t->answer.facts[i];
        x.facts[i].srv = t->number;
        x.facts[i].n = i;
    }
    if (w->writes_count == WRITES_MAX)
        world_fail(w, "too many writes");
    if (x.count > 0)
        w->writes[w->writes_count++] = x;
    free(t->seen);
    arena_fini(&t->arena);
}

static void hear(struct turn *t, const struct title_mark *mark)
{
    const struct title_hearing h = { .marks = mark, .marks_count = 1 };
    struct title_part part;
    unsigned at = 0;
    struct fact *f;
    while (t->answer.facts_count < TITLE_FACTS_MAX &&
           title_hearing_next(&t->title.title, &h, &at,
                              (f = &t->answer.facts[t->answer.facts_count])) == ERR_OK) {
        part = (struct title_part){ .resumed = false };
        if (title_step(&t->title.title, f, &part) != ERR_OK)
            world_fail(t->w, "a mark cannot be stepped");
        t->answer.facts_count++;
        at++;
    }
}

/* The wiki is asked for a revision: a render of it is put, or that it is hidden is heard. */
static void step_make(struct world *w)
{
    static const struct page_content content = { .name = "html", .stored_bytes = 7 };
    struct turn t;
    unsigned char digest[PAGE_DIGEST_BYTES] = { 0 };
    turn_begin(&t, w);
    const uint64_t rev = 1 + below(w, REVS);
    const store_time asked = store_time_add(w->real, -(int64_t)below(w, (uint64_t)MAKE_NS));
    const enum page_state state = wiki_says(w, rev, asked);
    const struct title_mark mark = {
        .state = state, .first = rev, .last = rev, .said_at = server_clock(&t, asked)
    };
    if (state != PAGE_CURRENT || below(w, 4) == 0) {
        hear(&t, &mark);
        turn_end(&t, asked);
        return;
    }
    w->texts++;
    memcpy(digest, &w->texts, sizeof(w->texts));
    int64_t tid_ns = w->real.ns - (int64_t)below(w, 60) * NS_PER_S;
    const struct title_put put = {
        .rev = rev,
        .has_tid = below(w, 3) == 0,
        .tid = tid_make(tid_ticks((store_time){ .ns = tid_ns }), below(w, 2)),
        .random = below(w, 1000),
        .digest = digest,
        .plain_digest = digest,
        .contents = &content,
        .contents_count = 1,
        .said_at = server_clock(&t, asked),
        .stash_ns = below(w, 6) == 0 ? 50 * NS_PER_S : 0,
    };
    if (title_decide_put(&t.title.title, &put, &t.answer) != ERR_OK)
        t.answer.facts_count = 0;
    turn_end(&t, asked);
}

static void step_order(struct world *w)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_STASH,   ORDER_STASH,
                                                  ORDER_HOLD,   ORDER_RELEASE, ORDER_UNSTASH,
                                                  ORDER_PURGE };
    struct turn t;
    struct page_render render;
    struct title_order o = { .kind = kinds[below(w, COUNT_OF(kinds))], .has_rev = true };
    turn_begin(&t, w);
    o.has_tid = facts_some_name(&w->thin, &w->rng, &o.name);
    if (o.has_tid && (o.kind != ORDER_PURGE || below(w, 3) != 0)) {
        o.until = store_time_add(t.title.title.now, (int64_t)(1 + below(w, 90)) * NS_PER_S);
        o.named = below(w, 2) == 0;
        o.drop = below(w, 4) == 0;
        if (o.kind == ORDER_PURGE && below(w, 3) == 0)
            o.has_tid = false;
        if (title_decide_order(&t.title.title, &o, &render, &t.answer) != ERR_OK)
            t.answer.facts_count = 0;
    }
    turn_end(&t, STORE_TIME_ZERO);
}

/* ---- promises ---- */

static bool takes(const struct fact *f, struct page_name name)
{
    if (f->what == FACT_FENCE || f->name.rev == 0)
        return true;
    return f->name.rev == name.rev &&
           (page_name_is_unmade(f->name) || tid_cmp(f->name.tid, name.tid) == 0);
}

static bool takes_away(const struct fact *f, struct page_name name)
{
    return (fact_is_purge(f) || f->what == FACT_FENCE || f->what == FACT_DROP) && takes(f, name);
}

/* Does any fact end a pin of this kind of this render, or take the render? */
static bool is_ended(const struct world *w, const struct fact *pin)
{
    for (unsigned i = 0; i < w->log.count; i++) {
        const struct fact *f = &w->log.facts[i];
        bool other_hold = f->what == FACT_HOLD && f != pin && pin->what == FACT_HOLD;
        bool ends = (f->what == FACT_RELEASE && pin->what == FACT_HOLD) ||
                    (f->what == FACT_UNSTASH && pin->what == FACT_STASH) || other_hold;
        if (takes_away(f, pin->name) || (ends && takes(f, pin->name)))
            return true;
    }
    return false;
}

static bool is_there_at(const struct world *w, struct page_name name, store_time at)
{
    struct arena arena;
    struct title_memory m;
    struct page_row row;
    arena_init(&arena, 1u << 26);
    if (facts_derive(&w->log, &w->plans, at, &arena, &m) != ERR_OK)
        world_fail(w, "the facts cannot be derived");
    bool there = title_get(&m.title, name, &row) == ERR_OK && title_alive(&m.title, &row);
    arena_fini(&arena);
    return there;
}

/* The windows of these policies are longer than what servers do not see of each other. */
static bool is_patient(const struct world *w)
{
    return policy(w)->kind == POLICY_ALL ||
           (policy(w)->kind == POLICY_APP_TTL && policy(w)->grace_ttl_ns >= 20 * NS_PER_S);
}

static void check_pins(struct world *w)
{
    store_time last = facts_last(&w->log);
    for (unsigned i = 0; i < w->log.count && is_patient(w); i++) {
        const struct fact *f = &w->log.facts[i];
        store_time at = store_time_add(f->until, -1);
        if (!fact_is_pin(f) || !store_time_before(last, at) || is_ended(w, f))
            continue;
        w->pins++;
        if (!is_there_at(w, f->name, at))
            world_fail(w, "the %s of %llu at %lld does not hold", fact_name(f->what),
                       (unsigned long long)f->name.rev, (long long)(f->at.ns - T0));
    }
}

/* Of two puts of one name the first counts. */
static bool is_namesake(const struct fact *a, const struct fact *b)
{
    return a != b && a->what == FACT_PUT && page_name_cmp(a->name, b->name) == 0;
}

static void check_graces(struct world *w)
{
    store_time last = facts_last(&w->log);
    for (unsigned i = 0; i < w->log.count && policy(w)->kind == POLICY_APP_TTL; i++) {
        const struct fact *f = &w->log.facts[i];
        store_time at = store_time_add(f->at, policy(w)->grace_ttl_ns - 1);
        bool taken = f->what != FACT_PUT || !store_time_before(last, at);
        for (unsigned j = 0; j < w->log.count && !taken; j++)
            taken = takes_away(&w->log.facts[j], f->name) || is_namesake(&w->log.facts[j], f);
        if (taken)
            continue;
        w->graces++;
        if (!is_there_at(w, f->name, at))
            world_fail(w, "%llu, put at %lld, does not live for a grace",
                       (unsigned long long)f->name.rev, (long long)(f->at.ns - T0));
    }
}

/* When the wiki was last asked, of all facts that said so (hides) of this revision. */
static store_time last_asked(const struct world *w, uint64_t rev, bool hides)
{
    store_time asked = STORE_TIME_ZERO;
    for (unsigned i = 0; i < w->log.count; i++) {
        const struct fact *f = &w->log.facts[i];
        if (fact_is_mark(f) && (f->what != FACT_SHOWN) == hides && f->name.rev <= rev &&
            rev <= f->rev_last)
            asked = store_time_max(asked, w->asked[i]);
    }
    return asked;
}

/* The latest that any put of this name was asked for. */
static store_time put_asked(const struct world *w, struct page_name name)
{
    store_time asked = STORE_TIME_ZERO;
    for (unsigned i = 0; i < w->log.count; i++)
        if (w->log.facts[i].what == FACT_PUT && page_name_cmp(w->log.facts[i].name, name) == 0)
            asked = store_time_max(asked, w->asked[i]);
    return asked;
}

static void check_hidden(struct world *w, const struct title_memory *m)
{
    for (size_t i = 0; i < m->rows_count; i++) {
        const struct page_row *row = m->rows[i];
        uint64_t rev = row->r.name.rev;
        store_time hidden = last_asked(w, rev, true);
        store_time shown = last_asked(w, rev, false);
        shown = store_time_max(shown, put_asked(w, row->r.name));
        w->hidden += row->r.hidden != PAGE_CURRENT;
        if (row->r.hidden == PAGE_CURRENT && store_time_before(shown, hidden))
            world_fail(w, "%llu is shown, and the wiki hid it at %lld, and showed it before",
                       (unsigned long long)rev, (long long)(hidden.ns - T0));
    }
}

static void check_purges(struct world *w, const struct title_memory *m)
{
    struct page_row row;
    for (unsigned i = 0; i < w->log.count; i++)
        for (unsigned j = 0; fact_is_purge(&w->log.facts[i]) && j < w->saw[i]; j++) {
            const struct fact *purge = &w->log.facts[i], *put = &w->log.facts[j];
            if (put->what != FACT_PUT || !takes(purge, put->name))
                continue;
            w->purges++;
            if (title_get(&m->title, put->name, &row) == ERR_OK && row.r.stored_at.ns == put->at.ns)
                world_fail(w, "%llu, put at %lld, is there after its purge",
                           (unsigned long long)put->name.rev, (long long)(put->at.ns - T0));
        }
}

static void check(struct world *w)
{
    struct arena arena;
    struct title_memory all, left;
    struct facts_difference d;
    store_time now = store_time_max(w->real, facts_last(&w->thin));
    now = store_time_max(now, facts_last(&w->log));
    arena_init(&arena, 1u << 26);
    if (facts_derive(&w->log, &w->plans, now, &arena, &all) != ERR_OK ||
        facts_derive(&w->thin, &w->plans, now, &arena, &left) != ERR_OK)
        world_fail(w, "the facts cannot be derived");
    if (!facts_compare(&all.title, &left.title, &w->log, &w->rng, &d))
        world_fail(w, "all facts and those left: %s", d.text);
    check_hidden(w, &all);
    check_purges(w, &all);
    arena_fini(&arena);
}

/* ---- time ---- */

static void step_time(struct world *w)
{
    bool far = below(w, 6) == 0;
    if (far)
        writes_end(w, true);
    w->real.ns += (int64_t)below(w, far ? 60 * (uint64_t)NS_PER_S : 300 * (uint64_t)NS_PER_MS);
    writes_end(w, false);
    struct server *s = &w->servers[below(w, SERVERS)];
    s->wrong_ns += (int64_t)below(w, 201) * NS_PER_MS - 100 * NS_PER_MS;
    if (s->wrong_ns > w->max_skew_ns)
        s->wrong_ns = w->max_skew_ns;
    if (s->wrong_ns < -w->max_skew_ns)
        s->wrong_ns = -w->max_skew_ns;
}

static void step_thin(struct world *w)
{
    unsigned forgotten;
    int64_t behind_ns = 2 * w->max_skew_ns + WRITE_NS + MAKE_NS; /* what derive.h calls settled */
    store_time clock = store_time_add(w->real, w->servers[below(w, SERVERS)].wrong_ns);
    store_time horizon = store_time_add(clock, -behind_ns);
    if (facts_thin(&w->thin, &w->plans, horizon, &w->rng, &forgotten) != ERR_OK)
        world_fail(w, "what may be forgotten cannot be said");
    w->forgotten += forgotten;
    if (below(w, 3) == 0 && !facts_revive(&w->thin, &w->log, &w->rng))
        world_fail(w, "no room for what comes back");
}

static void step(struct world *w)
{
    uint64_t what = below(w, 100);
    if (what < 40)
        step_make(w);
    else if (what < 60)
        step_order(w);
    else if (what < 70)
        wiki_changes(w);
    else if (what < 95)
        step_time(w);
    else
        step_thin(w);
    check(w);
}

static void history(struct world *w, uint64_t seed)
{
    static const int64_t skews[] = { 0, 500 * NS_PER_MS, 2 * NS_PER_S };
    w->seed = seed;
    rng_init(&w->rng, seed);
    w->log.count = w->thin.count = w->writes_count = w->sayings_count = w->texts = 0;
    w->plans.count = 0;
    w->real.ns = T0;
    w->max_skew_ns = skews[below(w, COUNT_OF(skews))];
    w->plans.skew_ns = 2 * w->max_skew_ns;
    w->plans.linger_ns = w->plans.skew_ns + WRITE_NS;
    const struct page_plan plan = { .policy = facts_draw_policy(&w->rng, TTL_LEDGER), .number = 1 };
    if (!facts_plan(&w->plans, &plan, STORE_TIME_ZERO))
        world_fail(w, "no plan fits");
    for (unsigned i = 0; i < SERVERS; i++) {
        int64_t wrong = (int64_t)below(w, 2 * (uint64_t)w->max_skew_ns + 1) - w->max_skew_ns;
        w->servers[i] = (struct server){ .wrong_ns = wrong };
    }
    for (w->step = 1; w->step <= STEPS; w->step++)
        step(w);
    writes_end(w, true);
    check(w);
    check_pins(w);
    check_graces(w);
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t seed = 1, histories = 300, seconds = UINT32_MAX, done = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0        ? &seed
                           : strcmp(argv[i], "--histories") == 0 ? &histories
                           : strcmp(argv[i], "--seconds") == 0   ? &seconds
                                                                 : NULL;
        if (number == NULL || !str_to_u64(str_of(argv[i + 1]), number))
            return 2;
    }
    time_t end = time(NULL) + (time_t)seconds;
    for (; (histories == 0 || done < histories) && time(NULL) < end; done++, seed++)
        history(&w, seed);
    (void)printf("%llu histories up to seed %llu: %llu facts, %llu forgotten; %llu pins, %llu "
                 "purges, %llu hidden, %llu graces\n",
                 (unsigned long long)done, (unsigned long long)seed - 1,
                 (unsigned long long)w.facts, (unsigned long long)w.forgotten,
                 (unsigned long long)w.pins, (unsigned long long)w.purges,
                 (unsigned long long)w.hidden, (unsigned long long)w.graces);
    return 0;
}
