/* replication.c - a keyspace's replication, read from the map that system_schema.keyspaces has.
 * Pure.
 *
 * The map is sorted by the bytes of the keys, so the class may stand behind the options that it
 * explains. It is looked for first. Options of an unknown class are not looked at. */
#include "cql/ring.h"

#include <string.h>

static const str CLASS = STR_INIT("class"), FACTOR = STR_INIT("replication_factor");

/* An entry of the map, both texts. */
struct option {
    str name, value;
};

/* False: there is no more, or what is there is no text. */
static bool option_next(struct cql_items *items, struct option *out)
{
    struct cql_cell name, value;
    return cql_items_next(items, &name) && cql_items_next(items, &value) &&
           cql_get_bytes(&name, &out->name) && cql_get_bytes(&value, &out->value);
}

/* "3", or "3/1": of three, one is transient. */
static bool copies_read(str value, unsigned *out)
{
    uint64_t all, transient = 0;
    str rest = value;
    str first = str_split(&rest, '/');
    bool halves = first.n < value.n;
    if (!str_to_u64(first, &all) || (halves && !str_to_u64(rest, &transient)))
        return false;
    if (all > INT32_MAX || transient > all)
        return false;
    *out = (unsigned)all;
    return true;
}

/* The class comes with its package, or without. */
static enum cql_strategy strategy_of(str class)
{
    str name = class;
    for (size_t dot; (dot = str_find(name, '.')) < name.n;)
        name = str_skip(name, dot + 1);
    if (str_eq(name, STR("NetworkTopologyStrategy")))
        return CQL_STRATEGY_NETWORK;
    if (str_eq(name, STR("SimpleStrategy")))
        return CQL_STRATEGY_SIMPLE;
    if (str_eq(name, STR("LocalStrategy")))
        return CQL_STRATEGY_LOCAL;
    return CQL_STRATEGY_OTHER;
}

static err dc_add(struct cql_replication *r, const struct option *o, unsigned copies,
                  struct err_note *note)
{
    if (r->dcs_count == CQL_DCS_MAX) {
        err_note_set(note, "replication over more than %d data centres", CQL_DCS_MAX);
        return ERR_LIMIT;
    }
    if (o->name.n > CQL_NAME_BYTES_MAX) {
        err_note_set(note, "data centre's name of %zu bytes, %d are the most", o->name.n,
                     CQL_NAME_BYTES_MAX);
        return ERR_LIMIT;
    }
    if (!str_to_cstr(o->name, r->dcs[r->dcs_count].name, sizeof r->dcs[0].name))
        return err_bad(note, "data centre's name with a NUL in it");
    r->dcs[r->dcs_count++].copies = copies;
    return ERR_OK;
}

/* An option of a class that is known. Other options of SimpleStrategy mean nothing to the server
 * either. */
static err option_read(struct cql_replication *r, const struct option *o, struct err_note *note)
{
    unsigned copies;
    bool factor = str_eq_nocase(o->name, FACTOR);
    if (str_eq(o->name, CLASS) || (!factor && r->strategy == CQL_STRATEGY_SIMPLE))
        return ERR_OK;
    if (!copies_read(o->value, &copies))
        return err_bad(note, "replication: '%.*s' is no number of copies", STR_ARG(o->value));
    if (!factor)
        return dc_add(r, o, copies, note);
    r->copies = copies;
    return ERR_OK;
}

static bool class_find(struct cql_items items, str *out)
{
    for (struct option o; option_next(&items, &o);)
        if (str_eq(o.name, CLASS)) {
            *out = o.value;
            return true;
        }
    return false;
}

/* Unknown strategies are no error: requests are sent to any node then. */
err cql_replication_read(const struct cql_cell *map, struct cql_replication *out,
                         struct err_note *note)
{
    struct cql_items items;
    str class;
    if (map->column->spec.type != CQL_MAP || !cql_get_items(map, &items))
        return err_bad(note, "replication is no map");
    if (!class_find(items, &class))
        return err_bad(note, "replication without a class");
    struct cql_replication r = { .strategy = strategy_of(class) };
    if (r.strategy == CQL_STRATEGY_SIMPLE || r.strategy == CQL_STRATEGY_NETWORK) {
        bool factor = false;
        while (items.left > 0) {
            struct option o;
            if (!option_next(&items, &o))
                return err_bad(note, "replication is no map of text to text");
            err e = option_read(&r, &o, note);
            if (e != ERR_OK)
                return e;
            factor = factor || str_eq_nocase(o.name, FACTOR);
        }
        if (r.strategy == CQL_STRATEGY_SIMPLE && !factor)
            return err_bad(note, "SimpleStrategy without its replication_factor");
    }
    *out = r;
    return ERR_OK;
}
