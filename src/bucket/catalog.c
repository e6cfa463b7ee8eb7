#include "bucket/catalog.h"

#include <stdlib.h>
#include <string.h>

enum { PLAN_REPLANNED = 1 }; /* 2 is in stores before */
enum { CATALOG_VERSION = 1, PLAN_ROW_BYTES_MAX = 128, CATALOG_NAME_BYTES_MAX = 255 };

struct catalog_key {
    char p[CATALOG_NAME_BYTES_MAX + 1];
    size_t n;
};

static bool catalog_key(struct catalog_key *k, char kind, str name)
{
    if (name.n > CATALOG_NAME_BYTES_MAX)
        return false;
    k->p[0] = kind;
    if (name.n > 0)
        memcpy(k->p + 1, name.p, name.n);
    k->n = name.n + 1;
    return true;
}

static str key_str(const struct catalog_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}

static void bucket_key(struct catalog_key *k, char kind, const struct page_bucket *b)
{
    k->p[0] = kind;
    put_be16(k->p + 1, b->number);
    k->n = 3;
}

/* ---- plans as bytes ---- */

static str plan_encode(uint16_t number, const struct page_plan *plan, char *out)
{
    const struct page_policy *p = &plan->policy;
    const int64_t times[] = { p->grace_ttl_ns,    p->historical_ttl_ns, p->stash_ttl_ns,
                              p->ledger_ttl_ns,   p->interval_ns,       p->ttl_ns,
                              plan->changed_at.ns };
    char *at = out;
    *at++ = CATALOG_VERSION;
    put_be16(at, number);
    at += 2;
    *at++ = (char)p->kind;
    *at++ = (char)(plan->replanned ? PLAN_REPLANNED : 0);
    put_be32(at, plan->number);
    put_be32(at + 4, p->count);
    at += 8;
    for (unsigned i = 0; i < COUNT_OF(times); i++, at += 8)
        put_be64(at, (uint64_t)times[i]);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

static err plan_decode(str value, uint16_t *number, struct page_plan *plan)
{
    struct cursor c = { .rest = value };
    struct page_policy *p = &plan->policy;
    uint8_t version = cursor_u8(&c);
    *number = cursor_be16(&c);
    uint8_t kind = cursor_u8(&c), flags = cursor_u8(&c);
    plan->number = cursor_be32(&c);
    p->count = cursor_be32(&c);
    int64_t *const times[] = { &p->grace_ttl_ns,    &p->historical_ttl_ns, &p->stash_ttl_ns,
                               &p->ledger_ttl_ns,   &p->interval_ns,       &p->ttl_ns,
                               &plan->changed_at.ns };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        *times[i] = (int64_t)cursor_be64(&c);
    if (!cursor_done(&c) || version != CATALOG_VERSION || kind >= POLICY_KINDS)
        return ERR_CORRUPT;
    p->kind = (enum page_policy_kind)kind;
    plan->replanned = (flags & PLAN_REPLANNED) != 0;
    return ERR_OK;
}

/* Whether rows must be planned anew: the other fields are not part of any stored time. */
static bool plans_alike(const struct page_policy *a, const struct page_policy *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case POLICY_APP_TTL:
        return a->grace_ttl_ns == b->grace_ttl_ns;
    case POLICY_LATEST:
        return a->grace_ttl_ns == b->grace_ttl_ns && a->count == b->count;
    case POLICY_INTERVAL:
        return a->grace_ttl_ns == b->grace_ttl_ns && a->count == b->count &&
               a->interval_ns == b->interval_ns;
    case POLICY_TTL:
        return a->ttl_ns == b->ttl_ns;
    case POLICY_ALL:
    case POLICY_LATEST_HASH:
    case POLICY_KINDS:
        break;
    }
    return true;
}

/* ---- numbers ---- */

