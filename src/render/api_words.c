/* api_words.c - what one reply says to each of up to WORDS_MAX questions, for words.c.
 *
 * A reply lists pages in an order of its own and by the wiki's own titles. It says in `normalized`
 * which title it made of which that was asked. So each question is followed through that list to
 * one title, and takes what the reply has of that title once. Whatever else the reply has is not
 * looked at. */
#include "render/api_words.h"

#include "base/buf.h"
#include "codec/json.h"
#include "http/percent.h"
#include "render/api.h"
#include "render/title_rules.h"

#include <inttypes.h>
#include <stdio.h>

enum { QUERY_BYTES_MAX = 1 << 20 };

/* ---- the query ---- */

/* False: the arena is full. */
static bool query_put(struct buf *b, struct arena *a, const struct words *w)
{
    buf_printf(b, "curtimestamp=1&maxlag=%d&%s%s", WORDS_LAG_S_MAX, WIKI_NEWEST_QUERY,
               w->titles_count > 0      ? "&prop=info&titles="
               : w->revisions_count > 0 ? "&prop=revisions&rvprop=ids%7Csha1&revids="
                                        : "");
    for (unsigned i = 0; i < w->titles_count; i++) {
        str title = http_encode(a, w->titles[i].title);
        if (title.p == NULL)
            return false;
        buf_put(b, STR("%1F")); /* U+001F first: a | separates no titles */
        buf_put(b, title);
    }
    for (unsigned i = 0; i < w->revisions_count; i++)
        buf_printf(b, "%s%" PRIu64, i > 0 ? "%7C" : "", w->revisions[i].rev);
    return buf_status(b) == ERR_OK;
}

str api_words_query(struct arena *a, const struct words *w)
{
    struct buf b;
    buf_init(&b, QUERY_BYTES_MAX);
    str query = query_put(&b, a, w) ? arena_copy(a, buf_str(&b)) : STR_NONE;
    buf_fini(&b);
    return query;
}

void api_words_clear(struct words *w)
{
    w->said_s = 0;
    w->newest = (struct wiki_newest){ .id = 0 };
    for (unsigned i = 0; i < w->titles_count; i++)
        w->titles[i] = (struct words_title){ .title = w->titles[i].title };
    for (unsigned i = 0; i < w->revisions_count; i++)
        w->revisions[i] = (struct words_revision){ .rev = w->revisions[i].rev };
}

/* ---- what a reply lists ---- */

/* What one reply lists, and what is needed to read it; on the stack of api_words_parse. */
struct reply {
    struct arena *arena;
    const struct siteinfo *site;                              /* NULL: unknown */
    const json_t *normalized, *pages, *interwiki, *badrevids; /* NULL: none of them */
};

/* What the wiki made of a title, in *title; untouched when the reply does not say. False: it says
 * two things. */
static bool api_words_follow(const json_t *normalized, bool encoded, str from, str *title)
{
    size_t i;
    json_t *entry;
    unsigned found = 0;
    json_array_foreach(normalized, i, entry)
    {
        if (api_flag(entry, "fromencoded") != encoded || !str_eq(api_text(entry, "from"), from))
            continue;
        *title = api_text(entry, "to");
        found++;
    }
    return found <= 1;
}

/* The entry of that title; counts all that have it, as two answers are none. */
static const json_t *entry_of(const json_t *list, str title, unsigned *count)
{
    size_t i;
    json_t *entry;
    const json_t *found = NULL;
    json_array_foreach(list, i, entry)
    {
        if (!json_is_object(entry) || !api_same_letters(title, api_text(entry, "title")))
            continue;
        found = entry;
        ++*count;
    }
    return found;
}

/* ---- titles ---- */

/* The key of the page's title. Empty: there is no title, or it cannot be known without the wiki's
 * rules. False: the arena is full. */
