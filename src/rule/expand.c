/* expand.c - fills templates in.
 *
 * Values come from whoever may send events: they are never template, and never more than a text
 * within a segment of a path, a part of a query, a header's value or a text of JSON.
 *   1. In a URL a value is percent-encoded but for unreserved characters (RFC 3986, 2.3), so that
 * it begins no segment, query or fragment. A control byte in it is refused.
 *   2. A segment with a placeholder is not empty, and no segment is a dot or two.
 *   3. A host that an event names is one of the configured domains. */
#include "base/utf8.h"
#include "codec/json_text.h"
#include "rule/rule_impl.h"

#include <string.h>

struct filling {
    struct rule_event *e;
    const struct rule_verdict *v;
    const struct rule_template *t;
    const struct rule_domains *domains;
    struct buf *out;
    struct err_note *note;
    size_t segment; /* where the segment of the path begins in out */
    bool in_path, in_query, segment_has_value;
};

static bool has_control(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

static err value_of(struct filling *f, const struct rule_piece *p, str *out)
{
    switch (rule_subject_text(f->e, f->v, p->subject, out)) {
    case RULE_FOUND_TEXT:
        return ERR_OK;
    case RULE_FOUND_NONE:
        return err_bad(f->note, "{%.*s} is not there", STR_ARG(p->text));
    case RULE_FOUND_OTHER:
        return err_bad(f->note, "{%.*s} is no text", STR_ARG(p->text));
    case RULE_FOUND_TWICE:
        break;
    }
    return err_bad(f->note, "the event has %.*s twice", STR_ARG(p->text));
}

/* ---- URLs ---- */

static void put_encoded(struct buf *b, str s)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~';
        if (!plain)
            buf_put_c(b, '%');
        buf_put_c(b, plain ? (char)c : digits[c >> 4]);
        if (!plain)
            buf_put_c(b, digits[c & 15]);
    }
}

static err segment_end(struct filling *f)
{
    str s = str_skip(buf_str(f->out), f->segment);
    bool dots = s.n > 0;
    for (size_t i = 0, count = 0; i < s.n && dots; i++, count++) {
        bool encoded =
            str_starts(str_skip(s, i), STR("%2e")) || str_starts(str_skip(s, i), STR("%2E"));
        dots = (s.p[i] == '.' || encoded) && count < 2;
        i += encoded ? 2 : 0;
    }
    if (dots)
        return err_bad(f->note, "a segment of the path becomes . or ..");
    if (s.n == 0 && f->segment_has_value)
        return err_bad(f->note, "a segment of the path becomes nothing");
    f->segment_has_value = false;
    return ERR_OK;
}

static err put_url_text(struct filling *f, str text)
{
    err why = ERR_OK;
    for (size_t i = 0; i < text.n && why == ERR_OK; i++) {
        char c = text.p[i];
        if (f->in_path && !f->in_query && (c == '/' || c == '?'))
            why = segment_end(f);
        f->in_query = f->in_query || c == '?';
        f->in_path = f->in_path || c == '/';
        buf_put_c(f->out, c);
        if (c == '/')
            f->segment = f->out->n;
    }
    return why;
}

static err put_url_value(struct filling *f, const struct rule_piece *p)
{
    str value;
    err why = value_of(f, p, &value);
    if (why != ERR_OK)
        return why;
    if (has_control(value))
        return err_bad(f->note, "{%.*s} has a control character", STR_ARG(p->text));
    put_encoded(f->out, value);
    f->segment_has_value = true;
    return ERR_OK;
}