/* Gives the next number of two kinds, 0: buckets, 1: domains. */
static err number_give(struct engine_txn *t, unsigned kind, uint32_t *out)
{
    struct catalog_key k;
    struct engine_row row;
    char value[8] = { 0 };
    INVARIANT(catalog_key(&k, 'n', STR("")));
    err e = engine_get(engine_txn_view(t), SPACE_CATALOG, key_str(&k), &row);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK) {
        if (row.value.n != sizeof(value))
            return ERR_CORRUPT;
        memcpy(value, row.value.p, sizeof(value));
    }
    uint32_t last = get_be32(value + 4 * (size_t)kind);
    if (last == (kind == 0 ? UINT16_MAX : UINT32_MAX))
        return ERR_LIMIT;
    put_be32(value + 4 * (size_t)kind, last + 1);
    *out = last + 1;
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), (str){ .p = value, .n = sizeof(value) },
                          STR_NONE);
}

struct domain_job {
    str name;
    uint32_t number;
};

static err domain_decide(struct engine_txn *t, void *ctx)
{
    struct domain_job *job = ctx;
    struct catalog_key k;
    struct engine_row row;
    char value[4];
    if (!catalog_key(&k, 'd', job->name))
        return ERR_BAD;
    err e = engine_get(engine_txn_view(t), SPACE_CATALOG, key_str(&k), &row);
    if (e == ERR_OK) {
        if (row.value.n != sizeof(value))
            return ERR_CORRUPT;
        job->number = get_be32(row.value.p);
        return ERR_OK;
    }
    if (e == ERR_NOT_FOUND)
        e = number_give(t, 1, &job->number);
    if (e != ERR_OK)
        return e;
    put_be32(value, job->number);
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), (str){ .p = value, .n = sizeof(value) },
                          STR_NONE);
}

err pages_domain(struct pages *p, str domain, uint32_t *out)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    struct domain_job job = { .name = domain };
    err e = engine_update_wait(p->engine, domain_decide, &job);
    if (e != ERR_OK)
        return e;
    page_events_domain(&p->events, job.number, domain);
    *out = job.number;
    return ERR_OK;
}

/* Damage costs a name: events of that domain name none. */
static err domains_load(struct pages *p)
{
    const struct engine_range range = { .space = SPACE_CATALOG,
                                        .from = STR("d"),
                                        .until = STR("e") };
    struct engine_view *v = engine_view_begin(p->engine);
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    err e;
    while ((e = engine_cursor_next(c, &row)) == ERR_OK || (e == ERR_CORRUPT && row.key.n > 0))
        if (e == ERR_OK && row.value.n == sizeof(uint32_t))
            page_events_domain(&p->events, get_be32(row.value.p), str_skip(row.key, 1));
    engine_cursor_close(&c);
    engine_view_end(&v);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err pages_append_to(struct pages *p, struct event_log *log, unsigned streams, uint64_t seed)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    err e = domains_load(p);
    if (e != ERR_OK)
        return e;
    rng_init(&p->events.rng, seed);
    p->events.log = log;
    pages_stream(p, streams);
    return ERR_OK;
}

void pages_stream(struct pages *p, unsigned streams)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    INVARIANT(p->events.log != NULL || streams == 0);
    atomic_store(&p->events.streams, streams);
}

/* ---- opening buckets ---- */

struct bucket_job {
    struct page_bucket *bucket;
    const struct page_policy *policy; /* NULL: only load */
    bool found;
};

static err plan_put(struct engine_txn *t, const struct page_bucket *b, const struct page_plan *plan)
{
    struct catalog_key k;
    char value[PLAN_ROW_BYTES_MAX];
    if (!catalog_key(&k, 'b', str_of(b->opts.name)))
        return ERR_BAD;
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), plan_encode(b->number, plan, value),
                          STR_NONE);
}

