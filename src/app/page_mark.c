#include "app/page_mark.h"

void page_marks_add(struct page_marks *m, enum page_state state, uint64_t first, uint64_t last, store_time said_at)
{
    INVARIANT(m->count < PAGE_MARKS_MAX);
    m->marks[m->count++] = (struct page_order){ .kind = ORDER_MARK, .domain = m->domain->number, .title = m->title,
                                                .name = { .rev = first }, .rev_last = last, .mark = state,
                                                .said_at = said_at };
}

/* Most answers say nothing against what is stored, and write nothing. */
static void look_run(struct loop_job *j)
{
    struct page_marks *m = CONTAINER_OF(j, struct page_marks, job);
    unsigned wanted = 0;
    struct engine_view *v = engine_view_begin(m->app->engine);
    for (unsigned i = 0; i < m->count; i++)
        if (page_wants_mark(m->bucket, v, &m->marks[i]))
            m->marks[wanted++] = m->marks[i];
    engine_view_end(&v);
    m->count = wanted;
}

static void nothing_run(struct loop_job *j)
{
    (void)j; /* only to come back to the loop */
}

static void go_on(struct loop_job *j, bool canceled);

static void marked(struct page_order *o, err why)
{
    struct page_marks *m = o->ctx;
    if (why != ERR_OK)
        log_event(m->app->log, LOG_WARN, "page.mark_failed", LOG_STR("domain", m->domain->name),
                  LOG_STR("title", m->title), LOG_CSTR("why", err_name(why)));
    m->job = (struct loop_job){ .run = nothing_run, .done = go_on };
    loop_job_start(m->app->loop, &m->job);
}

/* The next mark; none is left: done. */
static void go_on(struct loop_job *j, bool canceled)
{
    struct page_marks *m = CONTAINER_OF(j, struct page_marks, job);
    if (canceled || m->next == m->count) {
        m->done(m);
        return;
    }
    struct page_order *o = &m->marks[m->next++];
    o->deadline = app_page_deadline(m->app);
    o->done = marked;
    o->ctx = m;
    page_order_start(m->bucket, o);
}

void page_marks_start(struct page_marks *m)
{
    m->next = 0;
    m->job = (struct loop_job){ .run = look_run, .done = go_on };
    loop_job_start(m->app->loop, &m->job);
}
