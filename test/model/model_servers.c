/* Goal: what servers with clocks of their own decide and write, one after the other, is what the
 * embedded store does; and facts that they wrote beside each other make of its rows what derive
 * makes of the facts. Method: a serial history, in which each request goes to the embedded store
 * and to one of three servers that decides over what derive says of all facts: the same answer, the
 * same facts, then the same title. And facts in no such order (model_derive.c), stepped into the
 * rows of the embedded store in the order of their times: the same title at each instant.
 *
 *   model_servers [--seed N] [--histories N] [--seconds N] [--dir DIR]     0 histories: without end
 */
#include "bucket/edit.h"
#include "facts.h"
#include "store.h"
#include "store/bundle.h"
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
enum { SERVERS = 3, REVS = 4, TEXTS = 5, STEPS = 80, TOLD_MAX = 16, LOOSE = 60 };

struct server {
    int64_t wrong_ns; /* how far its clock is off */
    store_time last;  /* the time of its last fact */
};
struct model {
    struct facts_log log, thin;
    struct facts_plans plans;
    struct fake_clock clock; /* of the embedded store */
    store_time real;
    struct server servers[SERVERS];
    struct model_store store;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    struct rng rng;
    uint64_t seed, step, facts, refused;
    struct fact told[TOLD_MAX]; /* by the embedded store, of one request */
    struct page_content contents[TOLD_MAX];
    unsigned told_count;
};

static const char title_name[] = "Main_Page";

