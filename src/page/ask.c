/* ask.c - one question to the wiki, and the marks that its answer leaves.
 *
 *   ask (loop) -> a text: parsed (pool) -> heard by the store (pool, committer) -> done
 *             \-> no text: told (loop) ---^ */
#include "page/ask.h"

#include "base/log.h"

static void add(struct page_ask *a, enum page_state state, uint64_t first, uint64_t last)
{
    a->marks[a->marks_count++] =
        (struct title_mark){ .state = state, .first = first, .last = last, .said_at = a->began };
}

/* The marks there could be. Pure but for them. */
static void collect(struct page_ask *a)
{
    const struct render_request *r = &a->request;
    bool named = r->rev != 0;
    uint64_t rev = named ? r->rev : r->meta.rev;
    a->marks_count = 0;
    switch (a->why) {
    case RENDER_FINE:
        add(a, PAGE_CURRENT, rev, rev);
        if (origin_has_api(r->origin) && (!named || render_is_latest(&r->meta)) &&
            rev < PAGE_REV_MAX)
            add(a, PAGE_DELETED, rev + 1, PAGE_REV_MAX);
        return;
    case RENDER_NO_PAGE:
        add(a, PAGE_DELETED, 0, PAGE_REV_MAX);
        return;
    case RENDER_NO_REVISION:
        if (named)
            add(a, PAGE_DELETED, rev, rev);
        return;
    case RENDER_SUPPRESSED:
        add(a, PAGE_SUPPRESSED, rev, rev);
        return;
    case RENDER_OTHER_TITLE:
    case RENDER_DENIED:
    case RENDER_REFUSED:
    case RENDER_BUSY:
    case RENDER_FAILED:
    case RENDER_TIMEOUT:
    case RENDER_LIMIT:
    case RENDER_CANCELED:
    case RENDER_WHYS:
        return;
    }
}

static void tell(const struct page_ask *a)
{
    for (unsigned i = 0; i < a->marks_count; i++)
        page_mark_tell(a->service, a->target, &a->marks[i]);
}

/* Others may have stored what we have not, so a no is told always; what is fine, when it was news
 * to us. */
static void heard(struct store_call *c)
{
    struct page_ask *a = CONTAINER_OF(c, struct page_ask, hear.call);
    if (c->why != ERR_OK)
        log_event(a->service->log, LOG_WARN, "page.mark_failed",
                  LOG_STR("domain", a->target->domain->name), LOG_STR("title", a->target->title),
                  LOG_CSTR("why", err_name(c->why)));
    if (a->why == RENDER_FINE && (a->hear.changed || c->why != ERR_OK))
        tell(a);
    a->done(a);
}

/* Most of it changes nothing, and is forgotten. Pool. */
static void hear(struct page_ask *a)
{
    a->hear = (struct page_hear){ .call = { .deadline = page_write_deadline(a->service),
                                            .home = loop_pool(a->service->loop),
                                            .done = heard },
                                  .domain = a->target->domain->number,
                                  .title = a->target->title,
                                  .marks = a->marks,
                                  .marks_count = a->marks_count };
    store_call_then(page_store_hear(a->service->store, &a->hear), &a->hear.call);
}

static void hear_run(struct task *t)
{
    hear(CONTAINER_OF(t, struct page_ask, task));
}

static void ask_heed(struct page_ask *a, enum render_why why)
{
    a->why = why;
    page_heed(a->service, a->target, why, a->request.retry_after_s);
    collect(a);
    if (why != RENDER_FINE)
        tell(a);
}

/* There is no text. Loop. */
static void asked(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    ask_heed(a, why);
    a->task.run = hear_run;
    home_post(loop_pool(a->service->loop), &a->task);
}

/* Pool. */
static void parsed(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    ask_heed(a, why);
    hear(a);
}

void page_ask_start(struct page_ask *a)
{
    a->began = clock_store(a->service->clock);
    a->request = (struct render_request){ .origin = a->target->domain->origin,
                                          .want = a->want,
                                          .fresh = a->fresh,
                                          .title = a->target->title,
                                          .rev = a->target->has_rev ? a->target->name.rev : 0,
                                          .deadline = a->deadline,
                                          .pass = a->pass,
                                          .arena = a->arena,
                                          .done = asked,
                                          .parsed = parsed,
                                          .ctx = a };
    render_start(&a->request);
}

void page_ask_cancel(struct page_ask *a)
{
    if (a->request.origin != NULL)
        render_cancel(&a->request);
}
