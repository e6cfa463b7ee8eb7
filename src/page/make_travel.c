/* make_travel.c - a made render on its way to other servers, and one that arrives from them.
 *
 *   accept (loop) -> sealed, whole, in time? (pool) -(yes)-> put
 *                                                  \-(no)-> made here (loop)
 *
 * The bytes are those of sealed.h, both ways. */
#include "loop/loop.h"
#include "page/make_impl.h"
#include "page/sealed.h"
#include "page/trusted.h"

static struct page_sealing sealing_of(const struct make *m)
{
    return (struct page_sealing){ .peers = m->service->peers, .target = &m->target };
}

/* On the loop, when the flight shares its value. */
err make_encode(const struct flight_value *v, struct buf *out, void *ctx)
{
    const struct make *m = ctx;
    const struct page_made *value = page_made_of((struct flight_value *)(uintptr_t)v);
    if (value->found || value->moved_to != NULL) /* it was not made now: who lacks it makes it */
        return ERR_LIMIT;
    const struct render_request *r = &m->ask.request;
    struct page_sealing s = sealing_of(m);
    struct page_travel t = { .name = value->name,
                             /* Only a newest revision was put without `behind`. */
                             .latest = m->put.behind == 0,
                             .has_word = m->ask.has_word && !m->ask.word.missing,
                             .word = m->ask.word,
                             .redirect_to = r->redirect_to,
                             .redirect_fragment = r->redirect_fragment };
    for (; t.contents_count < r->contents_count; t.contents_count++)
        t.contents[t.contents_count] = r->contents[t.contents_count];
    page_sealed_put(out, &s, &t);
    return buf_status(out);
}

store_time make_arrived_said_at(const struct make *m, struct tid tid)
{
    return store_time_min(tid_time(tid), m->ask.began);
}

/* Is the name's instant believable: not in a time to come, nor before the wiki denied the
 * revision? */
static bool arrived_in_time(const struct make *m, const struct page_travel *t)
{
    store_time last = store_time_add(m->ask.began, PAGE_TID_AHEAD_NS);
    return !store_time_before(last, tid_time(t->name.tid)) &&
           page_denied_since(m->service, &m->target, t->name.rev,
                             make_arrived_said_at(m, t->name.tid))
                   .why == RENDER_FINE;
}

/* Must it come with a word? Where the wiki is asked for words, a render without one would never
 * be found too old. */
static bool wants_word(const struct make *m)
{
    return m->service->trust != NULL && origin_has_api(m->target.domain->origin);
}

/* Loop. Makes it here, and shares nothing more: the lease that came with the bytes may be
 * anybody's. */
static void refused_run(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    flight_alone(m->flight); /* the lease that came with it may be anybody's */
    if (m->canceled) {
        make_fail(m, ERR_SHUTDOWN, NULL);
        make_finish(m);
    } else {
        make_here(m);
    }
}

/* Pool. Turns the bytes into what the origin would have answered. False: they are not to be
 * believed. */
static bool arrived_take(struct make *m)
{
    struct page_travel t;
    struct page_sealing s = sealing_of(m);
    if (m->arrived.p == NULL || page_sealed_get(&s, m->arrived, &t) != ERR_OK ||
        !arrived_in_time(m, &t) || (wants_word(m) && !t.has_word))
        return false;
    m->ask.has_word = t.has_word;
    m->ask.word = t.word;
    m->ask.request = (struct render_request){ .meta = { .rev = t.name.rev,
                                                        .last_rev = t.latest ? t.name.rev : 0 },
                                              .redirect_to = t.redirect_to,
                                              .redirect_fragment = t.redirect_fragment };
    for (; m->ask.request.contents_count < t.contents_count; m->ask.request.contents_count++)
        m->ask.request.contents[m->ask.request.contents_count] =
            t.contents[m->ask.request.contents_count];
    m->flags |= MAKE_ARRIVED;
    m->tid = t.name.tid;
    return true;
}

static void arrived_run(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    if (arrived_take(m)) {
        make_put(m);
        return;
    }
    m->task.run = refused_run; /* of nobody's, of another version, or no render */
    home_post(loop_home(m->service->loop), &m->task);
}

/* Loop. bytes are the flight's: they are copied before the pool reads them. */
void make_accept(struct flight *f, const struct flight_arrival *a, void *ctx)
{
    struct make *m = ctx;
    make_begin(m, f);
    m->ask.began.ns = clock_store(m->service->clock).ns - a->age_ms * NS_PER_MS;
    m->arrived = arena_copy(&m->arena, a->bytes);
    m->task.run = arrived_run;
    home_post(loop_pool(m->service->loop), &m->task);
}
