#include "app/page/page_ask.h"

#include "app/page/purge_all.h"
#include "bucket/page_write.h"

static void add(struct page_ask *a, enum page_state state, uint64_t first, uint64_t last)
{
    a->marks[a->marks_count++] = (struct page_order){ .kind = ORDER_MARK,
                                                      .domain = a->target->domain->number,
                                                      .title = a->target->title,
                                                      .name = { .rev = first },
                                                      .rev_last = last,
                                                      .mark = state,
                                                      .said_at = a->began };
}

/* The marks there could be. Pure but for them. */
static void collect(struct page_ask *a)
{
    const struct render_request *r = &a->request;
    bool named = r->rev != 0;
    uint64_t rev = named ? r->rev : r->meta.rev;
    a->marks_count = a->marks_next = 0;
    switch (a->why) {
    case RENDER_FINE:
        add(a, PAGE_CURRENT, rev, rev);
        if (origin_has_api(r->origin) && (!named || r->meta.latest) && rev < PAGE_REV_MAX)
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

/* Others may have stored what we have not, so a no is told always; what is fine, when it was news
 * to us. */
static void tell(const struct page_ask *a)
{
    for (unsigned i = 0; i < a->marks_count; i++)
        app_mark_tell(a->app, a->target, &a->marks[i]);
}

/* Most answers say nothing against what is stored, and write nothing. */
static void look_run(struct loop_job *j)
{
    struct page_ask *a = CONTAINER_OF(j, struct page_ask, job);
    unsigned wanted = 0;
    struct engine_view *v = engine_view_begin(a->app->engine);
    for (unsigned i = 0; i < a->marks_count; i++)
        if (page_wants_mark(a->target->bucket, v, &a->marks[i]))
            a->marks[wanted++] = a->marks[i];
    engine_view_end(&v);
    a->marks_count = wanted;
}

static void nothing_run(struct loop_job *j)
{
    (void)j; /* only to come back to the loop */
}

static void go_on(struct loop_job *j, bool canceled);

static void marked(struct page_order *o, err why)
{
    struct page_ask *a = o->ctx;
    if (why != ERR_OK)
        log_event(a->app->log, LOG_WARN, "page.mark_failed",
                  LOG_STR("domain", a->target->domain->name), LOG_STR("title", a->target->title),
                  LOG_CSTR("why", err_name(why)));
    a->job = (struct loop_job){ .run = nothing_run, .done = go_on };
    loop_job_start(a->app->loop, &a->job);
}

/* The next mark; none is left: done. */
static void go_on(struct loop_job *j, bool canceled)
{
    struct page_ask *a = CONTAINER_OF(j, struct page_ask, job);
    if (canceled || a->marks_next == a->marks_count) {
        if (a->why == RENDER_FINE && !canceled)
            tell(a);
        a->done(a);
        return;
    }
    struct page_order *o = &a->marks[a->marks_next++];
    o->deadline = app_page_deadline(a->app);
    o->done = marked;
    o->ctx = a;
    page_order_start(a->target->bucket, o);
}

static void asked(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    a->asking = false;
    a->why = why;
    app_page_heed(a->app, a->target, why, r->retry_after_s);
    collect(a);
    if (why != RENDER_FINE)
        tell(a);
    a->job = (struct loop_job){ .run = look_run, .done = go_on };
    loop_job_start(a->app->loop, &a->job);
}

void page_ask_start(struct page_ask *a)
{
    a->began = clock_store(a->app->clock);
    a->asking = true;
    a->request = (struct render_request){ .origin = a->target->domain->origin,
                                          .want = a->want,
                                          .fresh = a->fresh,
                                          .title = a->target->title,
                                          .rev = a->target->has_rev ? a->target->name.rev : 0,
                                          .deadline = a->deadline,
                                          .pass = a->pass,
                                          .arena = a->arena,
                                          .done = asked,
                                          .ctx = a };
    render_start(&a->request);
}

void page_ask_cancel(struct page_ask *a)
{
    if (a->asking)
        render_cancel(&a->request);
}
