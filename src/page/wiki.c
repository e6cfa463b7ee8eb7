/* wiki.c - asks the wiki for what is not stored (metadata, wikitext, lint), once for all who ask at
 * the same time. For wiki_get.c.
 *
 *   ask (loop, pool) -> which render is stored of it? (pool) -> finish */
#include "page/wiki.h"

#include "loop/loop.h"
#include "page/ask.h"
#include "page/headers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WIKI_MAGIC 0x31ca31cau

/* The maker of one flight. The flight owns it, and frees it by wiki_release. */
struct wiki_make {
    uint32_t magic;
    const struct page_service *service;
    struct flight *flight;
    struct page_target target;
    enum render_want want;
    struct page_ask ask;
    struct page_read read;
    struct page_word *value;
};

static void word_free(struct flight_value *v)
{
    struct page_word *value = page_word_of(v);
    arena_fini(&value->arena);
    free(value);
}

/* value is still here only when it was never given to the flight. */
static void wiki_release(void *ctx)
{
    struct wiki_make *m = ctx;
    MAGIC_CHECK(m, WIKI_MAGIC);
    m->magic = 0;
    if (m->value != NULL) {
        struct flight_value *v = &m->value->v;
        flight_value_unref(&v);
    }
    free(m);
}

/* keep: the error is worth remembering. */
static void wiki_finish(struct wiki_make *m, err why, bool keep)
{
    struct page_word *value = m->value;
    if (why == ERR_OK)
        m->value = NULL; /* its reference passes to the flight */
    struct err_note note = m->ask.request.note;
    flight_finish(m->flight, why, why == ERR_OK ? &value->v : NULL, keep, &note);
}

/* Pool. The store has said which render it has of the revision; none is no error. */
static void wiki_build(struct store_call *c)
{
    struct wiki_make *m = CONTAINER_OF(c, struct wiki_make, read.call);
    const struct render_request *r = &m->ask.request;
    struct page_word *value = m->value;
    value->meta = r->meta;
    if (c->why == ERR_OK)
        value->tid = m->read.render.name.tid;
    if (m->want != WANT_META) {
        value->type = STR("application/octet-stream");
        (void)headers_find(r->contents[0].headers, STR("content-type"),
                           &value->type); /* else that stands */
        value->body = r->contents[0].raw;
    }
    /* An odd type of the origin's must not get into a header of ours. */
    wiki_finish(m, headers_value_is_sane(value->type) ? ERR_OK : ERR_CORRUPT, false);
}

/* Pool. What is denied of the page, and a starved arena, are not remembered as failures. */
static void wiki_asked(struct page_ask *a)
{
    struct wiki_make *m = CONTAINER_OF(a, struct wiki_make, ask);
    if (a->why == RENDER_OTHER_TITLE) {
        m->value->moved_to = a->request.meta.title;
        m->value->namespace_id = a->request.meta.namespace_id;
        wiki_finish(m, ERR_OK, false);
        return;
    }
    if (a->why != RENDER_FINE) {
        bool of_page =
            a->why == RENDER_NO_PAGE || a->why == RENDER_NO_REVISION || a->why == RENDER_SUPPRESSED;
        bool starved = a->why == RENDER_LIMIT && arena_is_starved(&m->value->arena);
        wiki_finish(m, starved ? ERR_LIMIT : page_err_of_render(a->why), !of_page && !starved);
        return;
    }
    m->read =
        (struct page_read){ .call = { .home = loop_pool(m->service->loop), .done = wiki_build },
                            .bucket = m->target.settings->bucket,
                            .arena = &m->value->arena,
                            .which = { .domain = m->target.domain->number,
                                       .title = m->target.title,
                                       .select = SELECT_REV,
                                       .name = { .rev = a->request.meta.rev } } };
    store_call_then(page_store_read(m->service->store, &m->read), &m->read.call);
}

static void wiki_start(struct flight *f, void *ctx)
{
    struct wiki_make *m = ctx;
    MAGIC_CHECK(m, WIKI_MAGIC);
    m->flight = f;
    m->ask = (struct page_ask){ .service = m->service,
                                .target = &m->target,
                                .want = m->want,
                                .deadline = flight_deadline(f),
                                .pass = flight_pass(f),
                                .arena = &m->value->arena,
                                .done = wiki_asked };
    page_ask_start(&m->ask);
}

static void wiki_cancel(struct flight *f, void *ctx)
{
    struct wiki_make *m = ctx;
    (void)f;
    page_ask_cancel(&m->ask);
}

static struct wiki_make *wiki_new(const struct page_service *s, const struct page_target *t,
                                  enum render_want want)
{
    struct wiki_make *m = calloc(1, sizeof *m);
    struct page_word *value = calloc(1, sizeof *value);
    INVARIANT(m != NULL);
    INVARIANT(value != NULL);
    *value = (struct page_word){ .v = { .refs = 1, .free = word_free } };
    arena_init(&value->arena, s->arena_bytes_max);
    arena_share(&value->arena, s->budget);
    *m = (struct wiki_make){
        .magic = WIKI_MAGIC, .service = s, .target = *t, .want = want, .value = value
    };
    m->target.title = arena_copy(&value->arena, t->title);
    m->target.content = STR("");
    if (m->target.title.p != NULL)
        return m;
    wiki_release(m);
    return NULL;
}

/* Readers of one key share the question: kind, domain, revision and title. */
err page_word_ask(const struct page_service *s, const struct page_target *t, enum render_want want,
                  struct flight_waiter *w)
{
    static const char *const words[] = { [WANT_RENDER] = "render",
                                         [WANT_META] = "title",
                                         [WANT_WIKITEXT] = "wikitext",
                                         [WANT_LINT] = "lint" };
    char key[FLIGHT_KEY_BYTES_MAX];
    int n = snprintf(key, sizeof key, "%s %.*s %" PRIu64 " %.*s", words[want],
                     STR_ARG(t->domain->name), t->has_rev ? t->name.rev : 0, STR_ARG(t->title));
    INVARIANT(n > 0 && n < FLIGHT_KEY_BYTES_MAX); /* names and titles are bounded */
    struct wiki_make *m = wiki_new(s, t, want);
    if (m == NULL)
        return ERR_LIMIT;
    struct flight_maker maker = { .start = wiki_start,
                                  .cancel = wiki_cancel,
                                  .release = wiki_release,
                                  .ctx = m,
                                  .source = render_source(t->domain->origin, want) };
    return flight_join(s->flights, (str){ .p = key, .n = (size_t)n }, &maker, w);
}
