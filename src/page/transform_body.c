/* transform_body.c - reads the body of a transform, and writes the body that the origin gets, for
 * transform.c. */
#include "page/transform_body.h"

#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "http/form.h"
#include "http/parameter.h"

#include <inttypes.h>

/* Members that are looked at, of one object each. */
enum { MEMBERS_MAX = 32, PARSOID_MEMBERS_MAX = 64, UPDATES_MEMBERS_MAX = 4 };

/* ---- reading ---- */

static err bad_updates(struct err_note *note)
{
    return err_bad(note,
                   "updates must be {\"redlinks\": true} or {\"variant\": {\"target\": code}}");
}

/* Reads {"target": code, "source": code}: texts that are not empty; the source may be left out. */
static err parse_variant(struct arena *a, str value, struct transform_fields *f,
                         struct err_note *note)
{
    struct json_member members[UPDATES_MEMBERS_MAX];
    unsigned count;
    str text;
    err why = json_slice_members(a, value, members, UPDATES_MEMBERS_MAX, &count);
    for (unsigned i = 0; why == ERR_OK && i < count; i++) {
        bool target = str_eq(members[i].name, STR("target"));
        if (!target && !str_eq(members[i].name, STR("source")))
            return bad_updates(note);
        why = json_slice_string(a, members[i].value, &text);
        if (why == ERR_OK && text.n == 0)
            return bad_updates(note);
        if (why == ERR_OK)
            *(target ? &f->variant_target : &f->variant_source) = text;
    }
    return why != ERR_OK || f->variant_target.n == 0 ? bad_updates(note) : ERR_OK;
}

/* Reads one kind of update: the origin takes but one at a time. */
static err parse_updates(struct arena *a, str text, struct transform_fields *f,
                         struct err_note *note)
{
    struct json_member members[UPDATES_MEMBERS_MAX];
    unsigned count;
    str value;
    if (!utf8_valid(text) || !json_slice_value(text, &value) ||
        json_slice_members(a, value, members, UPDATES_MEMBERS_MAX, &count) != ERR_OK || count != 1)
        return bad_updates(note);
    if (str_eq(members[0].name, STR("variant")))
        return parse_variant(a, members[0].value, f, note);
    f->redlinks = str_eq(members[0].name, STR("redlinks")) && str_eq(members[0].value, STR("true"));
    return f->redlinks ? ERR_OK : bad_updates(note);
}

/* The fields by name. All places but `updates`, which is no text and no flag. */
static const struct field {
    const char *name;
    bool is_flag;
    size_t at; /* in struct transform_fields */
} known[] = { { "html", false, offsetof(struct transform_fields, html) },
              { "wikitext", false, offsetof(struct transform_fields, wikitext) },
              { "title", false, offsetof(struct transform_fields, title) },
              { "body_only", true, offsetof(struct transform_fields, body_only) },
              { "stash", true, offsetof(struct transform_fields, stash) } };

/* NULL: the field is ignored. */
static const struct field *field_find(str name)
{
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (str_eq(name, str_of(known[i].name)))
            return &known[i];
    return NULL;
}

/* Sets one field. Flags of forms are words; of JSON they are checked before. */
static err take_field(struct transform_fields *f, const struct field *of, str value,
                      struct err_note *note)
{
    void *at = (char *)f + of->at;
    if (of->is_flag)
        return form_flag(value, at) ? ERR_OK
                                    : err_bad(note, "%s is neither true nor false", of->name);
    if (!utf8_valid(value))
        return err_bad(note, "%s is not UTF-8", of->name);
    *(str *)at = value.p == NULL ? STR("") : value;
    return ERR_OK;
}

/* The text of a member. JSON has true and false: neither a number nor a text is a flag. A text may
 * stand in {"body": text}. ERR_BAD: the member is of another kind. */
