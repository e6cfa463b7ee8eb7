/* api.c - builds queries for api.php and reads its answers, for request.c. Invariant: an answer is
 * believed only when it is about the page and the revision that were asked for. */
#include "render/api.h"

#include "base/date.h"
#include "base/times.h"
#include "codec/json.h"
#include "http/percent.h"
#include "render/title_rules.h"

#include <inttypes.h>
#include <string.h>

/* One query for all: which page, which revision, who wrote it, and how far the database has
 * come. */
str api_query(struct arena *a, const struct api_asked *asked)
{
    static const char what[] =
        "prop=info%7Crevisions&rvprop=ids%7Ctimestamp%7Cuser%7Cuserid%7Csha1%7Csize%7C"
        "comment%7Ctags&" WIKI_NEWEST_QUERY "&curtimestamp=1";
    /* A revision is named by its number alone; its title is compared afterwards. */
    if (asked->rev != 0)
        return arena_printf(a, "%s&revids=%" PRIu64, what, asked->rev);
    str title = http_encode(a, asked->title);
    if (title.p == NULL)
        return STR_NONE;
    return arena_printf(a, "%s&titles=%%1F%.*s", what,
                        STR_ARG(title)); /* U+001F first: a | is not a second title */
}

static enum render_why api_refuse(struct err_note *note, enum render_why why, const char *what)
{
    err_note_set(note, "%s", what);
    return why;
}

/* Absent is false, in formatversion 2. */
bool api_flag(const json_t *object, const char *key)
{
    bool value;
    return json_body_bool(object, key, &value, NULL) == ERR_OK && value;
}

/* How far the wiki's database had come (page/behind.h); all 0 when the answer does not say. */
struct wiki_newest api_newest(const json_t *query)
{
    const json_t *change = json_array_get(json_object_get(query, "recentchanges"), 0);
    int64_t id = api_number(change, "rcid"), at_s = api_instant_s(change, "timestamp");
    bool said = id > 0 && at_s > 0;
    return (struct wiki_newest){ .at_s = said ? at_s : 0, .id = said ? (uint64_t)id : 0 };
}

str api_text(const json_t *object, const char *key)
{
    str s;
    return json_body_str(object, key, &s, NULL) == ERR_OK ? s : STR("");
}

int64_t api_number(const json_t *object, const char *key)
{
    int64_t n;
    return json_body_i64(object, key, INT32_MIN, INT64_MAX, &n, NULL) == ERR_OK ? n : 0;
}

/* 0: it is not told, or it is before 1970. */
int64_t api_instant_s(const json_t *object, const char *key)
{
    int64_t s;
    return date_parse_rfc3339_s(api_text(object, key), &s) && s > 0 ? s : 0;
}

/* ---- the title ---- */

/* Keys have underscores where the wiki's titles have spaces. */
bool api_same_letters(str key, str wiki_title)
{
    bool same = key.n == wiki_title.n;
    for (size_t i = 0; same && i < key.n; i++)
        same = key.p[i] == wiki_title.p[i] || (key.p[i] == '_' && wiki_title.p[i] == ' ');
    return same;
}

/* Is the wiki's title that key, by its rules? Without rules the letters have to be the same. */
static bool same_key(struct arena *a, const struct siteinfo *s, str key, str wiki_title)
{
    struct title_key normal;
    if (s == NULL || api_same_letters(key, wiki_title))
        return api_same_letters(key, wiki_title);
    return title_normalise(s, a, wiki_title, &normal, NULL) == ERR_OK && str_eq(normal.key, key);
}

/* p NULL: the arena is full. */
str api_key(struct arena *a, str wiki_title)
{
    char *key = arena_cstr(a, wiki_title);
    for (size_t i = 0; key != NULL && i < wiki_title.n; i++)
        if (key[i] == ' ')
            key[i] = '_';
    return (str){ .p = key, .n = key == NULL ? 0 : wiki_title.n };
}

/* ---- the revision ---- */

