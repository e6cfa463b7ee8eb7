/* jsontext.c - writes JSON values: numbers in their shortest form, members as they stand or
 * sorted by name. */
#include "table/jsontext.h"
#include "codec/base64.h"
#include "codec/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does the text of v with this many digits read back as v? */
static bool reads_back(double v, bool single, int digits, char out[40])
{
    (void)snprintf(out, 40, "%.*g", digits, v); /* at most 26 bytes */
    double again = strtod(out, NULL);
    return single ? (float)again == (float)v : again == v;
}

static void put_shortest(struct buf *b, double v, bool single)
{
    INVARIANT(isfinite(v));
    v = v == 0 ? 0 : v; /* without a sign: -0 would come back as a whole number, which has none */
    char text[40];
    int most = single ? 9 : 17;
    int digits = single ? 6 : 15;
    while (digits < most && !reads_back(v, single, digits, text))
        digits++;
    if (digits == most)
        (void)reads_back(v, single, digits, text); /* always true: for the text */
    buf_put(b, str_of(text));
}

void jsontext_double(struct buf *b, double v)
{
    put_shortest(b, v, false);
}

void jsontext_float(struct buf *b, float v)
{
    put_shortest(b, (double)v, true);
}

struct writer {
    struct buf *out;
    bool sorted;
};

static err put_any(const struct writer *w, const json_t *json, unsigned depth);

static err put_array(const struct writer *w, const json_t *json, unsigned depth)
{
    buf_put_c(w->out, '[');
    for (size_t i = 0; i < json_array_size(json); i++) {
        if (i > 0)
            buf_put_c(w->out, ',');
        err e = put_any(w, json_array_get(json, i), depth + 1);
        if (e != ERR_OK)
            return e;
    }
    buf_put_c(w->out, ']');
    return ERR_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static err put_members(const struct writer *w, const json_t *json, const char *const *keys,
                       unsigned depth)
{
    err e = ERR_OK;
    buf_put_c(w->out, '{');
    for (size_t i = 0; e == ERR_OK && i < json_object_size(json); i++) {
        if (i > 0)
            buf_put_c(w->out, ',');
        json_text_append(w->out, str_of(keys[i]));
        buf_put_c(w->out, ':');
        e = put_any(w, json_object_get(json, keys[i]), depth + 1);
    }
    buf_put_c(w->out, '}');
    return e;
}

/* Keys are without 00: jansson takes none. */
static err put_object(const struct writer *w, const json_t *json, unsigned depth)
{
    const char **keys = calloc(json_object_size(json) + 1, sizeof *keys), *key;
    json_t *value;
    size_t count = 0;
    if (keys == NULL)
        return ERR_LIMIT;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) keys[count++] = key;
    if (w->sorted)
        qsort(keys, count, sizeof *keys, by_bytes);
    err e = put_members(w, json, keys, depth);
    free(keys);
    return e;
}

/* Recursion stops at JSONTEXT_DEPTH_MAX. */
static err put_any(const struct writer *w, const json_t *json, unsigned depth)
{
    if (depth > JSONTEXT_DEPTH_MAX)
        return ERR_LIMIT;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return put_object(w, json, depth);
    case JSON_ARRAY:
        return put_array(w, json, depth);
    case JSON_STRING:
        json_text_append(w->out,
                         (str){ .p = json_string_value(json), .n = json_string_length(json) });
        return ERR_OK;
    case JSON_INTEGER:
        buf_printf(w->out, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        return ERR_OK;
    case JSON_REAL:
        jsontext_double(w->out, json_real_value(json));
        return ERR_OK;
    case JSON_TRUE:
        buf_put(w->out, STR("true"));
        return ERR_OK;
    case JSON_FALSE:
        buf_put(w->out, STR("false"));
        return ERR_OK;
    case JSON_NULL:
        buf_put(w->out, STR("null"));
        return ERR_OK;
    }
    return ERR_BAD;
}

err jsontext_any(struct buf *b, const json_t *json)
{
    return put_any(&(struct writer){ .out = b }, json, 0);
}

err jsontext_sorted(struct buf *b, const json_t *json)
{
    return put_any(&(struct writer){ .out = b, .sorted = true }, json, 0);
}

void jsontext_base64(struct buf *b, str bytes)
{
    char *at = buf_extend(b, base64_size(bytes.n));
    if (at != NULL)
        (void)base64_put(at, bytes);
}