static bool key_of(const struct reply *r, const json_t *page, str *key)
{
    str title = api_text(page, "title");
    int64_t ns = api_number(page, "ns");
    struct title_key normal = { .key = STR("") };
    *key = STR("");
    if (title.n == 0)
        return true;
    if (r->site != NULL) {
        err e = title_normalise(r->site, r->arena, title, &normal, NULL);
        *key = e == ERR_OK ? normal.key : STR("");
        return e != ERR_LIMIT;
    }
    if (ns == NS_USER || ns == NS_USER_TALK)
        return true;
    *key = api_key(r->arena, title);
    return key->p != NULL;
}

/* Takes the page's state, if all is there that belongs to that state. */
static void title_fill(const json_t *page, struct words_title *t)
{
    int64_t id = api_number(page, "pageid"), rev = api_number(page, "lastrevid"),
            touched_s = api_instant_s(page, "touched");
    bool missing = api_flag(page, "missing");
    if (missing ? id != 0 : id <= 0 || rev <= 0 || touched_s <= 0)
        return;
    t->state = missing ? WORDS_TITLE_MISSING : WORDS_TITLE_THERE;
    t->namespace_id = api_number(page, "ns");
    if (missing)
        return;
    t->page_id = (uint64_t)id;
    t->rev = (uint64_t)rev;
    t->touched_s = touched_s;
    t->redirect = api_flag(page, "redirect");
}

/* Says where the page stands: under the title that was asked, under another key, or nowhere. False:
 * the arena is full. */
static bool title_judge(const struct reply *r, const json_t *page, struct words_title *t)
{
    str key;
    if (api_flag(page, "invalid") || api_flag(page, "special")) {
        t->state = WORDS_TITLE_INVALID;
        return true;
    }
    if (api_same_letters(t->title, api_text(page, "title"))) {
        title_fill(page, t);
        return true;
    }
    if (r->site == NULL)
        return true;
    if (!key_of(r, page, &key))
        return false;
    if (str_eq(key, t->title)) {
        title_fill(page, t);
    } else if (key.n > 0) {
        t->state = WORDS_TITLE_ELSEWHERE;
        t->moved_to = key;
    }
    return true;
}

/* Follows one question to its answer. The wiki brings a title into NFC first, which it tells
 * percent-encoded, then into its own form. False: the arena is full. */
static bool title_read(const struct reply *r, struct words_title *t)
{
    unsigned count = 0;
    str title = t->title, encoded = http_encode(r->arena, t->title);
    if (encoded.p == NULL)
        return false;
    if (!api_words_follow(r->normalized, true, encoded, &title) ||
        !api_words_follow(r->normalized, false, title, &title))
        return true;
    const json_t *elsewhere = entry_of(r->interwiki, title, &count);
    const json_t *page = entry_of(r->pages, title, &count);
    /* None or two: the question stays unanswered. */
    if (count != 1)
        return true;
    if (elsewhere == NULL)
        return title_judge(r, page, t);
    t->state = WORDS_TITLE_INVALID;
    return true;
}

/* ---- revisions ---- */

/* A text that is hidden has no sha1 in the answer; without both nothing is known. */
static enum words_revision_state revision_judge(const json_t *revision)
{
    static const char *const hidden[] = { "texthidden", "sha1hidden", "suppressed" };
    for (size_t i = 0; i < COUNT_OF(hidden); i++)
        if (api_flag(revision, hidden[i]))
            return WORDS_REVISION_HIDDEN;
    return json_is_string(json_object_get(revision, "sha1")) ? WORDS_REVISION_SHOWN
                                                             : WORDS_REVISION_UNANSWERED;
}

/* The revision of that number, and its page; counts all. */
static const json_t *revision_of(const json_t *pages, uint64_t rev, const json_t **page,
                                 unsigned *count)
{
    size_t i, j;
    json_t *entry, *revision;
    const json_t *found = NULL;
    json_array_foreach(pages, i, entry)
    {
        const json_t *revisions = json_object_get(entry, "revisions");
        json_array_foreach(revisions, j, revision)
        {
            int64_t number = api_number(revision, "revid");
            if (number <= 0 || (uint64_t)number != rev)
                continue;
            *page = entry;
            found = revision;
            ++*count;
        }
    }
    return found;
}