/* An array as JSON text; "[]" when there is none. */
static str array_text(struct arena *a, const json_t *array)
{
    if (!json_is_array(array))
        return arena_copy(a, STR("[]"));
    char *dump = json_dumps(array, JSON_COMPACT);
    INVARIANT(dump != NULL);
    str copy = arena_copy(a, str_of(dump));
    free(dump);
    return copy;
}

/* Members such as "texthidden" and "userhidden". */
static bool ends_hidden(const char *key)
{
    return str_ends(str_of(key), STR("hidden"));
}

/* The names of what is hidden, as RESTBase tells them. */
static str restrictions(struct arena *a, const json_t *revision)
{
    json_t *names = json_array();
    INVARIANT(names != NULL);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)revision, key,
                        value) if (ends_hidden(key) && json_is_true(value))
        INVARIANT(json_array_append_new(names, json_string(key)) == 0);
    str s = array_text(a, names);
    json_decref(names);
    return s;
}

/* The texts are borrowed from the JSON until here. False: the arena is full. */
static bool copy_texts(struct arena *a, struct render_meta *m)
{
    str *const all[] = { &m->user_text, &m->comment, &m->timestamp, &m->page_language,
                         &m->content_model };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        *all[i] = arena_copy(a, *all[i]);
        if (all[i]->p == NULL)
            return false;
    }
    return m->title.p != NULL && m->tags_json.p != NULL && m->restrictions_json.p != NULL;
}

/* All that is told of page and revision; numbers that cannot be become 0. False: the arena is
 * full. */
static bool api_fill(struct arena *a, const json_t *page, const json_t *revision,
                     struct render_meta *out)
{
    bool user_hidden = api_flag(revision, "userhidden"),
         comment_hidden = api_flag(revision, "commenthidden");
    int64_t rev = api_number(revision, "revid"), parent = api_number(revision, "parentid"),
            id = api_number(page, "pageid"), last = api_number(page, "lastrevid");
    int64_t user = api_number(revision, "userid");
    struct render_meta m = {
        .title = api_key(a, api_text(page, "title")),
        .page_id = id > 0 ? (uint64_t)id : 0,
        .rev = rev > 0 ? (uint64_t)rev : 0,
        .parent_rev = parent > 0 ? (uint64_t)parent : 0,
        .namespace_id = api_number(page, "ns"),
        .size = api_number(revision, "size"),
        .user_text = user_hidden ? STR("") : api_text(revision, "user"),
        .comment = comment_hidden ? STR("") : api_text(revision, "comment"),
        .timestamp = api_text(revision, "timestamp"),
        .page_language = api_text(page, "pagelanguage"),
        .content_model = api_text(page, "contentmodel"),
        .user_id = user_hidden || user < 0 ? 0 : (uint64_t)user,
        .tags_json = array_text(a, json_object_get(revision, "tags")),
        .restrictions_json = restrictions(a, revision),
        .redirect = api_flag(page, "redirect"),
        .text_hidden = api_flag(revision, "texthidden") || api_flag(revision, "sha1hidden"),
        .user_hidden = user_hidden,
        .comment_hidden = comment_hidden,
        .last_rev = last > 0 ? (uint64_t)last : 0,
        .touched_s = api_instant_s(page, "touched"),
        .revised_s = api_instant_s(revision, "timestamp"),
    };
    if (!copy_texts(a, &m))
        return false;
    *out = m;
    return true;
}

/* The first revision of the page; NULL: there is none. */
static const json_t *revision_of(const json_t *page)
{
    const json_t *revisions = NULL;
    if (json_body_array(page, "revisions", &revisions, NULL) != ERR_OK ||
        json_array_size(revisions) == 0)
        return NULL;
    const json_t *revision = json_array_get(revisions, 0);
    return json_is_object(revision) ? revision : NULL;
}

/* The wiki has the page under another title than asked: by title it has normalised that one; by
 * revision the page is another. */
