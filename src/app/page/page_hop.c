/* page_hop.c - GET /v1/servers.render: another server asks for a render, a stash or a preview that
 * this one has (page/hop.h). No key of a client is asked for: the secret of the servers is. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/page/page_request.h"
#include "page/hop.h"

struct hop_get {
    struct page_give give;
    struct http_exchange *x;
    str seal; /* of the question */
};

static void give_done(struct page_give *g)
{
    struct hop_get *h = CONTAINER_OF(g, struct hop_get, give);
    char seal[PEER_SEAL_BYTES + 1];
    str body;
    struct answer w = { .status = page_give_answer(g, &body) };
    if (body.p == NULL) {
        app_fail(h->x, ERR_LIMIT, NULL);
        return;
    }
    w.body = body;
    peer_seal(g->service->peers, h->seal, w.status, body, seal);
    answer_add(&w, STR("content-type"), STR("application/octet-stream"));
    answer_add(&w, STR("cache-control"), STR("no-store"));
    answer_add(&w, STR(PEER_FIELD), str_of(seal));
    answer_send(h->x, &w);
}

/* False: no server of this version asks so. */
static bool which_parse(struct http_exchange *x, const struct app *app, struct page_hop_which *w)
{
    struct arena *a = http_arena(x);
    str domain, bucket, title, kept, rev, tid, deleted;
    if (!http_query(x, "domain", &domain) || !http_query(x, "bucket", &bucket) ||
        !http_query(x, "title", &title) || !http_query(x, "kept", &kept) ||
        !http_query(x, "rev", &rev) || !http_query(x, "tid", &tid) ||
        !http_query(x, "deleted", &deleted))
        return false;
    w->domain = page_domain_find(&app->page, domain);
    w->settings = page_settings_find(&app->page, bucket);
    w->deleted_too = str_eq(deleted, STR("1"));
    w->kept_title = STR("");
    return w->domain != NULL && w->settings != NULL && page_contents_travel(w->domain) &&
           page_title_key(a, title, &w->title, NULL) == ERR_OK &&
           (kept.n == 0 || page_title_key(a, kept, &w->kept_title, NULL) == ERR_OK) &&
           str_to_u64(rev, &w->name.rev) && w->name.rev < PAGE_REV_MAX &&
           tid_parse(tid, &w->name.tid);
}

static void hop_get(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct peers *peers = a->page.peers;
    struct hop_get *h = app_new(x, sizeof *h);
    if (h == NULL)
        return;
    if (peers == NULL) {
        app_refused(x, 404, "not_found#route", "This server gives nothing to other servers.");
        return;
    }
    str question = arena_printf(http_arena(x), "%.*s?%.*s", STR_ARG(http_target(x)),
                                STR_ARG(http_query_raw(x)));
    if (!http_header(x, PEER_FIELD, &h->seal) || !peer_is_sealed(peers, question, h->seal)) {
        app_refused(x, 403, "forbidden", "Only servers that share the secret may ask this.");
        return;
    }
    h->x = x;
    h->give = (struct page_give){ .service = &a->page,
                                  .arena = http_arena(x),
                                  .home = http_home(x),
                                  .deadline = page_wait_deadline(x, a),
                                  .done = give_done };
    if (!which_parse(x, a, &h->give.which)) {
        app_refused(x, 404, "not_found", "There is no such render.");
        return;
    }
    if (!app_may_wait(x))
        return;
    http_defer(x);
    page_give_start(&h->give);
}

const struct http_route app_hop_routes[] = {
    { HTTP_GET, PAGE_HOP_PATH, hop_get, .label = "servers.render" },
    { .pattern = NULL },
};