static err bucket_load(struct engine_txn *t, struct bucket_job *job)
{
    struct page_bucket *b = job->bucket;
    struct catalog_key k;
    struct engine_row row;
    if (!catalog_key(&k, 'b', str_of(b->opts.name)))
        return ERR_BAD;
    err e = engine_get(engine_txn_view(t), SPACE_CATALOG, key_str(&k), &row);
    job->found = e == ERR_OK;
    if (e == ERR_OK)
        e = plan_decode(row.value, &b->number, &b->plan);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err bucket_decide(struct engine_txn *t, void *ctx)
{
    struct bucket_job *job = ctx;
    struct page_bucket *b = job->bucket;
    err e = bucket_load(t, job);
    if (e != ERR_OK || job->policy == NULL)
        return e;
    if (!job->found) {
        uint32_t number = 0;
        e = number_give(t, 0, &number);
        if (e != ERR_OK)
            return e;
        b->number = (uint16_t)number;
        b->plan = (struct page_plan){ .policy = *job->policy, .number = 1, .replanned = true };
        return plan_put(t, b, &b->plan);
    }
    if (memcmp(&b->plan.policy, job->policy, sizeof(*job->policy)) == 0)
        return ERR_OK;
    if (!plans_alike(&b->plan.policy, job->policy)) {
        b->plan.number++;
        b->plan.changed_at = engine_txn_now(t);
        b->plan.replanned = false;
        e = catalog_cursor_put(t, b, STR_NONE);
    }
    b->plan.policy = *job->policy;
    return e == ERR_OK ? plan_put(t, b, &b->plan) : e;
}

static err bucket_open(struct pages *p, struct page_bucket *b)
{
    struct page_policy policy;
    memset(&policy, 0, sizeof(policy)); /* compared with memcmp: no padding may differ */
    policy.kind = b->opts.policy.kind;
    policy.grace_ttl_ns = b->opts.policy.grace_ttl_ns;
    policy.historical_ttl_ns = b->opts.policy.historical_ttl_ns;
    policy.stash_ttl_ns = b->opts.policy.stash_ttl_ns;
    policy.ledger_ttl_ns = b->opts.policy.ledger_ttl_ns;
    policy.count = b->opts.policy.count;
    policy.interval_ns = b->opts.policy.interval_ns;
    policy.ttl_ns = b->opts.policy.ttl_ns;
    struct bucket_job job = { .bucket = b };
    memset(&b->plan, 0, sizeof(b->plan));
    err e = engine_update_wait(p->engine, bucket_decide, &job);
    atomic_store(&b->replanned, b->plan.replanned);
    bool more = job.found && !b->plan.replanned && !plans_alike(&b->plan.policy, &policy);
    while (e == ERR_OK && more)
        e = bucket_replan(b, &more);
    if (e != ERR_OK)
        return e;
    job.policy = &policy;
    e = engine_update_wait(p->engine, bucket_decide, &job);
    atomic_store(&b->replanned, b->plan.replanned);
    return e;
}

static char *cstring_copy(const char *s)
{
    char *copy = strdup(s);
    INVARIANT(copy != NULL);
    return copy;
}

static void bucket_init(struct page_bucket *b, struct pages *p, const struct page_bucket_opts *opts)
{
    b->magic = PAGE_BUCKET_MAGIC;
    b->pages = p;
    b->opts = *opts;
    b->opts.name = cstring_copy(opts->name);
    if (opts->contents == NULL)
        return;
    char **names = calloc(opts->contents_count + 1, sizeof(*names));
    INVARIANT(names != NULL);
    for (unsigned i = 0; i < opts->contents_count; i++)
        names[i] = cstring_copy(opts->contents[i]);
    b->opts.contents = (const char *const *)names;
}

/* ---- buckets no longer configured: what they hold still runs out ---- */

static struct engine_cursor *buckets_open(struct engine_view *v)
{
    const struct engine_range range = { .space = SPACE_CATALOG,
                                        .from = STR("b"),
                                        .until = STR("c") };
    return engine_cursor_open(v, &range);
}

static unsigned buckets_stored(struct engine_view *v)
{
    struct engine_cursor *c = buckets_open(v);
    struct engine_row row;
    unsigned n = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        n++;
    engine_cursor_close(&c);
    return n;
}

static err dormant_add(struct pages *p, const struct engine_row *row)
{
    struct page_bucket *b = &p->buckets[p->count];
    struct page_bucket_opts opts = { 0 };
    char name[CATALOG_NAME_BYTES_MAX + 1];
    if (!str_to_cstr(str_skip(row->key, 1), name, sizeof(name)))
        return ERR_CORRUPT;
    if (pages_find(p, str_of(name)) != NULL)
        return ERR_OK;
    opts.name = name;
    bucket_init(b, p, &opts);
    p->count++;
    b->dormant = true;
    err e = plan_decode(row->value, &b->number, &b->plan);
    b->opts.policy = b->plan.policy;
    atomic_store(&b->replanned, b->plan.replanned);
    return e;
}

static err dormant_open(struct pages *p, unsigned room)
{
    struct engine_view *v = engine_view_begin(p->engine);
    struct engine_cursor *c = buckets_open(v);
    struct engine_row row;
    err e;
    while ((e = engine_cursor_next(c, &row)) == ERR_OK && p->count < room)
        if ((e = dormant_add(p, &row)) != ERR_OK)
            break;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err policy_check(const struct page_policy *p, struct err_note *note)
{
    const int64_t times[] = { p->grace_ttl_ns, p->historical_ttl_ns, p->stash_ttl_ns,
                              p->ledger_ttl_ns, p->ttl_ns };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        if (times[i] < 0)
            return err_bad(note, "a time of a page policy is negative");
    bool grouped = retention_grouped(p);
    if (grouped && (p->count < 1 || p->count > PAGE_POLICY_COUNT_MAX))
        return err_bad(note, "policy %s: count must be 1 to %d", page_policy_name(p->kind),
                       PAGE_POLICY_COUNT_MAX);
    if (p->kind == POLICY_INTERVAL && p->interval_ns <= 0)
        return err_bad(note, "policy interval: interval must be greater than 0");
    return ERR_OK;
}

static void bucket_fini(struct page_bucket *b)
{
    if (b->magic == 0)
        return;
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    for (unsigned i = 0; b->opts.contents != NULL && i < b->opts.contents_count; i++)
        free((void *)(uintptr_t)b->opts.contents[i]);
    free((void *)(uintptr_t)b->opts.contents);
    free((void *)(uintptr_t)b->opts.name);
    b->magic = 0;
}

err pages_new(const struct pages_opts *o, struct pages **out, struct err_note *note)
{
    unsigned count = o->buckets_count;
    for (unsigned i = 0; i < count; i++) {
        err why = policy_check(&o->buckets[i].policy, note);
        if (why != ERR_OK)
            return why;
    }
    struct pages *p = calloc(1, sizeof(*p));
    INVARIANT(p != NULL);
    p->magic = PAGES_MAGIC;
    p->engine = o->engine;
    p->clock = o->clock;
    rng_init(&p->rng, o->seed);
    feed_init(&p->feed, p, engine_stored_until(o->engine));
    struct engine_view *v = engine_view_begin(o->engine);
    unsigned room = count + buckets_stored(v);
    engine_view_end(&v);
    p->buckets = calloc(room + 1, sizeof(*p->buckets));
    INVARIANT(p->buckets != NULL);
    err why = ERR_OK;
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        bucket_init(&p->buckets[i], p, &o->buckets[i]);
        p->count = i + 1;
        why = bucket_open(p, &p->buckets[i]);
        if (why != ERR_OK)
            err_note_set(note, "bucket %s: cannot load its catalog row: %s", o->buckets[i].name,
                         err_name(why));
    }
    if (why == ERR_OK)
        why = dormant_open(p, room);
    if (why != ERR_OK) {
        pages_free(&p);
        return why;
    }
    *out = p;
    return ERR_OK;
}

void pages_free(struct pages **pp)
{
    if (*pp == NULL)
        return;
    struct pages *p = *pp;
    MAGIC_CHECK(p, PAGES_MAGIC);
    for (unsigned i = 0; i < p->count; i++)
        bucket_fini(&p->buckets[i]);
    free(p->buckets);
    frame_pool_fini(&p->frames);
    feed_fini(&p->feed);
    page_events_fini(&p->events);
    p->magic = 0;
    free(p);
    *pp = NULL;
}

struct page_bucket *pages_find(struct pages *p, str bucket_name)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    for (unsigned i = 0; i < p->count; i++)
        if (!p->buckets[i].dormant && str_eq(bucket_name, str_of(p->buckets[i].opts.name)))
            return &p->buckets[i];
    return NULL;
}

