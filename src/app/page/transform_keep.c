/* transform_keep.c - transformed wikitext that an editor comes back to (stash=true). The wikitext
 * and the bundle that the origin made of it stand in a bucket of their own under a new tid, and the
 * answer names them.
 *
 *   put under a new tid (pool) -> stored, or not -> answer (loop) */
#include "app/errors.h"
#include "app/page/page_stash.h"
#include "app/page/transform_impl.h"
#include "loop/entropy.h"
#include "render/title.h"

#include <inttypes.h>

enum { STASHED_CONTENTS = 3 };

static const struct render_content *part_find(const struct transform *t, const char *name)
{
    for (unsigned i = 0; i < t->parts_count; i++)
        if (str_eq(t->parts[i].name, str_of(name)))
            return &t->parts[i];
    return NULL;
}

static void answer_kept(struct transform *t)
{
    const struct render_content *html = part_find(t, "html");
    char tid[TID_TEXT_BYTES + 1];
    str body = t->put.contents[0].raw;
    page_stash_keep_put(&t->app->page, t->taken, &t->put);
    if (t->stash_full) {
        stash_answer_full(t->x);
        return;
    }
    if (t->why == ERR_UNAVAILABLE || t->why == ERR_LIMIT) { /* of what the origin gave */
        app_origin_fail(t->x, ERR_CORRUPT, &t->note, 0);
        return;
    }
    if (t->why != ERR_OK) {
        app_page_fail(t->x, t->app, t->why, NULL, &t->put.note);
        return;
    }
    bool same = tid_cmp(t->put.stored.tid, t->put.tid) ==
                0; /* else it had been kept before, under that name */
    if (!same && !render_head_put(t->arena, html->raw, t->put.stored.tid, &body)) {
        app_fail(t->x, ERR_LIMIT, NULL);
        return;
    }
    tid_format(t->put.stored.tid, tid);
    str etag = arena_printf(t->arena, "\"%" PRIu64 "/%s/stash\"", t->target.name.rev, tid);
    transform_answer(t, html->headers, body, etag);
}

static void keep_over(struct store_call *c)
{
    struct transform *t = CONTAINER_OF(c, struct transform, put.call);
    t->why = c->why;
    answer_kept(t);
}

/* The tid stands in the head of the HTML. Takes of what may be kept for editors. */
static err keep_fill(struct page_put *put)
{
    struct transform *t = CONTAINER_OF(put, struct transform, put);
    if (!render_head_put(t->arena, part_find(t, "html")->raw, put->tid, &put->contents[0].raw))
        return ERR_LIMIT;
    uint64_t taken = page_stash_put_bytes(put);
    t->stash_full = !page_stash_take(&t->app->page, taken);
    t->taken = t->stash_full ? 0 : taken;
    return t->stash_full ? ERR_FULL : ERR_OK;
}

static void put_fill(struct transform *t, const struct render_content *html,
                     const struct render_content *parsoid)
{
    struct page_store *pages = t->app->page.store;
    t->put = (struct page_put){
        .call = { .deadline = page_write_deadline(&t->app->page),
                  .home = loop_home(t->app->loop),
                  .done = keep_over },
        .bucket = t->app->stash,
        .domain = t->target.domain->number,
        .title = t->kept_title,
        .rev = t->target.name.rev + 1,
        .began = t->began,
        .random = entropy_u64(),
        .fill = keep_fill,
        .stash_ns = page_store_bucket_opts(pages, t->app->stash)->policy.stash_ttl_ns,
        .arena = t->arena,
        .contents_count = STASHED_CONTENTS,
        .contents = { { .name = html->name, .headers = html->headers },
                      { .name = parsoid->name, .headers = parsoid->headers, .raw = parsoid->raw },
                      { .name = STR("wikitext"),
                        .raw = t->fields.wikitext,
                        .headers = STR("content-type: text/plain; charset=utf-8; profile="
                                       "\"https://www.mediawiki.org/wiki/Specs/wikitext/"
                                       "1.0.0\"\n") } }
    };
}

static void keep_run(struct task *task)
{
    struct transform *t = CONTAINER_OF(task, struct transform, task);
    err why = pagebundle_parse(t->ask.reply, t->arena, t->parts, TRANSFORM_PARTS_MAX,
                               &t->parts_count, &t->note);
    const struct render_content *html = part_find(t, "html"),
                                *parsoid = part_find(t, "data-parsoid");
    if (why == ERR_OK && html != NULL && parsoid != NULL) {
        put_fill(t, html, parsoid);
        store_call_post(page_store_put(t->app->page.store, &t->put), &t->put.call);
        return;
    }
    t->put.call = (struct store_call){ .home = loop_home(t->app->loop), .done = keep_over };
    store_call_end(&t->put.call, why == ERR_LIMIT ? why : ERR_UNAVAILABLE);
}

void transform_keep(struct transform *t)
{
    t->task.run = keep_run;
    home_post(loop_pool(t->app->loop), &t->task);
}