static err put_host(struct filling *f, const struct rule_piece *p)
{
    str domain;
    err why = value_of(f, p, &domain);
    if (why != ERR_OK)
        return why;
    for (size_t i = 0; i < domain.n; i++) {
        char c = domain.p[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '.' || c == '_';
        if (!fine)
            return err_bad(f->note, "{domain} is no host");
    }
    if (!f->domains->has(f->domains->ctx, domain))
        return err_bad(f->note, "{domain} is none of the configured domains");
    buf_put(f->out, domain);
    return ERR_OK;
}

/* Of URLs, paths, and the header Host, which has no path. */
static err fill_url(struct filling *f)
{
    const struct rule_template *t = f->t;
    err why = ERR_OK;
    bool host_left = t->host_is_domain;
    for (unsigned i = 0; i < t->pieces_count && why == ERR_OK; i++) {
        const struct rule_piece *p = &t->pieces[i];
        str text = p->text;
        if (!p->is_placeholder && i == 0 && t->kind == RULE_TEMPLATE_URL) {
            size_t scheme = str_find_str(text, STR("://")) + 3;
            buf_put(f->out, str_take(text, scheme));
            text = str_skip(text, scheme);
        }
        if (!p->is_placeholder)
            why = put_url_text(f, text);
        else if (host_left)
            why = put_host(f, p);
        else
            why = put_url_value(f, p);
        host_left = host_left && !p->is_placeholder;
    }
    return why == ERR_OK && f->in_path && !f->in_query ? segment_end(f) : why;
}

/* ---- headers and bodies ---- */

static err put_header_value(struct filling *f, const struct rule_piece *p)
{
    str value;
    err why = value_of(f, p, &value);
    if (why != ERR_OK)
        return why;
    if (has_control(value))
        return err_bad(f->note, "{%.*s} has a control character", STR_ARG(p->text));
    buf_put(f->out, value);
    return ERR_OK;
}

/* All of a text of JSON: as the event has it, whatever it is. */
static err put_whole(struct filling *f, const struct rule_piece *p)
{
    str text = STR_NONE;
    const struct rule_seen *seen = rule_subject_seen(f->e, p->subject);
    enum rule_found found =
        seen != NULL ? seen->found : rule_subject_text(f->e, f->v, p->subject, &text);
    if (found == RULE_FOUND_TWICE)
        return value_of(f, p, &text);
    if (found == RULE_FOUND_NONE)
        buf_put(f->out, STR("null"));
    else if (seen != NULL)
        buf_put(f->out, seen->raw);
    else if (!utf8_valid(text))
        return err_bad(f->note, "{%.*s} is no UTF-8", STR_ARG(p->text));
    else
        json_text_append(f->out, text);
    return ERR_OK;
}

/* Within a text of JSON: escaped, without the quotes, which stand in the template. */
static err put_within(struct filling *f, const struct rule_piece *p)
{
    str value;
    err why = value_of(f, p, &value);
    if (why != ERR_OK)
        return why;
    if (!utf8_valid(value))
        return err_bad(f->note, "{%.*s} is no UTF-8", STR_ARG(p->text));
    if (json_text_size(value) > RULE_EXPANDED_BYTES_MAX + 2)
        return ERR_LIMIT;
    char quoted[RULE_EXPANDED_BYTES_MAX + 2];
    char *end = json_text_put(quoted, value);
    buf_put(f->out, (str){ .p = quoted + 1, .n = (size_t)(end - quoted) - 2 });
    return ERR_OK;
}

static err fill_text(struct filling *f)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < f->t->pieces_count && why == ERR_OK; i++) {
        const struct rule_piece *p = &f->t->pieces[i];
        if (!p->is_placeholder)
            buf_put(f->out, p->text);
        else if (f->t->kind == RULE_TEMPLATE_HEADER)
            why = put_header_value(f, p);
        else
            why = p->is_whole ? put_whole(f, p) : put_within(f, p);
    }
    return why;
}

err rule_expand(struct rule_event *e, const struct rule_verdict *v, const struct rule_template *t,
                const struct rule_domains *domains, struct buf *out, struct err_note *note)
{
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    struct buf filled;
    buf_init(&filled, RULE_EXPANDED_BYTES_MAX);
    struct filling f = { .e = e, .v = v, .t = t, .domains = domains, .out = &filled, .note = note };
    bool is_text = t->kind == RULE_TEMPLATE_HEADER || t->kind == RULE_TEMPLATE_BODY;
    err why = is_text ? fill_text(&f) : fill_url(&f);
    if (filled.failed)
        why = ERR_LIMIT;
    if (why == ERR_LIMIT)
        err_note_set(note, "it becomes longer than %d bytes", RULE_EXPANDED_BYTES_MAX);
    if (why == ERR_OK) {
        buf_put(out, buf_str(&filled));
        why = buf_status(out);
    }
    buf_fini(&filled);
    return why;
}