/* Follows one revision to its answer. False: the arena is full. */
static bool revision_read(const struct reply *r, struct words_revision *v)
{
    char name[24];
    unsigned count = 0;
    str key;
    const json_t *page = NULL, *revision = revision_of(r->pages, v->rev, &page, &count);
    (void)snprintf(name, sizeof name, "%" PRIu64, v->rev); /* fits */
    bool bad = api_flag(json_object_get(r->badrevids, name), "missing");
    if (bad && count == 0)
        v->state = WORDS_REVISION_MISSING;
    if (bad || count != 1)
        return true;
    int64_t id = api_number(page, "pageid");
    if (!key_of(r, page, &key))
        return false;
    if (id <= 0 || key.n == 0 || api_flag(page, "missing"))
        return true;
    v->state = revision_judge(revision);
    if (v->state == WORDS_REVISION_UNANSWERED)
        return true;
    v->title = key;
    v->page_id = (uint64_t)id;
    return true;
}

/* ---- the reply ---- */

static enum render_why reply_fail(struct err_note *note, enum render_why why, const char *what)
{
    err_note_set(note, "%s", what);
    return why;
}

static enum render_why read_all(struct reply *r, const json_t *query, struct words *w,
                                struct err_note *note)
{
    if (json_body_array(query, "normalized", &r->normalized, NULL) == ERR_BAD ||
        json_body_array(query, "pages", &r->pages, NULL) == ERR_BAD ||
        json_body_array(query, "interwiki", &r->interwiki, NULL) == ERR_BAD ||
        json_body_object(query, "badrevids", &r->badrevids, NULL) == ERR_BAD)
        return reply_fail(note, RENDER_FAILED, "the wiki's API does not answer in formatversion 2");
    bool fits = true;
    for (unsigned i = 0; fits && i < w->titles_count; i++)
        fits = title_read(r, &w->titles[i]);
    for (unsigned i = 0; fits && i < w->revisions_count; i++)
        fits = revision_read(r, &w->revisions[i]);
    return fits ? RENDER_FINE : reply_fail(note, RENDER_LIMIT, "the request's memory is full");
}

/* Does the reply go on elsewhere? The list of changes always does; anything else makes the reply
 * one that is not whole. */
static bool goes_on(const json_t *root)
{
    const json_t *more = json_object_get(root, "continue");
    bool of_changes = json_object_get(more, "rccontinue") != NULL;
    bool and_where = json_object_get(more, "continue") != NULL;
    size_t known = of_changes ? 1 + (size_t)and_where : 0;
    return more != NULL && (!json_is_object(more) || json_object_size(more) > known);
}

enum render_why api_words_parse(struct arena *a, str json, const struct siteinfo *s,
                                struct words *w, struct err_note *note)
{
    json_t *root;
    const json_t *query;
    struct reply r = { .arena = a, .site = s };
    api_words_clear(w);
    enum render_why why = api_read(json, &root, &query, note);
    if (why == RENDER_FINE && goes_on(root))
        /* The API goes on in a second reply when one is too large: never for so few. The second one
         * would have an instant of its own, so nothing is made of two halves. */
        why = reply_fail(note, RENDER_FAILED, "the wiki's API did not answer in one piece");
    if (why == RENDER_FINE) {
        w->said_s = api_instant_s(root, "curtimestamp");
        w->newest = api_newest(query);
        why = w->said_s > 0
                  ? read_all(&r, query, w, note)
                  : reply_fail(note, RENDER_FAILED, "the wiki's API did not say when it spoke");
    }
    /* Half an answer must not be taken for a whole one. */
    if (why != RENDER_FINE)
        api_words_clear(w);
    json_decref(root);
    return why;
}
