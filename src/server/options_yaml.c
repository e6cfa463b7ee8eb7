/* options_yaml.c - the configuration file, through libyaml's documents: at most four levels are
 * looked at, so nothing here recurses on what a file says. */
#include "codec/yaml_doc.h"
#include "server/options_impl.h"

#include <string.h>

enum {
    PAIRS_MAX = CONFIG_DOMAINS_MAX + 64,
    SEQUENCE_MAX = CONFIG_DOMAINS_MAX,
    NAME_BYTES_MAX = 512
};

struct yaml_walk {
    struct options *o;
    yaml_document_t *doc;
    const char *file;
    struct err_note *note;
};

static struct options_from from_node(const struct yaml_walk *w, const yaml_node_t *n)
{
    return (struct options_from){ .file = w->file, .line = yaml_doc_line(n) };
}

/* Walks the pairs of a mapping: keys are scalars, each there once. */
static err each_pair(const struct yaml_walk *w, const yaml_node_t *map, str prefix,
                     err (*each)(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                                 yaml_node_t *value))
{
    const yaml_node_pair_t *first = map->data.mapping.pairs.start,
                           *end = map->data.mapping.pairs.top;
    if (end - first > PAIRS_MAX)
        return option_fail(from_node(w, map), prefix, w->note, "more than %d entries", PAIRS_MAX);
    for (const yaml_node_pair_t *p = first; p < end; p++) {
        const yaml_node_t *key = yaml_document_get_node(w->doc, p->key);
        if (key->type != YAML_SCALAR_NODE)
            return option_fail(from_node(w, key), prefix, w->note, "a name is no plain text");
        for (const yaml_node_pair_t *q = first; q < p; q++) {
            const yaml_node_t *earlier = yaml_document_get_node(w->doc, q->key);
            if (str_eq(yaml_doc_text(earlier), yaml_doc_text(key)))
                return option_fail(from_node(w, key), yaml_doc_text(key), w->note,
                                   "is there twice, first on line %u", from_node(w, earlier).line);
        }
        err why = each(w, prefix, key, yaml_document_get_node(w->doc, p->value));
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

/* The texts of a list, joined by commas, in *out. */
static err join_sequence(const struct yaml_walk *w, str name, const yaml_node_t *list,
                         struct buf *out)
{
    const yaml_node_item_t *first = list->data.sequence.items.start,
                           *end = list->data.sequence.items.top;
    if (end - first > SEQUENCE_MAX)
        return option_fail(from_node(w, list), name, w->note, "more than %d entries", SEQUENCE_MAX);
    for (const yaml_node_item_t *i = first; i < end; i++) {
        const yaml_node_t *item = yaml_document_get_node(w->doc, *i);
        if (item->type != YAML_SCALAR_NODE ||
            str_find(yaml_doc_text(item), ',') < yaml_doc_text(item).n)
            return option_fail(from_node(w, item), name, w->note, "an entry is no plain text");
        if (i > first)
            buf_put_c(out, ',');
        buf_put(out, yaml_doc_text(item));
    }
    return buf_status(out) == ERR_OK
               ? ERR_OK
               : option_fail(from_node(w, list), name, w->note, "is too long");
}

static err set_node(const struct yaml_walk *w, str name, const yaml_node_t *value)
{
    if (value->type == YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), name, w->note, "is a value, not a section");
    if (yaml_doc_is_null(value))
        return option_fail(from_node(w, value), name, w->note, "has no value");
    if (value->type == YAML_SCALAR_NODE)
        return options_set(w->o, name, yaml_doc_text(value), from_node(w, value), w->note);
    struct buf joined;
    buf_init(&joined, OPTIONS_TEXT_BYTES_MAX);
    err why = join_sequence(w, name, value, &joined);
    if (why == ERR_OK)
        why = options_set(w->o, name, buf_str(&joined), from_node(w, value), w->note);
    buf_fini(&joined);
    return why;
}

static bool has_any(str text, const char *of)
{
    for (; *of != '\0'; of++)
        if (str_find(text, *of) < text.n)
            return true;
    return false;
}

/* One store of queues, {name, kind, path or url, affinity}, as options_queue.c reads it. */
static err join_store(const struct yaml_walk *w, const yaml_node_t *map, struct buf *out)
{
    static const char *const names[] = { "name", "kind", "path", "url", "affinity" };
    str texts[COUNT_OF(names)] = { STR_NONE };
    bool is_map = map->type == YAML_MAPPING_NODE;
    size_t found = 0,
           there =
               is_map ? (size_t)(map->data.mapping.pairs.top - map->data.mapping.pairs.start) : 0;
    for (size_t i = 0; there > 0 && i < COUNT_OF(names); i++) {
        const yaml_node_t *value = yaml_doc_entry(w->doc, map, str_of(names[i]));
        found += value == NULL ? 0 : 1;
        if (value != NULL && value->type == YAML_SCALAR_NODE)
            texts[i] = yaml_doc_text(value);
    }
    bool local = str_eq(texts[1], STR("local")), postgres = str_eq(texts[1], STR("postgres"));
    str where = local ? texts[2] : texts[3];
    if (found == 0 || found != there || texts[0].n == 0 || local == postgres || where.n == 0)
        return option_fail(from_node(w, map), STR("queue.stores"), w->note,
                           "{name, kind: local, path} or {name, kind: postgres, url} is wanted, "
                           "affinity too or not");
    if (str_find(where, ',') < where.n || has_any(texts[0], ",=*") || has_any(texts[4], ",=*"))
        return option_fail(from_node(w, map), STR("queue.stores"), w->note,
                           "a comma cannot stand in a store, nor = or * in its name or affinity");
    buf_printf(out, "%s%.*s%s%.*s=%.*s", out->n == 0 ? "" : ",", STR_ARG(texts[0]),
               texts[4].n == 0 ? "" : "*", (int)texts[4].n, texts[4].n == 0 ? "" : texts[4].p,
               STR_ARG(where));
    return ERR_OK;
}

static err take_stores(const struct yaml_walk *w, const yaml_node_t *list)
{
    struct buf joined;
    err why = ERR_OK;
    buf_init(&joined, OPTIONS_TEXT_BYTES_MAX);
    const yaml_node_item_t *end = list->data.sequence.items.top;
    for (const yaml_node_item_t *i = list->data.sequence.items.start; i < end && why == ERR_OK; i++)
        why = join_store(w, yaml_document_get_node(w->doc, *i), &joined);
    if (why == ERR_OK && buf_status(&joined) != ERR_OK)
        why = option_fail(from_node(w, list), STR("queue.stores"), w->note, "is too long");
    if (why == ERR_OK)
        why = options_set(w->o, STR("queue.stores"), buf_str(&joined), from_node(w, list), w->note);
    buf_fini(&joined);
    return why;
}

/* {enwiki: en.test}, as "enwiki=en.test": of the option of that name. wanted: what each entry
 * should be. */
static err take_pairs(const struct yaml_walk *w, str option, const yaml_node_t *map,
                      const char *wanted)
{
    struct buf joined;
    err why = ERR_OK;
    buf_init(&joined, OPTIONS_TEXT_BYTES_MAX);
    const yaml_node_pair_t *end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < end && why == ERR_OK; p++) {
        const yaml_node_t *key = yaml_document_get_node(w->doc, p->key);
        const yaml_node_t *value = yaml_document_get_node(w->doc, p->value);
        bool plain = key->type == YAML_SCALAR_NODE && value->type == YAML_SCALAR_NODE &&
                     !has_any(yaml_doc_text(key), ",=") && !has_any(yaml_doc_text(value), ",=");
        if (plain)
            buf_printf(&joined, "%s%.*s=%.*s", joined.n == 0 ? "" : ",",
                       STR_ARG(yaml_doc_text(key)), STR_ARG(yaml_doc_text(value)));
        else
            why = option_fail(from_node(w, key), option, w->note, "%s", wanted);
    }
    if (why == ERR_OK && buf_status(&joined) != ERR_OK)
        why = option_fail(from_node(w, map), option, w->note, "is too long");
    if (why == ERR_OK && joined.n > 0)
        why = options_set(w->o, option, buf_str(&joined), from_node(w, map), w->note);
    buf_fini(&joined);
    return why;
}