static enum render_why read_other(struct arena *a, const json_t *page,
                                  const struct api_asked *asked, const struct siteinfo *s,
                                  struct render_meta *out, struct err_note *note)
{
    struct title_key key = { .key = api_key(a, api_text(page, "title")) };
    if (key.key.n == 0 || (s != NULL && title_normalise(s, a, key.key, &key, NULL) != ERR_OK))
        return api_refuse(note, RENDER_FAILED, "the wiki knows the page by a title that is none");
    *out = (struct render_meta){ .title = key.key, .namespace_id = api_number(page, "ns") };
    if (asked->rev != 0)
        return api_refuse(note, RENDER_NO_REVISION, "the revision is not this title's");
    return api_refuse(note, RENDER_OTHER_TITLE, "the wiki knows the page by another title");
}

/* Judges the one page of an answer. The order matters: an invalid title has no page, and a missing
 * one may have another title. */
static enum render_why read_page(struct arena *a, const json_t *page, const struct api_asked *asked,
                                 const struct siteinfo *s, struct render_meta *out,
                                 struct err_note *note)
{
    enum render_why none = asked->rev != 0 ? RENDER_NO_REVISION : RENDER_NO_PAGE;
    const json_t *revision = revision_of(page);
    if (api_flag(page, "invalid") || api_flag(page, "special"))
        return api_refuse(note, none, "the wiki has no such page or revision");
    if (asked->title.n > 0 && !same_key(a, s, asked->title, api_text(page, "title")))
        return read_other(a, page, asked, s, out, note);
    if (api_flag(page, "missing"))
        return api_refuse(note, none, "the wiki has no such page or revision");
    if (revision == NULL ||
        api_text(page, "title").n == 0) /* it has the page: nobody is to begin it anew */
        return api_refuse(note, RENDER_FAILED,
                          "the wiki's API told of a page without title or revision");
    struct render_meta m;
    if (!api_fill(a, page, revision, &m))
        return api_refuse(note, RENDER_LIMIT, "the page's metadata is too large");
    if (asked->title.n > 0)
        m.title =
            arena_copy(a,
                       asked->title); /* the neutral one, where the wiki's is of a user's gender */
    if (m.title.p == NULL)
        return api_refuse(note, RENDER_LIMIT, "the page's metadata is too large");
    if (m.rev == 0 || (asked->rev != 0 && m.rev != asked->rev))
        return api_refuse(note, RENDER_FAILED, "the wiki answered for another revision");
    *out = m;
    return m.text_hidden ? api_refuse(note, RENDER_SUPPRESSED, "the revision's text is hidden")
                         : RENDER_FINE;
}

/* Judges an error of the API, which comes with status 200. */
static enum render_why judge_error(const json_t *error, struct err_note *note)
{
    static const char *const busy[] = { "maxlag", "ratelimited", "readonly" };
    static const char *const denied[] = { "readapidenied", "permissiondenied" };
    str code = api_text(error, "code");
    err_note_set(note, "the wiki's API says %.*s", (int)(code.n < 64 ? code.n : 64), code.p);
    for (size_t i = 0; i < COUNT_OF(busy); i++)
        if (str_eq(code, str_of(busy[i])))
            return RENDER_BUSY;
    for (size_t i = 0; i < COUNT_OF(denied); i++)
        if (str_eq(code, str_of(denied[i])))
            return RENDER_DENIED;
    return str_starts(code, STR("internal_api_error")) ? RENDER_FAILED : RENDER_REFUSED;
}

/* *root is the caller's to release, also with an error; *query is part of it. */
enum render_why api_read(str json, json_t **root, const json_t **query, struct err_note *note)
{
    *root = NULL;
    *query = NULL;
    if (json_body_parse_few(json, API_VALUES_MAX, root, NULL) != ERR_OK)
        return api_refuse(note, RENDER_FAILED, "the wiki's API did not answer with JSON");
    const json_t *error = json_object_get(*root, "error");
    if (json_is_object(error))
        return judge_error(error, note);
    if (json_body_object(*root, "query", query, NULL) != ERR_OK)
        return api_refuse(note, RENDER_FAILED, "the wiki's API answered without a query");
    return RENDER_FINE;
}

