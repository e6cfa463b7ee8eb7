/* transform_keep.c - transformed wikitext that an editor comes back to. The wikitext and the bundle
 * that the origin made of it stand in a bucket of their own under a new tid, and the outcome names
 * them. */
#include "loop/entropy.h"
#include "page/stash.h"
#include "page/transform_impl.h"
#include "render/title_rules.h"

#include <inttypes.h>

enum { KEPT_CONTENTS = 3 };

static const struct render_content *part_find(const struct page_transform *t, const char *name)
{
    for (unsigned i = 0; i < t->parts_count; i++)
        if (str_eq(t->parts[i].name, str_of(name)))
            return &t->parts[i];
    return NULL;
}

/* Home. The quota keeps what is stored of what was taken for it. */
static enum transform_phase keep_judge(struct page_transform *t)
{
    const struct render_content *html = part_find(t, "html");
    const struct page_put *p = &t->put;
    char tag[PAGE_TAG_BYTES + 1];
    err why = p->call.why;
    page_stash_keep_put(t->service, t->taken, p);
    /* keep_fill found no room. */
    if (t->full)
        return transform_end(t, TRANSFORM_FULL);
    if (why == ERR_UNAVAILABLE || why == ERR_LIMIT) /* of what the origin gave */
        return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, ERR_CORRUPT, &t->note);
    if (why != ERR_OK)
        return transform_end_why(t, TRANSFORM_FAILED, why, &p->note);
    t->body = p->contents[0].raw;
    bool same = tid_cmp(p->stored.tid, p->tid) == 0; /* else it had been kept before, so named */
    if (!same && !render_head_put(t->arena, html->raw, p->stored.tid, &t->body))
        return transform_end_why(t, TRANSFORM_FAILED, ERR_LIMIT, NULL);
    struct page_name name = { .rev = t->target.name.rev, .tid = p->stored.tid };
    t->etag = arena_printf(t->arena, "%.*s/stash", STR_ARG(page_tag(name, tag)));
    t->headers = html->headers;
    return transform_end(t, TRANSFORM_DONE);
}

static void transform_keep_noted(void *ctx, err why)
{
    (void)why; /* who does not find it says so */
    transform_go(ctx, PHASE_END);
}

/* At home. The outcome waits for the note: the editor's next request may come to another server,
 * which has to find the preview. */
static void keep_over(struct store_call *c)
{
    struct page_transform *t = CONTAINER_OF(c, struct page_transform, put.call);
    enum transform_phase to = keep_judge(t);
    const struct page_hop_note note = { .domain = t->target.domain,
                                        .bucket = t->target.settings->opts,
                                        .title = t->target.title,
                                        .name = { .rev = t->target.name.rev,
                                                  .tid = t->put.stored.tid },
                                        .done = transform_keep_noted,
                                        .ctx = t };
    if (t->outcome != TRANSFORM_DONE || !page_hop_note(t->service, &note))
        transform_go(t, to);
}

/* Inside the store's put, once the tid is known: it stands in the head of the HTML. Takes from the
 * quota. */
static err keep_fill(struct page_put *put)
{
    struct page_transform *t = CONTAINER_OF(put, struct page_transform, put);
    if (!render_head_put(t->arena, part_find(t, "html")->raw, put->tid, &put->contents[0].raw))
        return ERR_LIMIT;
    uint64_t taken = page_stash_put_bytes(put);
    t->full = !page_stash_take(t->service, taken);
    t->taken = t->full ? 0 : taken;
    return t->full ? ERR_FULL : ERR_OK;
}

static void put_fill(struct page_transform *t, const struct render_content *html,
                     const struct render_content *parsoid)
{
    const struct page_service *s = t->service;
    t->put = (struct page_put){
        .call = { .deadline = page_write_deadline(s), .home = t->home, .done = keep_over },
        .bucket = s->previews,
        .domain = t->target.domain->number,
        .title = t->kept_title,
        /* A revision of its own, so a preview is never taken for the page (stash.h). */
        .rev = t->target.name.rev + PAGE_PREVIEW_REVS,
        .began = t->began,
        .random = entropy_u64(),
        .fill = keep_fill,
        .stash_ns = page_store_bucket_policy(s->store, s->previews)->stash_ttl_ns,
        .arena = t->arena,
        .contents_count = KEPT_CONTENTS,
        .contents = { { .name = html->name, .headers = html->headers },
                      { .name = parsoid->name, .headers = parsoid->headers, .raw = parsoid->raw },
                      { .name = STR("wikitext"),
                        .raw = t->fields.wikitext,
                        .headers = STR("content-type: text/plain; charset=utf-8; profile="
                                       "\"https://www.mediawiki.org/wiki/Specs/wikitext/"
                                       "1.0.0\"\n") } }
    };
}

/* Pool: the bundle is large. */
enum transform_phase transform_keep_enter(struct page_transform *t)
{
    err why = pagebundle_parse(t->ask.reply, t->arena, t->parts, TRANSFORM_PARTS_MAX,
                               &t->parts_count, &t->note);
    const struct render_content *html = part_find(t, "html"),
                                *parsoid = part_find(t, "data-parsoid");
    if (why != ERR_OK || html == NULL || parsoid == NULL)
        return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, ERR_CORRUPT, &t->note);
    put_fill(t, html, parsoid);
    store_call_then(page_store_put(t->service->store, &t->put), &t->put.call);
    return PHASE_WAITS;
}
