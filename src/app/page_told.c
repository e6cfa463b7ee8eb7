#include "app/page_told.h"

static void add(struct page_told *t, enum page_state state, uint64_t first, uint64_t last)
{
    const struct page_target *target = t->target;
    struct page_order *o = &t->marks[t->count++];
    *o = (struct page_order){ .kind = ORDER_MARK, .domain = target->domain->number, .title = target->title,
                              .name = { .rev = first }, .rev_last = last, .mark = state, .said_at = t->said_at };
}

/* The marks there could be. Pure but for t. */
static void collect(struct page_told *t)
{
    const struct render_meta *meta = &t->ask->meta;
    bool named = t->ask->rev != 0;
    uint64_t rev = named ? t->ask->rev : meta->rev;
    switch (t->why) {
    case RENDER_FINE:
        add(t, PAGE_CURRENT, rev, rev);
        if (origin_has_api(t->ask->origin) && (!named || meta->latest) && rev < PAGE_REV_MAX)
            add(t, PAGE_DELETED, rev + 1, PAGE_REV_MAX);
        return;
    case RENDER_NO_PAGE:
        add(t, PAGE_DELETED, 0, PAGE_REV_MAX);
        return;
    case RENDER_NO_REVISION:
        if (named)
            add(t, PAGE_DELETED, rev, rev);
        return;
    case RENDER_SUPPRESSED:
        add(t, PAGE_SUPPRESSED, rev, rev);
        return;
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

/* Most answers say nothing against what is stored, and write nothing. */
static void look_run(struct loop_job *j)
{
    struct page_told *t = CONTAINER_OF(j, struct page_told, job);
    unsigned wanted = 0;
    struct engine_view *v = engine_view_begin(t->app->engine);
    for (unsigned i = 0; i < t->count; i++)
        if (page_wants_mark(t->target->bucket, v, &t->marks[i]))
            t->marks[wanted++] = t->marks[i];
    engine_view_end(&v);
    t->count = wanted;
}

static void nothing_run(struct loop_job *j)
{
    (void)j; /* only to come back to the loop */
}

static void go_on(struct loop_job *j, bool canceled);

static void marked(struct page_order *o, err why)
{
    struct page_told *t = o->ctx;
    if (why != ERR_OK)
        log_event(t->app->log, LOG_WARN, "page.mark_failed", LOG_STR("domain", t->target->domain->name),
                  LOG_STR("title", t->target->title), LOG_CSTR("why", err_name(why)));
    t->job = (struct loop_job){ .run = nothing_run, .done = go_on };
    loop_job_start(t->app->loop, &t->job);
}

/* The next mark; none is left: done. */
static void go_on(struct loop_job *j, bool canceled)
{
    struct page_told *t = CONTAINER_OF(j, struct page_told, job);
    if (canceled || t->next == t->count) {
        t->done(t);
        return;
    }
    struct page_order *o = &t->marks[t->next++];
    o->deadline = app_page_deadline(t->app);
    o->done = marked;
    o->ctx = t;
    page_order_start(t->target->bucket, o);
}

void page_told_start(struct page_told *t)
{
    t->count = t->next = 0;
    collect(t);
    t->job = (struct loop_job){ .run = look_run, .done = go_on };
    loop_job_start(t->app->loop, &t->job);
}