static err member_text(struct arena *a, const struct field *of, str value, str *out)
{
    struct json_member inner[MEMBERS_MAX];
    unsigned count;
    *out = value;
    if (of->is_flag)
        return str_eq(value, STR("true")) || str_eq(value, STR("false")) ? ERR_OK : ERR_BAD;
    if (value.p[0] == '"')
        return json_slice_string(a, value, out);
    err why =
        value.p[0] == '{' ? json_slice_members(a, value, inner, MEMBERS_MAX, &count) : ERR_BAD;
    const struct json_member *body = why == ERR_OK ? json_slice_find(inner, count, "body") : NULL;
    return body == NULL || body->value.p[0] != '"' ? ERR_BAD
                                                   : json_slice_string(a, body->value, out);
}

static err parse_json(struct arena *a, str body, struct transform_fields *out,
                      struct err_note *note)
{
    struct json_member members[MEMBERS_MAX];
    unsigned count;
    str value, text;
    if (!utf8_valid(body) || !json_slice_value(body, &value))
        return err_bad(note, "the body is not JSON");
    err why = json_slice_members(a, value, members, MEMBERS_MAX, &count);
    if (why != ERR_OK)
        return err_bad(note, "the body must be an object of at most 32 members, each there once");
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        if (str_eq(members[i].name, STR("updates")))
            why = parse_updates(a, members[i].value, out, note);
        const struct field *of = field_find(members[i].name);
        if (of == NULL)
            continue;
        why = member_text(a, of, members[i].value, &text);
        if (why == ERR_BAD)
            return err_bad(note, "%s must be %s", of->name,
                           of->is_flag ? "true or false" : "a string");
        if (why == ERR_OK)
            why = take_field(out, of, text, note);
    }
    return why;
}

err transform_body_parse(struct arena *a, str content_type, str body, struct transform_fields *out,
                         struct err_note *note)
{
    struct transform_fields fields = { .stash = false };
    struct form form;
    str type = http_media_type(content_type);
    err why;
    if (type.n == 0 || str_eq_nocase(type, STR("application/json"))) {
        why = parse_json(a, body, &fields, note);
    } else {
        why = form_parse(a, content_type, body, &form, note);
        if (why == ERR_NOT_FOUND)
            return err_bad(
                note,
                "the body must be JSON, multipart/form-data or application/x-www-form-urlencoded");
        for (unsigned i = 0; why == ERR_OK && i < form.count; i++) {
            const struct field *of = field_find(form.fields[i].name);
            if (of != NULL)
                why = take_field(&fields, of, form.fields[i].value, note);
            else if (str_eq(form.fields[i].name, STR("updates")))
                why = parse_updates(a, form.fields[i].value, &fields, note);
        }
    }
    if (why == ERR_OK)
        *out = fields;
    return why;
}

/* ---- writing ---- */

/* Writes one part of a bundle, if it is there. json: its body is JSON already. */
static void put_part(struct buf *b, const char *name, const struct transform_part *part, bool json)
{
    if (part->body.p == NULL)
        return;
    buf_printf(b, ",\"%s\":{\"headers\":{\"content-type\":", name);
    json_text_append(b, part->type);
    buf_put(b, STR("},\"body\":"));
    if (json)
        buf_put(b, part->body);
    else
        json_text_append(b, part->body);
    buf_put_c(b, '}');
}

static void put_original(struct buf *b, const struct transform_original *original)
{
    buf_put(b, STR("\"original\":{\"title\":"));
    json_text_append(b, original->title);
    if (original->rev > 0)
        buf_printf(b, ",\"revid\":%" PRIu64, original->rev);
    put_part(b, "html", &original->html, false);
    put_part(b, "data-parsoid", &original->data_parsoid, true);
    put_part(b, "wikitext", &original->wikitext, false);
    buf_put_c(b, '}');
}