_Noreturn static void model_fail(const struct model *m, const char *format, ...) PRINTF_LIKE(2, 3);
static void model_fail(const struct model *m, const char *format, ...)
{
    va_list args;
    facts_print(&m->log, &m->plans);
    (void)fprintf(stderr, "model_servers: --seed %llu --histories 1, step %llu: ",
                  (unsigned long long)m->seed, (unsigned long long)m->step);
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

/* ---- the embedded store ---- */

static void facts_told(void *ctx, uint16_t bucket, uint32_t domain, str title,
                       const struct fact *facts, unsigned count)
{
    struct model *m = ctx;
    (void)bucket, (void)domain, (void)title;
    for (unsigned i = 0; i < count; i++) {
        if (m->told_count == TOLD_MAX)
            model_fail(m, "too many facts of one request");
        struct fact *f = &m->told[m->told_count];
        *f = facts[i];
        if (f->contents_count > 0)
            m->contents[m->told_count] = f->contents[0];
        f->contents = &m->contents[m->told_count++];
    }
}

static void plan_came(struct model *m)
{
    if (!facts_plan(&m->plans, page_bucket_plan(m->bucket), (store_time){ .ns = m->clock.now_ns }))
        model_fail(m, "too many policies");
}

static void life_begin(struct model *m)
{
    struct err_note note = { "" };
    const struct page_bucket_opts opts = { .name = "page",
                                           .policy = facts_draw_policy(&m->rng, TTL_LEDGER),
                                           .codec = PAGE_IDENTITY };
    model_store_open(&m->store, &m->clock.clock);
    const struct pages_opts all = { m->store.engine, &m->clock.clock, rng_next(&m->rng), &opts, 1 };
    if (pages_new(&all, &m->pages, &note) != ERR_OK)
        model_fail(m, "pages_new: %s", note.text);
    m->bucket = pages_find(m->pages, STR("page"));
    if (pages_domain(m->pages, STR("en.example.test"), &m->domain) != ERR_OK)
        model_fail(m, "pages_domain fails");
    pages_on_facts(m->pages, facts_told, m);
    m->plans.count = 0;
    plan_came(m);
    fake_clock_advance(&m->clock, 1);
}

static void life_end(struct model *m)
{
    pages_free(&m->pages);
    model_store_close(&m->store, true);
}

static void policy_changes(struct model *m)
{
    struct err_note note = { "" };
    const struct pages_policy one = { .bucket = STR("page"),
                                      .policy = facts_draw_policy(&m->rng, TTL_LEDGER) };
    if (pages_policies(m->pages, &one, 1, NULL, &note) != ERR_OK)
        model_fail(m, "pages_policies: %s", note.text);
    plan_came(m);
}

static void upkeep(struct model *m)
{
    store_time next;
    if (sync_upkeep(m->pages, &next) != ERR_OK)
        model_fail(m, "upkeep fails");
}

/* ---- comparing ---- */

static void compare(struct model *m, const struct facts_log *log, const char *what)
{
    struct arena arena;
    struct title_memory derived;
    struct look k;
    struct engine_row found;
    struct facts_difference d;
    store_time now = { .ns = m->clock.now_ns };
    struct engine_view *v = engine_view_begin(m->store.engine);
    look_init(&k, m->bucket, v, m->domain, str_of(title_name));
    err e = engine_get(v, SPACE_TITLE, page_key_str(&k.key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &k.row);
    arena_init(&arena, 1u << 26);
    if (facts_derive(log, &m->plans, now, &arena, &derived) != ERR_OK)
        model_fail(m, "the facts cannot be derived");
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        model_fail(m, "the row of the title cannot be read");
    if (!facts_compare(&k.title, &derived.title, &m->log, &m->rng, &d))
        model_fail(m, "the store and %s, at %lld: %s", what, (long long)(now.ns - T0), d.text);
    arena_fini(&arena);
    engine_view_end(&v);
}

static void compare_shuffled(struct model *m)
{
    struct facts_log *shuffled = facts_shuffled(&m->log, &m->rng);
    compare(m, shuffled, "facts in any order");
    free(shuffled);
}

static void compare_to_the_end(struct model *m)
{
    for (unsigned i = 0; i < 12; i++) {
        int64_t due;
        store_time now = { .ns = m->clock.now_ns };
        if (!facts_some_due(&m->log, &m->plans, now, &m->rng, &due))
            break;
        due += (int64_t)below(m, 3) - 1;
        if (due > now.ns)
            fake_clock_advance(&m->clock, due - now.ns);
        if (below(m, 4) == 0)
            upkeep(m);
        compare(m, &m->log, "all facts");
        compare(m, &m->thin, "the facts left");
    }
}

/* ---- one server decides ---- */

struct turn {
    struct model *m;
    struct server *server;
    unsigned number;
    struct arena arena;
    struct facts_log *seen; /* which title borrows */
    struct title_memory title;
    struct title_answer answer;
};

/* The server's clock, behind all that it sees. The embedded store's clock shows the same: of its
 * own it never goes back, so requests that made no fact count, too. */
static void turn_begin(struct turn *t, struct model *m)
{
    const struct title_facts in = { .facts = m->log.facts, .facts_count = m->log.count };
    *t = (struct turn){ .m = m, .number = (unsigned)below(m, SERVERS) };
    t->server = &m->servers[t->number];
    store_time clock = store_time_add(m->real, t->server->wrong_ns);
    store_time at = title_stamp(&in, clock, t->server->last);
    at = store_time_max(at, (store_time){ .ns = m->clock.now_ns + 1 });
    fake_clock_advance(&m->clock, at.ns - m->clock.now_ns);
    m->told_count = 0;
    arena_init(&t->arena, 1u << 26);
    t->seen = facts_shuffled(&m->thin, &m->rng);
    if (facts_derive(t->seen, &m->plans, at, &t->arena, &t->title) != ERR_OK)
        model_fail(m, "the facts cannot be derived");
    if (t->title.title.now.ns != at.ns)
        model_fail(m, "a fact is later than what it saw and did");
    t->title.title.serial = true;
}

static bool same_fact(const struct fact *a, const struct fact *b)
{
    char x[FACT_BYTES_MAX], y[FACT_BYTES_MAX];
    struct fact s = *a, t = *b;
    s.n = t.n = 0;
    s.contents_count = t.contents_count = 0;
    return str_eq(fact_encode(&s, x), fact_encode(&t, y));
}

/* The facts of the embedded store are the server's: as its own they are written. */
static void turn_end(struct turn *t, err embedded, err server, const char *what)
{
    struct model *m = t->m;
    unsigned count = t->answer.facts_count, told = m->told_count;
    if (embedded != server)
        model_fail(m, "%s: the store says %s, a server %s", what, err_name(embedded),
                   err_name(server));
    m->refused += server != ERR_OK;
    if (server != ERR_OK)
        count = 0;
    if (told > 0 && m->told[told - 1].what == FACT_FENCE)
        told--; /* as the store keeps many fences; the fact stands for all */
    if (told != count)
        model_fail(m, "%s: the store makes %u facts, a server %u", what, told, count);
    for (unsigned i = 0; i < m->told_count; i++) {
        struct fact f = m->told[i];
        if (i < count && !same_fact(&f, &t->answer.facts[i]))
            model_fail(m, "%s: fact %u is another", what, i);
        f.srv = t->number;
        f.n = i;
        if (!facts_add(&m->log, &f) || !facts_add_any(&m->thin, &f))
            model_fail(m, "%s: a fact is none, or not behind what it saw", what);
        t->server->last = fact_arrived(&f);
        m->facts++;
    }
    free(t->seen);
    arena_fini(&t->arena);
}

/* ---- requests ---- */

static struct page_name some_name(struct model *m, bool known)
{
    struct page_name name;
    if (known && facts_some_name(&m->log, &m->rng, &name))
        return name;
    int64_t ns = m->clock.now_ns + ((int64_t)below(m, 120) - 115) * NS_PER_S;
    return (struct page_name){ .rev = 1 + below(m, REVS), .tid = tid_at(ns, 1 + below(m, 2)) };
}

/* The wiki was asked now: of revisions without a render the embedded store keeps no marks. */
static void step_put(struct model *m)
{
    struct turn t;
    char text[64];
    turn_begin(&t, m);
    const struct page_name name = some_name(m, below(m, 4) == 0);
    (void)snprintf(text, sizeof(text), "<p about=\"#mwt%u\">text %u</p>", (unsigned)below(m, 2),
                   (unsigned)below(m, TEXTS));
    struct page_put p = { .domain = m->domain,
                          .title = str_of(title_name),
                          .rev = name.rev,
                          .has_tid = true,
                          .tid = name.tid,
                          .contents_count = 1,
                          .own_name = below(m, 3) == 0,
                          .asked = below(m, 4) == 0 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(text) };
    if (below(m, 10) == 0)
        p.stash_ns = (int64_t)below(m, 90) * NS_PER_S;
    if (below(m, 6) == 0)
        p.behind = name.rev + below(m, 3);
    unsigned char digest[PAGE_DIGEST_BYTES], plain[PAGE_DIGEST_BYTES];
    static const struct page_content content = { .name = "html" };
    bundle_digests(p.contents, 1, digest, plain);
    const struct title_put request = { .rev = p.rev,
                                       .has_tid = true,
                                       .tid = p.tid,
                                       .digest = digest,
                                       .plain_digest = plain,
                                       .contents = &content,
                                       .contents_count = 1,
                                       .stash_ns = p.stash_ns,
                                       .behind = p.behind,
                                       .asked = p.asked,
                                       .own_name = p.own_name };
    err e = sync_put(m->bucket, &p);
    turn_end(&t, e, title_decide_put(&t.title.title, &request, &t.answer), "put");
}

static void step_order(struct model *m)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND,  ORDER_STASH,   ORDER_HOLD,
                                                  ORDER_RELEASE, ORDER_UNSTASH, ORDER_PURGE };
    struct turn t;
    struct page_render render;
    turn_begin(&t, m);
    struct page_order o = { .kind = kinds[below(m, COUNT_OF(kinds))],
                            .domain = m->domain,
                            .title = str_of(title_name) };
    o.has_rev = below(m, 8) != 0 || o.kind == ORDER_UNSTASH;
    o.has_tid = o.has_rev && (below(m, 3) != 0 || o.kind == ORDER_UNSTASH);
    o.name = some_name(m, below(m, 5) != 0);
    o.until.ns = m->clock.now_ns + ((int64_t)below(m, 200) - 10) * NS_PER_S;
    o.named = below(m, 2) == 0;
    o.drop = below(m, 3) == 0;
    o.elsewhere = below(m, 3) == 0;
    const struct title_order request = { .kind = o.kind,
                                         .has_rev = o.has_rev,
                                         .has_tid = o.has_tid,
                                         .name = o.name,
                                         .until = o.until,
                                         .named = o.named,
                                         .drop = o.drop,
                                         .elsewhere = o.elsewhere };
    err e = sync_order(m->bucket, &o);
    turn_end(&t, e, title_decide_order(&t.title.title, &request, &render, &t.answer), "order");
}