/* {dc1: 3, dc2: 3}, as options_store.c reads it. */
static err take_copies(const struct yaml_walk *w, const yaml_node_t *map)
{
    struct buf joined;
    bool fine = true;
    buf_init(&joined, OPTIONS_VALUE_BYTES_MAX);
    const yaml_node_pair_t *end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < end && fine; p++) {
        const yaml_node_t *dc = yaml_document_get_node(w->doc, p->key);
        const yaml_node_t *copies = yaml_document_get_node(w->doc, p->value);
        fine = dc->type == YAML_SCALAR_NODE && copies->type == YAML_SCALAR_NODE;
        if (fine)
            buf_printf(&joined, "%s%.*s=%.*s", joined.n == 0 ? "" : ",", STR_ARG(yaml_doc_text(dc)),
                       STR_ARG(yaml_doc_text(copies)));
    }
    err why =
        fine && buf_status(&joined) == ERR_OK
            ? options_set(w->o, STR("store.replication"), buf_str(&joined), from_node(w, map),
                          w->note)
            : option_fail(from_node(w, map), STR("store.replication"), w->note, "is no DC: COPIES");
    buf_fini(&joined);
    return why;
}

static err take_field(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                      yaml_node_t *value);

/* A section within another: auth and tls of store, secondary of page; or one whose entries are
 * joined to a value. */
