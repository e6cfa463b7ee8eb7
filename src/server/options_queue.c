/* options_queue.c - the stores of queues: "NAME=PATH, NAME*WEIGHT=postgresql://..." into a list. A
 * file may say it as a list of sections, which options_yaml.c writes so. */
#include "queue/store/open.h"
#include "server/options_impl.h"

#include <string.h>

enum { STORE_NAME_BYTES_MAX = 32, AFFINITY_MAX = 1000 };

static bool is_name(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return s.n > 0 && s.n <= STORE_NAME_BYTES_MAX;
}

/* NAME or NAME*WEIGHT. */
static bool parse_head(str head, str *name, unsigned *affinity)
{
    size_t star = str_find(head, '*');
    uint64_t weight = 1;
    *name = str_trim(str_take(head, star));
    bool weighted = star < head.n;
    if (weighted && !str_to_u64(str_trim(str_skip(head, star + 1)), &weight))
        return false;
    if (weight == 0 || weight > AFFINITY_MAX)
        return false;
    *affinity = (unsigned)weight;
    return is_name(*name);
}

/* Does a relative path lead out of where it begins? */
static bool leads_out(str path)
{
    bool out = false;
    while (path.n > 0 && !out)
        out = str_eq(str_split(&path, '/'), STR(".."));
    return out;
}

/* NULL, or what is wrong with it. */
static const char *parse_store(struct options *o, str entry, struct config_store *out)
{
    size_t equals = str_find(entry, '=');
    str name, where = str_trim(str_skip(entry, equals + 1));
    if (equals == entry.n || !parse_head(str_take(entry, equals), &name, &out->affinity))
        return "is no store of queues; NAME=PATH or NAME=postgresql://... is wanted, names of a-z "
               "0-9 - _";
    bool is_url = str_starts(where, STR("postgresql://")) || str_starts(where, STR("postgres://"));
    if (where.n == 0 || (!is_url && str_find_str(where, STR("://")) < where.n))
        return "is neither a path nor a postgresql:// URL";
    if (!is_url && where.p[0] != '/' && leads_out(where))
        return "leaves the data directory: give the whole path, from /";
    const char *text = arena_cstr(&o->texts, where);
    out->name = arena_cstr(&o->texts, name);
    if (text == NULL || out->name == NULL)
        return "is too long";
    out->url = is_url ? text : NULL;
    out->path = is_url ? NULL : text;
    return NULL;
}

err options_finish_stores(struct options *o, struct options_from from, struct err_note *note)
{
    struct config_queue *q = &o->config.queue;
    str rest = str_of(q->stores_text), name = STR("queue.stores");
    while (rest.n > 0) {
        str entry = str_trim(str_split(&rest, ','));
        if (q->stores_count == CONFIG_STORES_MAX)
            return option_fail(from, name, note, "more than %d stores", CONFIG_STORES_MAX);
        struct config_store *s = &q->stores[q->stores_count];
        const char *wrong = parse_store(o, entry, s);
        if (wrong != NULL) /* by its place: it may be of a URL, and that of a password */
            return option_fail(from, name, note, "store %u %s", q->stores_count + 1, wrong);
        struct err_note why;
        if (s->url != NULL && queue_pg_url_check(s->url, &why) != ERR_OK)
            return option_fail(from, name, note, "%s: %s", s->name, why.text);
        for (unsigned i = 0; i < q->stores_count; i++)
            if (strcmp(q->stores[i].name, s->name) == 0)
                return option_fail(from, name, note, "%s is there twice", s->name);
        q->stores_count++;
    }
    return ERR_OK;
}