struct page_bucket *pages_numbered(struct pages *p, uint16_t number)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->buckets[i].number == number)
            return &p->buckets[i];
    return NULL;
}

const struct page_bucket_opts *page_bucket_opts_of(const struct page_bucket *b)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    return &b->opts;
}

uint16_t page_bucket_number(const struct page_bucket *b)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    return b->number;
}

const struct page_plan *page_bucket_plan(const struct page_bucket *b)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    return &b->plan;
}

void pages_tell(struct pages *p, uint16_t bucket, uint32_t domain, str title)
{
    const struct page_listener *l = &p->feed.listener;
    if (l->changed != NULL)
        l->changed(l->ctx, bucket, domain, title);
}

void pages_on_facts(struct pages *p, pages_facts_fn *facts, void *ctx)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    p->facts = facts;
    p->facts_ctx = ctx;
}

void pages_tell_facts(struct page_bucket *b, uint32_t domain, str title, const struct fact *facts,
                      unsigned count)
{
    struct pages *p = b->pages;
    if (p->facts != NULL && count > 0)
        p->facts(p->facts_ctx, b->number, domain, title, facts, count);
}

void pages_stats_get(struct pages *p, struct pages_stats *out)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    *out = (struct pages_stats){
        .culled = atomic_load(&p->culled),
        .purged = atomic_load(&p->purged),
        .extended = atomic_load(&p->extended),
        .overdue_ns_max = atomic_load(&p->overdue_ns_max),
        .superseded = atomic_load(&p->superseded),
        .puts = atomic_load(&p->puts),
        .duplicates = atomic_load(&p->duplicates),
        .replanned = atomic_load(&p->replanned),
        .damaged = atomic_load(&p->damaged),
    };
}