static err take_part(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                     yaml_node_t *value)
{
    struct buf section;
    buf_init(&section, NAME_BYTES_MAX);
    buf_printf(&section, "%.*s.%.*s", STR_ARG(prefix),
               STR_ARG(str_take(yaml_doc_text(key), NAME_BYTES_MAX / 2)));
    INVARIANT(!section.failed); /* it was cut to fit */
    str name = buf_str(&section);
    err why;
    if (str_eq(name, STR("store.replication")))
        why = take_copies(w, value);
    else if (str_eq(name, STR("page.secondary.domains")))
        why = take_pairs(w, name, value, "NAME: THERE is wanted for each domain, without commas");
    else if (str_eq(name, STR("page.secondary.keyspaces")))
        why = take_pairs(w, name, value,
                         "CONTENT: KEYSPACE is wanted for each content, without commas");
    else
        why = each_pair(w, value, name, take_field);
    buf_fini(&section);
    return why;
}

/* Has this section sections within it? */
static bool has_parts(str prefix, const yaml_node_t *key)
{
    return str_eq(prefix, STR("store")) || str_eq(prefix, STR("page.secondary")) ||
           (str_eq(prefix, STR("page")) && str_eq(yaml_doc_text(key), STR("secondary")));
}

/* prefix "page": one entry of a section. */
static err take_field(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                      yaml_node_t *value)
{
    struct buf name;
    bool stores = str_eq(prefix, STR("queue")) && str_eq(yaml_doc_text(key), STR("stores"));
    if (stores && value->type == YAML_SEQUENCE_NODE)
        return take_stores(w, value);
    if (str_eq(prefix, STR("change")) && str_eq(yaml_doc_text(key), STR("databases")) &&
        value->type == YAML_MAPPING_NODE)
        return take_pairs(w, STR("change.databases"), value,
                          "NAME: DOMAIN is wanted for each database, without commas");
    if (value->type == YAML_MAPPING_NODE && has_parts(prefix, key))
        return take_part(w, prefix, key, value);
    if (str_eq(prefix, STR("change")) && str_eq(yaml_doc_text(key), STR("rules")))
        return options_rules(w->o, w->doc, value, from_node(w, key), w->note);
    buf_init(&name, NAME_BYTES_MAX);
    buf_printf(&name, "%.*s.%.*s", STR_ARG(prefix),
               STR_ARG(str_take(yaml_doc_text(key), NAME_BYTES_MAX)));
    err why = buf_status(&name) != ERR_OK ? option_fail(from_node(w, key), yaml_doc_text(key),
                                                        w->note, "there is no such option")
                                          : set_node(w, buf_str(&name), value);
    buf_fini(&name);
    return why;
}

/* An entry of buckets: its name, and its fields. */
static err take_bucket(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                       yaml_node_t *value)
{
    (void)prefix; /* "buckets" */
    unsigned index;
    err why = option_bucket(w->o, yaml_doc_text(key), from_node(w, key), &index, w->note);
    if (why != ERR_OK || yaml_doc_is_null(value))
        return why;
    if (value->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), yaml_doc_text(key), w->note,
                           "a bucket is a section, not a value");
    char name[64];
    struct err_note full;
    err_note_set(&full, "buckets.%s", w->o->config.buckets[index].page.name);
    if (!str_to_cstr(str_of(full.text), name, sizeof name))
        return option_fail(from_node(w, key), yaml_doc_text(key), w->note,
                           "is no name of a bucket");
    return each_pair(w, value, str_of(name), take_field);
}

/* An entry of lists: its name, and its fields. */
static err take_list(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                     yaml_node_t *value)
{
    (void)prefix; /* "lists" */
    unsigned index;
    err why = option_list(w->o, yaml_doc_text(key), from_node(w, key), &index, w->note);
    if (why != ERR_OK || yaml_doc_is_null(value))
        return why;
    if (value->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), yaml_doc_text(key), w->note,
                           "a list is a section, not a value");
    struct err_note section;
    err_note_set(&section, "lists.%s", w->o->config.lists[index].list.name); /* names are short */
    return each_pair(w, value, str_of(section.text), take_field);
}