static void step_hear(struct model *m)
{
    static const enum page_state states[] = { PAGE_CURRENT, PAGE_SUPPRESSED, PAGE_DELETED };
    struct turn t;
    struct title_part part;
    unsigned at = 0;
    turn_begin(&t, m);
    struct title_mark mark = { .state = states[below(m, COUNT_OF(states))],
                               .first = 1 + below(m, REVS) };
    mark.last = mark.first + below(m, 3);
    mark.said_at.ns = m->clock.now_ns - ((int64_t)below(m, 40) - 5) * NS_PER_S;
    struct page_hear h = {
        .domain = m->domain, .title = str_of(title_name), .marks = &mark, .marks_count = 1
    };
    const struct title_hearing hearing = { .marks = &mark, .marks_count = 1 };
    err e = sync_hear(m->pages, &h), f;
    struct fact *facts = t.answer.facts;
    while ((f = title_hearing_next(&t.title.title, &hearing, &at, &facts[t.answer.facts_count])) ==
           ERR_OK) {
        part = (struct title_part){ .resumed = false };
        if (title_step(&t.title.title, &facts[t.answer.facts_count++], &part) != ERR_OK)
            model_fail(m, "a mark cannot be stepped");
        at++;
    }
    turn_end(&t, e, f == ERR_NOT_FOUND ? ERR_OK : f, "hear");
}

