/* Goal: a path of any bytes is routed without a read past its end, and means one thing: what was
 * decoded, encoded again and decoded again is the same, and the path built of a match's parameters
 * finds that match. */
#include "http/router.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void nothing(struct http_exchange *x, void *app)
{
    (void)x, (void)app;
}

static const struct http_route routes[] = {
    { HTTP_GET, "/{domain}/v1/page/{content}/{title}[/{rev}[/{tid}]]", nothing, .label = "page" },
    { HTTP_PUT, "/{domain}/v1/page/all/{title}/{rev}[/{tid}]", nothing, .label = "put" },
    { HTTP_GET, "/{domain}/v1/page/title/", nothing, .label = "titles" },
    { HTTP_GET, "/{domain}/v1/page/title/{title}[/{rev}]", nothing, .label = "title" },
    { HTTP_POST, "/v1/{verb}", nothing, .label = "verb" },
    { HTTP_GET, "/", nothing, .label = "root" },
    { HTTP_GET, "/f/{+rest}", nothing, .label = "rest" },
    { .pattern = NULL },
};

static void check_decode(str s, struct arena *a)
{
    str once = STR_NONE, again = STR_NONE;
    if (http_decode(a, s, false, &once) != ERR_OK)
        return;
    INVARIANT(once.n <= s.n);
    INVARIANT(http_decode(a, http_encode(a, once), false, &again) == ERR_OK);
    INVARIANT(str_eq(once, again));
}

/* "/a/v1/page/b/c/d" out of the parameters of the first row. */
static void check_rebuilt(const struct router *r, const struct router_match *m, struct arena *a)
{
    const struct http_listen from = { .content = true };
    if (m->row->route != &routes[0])
        return;
    str path = arena_printf(a, "/%s/v1/page/%s/%s", http_encode(a, m->params[0]).p,
                            http_encode(a, m->params[1]).p, http_encode(a, m->params[2]).p);
    for (unsigned i = 3; i < 5 && m->params[i].p != NULL; i++)
        path = arena_printf(a, "%s/%s", path.p, http_encode(a, m->params[i]).p);
    struct router_match again;
    INVARIANT(router_match(r, path, HTTP_GET, &from, a, &again) == ROUTER_FOUND);
    INVARIANT(again.row == m->row);
    for (unsigned i = 0; i < m->row->names_count; i++)
        INVARIANT(str_eq(m->params[i], again.params[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct http_route *tables[] = { routes };
    const struct http_listen from = { .content = true };
    struct router *r = NULL;
    struct arena a;
    char *path = malloc(size + 1);
    if (path == NULL || size > 1 << 16 || router_new(tables, 1, &r, NULL) != ERR_OK) {
        free(path);
        return 0;
    }
    arena_init(&a, 16 << 20);
    path[0] = '/';
    memcpy(path + 1, data, size);
    str s = { .p = path, .n = size + 1 };
    check_decode(s, &a);
    struct router_match m;
    if (router_match(r, s, HTTP_GET, &from, &a, &m) == ROUTER_FOUND)
        check_rebuilt(r, &m, &a);
    (void)router_match(r, s, HTTP_OTHER, &from, &a, &m); /* any outcome, but no crash */
    arena_fini(&a);
    router_free(&r);
    free(path);
    return 0;
}
