/* words_fan.c - a title in all buckets that hear the wiki, loaded and written to at once
 * (words_impl.h). For words_hear.c and words_know.c.
 *
 * Invariants:
 *   1 a part has a work of its own, which may end on any thread of the home: parts touch nothing of
 *     each other;
 *   2 `waits` counts the parts that are under way and others who wait with them. The last that
 *     joins goes on with joined;
 *   3 a part whose work is NULL failed, and call.why says how. */
#include "cassandra/words_impl.h"

void fan_init(struct fan *f, struct cassandra_pages *p, struct store_call *request, uint32_t domain,
              str title)
{
    f->pages = p;
    f->request = request;
    f->home = pages_pool(p, request);
    f->domain = domain;
    f->domain_name = pages_domain_name(p, domain);
    f->title = title;
    f->everywhere = p->opts.each_quorum;
    f->count = 0;
}

static void works_free(struct fan *f)
{
    for (unsigned i = 0; i < f->count; i++)
        if (f->parts[i].work != NULL)
            work_free(f->parts[i].work);
    f->count = 0;
}

void fan_fini(struct fan *f)
{
    works_free(f);
}

struct store_call fan_call(const struct fan *f, void (*done)(struct store_call *c))
{
    return (struct store_call){
        .home = f->home, .done = done, .deadline = f->request->deadline, .part_of = f->request
    };
}

/* The last one goes on, on its thread; it may free the fan. */
void fan_join(struct fan *f)
{
    if (atomic_fetch_sub(&f->waits, 1) == 1)
        f->joined(f);
}

/* The work ended itself and is gone; its part is over. */
static void part_failed(struct store_call *c)
{
    struct fan_part *p = CONTAINER_OF(c, struct fan_part, call);
    INVARIANT(c->why != ERR_OK);
    p->work = NULL;
    fan_join(p->fan);
}

static void part_over(struct work *w)
{
    const struct fan_part *p = w->request;
    fan_join(p->fan);
}

void fan_load(struct fan *f, unsigned others)
{
    struct cassandra_pages *p = f->pages;
    /* A second load, such as before settling, forgets the first. */
    works_free(f);
    for (unsigned i = 0; i < p->opts.buckets_count; i++) {
        if (!bucket_hears(&p->buckets[i]))
            continue;
        struct fan_part *part = &f->parts[f->count++];
        *part = (struct fan_part){ .fan = f, .call = fan_call(f, part_failed) };
        part->work = work_new(p, &p->buckets[i], &part->call);
        part->work->request = part;
        part->work->loaded = part_over;
    }
    unsigned count = f->count;
    /* One more than parts and others: joined must not run before all have begun. */
    atomic_init(&f->waits, count + others + 1);
    for (unsigned i = 0; i < count; i++)
        work_start(f->parts[i].work, f->domain, f->title, f->home);
    fan_join(f);
}

/* Appends the part's facts, a batch behind the other; work_append calls it again. */
static void part_append(struct work *w)
{
    struct fan_part *p = w->request;
    size_t left = p->facts_count - p->appended;
    unsigned count = (unsigned)(left < TITLES_APPEND_MAX ? left : TITLES_APPEND_MAX);
    if (count == 0) {
        part_over(w);
        return;
    }
    struct fact *facts = p->facts + p->appended;
    err e = work_room(w, facts, count);
    if (e != ERR_OK) {
        work_end(w, e);
        return;
    }
    p->appended += count;
    w->appended = part_append;
    w->everywhere = false;
    /* Each batch for itself: only what hides has to be everywhere. */
    for (unsigned i = 0; i < count; i++)
        w->everywhere |= p->fan->everywhere &&
                         (facts[i].what == FACT_SUPPRESSED || facts[i].what == FACT_DELETED);
    work_append(w, facts, count, NULL);
}

void fan_append(struct fan *f, unsigned others)
{
    unsigned count = f->count;
    atomic_init(&f->waits, count + others + 1);
    for (unsigned i = 0; i < count; i++) {
        /* Facts are decided only when all parts were loaded. */
        INVARIANT(f->parts[i].work != NULL);
        part_append(f->parts[i].work);
    }
    fan_join(f);
}

err fan_why(const struct fan *f)
{
    for (unsigned i = 0; i < f->count; i++)
        if (f->parts[i].work == NULL)
            return f->parts[i].call.why;
    return ERR_OK;
}
