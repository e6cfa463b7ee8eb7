/* hop_give.c - the server that is asked for a render: from its own store, by its own trust.
 *
 *   is it there, and may it be given? (a read by name that has nothing made, and asks no server)
 *     |-> yes, or deleted and wanted all the same -> all its contents
 *     \-> not stored -> is it a preview? -> all its contents */
#include "page/headers.h"
#include "page/hop.h"
#include "page/stash.h"

/* At home; g may be gone behind it. */
static void give_end(struct page_give *g, err why)
{
    g->why = why;
    g->done(g);
}

/* Splits stored headers into what travels as fields and the target of a redirect, which travels
 * by itself. */
static err headers_take(struct page_give *g, str lines, str *out)
{
    struct http_pair line;
    struct buf rest;
    buf_init(&rest, PAGE_HEADERS_BYTES_MAX);
    while (headers_next(&lines, &line))
        if (str_eq(line.name, STR("location")))
            g->render.redirect_to = line.value;
        else
            buf_printf(&rest, "%.*s: %.*s\n", STR_ARG(line.name), STR_ARG(line.value));
    *out = buf_take(&rest, g->arena);
    return out->p == NULL && out->n > 0 ? ERR_LIMIT : ERR_OK;
}

/* The word that travels: the page as the wiki has it now, but touched and said as of when the
 * render was made. So the other server can tell whether the page was touched since. A render
 * without a word counts as made before every touch. */
static void word_take(struct page_travel *t, const struct page_read *r)
{
    const struct title_under *made = &r->render.made;
    t->has_word = r->heard && !r->word.missing;
    t->word = r->word;
    t->word.touched = made->said > 0 ? made->touched : 1;
    t->word.said = made->said > 0 ? made->said : 1;
}

/* All contents that were read, decoded; they point into the arena of g. */
static err contents_take(struct page_give *g)
{
    const struct page_read *r = &g->read;
    struct page_travel *t = &g->render;
    err why = ERR_OK;
    *t = (struct page_travel){ .name = r->render.name };
    word_take(t, r);
    for (unsigned i = 0; i < r->wanted_count && why == ERR_OK; i++) {
        const struct page_body *body = &r->bodies[i];
        if (body->pieces_count == 0)
            continue;
        struct render_content *c = &t->contents[t->contents_count++];
        c->name = r->wanted[i];
        why = headers_take(g, body->headers, &c->headers);
        if (why == ERR_OK)
            why = page_body_raw(body, g->arena, &c->raw);
    }
    return why == ERR_OK && t->contents_count == 0 ? ERR_NOT_FOUND : why;
}

/* At home. */
static void contents_read(struct store_call *c)
{
    struct page_give *g = CONTAINER_OF(c, struct page_give, read.call);
    err why = c->why == ERR_OK ? contents_take(g) : c->why;
    if (why == ERR_GONE)
        g->state = g->read.trace.state;
    give_end(g, why);
}

/* Reads the render by its name, all contents that a wiki's render or a preview has. */
static void contents_start(struct page_give *g, bool of_previews)
{
    const struct page_service *s = g->service;
    const struct page_hop_which *w = &g->which;
    _Static_assert(COUNT_OF(g->render.contents) >= PAGE_WANTED_MAX, "a place each");
    g->read = (struct page_read){ .call = { .home = g->home, .done = contents_read },
                                  .bucket = of_previews ? s->previews : w->settings->bucket,
                                  .which = { .domain = w->domain->number,
                                             .select = SELECT_EXACT,
                                             .name = w->name,
                                             .title = of_previews ? w->kept_title : w->title,
                                             .deleted_too = w->deleted_too },
                                  .arena = g->arena,
                                  .heeds = !of_previews && page_is_asked(s, w->domain),
                                  .wanted_count = 3,
                                  .wanted = { STR("html"), STR("data-parsoid"), STR("wikitext") } };
    /* A preview lies one revision above the page that it was made of (stash.h). */
    if (of_previews)
        g->read.which.name.rev += PAGE_PREVIEW_REVS;
    store_call_then(page_store_read(s->store, &g->read), &g->read.call);
}

/* A question that could not be judged is no "missing": the other server asks again later. */
static err give_failed(const struct page_get *get)
{
    bool failed = get->outcome == GOT_ORIGIN_FAILED || get->outcome == GOT_REFUSED ||
                  (get->outcome == GOT_FAILED && get->why != ERR_CORRUPT);
    return failed ? ERR_UNAVAILABLE : ERR_NOT_FOUND;
}

/* At home. Whether the render may be given is known; now read it, look for a preview, or refuse. */
static void hop_give_looked(struct page_get *get)
{
    struct page_give *g = CONTAINER_OF(get, struct page_give, get);
    bool deleted = get->outcome == GOT_GONE && get->trace.state == PAGE_DELETED;
    bool here = get->outcome == GOT_SAME || (deleted && g->which.deleted_too);
    bool nothing = get->outcome == GOT_NOTHING ||
                   (get->outcome == GOT_GONE && get->trace.state == PAGE_CULLED);
    if (here) {
        contents_start(g, false);
    } else if (nothing && g->which.kept_title.n > 0 && g->service->previews != NULL) {
        contents_start(g, true);
    } else if (get->outcome == GOT_GONE) {
        g->state = get->trace.state;
        give_end(g, ERR_GONE);
    } else {
        give_end(g, give_failed(get));
    }
}

/* Never refuses: it waits as long as the question itself may. */
static bool waits(struct page_get *get, enum page_wait what)
{
    struct page_give *g = CONTAINER_OF(get, struct page_give, get);
    if (what == WAIT_OTHERS)
        get->deadline = g->deadline;
    return true;
}

/* Looks by a condition that fails only as "the client has it" (GOT_SAME). So the read judges
 * trust, and reads no bytes. */
static void give_run(struct task *t)
{
    struct page_give *g = CONTAINER_OF(t, struct page_give, task);
    const struct page_hop_which *w = &g->which;
    g->get = (struct page_get){ .service = g->service,
                                .arena = g->arena,
                                .home = g->home,
                                .target = { .domain = w->domain,
                                            .settings = w->settings,
                                            .content = STR("html"),
                                            .title = w->title,
                                            .has_rev = true,
                                            .has_tid = true,
                                            .name = w->name },
                                .flags = GET_OWN,
                                .was = WAS_SETTLED,
                                .condition = { .none_match = { .kind = MATCH_ANY } },
                                .wait = waits,
                                .done = hop_give_looked };
    g->get.read.which = page_target_which(&g->get.target);
    page_get_start(&g->get);
}

/* Posted, so that done never runs inside the start. */
void page_give_start(struct page_give *g)
{
    g->task.run = give_run;
    home_post(g->home, &g->task);
}

/* The body of a refusal is a word for people, or the state that hop_gone reads. */
int page_give_answer(struct page_give *g, str *body)
{
    struct buf b;
    buf_init(&b, g->service->arena_bytes_max);
    bool missing = g->why == ERR_NOT_FOUND || g->why == ERR_CORRUPT; /* damage is not given */
    int status = g->why == ERR_OK ? 200 : g->why == ERR_GONE ? 410 : missing ? 404 : 503;
    if (g->why == ERR_OK)
        page_travel_put(&b, &g->render);
    else
        buf_put(&b, g->why == ERR_GONE ? str_of(page_state_name(g->state)) : STR("no"));
    *body = buf_take(&b, g->arena);
    return status;
}
