/* check_known.c - what is known of a domain's wiki beside its words, for check.c, ask.c and
 * readers: when it answered, whether it is closed, how far the copies of its database have come.
 * Thread: any, but where check.h says. */
#include "page/check_impl.h"
#include "page/tell.h"

store_time page_checks_answered(const struct page_checks *c, const struct page_domain *d)
{
    return (store_time){ .ns = atomic_load(&c->domains[d - c->service->domains].answered_ns) };
}

bool page_checks_behind(struct page_checks *c, const struct page_domain *d,
                        const struct wiki_newest *n, store_time asked_at)
{
    bool news;
    bool behind = page_behind_judge(&c->domains[d - c->service->domains].behind, n, asked_at,
                                    clock_store(c->service->clock), &news);
    if (news)
        page_newest_tell(c->service, d, n);
    return behind;
}

/* paused_until is the loop's alone. */
bool page_checks_pauses(const struct page_checks *c, const struct page_domain *d)
{
    mono now = clock_mono(c->service->clock);
    return now.ns < c->domains[d - c->service->domains].paused_until.ns;
}

bool page_checks_away(const struct page_checks *c, const struct page_domain *d)
{
    int64_t until_ns = atomic_load(&c->domains[d - c->service->domains].away_ns);
    return clock_store(c->service->clock).ns < until_ns;
}

int64_t page_checks_settle_s(const struct page_checks *c, const struct page_domain *d)
{
    return page_behind_settle_s(&c->domains[d - c->service->domains].behind,
                                clock_store(c->service->clock));
}

void page_checks_know(struct page_checks *c, const struct page_domain *d,
                      const struct wiki_newest *n)
{
    page_behind_know(&c->domains[d - c->service->domains].behind, n,
                     clock_store(c->service->clock));
}

bool page_checks_any_closed(const struct page_checks *c)
{
    /* Relaxed: a reader that just misses the change is answered as one of before. */
    return atomic_load_explicit(&c->closed_count, memory_order_relaxed) > 0;
}

void checks_close(struct page_checks *c, const struct page_domain *d, bool closed)
{
    /* Counted once for each change of the state, though answers say the same again and again. */
    if (atomic_exchange(d->closed, closed) == closed)
        return;
    if (closed)
        atomic_fetch_add(&c->closed_count, 1);
    else
        atomic_fetch_sub(&c->closed_count, 1);
}

void page_checks_figures(const struct page_checks *c, const struct page_domain *d,
                         struct check_figures *out)
{
    const struct check_domain *of = &c->domains[d - c->service->domains];
    *out = (struct check_figures){ .calls = atomic_load(&of->calls_made),
                                   .words = atomic_load(&of->words),
                                   .failures = atomic_load(&of->failed),
                                   .lagging = atomic_load(&of->lagging),
                                   .full = atomic_load(&of->full),
                                   .waiting = atomic_load(&of->waits.waiting),
                                   .closed = atomic_load(d->closed) };
}