static void step_time(struct model *m)
{
    int64_t due;
    store_time now = { .ns = m->clock.now_ns };
    m->real = store_time_max(m->real, store_time_add(now, -NS_PER_S));
    if (below(m, 3) == 0 && facts_some_due(&m->log, &m->plans, now, &m->rng, &due))
        m->real = store_time_max(m->real, (store_time){ .ns = due - NS_PER_S });
    else
        m->real.ns += (int64_t)below(m, below(m, 10) == 0 ? 400 : 15) * NS_PER_S;
}

static void step_thin(struct model *m)
{
    unsigned forgotten;
    store_time horizon = { .ns = m->clock.now_ns - (int64_t)below(m, 100) * NS_PER_S };
    if (facts_thin(&m->thin, &m->plans, horizon, &m->rng, &forgotten) != ERR_OK)
        model_fail(m, "what may be forgotten cannot be said");
    if (below(m, 3) == 0 && !facts_revive(&m->thin, &m->log, &m->rng))
        model_fail(m, "no room for what comes back");
}

static void serial_step(struct model *m)
{
    uint64_t what = below(m, 100);
    if (what < 45)
        step_put(m);
    else if (what < 65)
        step_order(m);
    else if (what < 75)
        step_hear(m);
    else if (what < 90)
        step_time(m);
    else if (what < 93 && m->plans.count < FACTS_PLANS_MAX / 2)
        policy_changes(m);
    else if (what < 96)
        upkeep(m);
    else
        step_thin(m);
    fake_clock_advance(&m->clock, 1); /* more may come in no instant that was looked at */
    compare(m, &m->log, "all facts");
    compare(m, &m->thin, "the facts left");
}

static void serial_history(struct model *m)
{
    m->log.count = m->thin.count = 0;
    fake_clock_init(&m->clock, T0);
    m->real.ns = T0;
    for (unsigned i = 0; i < SERVERS; i++)
        m->servers[i] = (struct server){ .wrong_ns = ((int64_t)below(m, 1001) - 500) * NS_PER_MS,
                                         .last = { .ns = T0 } };
    life_begin(m);
    for (m->step = 1; m->step <= STEPS && m->log.count < FACTS_MAX / 2; m->step++)
        serial_step(m);
    compare_shuffled(m);
    compare_to_the_end(m);
    life_end(m);
}

/* ---- facts that no store made ---- */

struct loose_update {
    struct model *m;
    struct fact fact;
};

static err loose_decide(struct engine_txn *txn, void *ctx)
{
    struct loose_update *u = ctx;
    struct page_key key;
    struct edit t;
    struct title_part part = { .resumed = false };
    page_key_title(&key, page_bucket_number(u->m->bucket), u->m->domain, str_of(title_name));
    err e = edit_begin(&t, txn, u->m->bucket, &key, NULL);
    t.blob = engine_blob_of(STR("1234567"));
    if (e == ERR_OK)
        e = edit_step_fact(&t, &u->fact, &part);
    if (e == ERR_OK && (part.more || t.joined))
        e = ERR_LIMIT; /* histories are too small for that */
    return e == ERR_OK ? edit_end(&t) : e;
}

