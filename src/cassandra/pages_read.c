/* pages_read.c - reads, explanations and histories.
 *
 * A read derives the title and asks it for a render. Then it reads the bytes that the caller
 * chooses, one content behind the other. The bytes of the latest are asked for beside the facts,
 * where they are likely wanted: the read is one round trip then. The newest put says most often
 * which render is the latest. So a title of many renders costs as much as a title of few. */
#include "cassandra/lists_pages.h"

#include <string.h>

struct read_own { /* in the work's arena */
    struct work *work;
    struct page_read *read;
    struct page_row row;
    unsigned left; /* contents to read, as bits */
    unsigned at;
    struct titles_body body;
    struct arena_mark mark; /* before the body's bytes */
};

static void read_next(struct read_own *r);

/* A content is done with. The next one is read, or the request is over. */
static void body_taken(struct read_own *r, err why)
{
    if (why != ERR_OK) {
        work_end(r->work, why);
        return;
    }
    r->left &= ~BIT(r->at);
    read_next(r);
}

/* Copies bytes from the work's arena, or the early answer, into the caller's arena: they outlive
 * the work. */
static err body_take(struct read_own *r, str from)
{
    struct page_read *q = r->read;
    const struct page_content *c = q->contents[r->at];
    char *bytes = arena_alloc(q->arena, from.n + 1);
    str *frame = arena_alloc(q->arena, sizeof *frame);
    if (bytes == NULL || frame == NULL)
        return ERR_LIMIT;
    if (from.n > 0)
        memcpy(bytes, from.p, from.n);
    const str all = { .p = bytes, .n = from.n };
    *frame = str_skip(all, c->headers_bytes);
    q->bodies[r->at] = (struct page_body){ .headers = str_take(all, c->headers_bytes),
                                           .codec = c->codec,
                                           .raw_bytes = c->raw_bytes,
                                           .pieces = frame,
                                           .pieces_count = 1 };
    return ERR_OK;
}

static void body_read(struct store_call *c)
{
    struct titles_body *b = CONTAINER_OF(c, struct titles_body, call);
    struct read_own *r = CONTAINER_OF(b, struct read_own, body);
    struct arena *a = &r->work->arena;
    if (c->why == ERR_NOT_FOUND) {
        /* Body and bytes of the work's arena go back before the title is looked at again. */
        arena_release(a, r->mark);
        work_without(r->work, &r->row);
        return;
    }
    err e = work_blame(r->work, c->why, false, &b->note);
    if (e == ERR_OK)
        e = body_take(r, b->bytes);
    /* The caller has its copy, and the next content may be as large. */
    arena_release(a, r->mark);
    body_taken(r, e);
}

/* Did the bytes come with the facts? */
static bool body_is_here(const struct read_own *r)
{
    const struct work *w = r->work;
    return w->newest != NULL &&
           titles_newest_is(w->newest, &r->row.r.name, r->row.digest, r->read->contents[r->at]);
}

static void read_next(struct read_own *r)
{
    struct work *w = r->work;
    if (r->left == 0) {
        work_end(w, ERR_OK);
        return;
    }
    r->at = (unsigned)__builtin_ctz(r->left);
    if (body_is_here(r)) {
        body_taken(r, body_take(r, w->newest->bytes)); /* as deep as contents are wanted */
        return;
    }
    r->mark = arena_mark(&w->arena);
    r->body = (struct titles_body){ .call = { .home = w->call->home,
                                              .done = body_read,
                                              .part_of = w->call,
                                              .deadline = w->call->deadline },
                                    .key = w->key,
                                    .name = r->row.r.name,
                                    .digest = r->row.digest,
                                    .content = r->read->contents[r->at],
                                    .arena = &w->arena };
    store_call_then(titles_body(w->pages->opts.titles, &r->body), &r->body.call);
}

/* Chooses the contents to read: those of the render, as far as the caller wants them now that it
 * knows the render. */
static unsigned contents_choose(struct page_read *q)
{
    unsigned there = 0;
    for (unsigned i = 0; i < q->wanted_count; i++) {
        q->contents[i] = page_content_find(&q->render, q->wanted[i]);
        q->bodies[i] = (struct page_body){ .pieces_count = 0 };
        if (q->contents[i] != NULL)
            there |= BIT(i);
    }
    return q->choose == NULL ? there : there & q->choose(q);
}

