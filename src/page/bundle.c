/* bundle.c - takes the JSON of a bundle apart, for puts of whole bundles. A value that is no
 * string is kept as it was written. */
#include "page/bundle.h"

#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "page/content.h"
#include "page/headers.h"

/* body, headers and encoding; header fields of one content. */
enum { BUNDLE_MEMBERS_MAX = 3, BUNDLE_HEADERS_MAX = 64 };

/* in NULL: the content has no headers. fallback_type: its content-type when the headers name
 * none. */
static err parse_headers(struct arena *a, const struct json_member *in, const char *fallback_type,
                         str *lines, struct err_note *note)
{
    struct json_member members[BUNDLE_HEADERS_MAX];
    /* One more, for the content-type. */
    struct http_pair pairs[BUNDLE_HEADERS_MAX + 1];
    unsigned count = 0;
    err why =
        in == NULL ? ERR_OK : json_slice_members(a, in->value, members, BUNDLE_HEADERS_MAX, &count);
    if (why != ERR_OK) {
        err_note_set(note, "headers must be an object of at most %d members", BUNDLE_HEADERS_MAX);
        return why;
    }
    bool typed = false;
    for (unsigned i = 0; i < count; i++) {
        pairs[i].name = members[i].name;
        if (json_slice_string(a, members[i].value, &pairs[i].value) != ERR_OK)
            return err_bad(note, "the value of every header must be a string");
        typed = typed || str_eq_nocase(members[i].name, STR("content-type"));
        /* The store compresses by itself, and would compress such bytes twice. */
        if (str_eq_nocase(members[i].name, STR("content-encoding")) &&
            !str_eq_nocase(pairs[i].value, STR("identity")))
            return err_bad(note, "a stored content has no content-encoding: send it decoded");
    }
    if (!typed)
        pairs[count++] =
            (struct http_pair){ .name = STR("content-type"), .value = str_of(fallback_type) };
    return headers_keep(a, pairs, count, HEADERS_ALL, lines, note);
}

/* The bytes of a body. Without an encoding a string is its text, and any other value its own
 * JSON. */
static err parse_raw(struct arena *a, str value, const struct json_member *encoding, str *raw,
                     struct err_note *note)
{
    bool base64 = encoding != NULL && str_eq(encoding->value, STR("\"base64\""));
    if (encoding != NULL && !base64 && !str_eq(encoding->value, STR("\"utf-8\"")))
        return err_bad(note, "encoding must be \"base64\" or \"utf-8\"");
    if (value.p[0] != '"' && encoding == NULL) {
        *raw = value;
        return ERR_OK;
    }
    err why = json_slice_string(a, value, raw);
    if (why == ERR_OK && base64)
        why = base64_decode(a, *raw, BASE64_TOKEN, raw);
    if (why == ERR_BAD)
        err_note_set(note,
                     base64 ? "body is not base64" : "body is not a string of Unicode characters");
    return why;
}

static err parse_content(struct arena *a, const struct json_member *in,
                         struct page_put_content *out, struct err_note *note)
{
    struct json_member members[BUNDLE_MEMBERS_MAX];
    unsigned count = 0;
    if (!page_content_is_fine(in->name))
        return err_bad(note, "\"%.*s\" cannot be the name of a content",
                       (int)(in->name.n < 64 ? in->name.n : 64), in->name.p);
    err why = json_slice_members(a, in->value, members, BUNDLE_MEMBERS_MAX, &count);
    const struct json_member *headers =
        why == ERR_OK ? json_slice_find(members, count, "headers") : NULL;
    const struct json_member *encoding =
        why == ERR_OK ? json_slice_find(members, count, "encoding") : NULL;
    const struct json_member *body = why == ERR_OK ? json_slice_find(members, count, "body") : NULL;
    /* All members are known when there are as many as were found. */
    if (body == NULL || count != 1u + (headers != NULL) + (encoding != NULL))
        return err_bad(note,
                       "content %.*s must be an object of body and optional headers and encoding",
                       STR_ARG(in->name));
    struct page_put_content c = { .name = in->name };
    why = parse_raw(a, body->value, encoding, &c.raw, note);
    if (why == ERR_OK) {
        /* The type follows from how the body was written, not from what is in it. */
        const char *type = body->value.p[0] == '"' ? "application/octet-stream"
                                                   : "application/json; charset=utf-8";
        why = parse_headers(a, headers, type, &c.headers, note);
    }
    if (why == ERR_OK)
        *out = c;
    return why;
}

err bundle_parse(struct arena *a, str body, struct page_put_content *contents, unsigned *count,
                 struct err_note *note)
{
    /* One content more than fits is ERR_LIMIT. */
    struct json_member members[PAGE_CONTENTS_MAX];
    unsigned n = 0;
    str value;
    if (!utf8_valid(body) || !json_slice_value(body, &value))
        return err_bad(note, "the body is not JSON");
    err why = json_slice_members(a, value, members, PAGE_CONTENTS_MAX, &n);
    if (why == ERR_LIMIT)
        err_note_set(note, "a bundle has at most %d contents", PAGE_CONTENTS_MAX);
    if (why == ERR_BAD || (why == ERR_OK && n == 0))
        return err_bad(note, "the body must be an object of contents, each named once");
    for (unsigned i = 0; i < n && why == ERR_OK; i++)
        why = parse_content(a, &members[i], &contents[i], note);
    if (why == ERR_OK)
        *count = n;
    return why;
}