/* What rows of the embedded store can say: they do not keep when the wiki was asked for a render,
 * and a fence for the whole title is as late as all before it. */
static void loose_draw(struct model *m, struct facts_log *log)
{
    unsigned count = 5 + (unsigned)below(m, LOOSE);
    for (unsigned i = 0; i < count; i++) {
        struct fact f;
        struct page_name name;
        facts_draw(&m->rng, T0 + 10 * NS_PER_S, &f);
        if (!page_name_is_unmade(f.name) && f.what != FACT_PUT && below(m, 3) != 0 &&
            facts_some_name(log, &m->rng, &name))
            f.name = name;
        if (f.what == FACT_PUT)
            f.said_at = f.at;
        if (f.what == FACT_FENCE)
            f.at = f.joined_at;
        if (!facts_add_any(log, &f))
            model_fail(m, "a fact that was drawn is no fact");
    }
}

static const struct fact *next_fact(const struct facts_log *log, const struct fact *after)
{
    const struct fact *best = NULL;
    for (unsigned i = 0; i < log->count; i++) {
        const struct fact *f = &log->facts[i];
        if ((after == NULL || fact_cmp(f, after) > 0) && (best == NULL || fact_cmp(f, best) < 0))
            best = f;
    }
    return best;
}

static void loose_history(struct model *m)
{
    static struct facts_log drawn;
    const struct fact *f = NULL;
    m->log.count = m->thin.count = drawn.count = 0;
    fake_clock_init(&m->clock, T0);
    life_begin(m);
    loose_draw(m, &drawn);
    for (m->step = 1; (f = next_fact(&drawn, f)) != NULL; m->step++) {
        struct loose_update u = { .m = m, .fact = *f };
        int64_t ahead = fact_arrived(f).ns - m->clock.now_ns;
        if (ahead > 1 && below(m, 12) == 0 && m->plans.count < FACTS_PLANS_MAX) {
            fake_clock_advance(&m->clock, 1 + (int64_t)below(m, (uint64_t)ahead - 1));
            policy_changes(m);
            upkeep(m); /* no order settles the rows of the policy before (bucket/order.c) */
        }
        fake_clock_advance(&m->clock, fact_arrived(f).ns - m->clock.now_ns);
        if (below(m, 5) == 0)
            upkeep(m);
        if (engine_update_wait(m->store.engine, loose_decide, &u) != ERR_OK)
            model_fail(m, "a fact cannot be stepped");
        if (!facts_add_any(&m->log, f) || !facts_add_any(&m->thin, f))
            model_fail(m, "no room");
        compare(m, &m->log, "all facts");
    }
    fake_clock_advance(&m->clock, 1);
    step_thin(m);
    compare_shuffled(m);
    compare_to_the_end(m);
    life_end(m);
}

/* ---- */

static int forget_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void run(struct model *m, uint64_t seed)
{
    m->seed = seed;
    rng_init(&m->rng, seed);
    if (below(m, 2) == 0)
        serial_history(m);
    else
        loose_history(m);
    if (model_store_survives)
        (void)nftw(m->store.dir, forget_file, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    static struct model m;
    uint64_t seed = 1, histories = 200, seconds = UINT32_MAX, done = 0;
    char dir[256] = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0        ? &seed
                           : strcmp(argv[i], "--histories") == 0 ? &histories
                           : strcmp(argv[i], "--seconds") == 0   ? &seconds
                                                                 : NULL;
        if (number != NULL ? !str_to_u64(str_of(argv[i + 1]), number)
                           : strcmp(argv[i], "--dir") != 0)
            return 2;
        if (number == NULL)
            (void)snprintf(dir, sizeof(dir), "%s", argv[i + 1]);
    }
    if (dir[0] == 0)
        (void)snprintf(dir, sizeof(dir), "model_servers.%ld", (long)getpid());
    m.store.dir = dir;
    time_t end = time(NULL) + (time_t)seconds;
    for (; (histories == 0 || done < histories) && time(NULL) < end; done++, seed++)
        run(&m, seed);
    (void)printf("%llu histories up to seed %llu: %llu facts, %llu requests refused\n",
                 (unsigned long long)done, (unsigned long long)seed - 1,
                 (unsigned long long)m.facts, (unsigned long long)m.refused);
    return 0;
}
