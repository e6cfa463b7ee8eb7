/* service.c - what all parts of the page service share: its domains, its settings, how its
 * origins fare. Thread: any. */
#include "page/page.h"

#include "base/str.h"

const struct page_domain *page_domain_find(const struct page_service *s, str name)
{
    /* Binary search: domains are sorted by name. */
    unsigned low = 0, high = s->domains_count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        int order = str_cmp(s->domains[middle].name, name);
        if (order == 0)
            return &s->domains[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Settings are replaced as a whole array: one pointer in the current array says it. */
bool page_settings_hold(const struct page_service *s, const struct page_settings *settings)
{
    const struct page_settings *now = page_settings_now(s);
    for (unsigned i = 0; i < s->buckets_count; i++)
        if (settings == &now[i])
            return true;
    return false;
}

const struct page_settings *page_settings_find(const struct page_service *s, str name)
{
    const struct page_settings *now = page_settings_now(s);
    for (unsigned i = 0; i < s->buckets_count; i++)
        if (str_eq(name, str_of(now[i].opts->name)))
            return &now[i];
    return NULL;
}

struct page_which page_target_which(const struct page_target *t)
{
    enum page_select select = t->has_tid ? SELECT_EXACT : t->has_rev ? SELECT_REV : SELECT_LATEST;
    return (struct page_which){
        .domain = t->domain->number, .title = t->title, .select = select, .name = t->name
    };
}

bool page_target_can_be_made(const struct page_target *t)
{
    /* An exact name cannot be made: a new making gets another tid. */
    if (t->domain->origin == NULL || t->has_tid)
        return false;
    /* An origin gives HTML and data-parsoid, and nothing else. */
    if (!str_eq(t->content, STR("html")) && !str_eq(t->content, STR("data-parsoid")))
        return false;
    return page_bucket_allows(t->settings->opts, t->content);
}

bool page_target_can_be_edited(const struct page_target *t)
{
    const struct origin *origin = t->domain->origin;
    /* Other kinds of origin give no data-parsoid that a save needs. */
    bool saves = origin == NULL || origin_opts_of(origin)->kind == ORIGIN_PARSOID;
    return saves || !str_eq(t->content, STR("html"));
}

bool page_contents_travel(const struct page_domain *d)
{
    return d->origin != NULL && !d->is_private;
}

mono page_write_deadline(const struct page_service *s)
{
    return mono_add_ms(clock_mono(s->clock), s->write_timeout_ms);
}

bool page_may_be_stale(const struct page_service *s, const struct page_target *t, err why,
                       struct tid tid)
{
    /* Denials are no outages: what the wiki took back must not be given. */
    bool outage = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_AGAIN ||
                  why == ERR_CORRUPT || why == ERR_LIMIT || why == ERR_SHUTDOWN;
    store_time until = store_time_add(tid_time(tid), t->settings->stale_if_error_ns);
    return outage && store_time_before(clock_store(s->clock), until);
}

void page_heed(const struct page_service *s, const struct page_target *t, enum render_why why,
               int64_t retry_after_s)
{
    if (why == RENDER_BUSY && t->domain->busy_until_ns != NULL)
        atomic_store(t->domain->busy_until_ns,
                     mono_add_ms(clock_mono(s->clock), 1000 * retry_after_s).ns);
}

bool page_is_asked(const struct page_service *s, const struct page_domain *d)
{
    return s->trust != NULL && d->origin != NULL && origin_has_api(d->origin);
}

bool page_rerenders(const struct page_service *s, const struct page_domain *d)
{
    bool wanted = d->rerender == RERENDER_AT_ONCE || d->rerender == RERENDER_PACED;
    return wanted && page_is_asked(s, d);
}

int64_t page_retry_ms(const struct page_service *s, const struct page_target *t, err why,
                      int64_t remembered_ms)
{
    /* Only BUSY has a wait of its own (page_heed). */
    if (why != ERR_AGAIN || t->domain->busy_until_ns == NULL)
        return remembered_ms;
    int64_t busy_ms = (atomic_load(t->domain->busy_until_ns) - clock_mono(s->clock).ns) / NS_PER_MS;
    return busy_ms > remembered_ms ? busy_ms : remembered_ms;
}

err page_err_of_render(enum render_why why)
{
    static const err errs[RENDER_WHYS] = {
        [RENDER_FINE] = ERR_OK,
        [RENDER_NO_PAGE] = ERR_NOT_FOUND,
        [RENDER_NO_REVISION] = ERR_NOT_FOUND,
        [RENDER_SUPPRESSED] = ERR_GONE,
        [RENDER_OTHER_TITLE] = ERR_UNAVAILABLE, /* where nobody can be sent on */
        [RENDER_DENIED] = ERR_DENIED,
        [RENDER_REFUSED] = ERR_BAD,
        [RENDER_BUSY] = ERR_AGAIN,
        [RENDER_FAILED] = ERR_UNAVAILABLE,
        [RENDER_TIMEOUT] = ERR_TIMEOUT,
        [RENDER_LIMIT] = ERR_CORRUPT,
        [RENDER_CANCELED] = ERR_SHUTDOWN,
    };
    INVARIANT(why < RENDER_WHYS);
    return errs[why];
}
