/* tablekeep.c - reads retention policies and storage options of tables from JSON, for both stores
 * of tables. Pure. */
#include "codec/json.h"
#include "store/table_keep.h"

#include <string.h>

/* ---- policies ---- */

err table_keep_refuse(struct err_note *note, const char *what)
{
    err_note_set(note, "revisionRetentionPolicy: %s", what);
    return ERR_BAD;
}

/* False: the member is there, and no whole number within its limits. */
static bool whole_in(const json_t *json, const char *name, int64_t least, int64_t most,
                     int64_t *out)
{
    const json_t *value = json_object_get(json, name);
    if (value == NULL)
        return true;
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

/* All numbers of all kinds, within their limits. */
static err numbers_read(const json_t *json, struct table_keep *p, struct err_note *note)
{
    const char *key;
    json_t *value;
    int64_t ttl_s = 0;
    /* Unknown names are refused first: a typing error must not become a policy without limits. */
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        static const char *const known[] = { "type", "count", "grace_ttl", "interval", "ttl" };
        unsigned i = 0;
        while (i < COUNT_OF(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == COUNT_OF(known)) {
            err_note_set(note, "revisionRetentionPolicy.%s is unknown", key);
            return ERR_BAD;
        }
    }
    if (!whole_in(json, "count", 1, TABLE_KEEP_MAX, &p->count))
        return table_keep_refuse(note, "count must be a whole number from 1 to 1000");
    if (!whole_in(json, "grace_ttl", 0, TABLE_TTL_S_MAX, &p->grace_ttl_s) ||
        !whole_in(json, "interval", 1, TABLE_TTL_S_MAX, &p->interval_s) ||
        !whole_in(json, "ttl", 1, TABLE_TTL_S_MAX, &ttl_s))
        return table_keep_refuse(
            note, "grace_ttl, interval and ttl must be whole numbers of seconds, to 20 years");
    if (p->kind == KEEP_TTL)
        p->grace_ttl_s = ttl_s; /* a row falls out when it is put */
    return ERR_OK;
}

/* Nothing, null and {} keep all rows. */
err table_keep_read(const json_t *json, struct table_keep *out, struct err_note *note)
{
    static const struct {
        const char *name;
        enum table_keep_kind kind;
    } kinds[] = { { "all", KEEP_ALL },
                  { "ttl", KEEP_TTL },
                  { "latest", KEEP_LATEST },
                  { "interval", KEEP_INTERVAL },
                  { "latest_hash", KEEP_LATEST_HASH } };
    struct table_keep p = { .grace_ttl_s = -1 };
    if (json == NULL || json_is_null(json) ||
        (json_is_object(json) && json_object_size(json) == 0)) {
        *out = (struct table_keep){ .kind = KEEP_ALL };
        return ERR_OK;
    }
    const char *type = json_body_word(json_object_get(json, "type"));
    unsigned i = 0;
    while (type != NULL && i < COUNT_OF(kinds) && strcmp(kinds[i].name, type) != 0)
        i++;
    if (type == NULL || i == COUNT_OF(kinds))
        return table_keep_refuse(note, "type must be all, latest, latest_hash, interval or ttl");
    p.kind = kinds[i].kind;
    err e = numbers_read(json, &p, note);
    if (e == ERR_OK)
        *out = p;
    return e;
}

/* What is read may still lack what its kind needs: that depends on the table. */
err table_keep_check(const struct table_keep *k, bool versions, bool grouped, struct err_note *note)
{
    switch (k->kind) {
    case KEEP_ALL:
        return ERR_OK;
    case KEEP_TTL:
        return k->grace_ttl_s > 0 ? ERR_OK : table_keep_refuse(note, "ttl needs ttl");
    case KEEP_LATEST:
    case KEEP_INTERVAL:
        if (k->count == 0 || k->grace_ttl_s < 0 || (k->kind == KEEP_INTERVAL && k->interval_s == 0))
            return table_keep_refuse(
                note, "latest needs count and grace_ttl, interval needs interval too");
        return versions
                   ? ERR_OK
                   : table_keep_refuse(note,
                                       "the last range attribute must be a timeuuid, descending");
    case KEEP_LATEST_HASH:
        return grouped
                   ? ERR_OK
                   : table_keep_refuse(note,
                                       "latest_hash needs a range attribute besides the version");
    }
    return ERR_OK;
}

/* ---- options ---- */

/* Is it a string, and one of these words? */
static bool one_of(const json_t *json, const char *const *words)
{
    const char *word = json_body_word(json);
    for (; word != NULL && *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

static err compression_check(const json_t *list, struct err_note *note)
{
    static const char *const algorithms[] = { "lz4", "deflate", "snappy", "lzma", NULL };
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i),
                     *block = json_object_get(entry, "block_size");
        bool sized = block == NULL || (json_is_integer(block) && json_integer_value(block) >= 64 &&
                                       json_integer_value(block) <= 1024);
        if (!sized || !one_of(json_object_get(entry, "algorithm"), algorithms)) {
            err_note_set(
                note, "options.compression needs an algorithm (lz4, deflate, snappy, lzma) and a "
                      "block_size of 64 to 1024");
            return ERR_BAD;
        }
    }
    if (!json_is_array(list)) {
        err_note_set(note, "options.compression must be an array");
        return ERR_BAD;
    }
    return ERR_OK;
}

static err option_check(const char *key, const json_t *value, int64_t *ttl_s, struct err_note *note)
{
    static const char *const patterns[] = { "random-update", "write-once", "timeseries", NULL };
    static const char *const durabilities[] = { "low", "standard", NULL };
    if (strcmp(key, "compression") == 0)
        return compression_check(value, note);
    if (strcmp(key, "updates") == 0) {
        const json_t *pattern = json_object_get(value, "pattern");
        if (json_is_object(value) && (pattern == NULL || one_of(pattern, patterns)))
            return ERR_OK;
        err_note_set(note,
                     "options.updates.pattern must be random-update, write-once or timeseries");
        return ERR_BAD;
    }
    if (strcmp(key, "durability") == 0 && one_of(value, durabilities))
        return ERR_OK;
    if (strcmp(key, "default_time_to_live") == 0 && json_is_integer(value) &&
        json_integer_value(value) >= 0 && json_integer_value(value) <= TABLE_TTL_S_MAX) {
        *ttl_s = json_integer_value(value);
        return ERR_OK;
    }
    err_note_set(note, "options.%s is unknown or has a value out of its limits", key);
    return ERR_BAD;
}

/* An unknown option is refused, so that none is taken for granted. */
err table_options_read(const json_t *json, int64_t *ttl_s, struct err_note *note)
{
    if (json == NULL)
        return ERR_OK;
    if (!json_is_object(json)) {
        err_note_set(note, "options must be an object");
        return ERR_BAD;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        err e = option_check(key, value, ttl_s, note);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}
