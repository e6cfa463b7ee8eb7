/* transform_hop.c - an original that is not here: the server that made it is asked, for
 * transform.c. What it gives is used for this transform, and not stored. */
#include "page/headers.h"
#include "page/transform_impl.h"

static void part_take(struct page_transform *t, const struct render_content *c)
{
    struct transform_original *o = &t->original;
    struct transform_part *part = str_eq(c->name, STR("html"))           ? &o->html
                                  : str_eq(c->name, STR("data-parsoid")) ? &o->data_parsoid
                                                                         : &o->wikitext;
    part->body = c->raw;
    if (!headers_find(c->headers, STR("content-type"), &part->type))
        part->type = STR("");
}

/* Pool. GONE here is told as GONE there; NOT_FOUND leaves what the store said. */
static enum transform_phase hop_judge(struct page_transform *t)
{
    const struct page_hop *h = &t->hop;
    if (h->why == ERR_GONE) {
        t->why = ERR_GONE;
        t->trace = h->trace;
    }
    if (h->why == ERR_NOT_FOUND || h->why == ERR_GONE)
        return transform_original_missing(t);
    if (h->why != ERR_OK)
        return transform_end_why(t, TRANSFORM_FAILED, h->why, &h->note);
    for (unsigned i = 0; i < h->render.contents_count; i++)
        part_take(t, &h->render.contents[i]);
    return transform_original_judge(t);
}

static void transform_hop_hopped(struct page_hop *h)
{
    struct page_transform *t = CONTAINER_OF(h, struct page_transform, hop);
    transform_go(t, hop_judge(t));
}

enum transform_phase transform_hop_enter(struct page_transform *t)
{
    t->hop = (struct page_hop){ .service = t->service,
                                .which = { .domain = t->target.domain,
                                           .settings = t->target.settings,
                                           .title = t->target.title,
                                           .kept_title = t->kept_title,
                                           .name = t->original_name.name,
                                           .deleted_too = true },
                                .arena = t->arena,
                                .deadline = t->deadline,
                                .done = transform_hop_hopped };
    page_hop_start(&t->hop);
    return PHASE_WAITS;
}

/* A render that was culled here may live on there; one that was purged may not be used. */
bool transform_may_hop(const struct page_transform *t)
{
    bool culled = t->why == ERR_GONE && t->trace.state == PAGE_CULLED;
    return t->service->peers != NULL && (t->why == ERR_NOT_FOUND || culled) &&
           page_contents_travel(t->target.domain);
}