/* The title is derived. Runs once more after bytes were missing, with another r. */
static void read_loaded(struct work *w)
{
    struct page_read *q = w->request;
    struct read_own *r = arena_alloc(&w->arena, sizeof *r);
    if (r == NULL) {
        work_end(w, ERR_LIMIT);
        return;
    }
    *r = (struct read_own){ .work = w, .read = q };
    const struct title_word *last = work_word(w);
    /* Words that could not be read count as none: all that hides is a fact, and the wiki is asked
     * again. */
    q->heard = last != NULL;
    if (q->heard)
        q->word = *last;
    const struct title_which which = work_which(&q->which);
    err e = title_find(&w->memory.title, &which, &r->row, &q->trace);
    q->found = e == ERR_OK;
    /* such as a render that is gone: then puts that were not read may be what is asked for */
    if (e != ERR_OK && w->load.more) {
        work_load_all(w);
        return;
    }
    if (e != ERR_OK) {
        work_end(w, e);
        return;
    }
    q->render = r->row.r;
    q->dated = q->heard ? title_dated(last, &q->render) : DATED_NOT;
    q->lasts_until = retention_lasts_until(&w->memory.title.plan->policy, &q->render);
    r->left = contents_choose(q);
    read_next(r);
}

enum store_start cassandra_pages_read(struct cassandra_pages *p, struct page_read *r)
{
    struct work *w = work_new(p, r->bucket, &r->call);
    w->request = r;
    w->loaded = read_loaded;
    w->heeds = r->heeds;
    w->latest = r->which.select == SELECT_LATEST;
    if (r->eager && r->which.select == SELECT_LATEST && r->wanted_count > 0) {
        w->newest = arena_calloc(&w->arena, 1, sizeof *w->newest);
        INVARIANT(w->newest != NULL); /* it is the first of its arena */
        w->newest->content = r->wanted[0];
    }
    r->heard = false;
    r->dated = DATED_NOT;
    work_start(w, r->which.domain, r->which.title, r->call.home);
    return STORE_LATER;
}

/* ---- what became of a render ---- */

static void explain_loaded(struct work *w)
{
    struct page_explain *x = w->request;
    const struct title_which which = work_which(&x->which);
    work_end(w, title_explain(&w->memory.title, &which, &x->is));
}

enum store_start cassandra_pages_explain(struct cassandra_pages *p, struct page_explain *x)
{
    struct work *w = work_new(p, x->bucket, &x->call);
    w->request = x;
    w->loaded = explain_loaded;
    work_start(w, x->which.domain, x->which.title, x->call.home);
    return STORE_LATER;
}

/* ---- histories ---- */

/* Renders that are alive, newest first, below the place where the last listing stopped. */
static err history_tell(const struct work *w, struct page_list *l, struct list_place *at)
{
    struct title_walk walk;
    struct page_row row;
    err e;
    title_walk_open(&walk, &w->memory.title, page_name_first,
                    at->name.rev == 0 ? page_name_last : page_name_below(at->name), false);
    while ((e = title_walk_alive(&walk, &row)) == ERR_OK) {
        if (!l->each.render(l->each.ctx, l->title, &row.r)) {
            /* The place is behind the last render that was taken, so the refused one comes first
             * next time. */
            l->next = list_place_put(LIST_HISTORY, at, l->arena);
            e = l->next.p == NULL ? ERR_LIMIT : ERR_OK;
            break;
        }
        at->name = row.r.name;
    }
    title_walk_close(&walk);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static void history_loaded(struct work *w)
{
    struct page_list *l = w->request;
    struct list_place at = { .title_bytes = 0 };
    err e = l->from.n > 0 ? list_place_get(LIST_HISTORY, l->from, &at) : ERR_OK;
    work_end(w, e == ERR_OK ? history_tell(w, l, &at) : e);
}

enum store_start cassandra_pages_list(struct cassandra_pages *p, struct page_list *l)
{
    struct list_place from = { .title_bytes = 0 };
    l->next = STR("");
    if (l->from.n > 0 && list_place_get(l->what, l->from, &from) != ERR_OK)
        /* A token of another kind of listing, or an invented token. */
        return store_call_done(&l->call, ERR_BAD);
    /* A history is of one title, as a read is. Titles and stashes are found by rows of their own.
     */
    if (l->what != LIST_HISTORY)
        return lists_start(p, l, &from);
    struct work *w = work_new(p, l->bucket, &l->call);
    w->request = l;
    w->loaded = history_loaded;
    work_start(w, l->domain, l->title, l->call.home);
    return STORE_LATER;
}
