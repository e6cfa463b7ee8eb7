/* page_edge.c - s-maxage: which answers caches may keep until a rule purges them.
 *
 *   1. A purge has to reach them: they are the latest of a title, under an address that rules
 *      purge for each of its changes (rule/edge.c). Rules encode all of a title but unreserved
 *      characters, and know no query. So only one spelling of the address is looked at.
 *   2. Everybody may read them: a cache asks for no key.
 *   3. They are what the wiki has, as far as is known. A cache would keep a page that is known to
 *      be dated, and is given for want of another, though it was purged of it before.
 *   4. What the operator says in cache_control about shared caches holds. */
#include "app/page/page_edge.h"

#include "app/answer.h"
#include "auth/auth.h"
#include "change/change.h"
#include "http/negotiate.h"
#include "http/percent.h"
#include "rule/edge.h"

#include <inttypes.h>

/* ---- the address ---- */

static bool take_segment(str *path, str segment)
{
    bool is = str_starts(*path, STR("/")) && str_starts(str_skip(*path, 1), segment);
    *path = str_skip(*path, 1 + segment.n);
    return is;
}

/* A '?' with nothing behind it is another address, too. */
static bool is_plain(const struct content_get *g)
{
    const struct page_target *t = &g->page.target;
    str path = http_target(g->x);
    return http_query_raw(g->x).p == NULL && !t->has_rev &&
           (g->page.flags & (GET_STASH | GET_AT)) == 0 && take_segment(&path, t->domain->name) &&
           take_segment(&path, STR("v1")) && take_segment(&path, str_of(t->settings->opts->name)) &&
           take_segment(&path, t->content) &&
           take_segment(&path, http_encode(g->page.arena, t->title)) && path.n == 0;
}

/* Of an answer that is_plain. */
static int64_t ttl_s_of(const struct content_get *g)
{
    const struct page_target *t = &g->page.target;
    const struct rule_page page = { .domain = t->domain->name,
                                    .bucket = str_of(t->settings->opts->name),
                                    .title = t->title,
                                    .path = http_target(g->x) };
    return change_edge_ttl_s(g->app->change, &page);
}

bool page_edge_may_share(const struct content_get *g)
{
    return !change_edges(g->app->change) || is_plain(g);
}

/* ---- the answer ---- */

static bool is_for_all(const struct content_get *g)
{
    const struct page_domain *d = g->page.target.domain;
    enum auth_reason why;
    return !d->is_private && !http_is_withheld(g->x) &&
           auth_check(g->app->auth, STR_NONE, "page.read", d->name, &why) == ERR_OK;
}

static bool is_as_the_wiki_has_it(const struct page_get *p)
{
    bool known = p->trusted != GET_UNCHECKED && p->trusted != GET_DATED;
    return known && p->how != HOW_STALE && p->hops == 0 &&
           (p->was & (WAS_UNLIKE | WAS_UNFOLLOWED)) == 0;
}

static bool says_of_caches(str control)
{
    static const char *const said[] = { "s-maxage", "private", "no-store", "no-cache" };
    for (size_t i = 0; i < COUNT_OF(said); i++)
        if (http_cache_control_has(control, str_of(said[i])))
            return true;
    return false;
}

static const char *control_of(const struct page_get *p)
{
    if ((p->flags & GET_STASH) != 0 || (p->was & (WAS_UNLIKE | WAS_UNFOLLOWED)) != 0)
        return "no-cache";
    return p->target.settings->cache_control == NULL ? HEADERS_CACHE_PRIVATE
                                                     : p->target.settings->cache_control;
}

/* NULL: there is no memory for it. */
static const char *control_with(const struct content_get *g, const char *control, int64_t ttl_s)
{
    bool usual = str_eq(str_of(control), STR(HEADERS_CACHE_PRIVATE));
    if (!usual && says_of_caches(str_of(control)))
        return NULL;
    str text = usual ? arena_printf(g->page.arena,
                                    "max-age=0, s-maxage=%" PRId64 ", must-revalidate", ttl_s)
                     : arena_printf(g->page.arena, "%s, s-maxage=%" PRId64, control, ttl_s);
    return text.p;
}

void page_edge_choose(struct content_get *g)
{
    const struct page_get *p = &g->page;
    g->cache_control = control_of(p);
    g->age_s_max = p->target.settings->age_s_max;
    if (p->outcome == GOT_PART || !is_as_the_wiki_has_it(p) || !change_edges(g->app->change) ||
        !is_plain(g) || !is_for_all(g))
        return;
    int64_t ttl_s = ttl_s_of(g);
    const char *control = ttl_s > 0 ? control_with(g, g->cache_control, ttl_s) : NULL;
    if (control == NULL)
        return;
    g->cache_control = control;
    g->age_s_max = (int64_t)http_cache_life_s(str_of(control)); /* of numbers of s that fit */
}
