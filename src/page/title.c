/* title.c - makes keys of titles by the rules of their wiki, for reads, transforms and events.
 * Which titles a wiki refuses is in render/title_rules.c; which no store takes, in
 * store/titlekey.c. */
#include "page/title.h"

enum { NAMESPACE_USER = 2, NAMESPACE_USER_TALK = 3 };

/* The key by these rules; ERR_BAD, or ERR_NOT_FOUND for Special and Media, with a note. */
static err title_key_of(struct arena *a, const struct siteinfo *rules, str title,
                        struct title_key *key, struct err_note *note)
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

/* Pages of users are served under each way to write them (get.h). */
static struct page_title_seen seen_of(bool changed, int64_t namespace_id)
{
    bool user = namespace_id == NAMESPACE_USER || namespace_id == NAMESPACE_USER_TALK;
    return (struct page_title_seen){ .changed = changed, .user = user };
}

err page_title_take(struct arena *a, struct page_target *target, str title, int64_t namespace_id,
                    struct page_title_seen *seen)
{
    str key, own = arena_copy(a, title);
    err why = own.p == NULL ? ERR_LIMIT : page_title_key(a, own, &key, NULL);
    if (why != ERR_OK)
        return why;
    target->title = key;
    *seen = seen_of(true, namespace_id);
    return ERR_OK;
}

/* False only when the rules have to be asked for. A domain without api.php has none, and its titles
 * stand as they are written. */
bool page_title_settle(struct page_title_wait *w)
{
    struct title_key key;
    struct origin *origin = w->target->domain->origin;
    w->end = TITLE_SETTLED;
    w->why = ERR_OK;
    w->note.text[0] = 0;
    w->seen = (struct page_title_seen){ .changed = false };
    if (origin == NULL || !origin_has_api(origin) || w->target->title.n == 0)
        return true;
    struct siteinfo *rules = origin_siteinfo(origin);
    if (rules == NULL)
        return false;
    w->why = title_key_of(w->arena, rules, w->target->title, &key, &w->note);
    siteinfo_unref(&rules);
    if (w->why != ERR_OK) {
        w->end = TITLE_BAD;
        return true;
    }
    w->target->title = key.key;
    w->seen = seen_of(key.changed, key.namespace_id);
    return true;
}

/* At home: the rules were given, or they cannot be had. */
static void title_run(struct task *t)
{
    struct page_title_wait *w = CONTAINER_OF(t, struct page_title_wait, task);
    if (w->end == TITLE_NO_RULES || page_title_settle(w))
        w->done(w);
    else
        page_title_wait(w); /* they were lost again */
}

/* Loop. */
static void rules_got(struct siteinfo_waiter *s, enum render_why why, const struct err_note *note)
{
    struct page_title_wait *w = CONTAINER_OF(s, struct page_title_wait, siteinfo);
    w->end = why == RENDER_FINE ? TITLE_SETTLED : TITLE_NO_RULES;
    w->why = page_err_of_render(why);
    if (note != NULL)
        w->note = *note;
    w->task.run = title_run;
    home_post(w->home, &w->task);
}

void page_title_wait(struct page_title_wait *w)
{
    w->siteinfo = (struct siteinfo_waiter){ .deadline = w->deadline, .got = rules_got };
    origin_siteinfo_wait(w->target->domain->origin, &w->siteinfo);
}
