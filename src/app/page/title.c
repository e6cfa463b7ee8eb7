#include "app/page/title.h"

#include "app/errors.h"
#include "app/headers.h"
#include "http/negotiate.h"
#include "render/title.h"

#include <inttypes.h>

enum { NAMESPACE_USER = 2, NAMESPACE_USER_TALK = 3 };

/* The key by these rules; ERR_BAD, or ERR_NOT_FOUND for Special and Media, with a note. */
static err key_of(struct arena *a, const struct siteinfo *rules, str title, struct title_key *key,
                  struct err_note *note)
{
    err why = title_normalise(rules, a, title, key, note);
    if (why != ERR_OK)
        return why;
    if (key->namespace_id < 0) {
        err_note_set(note, "no page can have a title of this namespace");
        return ERR_NOT_FOUND;
    }
    return page_title_key(a, key->key, &key->key, note); /* its own limits */
}

static struct title_seen seen_of(bool changed, int64_t namespace_id)
{
    bool user = namespace_id == NAMESPACE_USER || namespace_id == NAMESPACE_USER_TALK;
    return (struct title_seen){ .changed = changed, .user = user };
}

err title_take(struct arena *a, struct page_target *target, str title, int64_t namespace_id,
               struct title_seen *seen)
{
    str key, own = arena_copy(a, title);
    err why = own.p == NULL ? ERR_LIMIT : page_title_key(a, own, &key, NULL);
    if (why != ERR_OK)
        return why;
    target->title = key;
    *seen = seen_of(true, namespace_id);
    return ERR_OK;
}

/* ERR_AGAIN: the rules are not known; else not ERR_OK: answer_bad has yet to tell. */
static err settle(struct http_exchange *x, struct page_target *target, struct title_seen *seen,
                  struct err_note *note)
{
    struct title_key key;
    struct origin *origin = target->domain->origin;
    *seen = (struct title_seen){ .changed = false };
    if (origin == NULL || !origin_has_api(origin) || target->title.n == 0)
        return ERR_OK;
    struct siteinfo *rules = origin_siteinfo(origin);
    if (rules == NULL)
        return ERR_AGAIN;
    err why = key_of(http_arena(x), rules, target->title, &key, note);
    siteinfo_unref(&rules);
    if (why != ERR_OK)
        return why;
    target->title = key.key;
    *seen = seen_of(key.changed, key.namespace_id);
    return ERR_OK;
}

static void answer_bad(struct http_exchange *x, err why, const struct err_note *note)
{
    if (why == ERR_BAD)
        app_problem(x, 400, "bad_request#invalid_title", NULL, str_of(note->text), STR_NONE);
    else if (why == ERR_NOT_FOUND)
        app_problem(x, 404, "not_found", NULL, str_of(note->text), STR_NONE);
    else
        app_fail(x, why, note);
}

bool title_settle(struct http_exchange *x, struct page_target *target, struct title_seen *seen,
                  bool *bad)
{
    struct err_note note = { { 0 } };
    err why = settle(x, target, seen, &note);
    *bad = why != ERR_OK && why != ERR_AGAIN;
    if (*bad)
        answer_bad(x, why, &note);
    return why == ERR_OK;
}

static void rules_got(struct siteinfo_waiter *s, enum render_why why, const struct err_note *note)
{
    struct title_wait *w = CONTAINER_OF(s, struct title_wait, siteinfo);
    if (why == RENDER_FINE)
        title_wait_start(w);
    else if (w->failed != NULL)
        w->failed(w, app_err_of_render(why), note);
    else
        app_origin_fail(w->x, app_err_of_render(why), note, 0);
}

void title_wait_start(struct title_wait *w)
{
    struct err_note note = { { 0 } };
    err why = settle(w->x, w->target, &w->seen, &note);
    if (why == ERR_OK) {
        w->go(w);
        return;
    }
    if (why != ERR_AGAIN) {
        bool no_title = why == ERR_BAD || why == ERR_NOT_FOUND;
        if (!no_title || w->refused == NULL || !w->refused(w))
            answer_bad(w->x, why, &note);
        return;
    }
    if (!w->deferred && !app_page_may_wait(w->x))
        return;
    if (!w->deferred)
        http_defer(w->x);
    w->deferred = true;
    w->siteinfo = (struct siteinfo_waiter){ .deadline = w->deadline, .got = rules_got };
    origin_siteinfo_wait(w->target->domain->origin, &w->siteinfo);
}

bool title_answer_moved(struct http_exchange *x, const struct page_target *target,
                        struct title_seen seen)
{
    str origin;
    if (!seen.changed || seen.user ||
        http_cache_control_has(http_common(x)->cache_control, STR("no-cache")) ||
        http_header(x, "origin", &origin))
        return false;
    const char *cache_control = target->config->cache_control;
    struct answer w = { .status = 301 };
    answer_add(&w, STR("location"), title_location_same(http_arena(x), target, http_query_raw(x)));
    answer_add(&w, STR("cache-control"),
               str_of(cache_control == NULL ? HEADERS_CACHE_PRIVATE : cache_control));
    answer_add(&w, STR("vary"), STR("Origin"));
    answer_add_security(&w, http_arena(x), STR_NONE, STR_NONE);
    answer_send(x, &w);
    return true;
}

static const char *way_back(const struct page_target *t)
{
    return t->has_tid ? "../../" : t->has_rev ? "../" : "";
}

str title_location(struct arena *a, const struct page_target *from, str target_key, str query)
{
    size_t hash = str_find(target_key, '#');
    str title = str_take(target_key, hash), fragment = str_skip(target_key, hash);
    bool itself = str_eq(title, http_encode(a, from->title));
    return arena_printf(a, "%s%.*s%s%.*s%s%.*s", way_back(from), STR_ARG(title),
                        query.n > 0 || itself ? "?" : "", STR_ARG(query),
                        !itself       ? ""
                        : query.n > 0 ? "&redirect=false"
                                      : "redirect=false",
                        STR_ARG(fragment));
}

str title_location_same(struct arena *a, const struct page_target *target, str query)
{
    char tid[TID_TEXT_BYTES + 1] = "";
    if (target->has_tid)
        tid_format(target->name.tid, tid);
    str rev = target->has_rev ? arena_printf(a, "/%" PRIu64, target->name.rev) : STR("");
    return arena_printf(a, "%s%.*s%.*s%s%s%s%.*s", way_back(target),
                        STR_ARG(http_encode(a, target->title)), STR_ARG(rev),
                        target->has_tid ? "/" : "", tid, query.n > 0 ? "?" : "", STR_ARG(query));
}
