/* value.c - turns a generator's answer into a list, or says what is wrong with it. Pure. */
#include "base/arena.h"
#include "base/buf.h"
#include "codec/json.h"
#include "list/list_impl.h"

#include <stdlib.h>
#include <string.h>

static void value_free(struct flight_value *v)
{
    free(list_value_of(v));
}

/* The text by which two items are compared: of a unique_by field, or of the whole item when field
 * is NULL. Any JSON value but null and absent; members are sorted. */
static err unique_text(const json_t *item, const char *field, char **out, struct err_note *note)
{
    const json_t *value = field == NULL ? item : json_object_get(item, field);
    if (value == NULL || json_is_null(value))
        return err_bad(note, "an item has no \"%s\"", field);
    *out = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    return *out == NULL ? ERR_LIMIT : ERR_OK;
}

/* For qsort. */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted texts bring equal ones side by side. */
static err check_unique(const json_t *array, const char *field, struct err_note *note)
{
    size_t count = json_array_size(array), have = 0;
    char *texts[LIST_SIZE_MAX];
    err why = ERR_OK;
    while (have < count && why == ERR_OK) {
        why = unique_text(json_array_get(array, have), field, &texts[have], note);
        have += why == ERR_OK;
    }
    if (why == ERR_OK && count > 0)
        qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 1; i < count && why == ERR_OK; i++) {
        if (strcmp(texts[i - 1], texts[i]) == 0) {
            if (field == NULL)
                err_note_set(note, "two items are the same");
            else
                err_note_set(note, "two items have the same \"%s\"", field);
            why = ERR_BAD;
        }
    }
    for (size_t i = 0; i < have; i++)
        free(texts[i]);
    return why;
}

/* Checks the array as a whole, and takes `position` out of the items. */
static err check_items(const struct list_bucket_opts *b, const json_t *array, struct err_note *note)
{
    if (!json_is_array(array))
        return err_bad(note, "it is no array");
    if (json_array_size(array) > b->size)
        return err_bad(note, "%zu items, %u are the most", json_array_size(array), b->size);
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!json_is_object(json_array_get(array, i)))
            return err_bad(note, "item %zu is no object", i + 1);
        (void)json_object_del(json_array_get(array, i),
                              "position"); /* ours to say; it may not be there */
    }
    err why = b->unique_count == 0 ? check_unique(array, NULL, note) : ERR_OK;
    for (unsigned i = 0; i < b->unique_count && why == ERR_OK; i++)
        why = check_unique(array, b->unique_by[i], note);
    return why;
}

/* Writes one item to `to`; *n: its bytes. ERR_BAD: it is too large. */
static err dump_item(const json_t *item, char *to, size_t room, size_t *n, struct err_note *note)
{
    *n = json_dumpb(item, to, room, JSON_COMPACT);
    if (*n > LIST_ITEM_BYTES_MAX || *n == 0)
        return err_bad(note, "an item has %zu bytes, %d are the most", *n, LIST_ITEM_BYTES_MAX);
    return ERR_OK;
}

/* The items one behind the other make the whole array; each item keeps a slice of it. */
static err dump_all(const json_t *array, struct list_value *v, char *bytes, size_t room,
                    struct err_note *note)
{
    size_t at = 0;
    bytes[at++] = '[';
    for (unsigned i = 0; i < v->count; i++) {
        size_t n;
        err why = dump_item(json_array_get(array, i), bytes + at, room - at - 2, &n, note);
        if (why != ERR_OK)
            return why;
        v->items[i].text = (str){ .p = bytes + at, .n = n };
        at += n;
        bytes[at++] = ',';
    }
    if (v->count == 0)
        at++;
    bytes[at - 1] = ']';
    v->json = (str){ .p = bytes, .n = at };
    return ERR_OK;
}

/* Built with room for the largest items, then copied into a block that fits. */
static err value_build(const json_t *array, struct list_value **out, struct err_note *note)
{
    unsigned count = (unsigned)json_array_size(array);
    size_t head = sizeof(struct list_value) + count * sizeof(struct list_item);
    size_t room = 2 + (size_t)count * (LIST_ITEM_BYTES_MAX + 1) + 2;
    struct list_value *v = calloc(1, head + room);
    if (v == NULL)
        return ERR_LIMIT;
    v->count = count;
    err why = dump_all(array, v, (char *)v + head, room, note);
    if (why != ERR_OK) {
        free(v);
        return why;
    }
    struct list_value *fit = malloc(head + v->json.n); /* most items are far below their limit */
    if (fit == NULL) {
        free(v);
        return ERR_LIMIT;
    }
    memcpy(fit, v, head + v->json.n);
    /* Slices point into the new block from here on. */
    for (unsigned i = 0; i < count; i++)
        fit->items[i].text.p = (char *)fit + (v->items[i].text.p - (char *)v);
    fit->json.p = (char *)fit + head;
    free(v);
    fit->v = (struct flight_value){ .refs = 1, .free = value_free };
    *out = fit;
    return ERR_OK;
}

/* The array is changed while it is checked; only its copy leaves. */
err list_value_parse(const struct list_bucket_opts *b, str json, struct list_value **out,
                     struct err_note *note)
{
    json_t *array;
    err why = json_body_parse(json, &array, note);
    if (why != ERR_OK)
        return why;
    why = check_items(b, array, note);
    if (why == ERR_OK)
        why = value_build(array, out, note);
    json_decref(array);
    return why;
}

int64_t list_age_ms(const struct list_value *v, mono now)
{
    return v->age_ms + (now.ns - v->at.ns) / NS_PER_MS;
}

int64_t list_fresh_ms(const struct list_value *v, mono now)
{
    return v->fresh_ms - (now.ns - v->at.ns) / NS_PER_MS;
}

/* ---- writing ---- */

/* An item is an object, which gets its position as the first member. */
static void put_item(struct buf *b, str item, unsigned position)
{
    bool is_empty = item.n == 2; /* {} */
    buf_printf(b, "{\"position\":%u%s", position, is_empty ? "" : ",");
    buf_put(b, str_skip(item, 1));
}

str list_json(struct arena *a, const struct list_value *v, unsigned position)
{
    struct buf b;
    buf_init(&b, v->json.n + v->count * 32 + 256);
    if (position > 0) {
        put_item(&b, v->items[position - 1].text, position);
    } else {
        buf_printf(&b, "{\"version\":\"%s\",\"size\":%u,\"items\":[", v->version, v->count);
        for (unsigned i = 0; i < v->count; i++) {
            if (i > 0)
                buf_put_c(&b, ',');
            put_item(&b, v->items[i].text, i + 1);
        }
        buf_put(&b, STR("]}"));
    }
    INVARIANT(buf_status(&b) == ERR_OK);
    return buf_take(&b, a);
}
