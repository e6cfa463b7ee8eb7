/* transform_keep.c - transformed wikitext that an editor comes back to (stash=true). The wikitext
 * and the bundle that the origin made of it stand in a bucket of their own under a new tid, and the
 * answer names them.
 *
 *   mint a tid, put (pool) -> stored, or not -> answer
 *
 * Invariant: open counts the job and the put; the last of them answers, on the loop. */
#include "app/errors.h"
#include "app/page/stash.h"
#include "app/page/transform_impl.h"
#include "bucket/page_write.h"
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
    stash_keep_put(t->app, t->taken, &t->put, t->why);
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

/* The job that stores and what was stored are told of in any order. */
static void keep_over(void *ctx)
{
    struct transform *t = ctx;
    if (--t->open == 0)
        answer_kept(t);
}

static void put_done(struct page_put *put, err why)
{
    struct transform *t = CONTAINER_OF(put, struct transform, put);
    t->why = why;
    loop_post(t->app->loop, keep_over, t);
}

static err keep(struct transform *t)
{
    struct page_which which = { .domain = t->target.domain->number,
                                .title = t->kept_title,
                                .select = SELECT_REV,
                                .name = { .rev = t->target.name.rev + 1 } };
    err why = pagebundle_parse(t->ask.reply, t->arena, t->parts, TRANSFORM_PARTS_MAX,
                               &t->parts_count, &t->note);
    const struct render_content *html = part_find(t, "html"),
                                *parsoid = part_find(t, "data-parsoid");
    if (why != ERR_OK || html == NULL || parsoid == NULL)
        return why == ERR_LIMIT ? why : ERR_UNAVAILABLE;
    t->put = (struct page_put){
        .domain = which.domain,
        .title = which.title,
        .rev = which.name.rev,
        .has_tid = true,
        .stash_ns = page_store_bucket_opts(t->app->pages, t->app->stash)->policy.stash_ttl_ns,
        .deadline = app_page_deadline(t->app),
        .arena = t->arena,
        .contents_count = STASHED_CONTENTS,
        .done = put_done
    };
    struct engine_view *v = engine_view_begin(t->app->engine);
    why = page_mint(t->app->stash, v, &which, t->began, entropy_u64(), &t->put.tid);
    engine_view_end(&v);
    if (why != ERR_OK)
        return why;
    t->put.contents[0] = (struct page_put_content){ .name = html->name, .headers = html->headers };
    t->put.contents[1] = (struct page_put_content){ .name = parsoid->name,
                                                    .headers = parsoid->headers,
                                                    .raw = parsoid->raw };
    t->put.contents[2] =
        (struct page_put_content){ .name = STR("wikitext"),
                                   .raw = t->fields.wikitext,
                                   .headers =
                                       STR("content-type: text/plain; charset=utf-8; profile="
                                           "\"https://www.mediawiki.org/wiki/Specs/wikitext/"
                                           "1.0.0\"\n") };
    if (!render_head_put(t->arena, html->raw, t->put.tid, &t->put.contents[0].raw))
        return ERR_LIMIT;
    uint64_t taken = stash_put_bytes(&t->put);
    t->stash_full = !stash_take(t->app, taken);
    if (t->stash_full)
        return ERR_FULL;
    t->taken = taken;
    t->open = 2;
    return page_put_start(t->app->stash, &t->put);
}

static void keep_run(struct loop_job *j)
{
    struct transform *t = CONTAINER_OF(j, struct transform, job);
    t->open = 1;
    err why = keep(t);
    if (why == ERR_OK)
        return; /* the rest is put_done's */
    t->open = 1;
    t->why = why;
}

static void keep_done(struct loop_job *j, bool canceled)
{
    struct transform *t = CONTAINER_OF(j, struct transform, job);
    if (!canceled) {
        keep_over(t);
        return;
    }
    t->why = ERR_SHUTDOWN;
    answer_kept(t);
}

void transform_keep(struct transform *t)
{
    t->job = (struct loop_job){ .run = keep_run, .done = keep_done };
    loop_job_start(t->app->loop, &t->job);
}
