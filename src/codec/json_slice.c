/* json_slice.c - values of JSON as the slices they were sent as. A value that json_slice_value gave
 * is JSON, and so are the values of its members. */
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_scan.h"
#include "codec/json_text.h"

bool json_slice_value(str text, str *value)
{
    struct json_scan s = json_scan_of(text);
    str found;
    if (!json_scan_value(&s, &found))
        return false;
    (void)json_scan_peek(&s); /* past blanks */
    if (s.p != s.end)
        return false;
    *value = found;
    return true;
}

bool json_slice_item(str *rest, str *item)
{
    struct json_scan s = json_scan_of(*rest);
    bool first = json_scan_take(&s, '['),
         there = first ? json_scan_peek(&s) != ']' : json_scan_take(&s, ',');
    if (!there || !json_scan_value(&s, item))
        return false;
    *rest = (str){ .p = s.p, .n = (size_t)(s.end - s.p) };
    return true;
}

bool json_slice_pair(str *rest, str *name, str *value)
{
    struct json_scan s = json_scan_of(*rest);
    str quoted;
    bool first = json_scan_take(&s, '{'),
         there = first ? json_scan_peek(&s) == '"' : json_scan_take(&s, ',');
    if (!there || json_scan_text(&s, &quoted) != NULL || !json_scan_take(&s, ':') ||
        !json_scan_value(&s, value))
        return false;
    *name = (str){ .p = quoted.p - 1, .n = quoted.n + 2 };
    *rest = (str){ .p = s.p, .n = (size_t)(s.end - s.p) };
    return true;
}

static bool has_name(const struct json_member *m, unsigned count, str name)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(m[i].name, name))
            return true;
    return false;
}

/* The next member, its name decoded. */
static err member_take(struct arena *a, struct json_scan *s, struct json_member *out)
{
    str quoted, name, value;
    if (json_scan_text(s, &quoted) != NULL)
        return ERR_BAD;
    err why = json_text_unescape(a, quoted, &name);
    if (why != ERR_OK)
        return why;
    if (!json_scan_take(s, ':') || !json_scan_value(s, &value))
        return ERR_BAD;
    *out = (struct json_member){ .name = name, .value = value };
    return ERR_OK;
}

err json_slice_members(struct arena *a, str object, struct json_member *out, unsigned max,
                       unsigned *count)
{
    struct json_scan s = json_scan_of(object);
    unsigned n = 0;
    if (!json_scan_take(&s, '{'))
        return ERR_BAD;
    bool more = json_scan_peek(&s) != '}';
    while (more) {
        struct json_member member;
        if (n == max)
            return ERR_LIMIT;
        err why = member_take(a, &s, &member);
        if (why == ERR_OK && has_name(out, n, member.name))
            why = ERR_BAD;
        if (why != ERR_OK)
            return why;
        out[n++] = member;
        more = json_scan_take(&s, ',');
    }
    if (!json_scan_take(&s, '}'))
        return ERR_BAD;
    *count = n;
    return ERR_OK;
}

err json_slice_string(struct arena *a, str value, str *out)
{
    struct json_scan s = json_scan_of(value);
    str quoted;
    if (value.n == 0 || value.p[0] != '"' || json_scan_text(&s, &quoted) != NULL || s.p != s.end)
        return ERR_BAD;
    return json_text_unescape(a, quoted, out);
}

const struct json_member *json_slice_find(const struct json_member *m, unsigned count,
                                          const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(m[i].name, str_of(name)))
            return &m[i];
    return NULL;
}

err json_slice_only(struct arena *a, str text, const char *name, str *out)
{
    struct json_member m;
    unsigned count;
    str value;
    if (!utf8_valid(text) || !json_slice_value(text, &value))
        return ERR_BAD;
    err why = json_slice_members(a, value, &m, 1, &count);
    if (why == ERR_OK && (count != 1 || !str_eq(m.name, str_of(name))))
        why = ERR_BAD;
    return why == ERR_OK ? json_slice_string(a, m.value, out) : why;
}