/* A revision that is not there comes as badrevids, a title of another wiki as interwiki. */
static enum render_why read_pages(struct arena *a, const json_t *query,
                                  const struct api_asked *asked, const struct siteinfo *s,
                                  struct render_meta *out, struct err_note *note)
{
    const json_t *pages = NULL, *bad = NULL, *other = NULL;
    /* What the answer lacks decides first; exactly one page may be told. */
    if (asked->rev != 0 && json_body_object(query, "badrevids", &bad, NULL) == ERR_OK)
        return api_refuse(note, RENDER_NO_REVISION, "the wiki has no such revision");
    if (json_object_get(query, "pages") == NULL &&
        json_body_array(query, "interwiki", &other, NULL) == ERR_OK)
        return api_refuse(note, RENDER_NO_PAGE, "the page is of another wiki");
    if (json_body_array(query, "pages", &pages, NULL) != ERR_OK || json_array_size(pages) != 1)
        return api_refuse(note, RENDER_FAILED, "the wiki's API did not answer for one page");
    return read_page(a, json_array_get(pages, 0), asked, s, out, note);
}

enum render_why api_parse(struct arena *a, str json, const struct api_asked *asked,
                          const struct siteinfo *s, struct render_meta *out, struct err_note *note)
{
    json_t *root;
    const json_t *query;
    enum render_why why = api_read(json, &root, &query, note);
    struct wiki_newest newest = api_newest(query);
    if (why == RENDER_FINE)
        why = read_pages(a, query, asked, s, out, note);
    out->newest = newest;
    /* Only an answer about the title itself is a word, which needs its instant. */
    if (why == RENDER_FINE || why == RENDER_SUPPRESSED || why == RENDER_NO_PAGE)
        out->said_s = api_instant_s(root, "curtimestamp");
    json_decref(root);
    return why;
}

enum render_why api_parse_error(str json, struct err_note *note)
{
    json_t *root = NULL;
    enum render_why why = RENDER_FINE;
    if (json_body_parse(json, &root, NULL) == ERR_OK &&
        json_is_object(json_object_get(root, "error")))
        why = judge_error(json_object_get(root, "error"), note);
    json_decref(root);
    return why;
}

enum render_why api_parse_user(str json, uint64_t *id, struct err_note *note)
{
    json_t *root;
    const json_t *query, *user = NULL;
    int64_t number = 0;
    enum render_why why = api_read(json, &root, &query, note);
    if (why == RENDER_FINE && (json_body_object(query, "userinfo", &user, NULL) != ERR_OK ||
                               json_body_i64(user, "id", 0, INT64_MAX, &number, NULL) != ERR_OK))
        why = api_refuse(note, RENDER_FAILED, "the wiki's API did not say who asks");
    json_decref(root);
    if (why == RENDER_FINE)
        *id = (uint64_t)number;
    return why;
}

/* An empty title asks for the rights of the reader. */
str api_leave_query(struct arena *a, str title)
{
    if (title.n == 0)
        return STR("meta=userinfo&uiprop=rights");
    str encoded = http_encode(a, title);
    if (encoded.p == NULL)
        return STR_NONE;
    return arena_printf(a, "prop=info&intestactions=read&titles=%%1F%.*s", STR_ARG(encoded));
}

/* Of a reader who names a page: intestactions says whether that page may be read. */
static bool may_read_page(const json_t *query)
{
    const json_t *page = json_array_get(json_object_get(query, "pages"), 0);
    const json_t *actions = NULL;
    return json_body_object(page, "actions", &actions, NULL) == ERR_OK && api_flag(actions, "read");
}

/* Of a reader who names no page: has he the right to read at all? */
static bool has_right_to_read(const json_t *query)
{
    const json_t *rights = json_object_get(json_object_get(query, "userinfo"), "rights");
    for (size_t i = 0; i < json_array_size(rights); i++) {
        const char *right = json_string_value(json_array_get(rights, i));
        if (right != NULL && str_eq(str_of(right), STR("read")))
            return true;
    }
    return false;
}

/* named: the reader asks for one page; else for the right to read at all. */
enum render_why api_parse_leave(str json, bool named, bool *may, struct err_note *note)
{
    json_t *root;
    const json_t *query;
    enum render_why why = api_read(json, &root, &query, note);
    *may = why == RENDER_FINE && (named ? may_read_page(query) : has_right_to_read(query));
    json_decref(root);
    return why;
}
