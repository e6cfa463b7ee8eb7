/* prewarm_wiki.c - lists the pages of a wiki through api.php, one namespace after another, for
 * `prewarm`. Invariant: each title comes with a mark from which a later run goes on. */
#include "cli/prewarm.h"
#include "codec/json.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    const struct prewarm_wiki *wiki;
    struct client client;
    int64_t namespaces[PREWARM_NAMESPACES_MAX];
    unsigned namespaces_count;
    char from[PREWARM_TITLE_BYTES_MAX + 1]; /* allpages starts here; "": at the first */
    char seen[PREWARM_TITLE_BYTES_MAX +
              1]; /* an earlier start; a list that comes back to it has no end (Brent 1980) */
    err failed;   /* why the last answer was none */
    uint64_t lots, lots_seen; /* of this namespace; when seen was set */
};

str prewarm_bare_title(str title, int64_t namespace_id)
{
    if (namespace_id == 0)
        return title;
    str rest = title;
    (void)str_split(&rest, ':');
    return rest;
}

static void put_query(struct buf *path, const char *name, str value)
{
    buf_printf(path, "&%s=", name);
    client_path_text(path, value);
}

/* One answer of api.php. NULL: with a note. Owner: caller, json_decref. */
static json_t *prewarm_wiki_ask(struct walk *w, str query, struct err_note *note)
{
    struct buf path;
    buf_init(&path, 32768);
    buf_put(&path, STR("?action=query&format=json&formatversion=2"));
    buf_put(&path, query);
    struct client_answer a;
    json_t *doc = NULL;
    err e = client_send(&w->client,
                        &(struct client_request){ .method = "GET", .path = client_path(&path) }, &a,
                        note);
    w->failed = e == ERR_OK ? ERR_IO : e;
    if (e == ERR_OK && a.status != 200) {
        err_note_set(note, "%s: answered %d", w->wiki->api, a.status);
    } else if (e == ERR_OK) {
        doc = json_body_read(buf_str(&a.body));
        const char *info =
            json_string_value(json_object_get(json_object_get(doc, "error"), "info"));
        if (info != NULL || json_object_get(doc, "query") == NULL) {
            err_note_set(note, "%s: %s", w->wiki->api,
                         info != NULL ? info : "no api.php of a MediaWiki answers here");
            json_decref(doc);
            doc = NULL;
        }
    }
    client_answer_fini(&a);
    buf_fini(&path);
    return doc;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static err read_namespaces(struct walk *w, struct err_note *note)
{
    json_t *doc = prewarm_wiki_ask(w, STR("&meta=siteinfo&siprop=namespaces%7Cstatistics"), note);
    if (doc == NULL)
        return w->failed;
    const json_t *query = json_object_get(doc, "query");
    const char *key;
    json_t *namespace;
    json_object_foreach(json_object_get(query, "namespaces"), key, namespace)
    {
        int64_t id = json_integer_value(json_object_get(namespace, "id"));
        bool wanted = id >= 0 && (w->wiki->namespace_only < 0 || w->wiki->namespace_only == id);
        if (wanted && w->namespaces_count < PREWARM_NAMESPACES_MAX)
            w->namespaces[w->namespaces_count++] = id;
    }
    json_int_t pages =
        json_integer_value(json_object_get(json_object_get(query, "statistics"), "pages"));
    json_decref(doc);
    if (w->namespaces_count == 0)
        return err_bad(note, "%s: no such namespace: %lld", w->wiki->api,
                       (long long)w->wiki->namespace_only);
    qsort(w->namespaces, w->namespaces_count, sizeof w->namespaces[0], by_number);
    if (w->wiki->namespace_only < 0 && pages > 0)
        w->wiki->counted(w->wiki->ctx, (uint64_t)pages);
    return ERR_OK;
}

static err hand_over(struct walk *w, const json_t *page, str mark, struct err_note *note)
{
    char key[PREWARM_TITLE_BYTES_MAX + 1];
    const json_t *title = json_object_get(page, "title");
    str text = { .p = json_string_value(title), .n = json_string_length(title) };
    if (text.n == 0 || !str_to_cstr(text, key, sizeof key)) {
        w->wiki->left_out(w->wiki->ctx, text.n > 0 ? text : STR("a page of the wiki"),
                          text.n > 0 ? "its title is too long" : "it has no title");
        return ERR_OK;
    }
    for (char *p = key; *p != '\0'; p++)
        if (*p == ' ')
            *p = '_';
    if (str_eq(str_of(key), w->wiki->from_title) && str_eq(mark, w->wiki->from_mark))
        return ERR_OK; /* the run before ended with it */
    return w->wiki->each(w->wiki->ctx, str_of(key), mark, note);
}

/* Where the next lot starts; *goes_on false: there is none. */
static err read_place(struct walk *w, const json_t *doc, bool *goes_on, struct err_note *note)
{
    const json_t *place = json_object_get(json_object_get(doc, "continue"), "apcontinue");
    str text = { .p = json_string_value(place), .n = json_string_length(place) };
    *goes_on = json_object_get(doc, "continue") != NULL;
    if (!*goes_on)
        return ERR_OK;
    if (text.n == 0 || !str_to_cstr(text, w->from, sizeof w->from))
        return err_bad(note, "%s: its list goes on at no title, or at one over %d bytes",
                       w->wiki->api, PREWARM_TITLE_BYTES_MAX);
    bool no_page = json_array_size(json_object_get(json_object_get(doc, "query"), "allpages")) == 0;
    if (no_page || str_eq(text, str_of(w->seen)))
        return err_bad(note, "%s: its list does not get on, at %s", w->wiki->api, w->from);
    if (++w->lots >= 2 * w->lots_seen) {
        memcpy(w->seen, w->from, sizeof w->seen);
        w->lots_seen = w->lots;
    }
    return ERR_OK;
}

/* One answer's pages, and where to go on. */
static err list_lot(struct walk *w, const char *mark, bool *goes_on, struct err_note *note)
{
    struct buf query;
    buf_init(&query, 16384);
    buf_put(&query, STR("&list=allpages&aplimit=max"));
    put_query(&query, "apnamespace", str_of(mark));
    if (w->from[0] != '\0')
        put_query(&query, "apfrom", str_of(w->from));
    json_t *doc = prewarm_wiki_ask(w, buf_str(&query), note);
    buf_fini(&query);
    if (doc == NULL)
        return w->failed;
    err e = ERR_OK;
    size_t i;
    json_t *page;
    json_array_foreach(json_object_get(json_object_get(doc, "query"), "allpages"), i,
                       page) if (e == ERR_OK) e = hand_over(w, page, str_of(mark), note);
    if (e == ERR_OK)
        e = read_place(w, doc, goes_on, note);
    json_decref(doc);
    return e;
}

static err list_namespace(struct walk *w, int64_t id, struct err_note *note)
{
    char mark[24];
    bool goes_on = true;
    err e = ERR_OK;
    snprintf(mark, sizeof mark, "%lld", (long long)id);
    memcpy(w->seen, w->from, sizeof w->seen);
    w->lots = w->lots_seen = 0;
    while (e == ERR_OK && goes_on)
        e = list_lot(w, mark, &goes_on, note);
    return e;
}

err prewarm_wiki_list(const struct prewarm_wiki *wiki, struct err_note *note)
{
    struct walk w = { .wiki = wiki };
    client_open_url(&w.client, wiki->api);
    int64_t from = -1;
    err e = read_namespaces(&w, note);
    if (wiki->from_title.n > 0 && str_to_i64(wiki->from_mark, &from))
        (void)str_to_cstr(prewarm_bare_title(wiki->from_title, from), w.from,
                          sizeof w.from); /* else from the first */
    for (unsigned i = 0; i < w.namespaces_count && e == ERR_OK; i++) {
        if (w.namespaces[i] < from)
            continue;
        if (w.namespaces[i] > from)
            w.from[0] = '\0';
        e = list_namespace(&w, w.namespaces[i], note);
    }
    client_close(&w.client);
    return e;
}
