#include "app/title.h"

#include "app/errors.h"

#include <inttypes.h>

enum { NAMESPACE_USER = 2, NAMESPACE_USER_TALK = 3 };

enum title_state title_settle(struct http_exchange *x, struct page_target *target, struct title_seen *seen)
{
    struct title_seen none;
    struct title_key key;
    struct err_note note = { { 0 } };
    struct origin *origin = target->domain->origin;
    seen = seen == NULL ? &none : seen;
    *seen = (struct title_seen){ .changed = false };
    if (origin == NULL || !origin_has_api(origin) || target->title.n == 0)
        return TITLE_FINE;
    struct siteinfo *rules = origin_siteinfo(origin);
    if (rules == NULL)
        return TITLE_WAIT;
    err why = title_normalise(rules, http_arena(x), target->title, &key, &note);
    siteinfo_unref(&rules);
    if (why == ERR_OK && key.namespace_id >= 0)
        why = page_title_key(http_arena(x), key.key, &key.key, &note); /* its own limits */
    else if (why == ERR_OK) {
        err_note_set(&note, "no page can have a title of this namespace");
        why = ERR_BAD;
    }
    if (why == ERR_BAD)
        app_problem(x, 400, "bad_request#invalid_title", NULL, str_of(note.text), STR_NONE);
    else if (why != ERR_OK)
        app_fail(x, why, &note);
    if (why != ERR_OK)
        return TITLE_BAD;
    target->title = key.key;
    *seen = (struct title_seen){ .changed = key.changed,
                                 .user = key.namespace_id == NAMESPACE_USER ||
                                         key.namespace_id == NAMESPACE_USER_TALK };
    return TITLE_FINE;
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
    return arena_printf(a, "%s%.*s%s%.*s%s%.*s", way_back(from), STR_ARG(title), query.n > 0 || itself ? "?" : "",
                        STR_ARG(query), !itself ? "" : query.n > 0 ? "&redirect=false" : "redirect=false",
                        STR_ARG(fragment));
}

str title_location_same(struct arena *a, const struct page_target *target, str query)
{
    char tid[TID_TEXT_BYTES + 1] = "";
    if (target->has_tid)
        tid_format(target->name.tid, tid);
    str rev = target->has_rev ? arena_printf(a, "/%" PRIu64, target->name.rev) : STR("");
    return arena_printf(a, "%s%.*s%.*s%s%s%s%.*s", way_back(target), STR_ARG(http_encode(a, target->title)),
                        STR_ARG(rev), target->has_tid ? "/" : "", tid, query.n > 0 ? "?" : "", STR_ARG(query));
}
