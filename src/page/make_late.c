/* make_late.c - a render was stored after the wiki had denied it to somebody who asked later:
 * for make.c, right behind the put. */
#include "loop/loop.h"
#include "page/make_impl.h"
#include "page/trusted.h"

/* Loop. The mark is on disk, or could not be written; in both cases the render is not given. */
static void late_hidden(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, hear.call);
    if (m->why == ERR_OK)
        make_again(m);
    else
        make_finish(m);
}

/* Pool: the store's hear looks first. */
static void late_run(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    m->hear = (struct page_hear){ .call = { .deadline = page_write_deadline(m->service),
                                            .home = loop_home(m->service->loop),
                                            .done = late_hidden },
                                  .domain = m->target.domain->number,
                                  .title = m->target.title,
                                  .marks = &m->mark,
                                  .marks_count = 1 };
    store_call_post(page_store_hear(m->service->store, &m->hear), &m->hear.call);
}

bool make_came_late(struct make *m)
{
    struct page_denied d =
        page_denied_since(m->service, &m->target, m->put.stored.rev, m->put.said_at);
    /* The title's first word came while the render was made: the put could not judge by it. */
    bool moved = d.why == RENDER_FINE && m->put.first &&
                 page_word_moved(m->service, &m->target, m->put.word, m->put.said_at, &d.at);
    if (d.why == RENDER_FINE && !moved)
        return false;
    if (!moved)
        make_fail(m, page_err_of_render(d.why), "hidden or deleted at the wiki while it was made");
    m->keep = false;
    m->mark =
        (struct title_mark){ .state = d.why == RENDER_SUPPRESSED ? PAGE_SUPPRESSED : PAGE_DELETED,
                             .first = m->put.stored.rev,
                             .last = m->put.stored.rev,
                             .said_at = d.at };
    m->task.run = late_run;
    home_post(loop_pool(m->service->loop), &m->task);
    return true;
}