void transform_body_html(struct buf *b, str html, const struct transform_original *original)
{
    buf_put(b, STR("{\"html\":"));
    json_text_append(b, html);
    if (original != NULL) {
        buf_put_c(b, ',');
        put_original(b, original);
    }
    buf_put_c(b, '}');
}

void transform_body_updates(struct buf *b, const struct transform_fields *fields,
                            const struct transform_original *original)
{
    buf_put_c(b, '{');
    put_original(b, original);
    if (fields->redlinks) {
        buf_put(b, STR(",\"updates\":{\"redlinks\":true}}"));
        return;
    }
    buf_put(b, STR(",\"updates\":{\"variant\":{\"target\":"));
    json_text_append(b, fields->variant_target);
    if (fields->variant_source.n > 0) {
        buf_put(b, STR(",\"source\":"));
        json_text_append(b, fields->variant_source);
    }
    buf_put(b, STR("}}}"));
}

void transform_body_wikitext(struct buf *b, str wikitext, bool body_only)
{
    buf_put(b, STR("{\"wikitext\":"));
    json_text_append(b, wikitext);
    buf_put(b, body_only ? STR(",\"body_only\":true}") : STR("}"));
}

/* The ids are what ties the HTML to its data: without them the origin cannot serialise. */
bool transform_parsoid_has_ids(struct arena *a, str data_parsoid)
{
    struct json_member members[PARSOID_MEMBERS_MAX];
    unsigned count;
    str value;
    if (!utf8_valid(data_parsoid) || !json_slice_value(data_parsoid, &value) ||
        json_slice_members(a, value, members, PARSOID_MEMBERS_MAX, &count) != ERR_OK)
        return false;
    const struct json_member *ids = json_slice_find(members, count, "ids");
    return ids != NULL && ids->value.p[0] == '{';
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The bytes of the tag at the start of s, with its '>'; s.n: the tag never ends. A '>' between
 * quotes does not end it. */
static size_t tag_bytes(str s)
{
    char quote = 0;
    for (size_t i = 1; i < s.n; i++) {
        char c = s.p[i];
        if (quote == 0 && c == '>')
            return i + 1;
        if (quote == 0 && (c == '"' || c == '\''))
            quote = c;
        else if (c == quote)
            quote = 0;
    }
    return s.n;
}

static str tag_name(str tag)
{
    str name = str_skip(tag, str_starts(tag, STR("</")) ? 2 : 1);
    size_t n = 0;
    while (n < name.n && !is_space(name.p[n]) && name.p[n] != '/' && name.p[n] != '>')
        n++;
    return str_take(name, n);
}

/* Is this an element that says nothing by itself? With typeof it was made of something, as of a
 * template. */
static bool is_empty_element(str tag)
{
    static const char *const names[] = { "!doctype", "html", "body", "section",
                                         "div",      "p",    "span", "br" };
    if (str_find_str(tag, STR("typeof")) < tag.n)
        return false;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq_nocase(tag_name(tag), str_of(names[i])))
            return true;
    return false;
}

/* Does a tag begin here? A letter, a slash or a declaration follows the '<'. A comment counts as
 * text: the wiki keeps comments. */
static bool is_tag(str s)
{
    char c = s.n > 1 ? s.p[1] : ' ';
    return s.p[0] == '<' && !str_starts(s, STR("<!--")) &&
           ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '!');
}

/* One pass over the text; the first visible character decides. */
enum transform_holds transform_holds(str html)
{
    enum transform_holds holds = HOLDS_NOTHING;
    size_t body = str_find_str(html, STR("<body")); /* a head says nothing of the page's text */
    html = str_skip(html, body < html.n ? body : 0);
    while (html.n > 0) {
        size_t n = 1;
        if (is_tag(html)) {
            n = tag_bytes(html);
            if (!is_empty_element(str_take(html, n)))
                holds = HOLDS_ELEMENTS;
        } else if (!is_space(html.p[0])) {
            return HOLDS_TEXT;
        }
        html = str_skip(html, n);
    }
    return holds;
}
