/* get_hop.c - an exact render that is not here: the server that made it is asked, and what it gives
 * is put here under its name. Then the read looks again, and judges as of any other render. */
#include "page/get_impl.h"
#include "page/hop.h"

/* In the arena of the read; put is filled once hop has come. */
struct get_hop {
    struct page_get *get;
    struct page_hop hop;
    struct page_put put;
    struct task task; /* back home */
};

/* A server that culled the render may find it elsewhere; one that purged or hid it may not. */
bool get_may_hop(const struct page_get *g)
{
    bool culled = g->why == ERR_GONE && g->read.trace.state == PAGE_CULLED;
    return g->service->peers != NULL && g->target.has_tid && (g->why == ERR_NOT_FOUND || culled) &&
           (g->flags & (GET_OWN | GET_ONLY_CACHED)) == 0 && (g->was & WAS_HOPPED) == 0 &&
           page_contents_travel(g->target.domain);
}

static enum page_get_state get_hop_gone(struct page_get *g, const struct page_trace *trace,
                                        const struct err_note *note)
{
    g->trace = *trace;
    return get_end_why(g, GOT_GONE, ERR_GONE, note);
}

/* Goes on after a question without a put. NOT_FOUND: the next look ends the read, as it may hop
 * only once. */
static enum page_get_state hop_judge(struct page_get *g)
{
    const struct page_hop *h = &g->hop->hop;
    if (h->why == ERR_OK || h->why == ERR_NOT_FOUND)
        return STEP_LOOK;
    if (h->why == ERR_GONE)
        return get_hop_gone(g, &h->trace, NULL);
    return get_end_why(g, GOT_FAILED, h->why, &h->note);
}

/* After the put: the store has judged the render as any other. */
static enum page_get_state put_judge(struct page_get *g)
{
    const struct page_put *p = &g->hop->put;
    if (p->call.why == ERR_OK)
        return STEP_LOOK;
    return p->call.why == ERR_GONE ? get_hop_gone(g, &p->trace, &p->note)
                                   : get_end_why(g, GOT_FAILED, p->call.why, &p->note);
}

static void put_done(struct store_call *c)
{
    struct page_get *g = CONTAINER_OF(c, struct get_hop, put.call)->get;
    get_go(g, put_judge(g));
}

static void home_run(struct task *t)
{
    struct page_get *g = CONTAINER_OF(t, struct get_hop, task)->get;
    get_go(g, hop_judge(g));
}

/* Pool. The answer has come: put here what it brought. */
static void get_hop_hopped(struct page_hop *h)
{
    struct get_hop *own = CONTAINER_OF(h, struct get_hop, hop);
    struct page_get *g = own->get;
    own->put.call = (struct store_call){ .deadline = page_write_deadline(g->service),
                                         .home = g->home,
                                         .done = put_done };
    if (h->why == ERR_OK)
        h->why = page_hop_put(h, &own->put);
    if (h->why == ERR_OK) {
        store_call_post(page_store_put(g->service->store, &own->put), &own->put.call);
        return;
    }
    own->task.run = home_run;
    home_post(g->home, &own->task);
}

enum page_get_state get_hop_enter(struct page_get *g)
{
    g->was |= WAS_HOPPED;
    g->hop = arena_calloc(g->arena, 1, sizeof *g->hop);
    if (g->hop == NULL)
        return get_end_why(g, GOT_FAILED, ERR_LIMIT, NULL);
    if (!g->wait(g, WAIT_OTHERS))
        return get_end(g, GOT_REFUSED);
    *g->hop = (struct get_hop){ .get = g,
                                .hop = { .service = g->service,
                                         .which = { .domain = g->target.domain,
                                                    .settings = g->target.settings,
                                                    .title = g->target.title,
                                                    .name = g->target.name },
                                         .arena = g->arena,
                                         .deadline = g->deadline,
                                         .done = get_hop_hopped } };
    page_hop_start(&g->hop->hop);
    return STEP_WAITS;
}

/* ---- telling that it is here ---- */

/* After the note of a pin: the reader may be answered now. */
static void noted_run(struct task *t)
{
    struct page_get *g = CONTAINER_OF(t, struct page_get, task);
    get_go(g, get_answer(g));
}

static void get_hop_noted(void *ctx, err why)
{
    struct page_get *g = ctx;
    (void)why; /* a server that does not find it says so */
    g->task.run = noted_run;
    home_post(g->home, &g->task);
}

bool get_note(struct page_get *g)
{
    return page_hop_note(g->service, &(struct page_hop_note){ .domain = g->target.domain,
                                                              .bucket = g->target.settings->opts,
                                                              .title = g->target.title,
                                                              .name = g->read.render.name,
                                                              .done = get_hop_noted,
                                                              .ctx = g });
}

/* Only what the wiki made, and what was given, is worth telling others of. */
store_time get_renew(const struct page_get *g)
{
    const struct page_render *r = &g->read.render;
    bool given = g->outcome == GOT_CONTENT || g->outcome == GOT_PART || g->outcome == GOT_SAME ||
                 g->outcome == GOT_REDIRECT;
    if (!given || (g->flags & GET_OWN) != 0 || g->service->peers == NULL ||
        r->made.said == 0) /* no wiki made it: it stays here */
        return STORE_TIME_NEVER;
    return page_hop_renew(g->service, &(struct page_hop_note){ .domain = g->target.domain,
                                                               .bucket = g->target.settings->opts,
                                                               .title = g->target.title,
                                                               .name = r->name });
}
