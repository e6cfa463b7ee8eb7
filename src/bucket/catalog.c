/* catalog.c - opens the page buckets of a store: gives numbers to buckets and domains, loads
 * policies, and tells followers of changes. Invariant: a number is given once and never again,
 * also when its bucket is gone from the configuration. */
#include "bucket/catalog.h"

#include <stdlib.h>
#include <string.h>

/* Longer names of buckets and domains are refused with ERR_BAD. */
enum { CATALOG_NAME_BYTES_MAX = 255 };

/* The key of one row of the catalog: a letter for the kind of row, then a name or a number.
 * catalog.h lists the kinds. */
struct catalog_key {
    char p[CATALOG_NAME_BYTES_MAX + 1];
    size_t n;
};

/* False: the name is too long for a key. */
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

/* The key of a row that is named by its bucket's number: where replanning goes on. */
static void bucket_key(struct catalog_key *k, char kind, const struct page_bucket *b)
{
    k->p[0] = kind;
    put_be16(k->p + 1, b->number);
    k->n = 3;
}

/* ---- numbers ---- */

err catalog_number_give(struct engine_txn *t, unsigned kind, uint32_t *out)
{
    struct catalog_key k;
    struct engine_row row;
    /* Two be32: the last number given to a bucket, and the last one given to a domain. */
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
    /* Keys of rows have two bytes for a bucket and four for a domain. */
    if (last == (kind == 0 ? UINT16_MAX : UINT32_MAX))
        return ERR_LIMIT;
    put_be32(value + 4 * (size_t)kind, last + 1);
    *out = last + 1;
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), (str){ .p = value, .n = sizeof(value) },
                          STR_NONE);
}

err catalog_bucket_get(struct engine_view *v, str name, struct engine_row *out)
{
    struct catalog_key k;
    return catalog_key(&k, 'b', name) ? engine_get(v, SPACE_CATALOG, key_str(&k), out) : ERR_BAD;
}

err catalog_bucket_put(struct engine_txn *t, str name, str value)
{
    struct catalog_key k;
    if (!catalog_key(&k, 'b', name))
        return ERR_BAD;
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), value, STR_NONE);
}

/* One call of pages_domain, on its stack. number: what the decision found, or gave. */
struct domain_job {
    str name;
    uint32_t number;
};

/* Finds the number of a domain, or gives it the next one. Decisions run one after the other, so
 * a number is not given twice. */
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
        e = catalog_number_give(t, 1, &job->number);
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
    /* Events name their domain as text. Rows know its number alone. */
    page_events_domain(&p->events, job.number, domain);
    *out = job.number;
    return ERR_OK;
}

/* Reads the names of domains that events carry. A damaged row costs its name only: events of
 * that domain have an empty one. */
static err domains_load(struct pages *p)
{
    const struct engine_range range = { .space = SPACE_CATALOG,
                                        .from = STR("d"),
                                        .until = STR("e") };
    struct engine_view *v = engine_view_begin(p->engine);
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    err e;
    /* ERR_CORRUPT without a key: the index itself cannot be read, and the walk ends. */
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
    /* From here on updates append to the log, which is set by now. */
    atomic_store(&p->events.streams, streams);
}

/* ---- opening buckets ---- */

static char *cstring_copy(const char *s)
{
    char *copy = strdup(s);
    INVARIANT(copy != NULL);
    return copy;
}

/* Copies what the options point to: the bucket outlives them. A dormant bucket has a name alone. */
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

/* How many buckets the catalog has, up to the first damaged row. dormant_open fails at that row,
 * too. */
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

/* Adds the bucket of a catalog row, unless the configuration has it. The policy is that of the
 * row: by it the bucket's renders still run out. */
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
    /* Counted before its plan is read: pages_free frees the bucket also when the plan is
     * damaged. */
    p->count++;
    b->dormant = true;
    return bucket_plan_set(b, row->value);
}

/* room: how many p->buckets has room for. */
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

static void bucket_fini(struct page_bucket *b)
{
    if (b->magic == 0)
        return;
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    bucket_plans_free(b);
    for (unsigned i = 0; b->opts.contents != NULL && i < b->opts.contents_count; i++)
        free((void *)(uintptr_t)b->opts.contents[i]);
    free((void *)(uintptr_t)b->opts.contents);
    free((void *)(uintptr_t)b->opts.name);
    b->magic = 0;
}

err pages_new(const struct pages_opts *o, struct pages **out, struct err_note *note)
{
    unsigned count = o->buckets_count;
    /* All policies are checked before anything is written. */
    for (unsigned i = 0; i < count; i++) {
        err why = bucket_policy_check(&o->buckets[i].policy, note);
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
    /* Room for each bucket that there may be, as pointers into the array are given out: it never
     * grows. */
    unsigned room = count + buckets_stored(v);
    engine_view_end(&v);
    p->buckets = calloc(room + 1, sizeof(*p->buckets));
    INVARIANT(p->buckets != NULL);
    err why = ERR_OK;
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        bucket_init(&p->buckets[i], p, &o->buckets[i]);
        /* Counted first: pages_free frees the bucket also when its plan does not load. */
        p->count = i + 1;
        why = bucket_plan_open(&p->buckets[i]);
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

/* Dormant buckets too: their rows are still culled and checked. */
struct page_bucket *pages_numbered(struct pages *p, uint16_t number)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->buckets[i].number == number)
            return &p->buckets[i];
    return NULL;
}

uint16_t page_bucket_number(const struct page_bucket *b)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    return b->number;
}

/* On the committer, before the writer of the change is answered. */
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
    /* No row: replanning starts at the first row of the bucket. */
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
    /* An empty key: the next replanning starts at the first row again. */
    if (key.n == 0)
        return engine_txn_delete(t, SPACE_CATALOG, key_str(&k));
    return engine_txn_put(t, SPACE_CATALOG, key_str(&k), key, STR_NONE);
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
