#include "app/page_ask.h"

#include "app/purge_all.h"

/* What the answer says. Pure but for a->marks. */
static void collect(struct page_ask *a)
{
    const struct render_request *r = &a->request;
    struct page_marks *m = &a->marks;
    bool named = r->rev != 0;
    uint64_t rev = named ? r->rev : r->meta.rev;
    switch (a->why) {
    case RENDER_FINE:
        page_marks_add(m, PAGE_CURRENT, rev, rev, a->began);
        if (origin_has_api(r->origin) && (!named || r->meta.latest) && rev < PAGE_REV_MAX)
            page_marks_add(m, PAGE_DELETED, rev + 1, PAGE_REV_MAX, a->began);
        return;
    case RENDER_NO_PAGE:
        page_marks_add(m, PAGE_DELETED, 0, PAGE_REV_MAX, a->began);
        return;
    case RENDER_NO_REVISION:
        if (named)
            page_marks_add(m, PAGE_DELETED, rev, rev, a->began);
        return;
    case RENDER_SUPPRESSED:
        page_marks_add(m, PAGE_SUPPRESSED, rev, rev, a->began);
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

static void tell(const struct page_ask *a)
{
    for (unsigned i = 0; i < a->marks.count; i++)
        app_mark_tell(a->app, a->target, &a->marks.marks[i]);
}

/* Of what is fine others are told when it was news to us. */
static void marked(struct page_marks *m)
{
    struct page_ask *a = CONTAINER_OF(m, struct page_ask, marks);
    if (a->why == RENDER_FINE)
        tell(a);
    a->done(a);
}

static void asked(struct render_request *r, enum render_why why)
{
    struct page_ask *a = r->ctx;
    a->asking = false;
    a->why = why;
    app_page_heed(a->app, a->target, why, r->retry_after_s);
    a->marks = (struct page_marks){ .app = a->app, .bucket = a->target->bucket, .domain = a->target->domain,
                                    .title = a->target->title, .done = marked };
    collect(a);
    if (why != RENDER_FINE)
        tell(a); /* they may have stored what we have not */
    page_marks_start(&a->marks);
}

void page_ask_start(struct page_ask *a)
{
    a->began = clock_store(a->app->clock);
    a->asking = true;
    a->request = (struct render_request){ .origin = a->target->domain->origin,
                                          .want = a->want,
                                          .title = a->target->title,
                                          .rev = a->target->has_rev ? a->target->name.rev : 0,
                                          .deadline = a->deadline,
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