/* ---- where replanning is ---- */

err catalog_cursor_get(struct engine_txn *t, const struct page_bucket *b, struct page_key *key)
{
    struct catalog_key k;
    struct engine_row row;
    bucket_key(&k, 'r', b);
    key->n = 0;
    err e = engine_get(engine_txn_view(t), SPACE_CATALOG, key_str(&k), &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    if (row.value.n > sizeof(key->p))
        return ERR_CORRUPT;
    memcpy(key->p, row.value.p, row.value.n);
    key->n = row.value.n;
    return ERR_OK;
}

err catalog_cursor_put(struct engine_txn *t, const struct page_bucket *b, str key)
{
    struct catalog_key k;
    bucket_key(&k, 'r', b);
    if (key.n == 0)
        return engine_txn_delete(t, SPACE_CATALOG, key_str(&k));
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), key, STR_NONE);
}

err catalog_replanned(struct engine_txn *t, const struct page_bucket *b)
{
    struct page_plan plan = b->plan;
    plan.replanned = true;
    err e = catalog_cursor_put(t, b, STR_NONE);
    return e == ERR_OK ? plan_put(t, b, &plan) : e;
}

/* ---- notes of domains ---- */

static void note_key(struct catalog_key *k, uint32_t domain, enum page_note note)
{
    static const char kinds[PAGE_NOTES] = { [PAGE_NOTE_SWEEP] = 's', [PAGE_NOTE_REDO] = 'o' };
    k->p[0] = kinds[note];
    put_be32(k->p + 1, domain);
    k->n = 5;
}

err catalog_note_put(struct engine_txn *t, uint32_t domain, enum page_note note, str bytes)
{
    struct catalog_key k;
    note_key(&k, domain, note);
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), bytes, STR_NONE);
}

err catalog_note_get(struct engine_view *v, uint32_t domain, enum page_note note, char *out,
                     size_t *n)
{
    struct catalog_key k;
    struct engine_row row;
    note_key(&k, domain, note);
    err e = engine_get(v, SPACE_CATALOG, key_str(&k), &row);
    if (e == ERR_OK && row.value.n > PAGE_NOTE_BYTES_MAX)
        e = ERR_CORRUPT;
    if (e != ERR_OK)
        return e;
    memcpy(out, row.value.p, row.value.n);
    *n = row.value.n;
    return ERR_OK;
}