/* An entry of listeners: its name, and its fields. */
static err take_listener(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                         yaml_node_t *value)
{
    (void)prefix; /* "listeners" */
    unsigned index;
    err why = option_listener(w->o, yaml_doc_text(key), from_node(w, key), &index, w->note);
    if (why != ERR_OK || yaml_doc_is_null(value))
        return why;
    if (value->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), yaml_doc_text(key), w->note,
                           "a listener is a section, not a value");
    struct err_note section;
    err_note_set(&section, "listeners.%s", w->o->config.listeners[index].name); /* it is short */
    return each_pair(w, value, str_of(section.text), take_field);
}

/* A field of a domain: its origin is the only one there is. prefix: "domains.NAME". */
static err take_origin(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                       yaml_node_t *value)
{
    if (!str_eq(yaml_doc_text(key), STR("origin")))
        return option_fail(from_node(w, key), yaml_doc_text(key), w->note,
                           "there is no such option of a domain");
    if (yaml_doc_is_null(value))
        return ERR_OK;
    if (value->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), STR("origin"), w->note,
                           "is a section, not a value");
    struct buf section;
    buf_init(&section, NAME_BYTES_MAX);
    buf_printf(&section, "%.*s.origin", STR_ARG(prefix));
    INVARIANT(!section.failed); /* a domain's name is shorter */
    err why = each_pair(w, value, buf_str(&section), take_field);
    buf_fini(&section);
    return why;
}

/* An entry of domains: a name, with nothing or a section behind it. */
static err take_domain(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                       yaml_node_t *value)
{
    (void)prefix; /* "domains" */
    str name = yaml_doc_text(key);
    err why = option_add_domain(w->o, name, from_node(w, key), NULL, w->note);
    if (why != ERR_OK || yaml_doc_is_null(value))
        return why;
    if (value->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, value), name, w->note,
                           "a domain is a section, not a value");
    char section[sizeof "domains." + CONFIG_NAME_BYTES_MAX] = "domains.";
    INVARIANT(str_to_cstr(name, section + sizeof "domains." - 1,
                          CONFIG_NAME_BYTES_MAX + 1)); /* checked above */
    return each_pair(w, value, str_of(section), take_origin);
}

static err take_top(const struct yaml_walk *w, str prefix, const yaml_node_t *key,
                    yaml_node_t *value)
{
    str name = yaml_doc_text(key);
    bool is_map = value->type == YAML_MAPPING_NODE;
    (void)prefix; /* empty: this is the top */
    if (is_map && str_eq(name, STR("domains")))
        return each_pair(w, value, name, take_domain);
    if (str_eq(name, STR("lists")) && (is_map || yaml_doc_is_null(value)))
        return is_map ? each_pair(w, value, name, take_list) : ERR_OK;
    if (str_eq(name, STR("listeners")) && (is_map || yaml_doc_is_null(value)))
        return is_map ? each_pair(w, value, name, take_listener) : ERR_OK;
    if (str_eq(name, STR("buckets")))
        return is_map ? each_pair(w, value, name, take_bucket)
               : yaml_doc_is_null(value)
                   ? ERR_OK
                   : option_fail(from_node(w, value), name, w->note, "is a section, not a value");
    if (str_eq(name, STR("rules")))
        return option_fail(from_node(w, key), name, w->note,
                           "of a configuration stand below change: (change: rules:)");
    if (is_map && option_find(option_rows, name) == NULL)
        return each_pair(w, value, name, take_field);
    return set_node(w, name, value);
}

static err take_document(const struct yaml_walk *w)
{
    const yaml_node_t *root = yaml_document_get_root_node(w->doc);
    if (root == NULL || yaml_doc_is_null(root))
        return ERR_OK; /* an empty file */
    if (root->type != YAML_MAPPING_NODE)
        return option_fail(from_node(w, root), STR_NONE, w->note, "expected NAME: VALUE");
    return each_pair(w, root, STR_NONE, take_top);
}

err options_yaml(struct options *o, str text, const char *file_name, struct err_note *note)
{
    /* Origins outlive this call. */
    const char *file = arena_cstr(&o->texts, str_of(file_name));
    if (file == NULL) {
        err_note_set(note, "the configuration is too long");
        return ERR_LIMIT;
    }
    yaml_document_t doc;
    struct err_note fault;
    struct options_from from = { .file = file };
    if (yaml_doc_read(text, &doc, &from.line, &fault) != ERR_OK)
        return option_fail(from, STR_NONE, note, "%s", fault.text);
    struct yaml_walk w = { .o = o, .doc = &doc, .file = file, .note = note };
    err why = take_document(&w);
    yaml_document_delete(&doc);
    return why;
}
