/* change_event.c - see change_event.h. The text of an event is not taken apart into a tree: of an
 * event that is large, or holds numbers beyond 64 bits, a few members are looked at where they
 * lie. */
#include "cli/change_event.h"

#include "base/times.h"
#include "base/utf8.h"
#include "cli/out.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "event/position.h"

#include <string.h>

enum { COLUMN_WIDTH_MAX = 48 };

/* The first of each that is there. */
static const char *const streams[] = { "meta.stream", NULL };
static const char *const domains[] = { "meta.domain", "database", NULL };
static const char *const titles[] = { "page_title", "page.page_title", "title", "meta.uri", "uri",
                                      NULL };
static const char *const revs[] = { "rev_id", "revision.rev_id", "revision.new", NULL };
static const char *const kinds[] = { "kind", "page_change_kind", "type", NULL };

static bool name_is(str quoted, str name)
{
    return quoted.n == name.n + 2 && memcmp(quoted.p + 1, name.p, name.n) == 0;
}

static bool member_find(str object, str name, str *value)
{
    str rest = object, quoted;
    while (json_slice_pair(&rest, &quoted, value))
        if (name_is(quoted, name))
            return true;
    return false;
}

static bool path_find(str object, str path, str *value)
{
    *value = object;
    while (path.n > 0)
        if (!member_find(*value, str_split(&path, '.'), value))
            return false;
    return true;
}

/* A text, or a number as it is written. */
static err value_read(struct arena *a, str value, str *out)
{
    bool number = value.n > 0 && (value.p[0] == '-' || (value.p[0] >= '0' && value.p[0] <= '9'));
    if (number)
        *out = value;
    else if (value.n > 0 && value.p[0] == '"')
        return json_slice_string(a, value, out);
    return ERR_OK;
}

static err field_read(struct arena *a, str object, const char *const *paths, str *out)
{
    str value;
    *out = STR("");
    for (; *paths != NULL && out->n == 0; paths++) {
        err why = path_find(object, str_of(*paths), &value) ? value_read(a, value, out) : ERR_OK;
        if (why == ERR_LIMIT)
            return why;
    }
    return ERR_OK;
}

err change_event_read(struct arena *a, str position, str text, struct change_event *out)
{
    struct event_position p;
    str object;
    struct change_event e = { .at = "" };
    if (!utf8_valid(text) || !json_slice_value(text, &object) || object.p[0] != '{')
        return ERR_BAD;
    const struct {
        const char *const *paths;
        str *to;
    } fields[] = { { streams, &e.stream },
                   { domains, &e.domain },
                   { titles, &e.title },
                   { revs, &e.rev },
                   { kinds, &e.kind } };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        err why = field_read(a, object, fields[i].paths, fields[i].to);
        if (why != ERR_OK)
            return why;
    }
    if (event_position_parse(position, &p) && p.at_ms <= INT64_MAX / NS_PER_MS)
        date_format_ms(p.at_ms * NS_PER_MS, e.at);
    *out = e;
    return ERR_OK;
}

void change_event_print(FILE *to, struct change_columns *c, const struct change_event *e)
{
    const str cells[CHANGE_EVENT_COLUMNS] = { str_of(e->at), e->stream, e->domain,
                                              e->title,      e->rev,    e->kind };
    for (unsigned i = 0; i < CHANGE_EVENT_COLUMNS; i++) {
        str cell = cells[i].n > 0 ? cells[i] : STR("-");
        size_t width = out_width(cell);
        if (width > c->widths[i])
            c->widths[i] = width < COLUMN_WIDTH_MAX ? width : COLUMN_WIDTH_MAX;
        out_text(to, cell);
        bool last = i + 1 == CHANGE_EVENT_COLUMNS;
        if (!last && c->aligned)
            fprintf(to, "%*s", (int)(width < c->widths[i] ? c->widths[i] - width : 0) + 2, "");
        else
            fputc(last ? '\n' : '\t', to);
    }
}

void change_json_print(FILE *to, str json)
{
    size_t from = 0;
    for (size_t i = 0; i < json.n; i++) {
        unsigned char ch = (unsigned char)json.p[i];
        unsigned char next = i + 1 < json.n ? (unsigned char)json.p[i + 1] : 0;
        bool c1 = ch == 0xc2 && next < 0xa0;
        char escaped[6];
        if (ch != 0x7f && !c1)
            continue;
        fwrite(json.p + from, 1, i - from, to);
        json_text_escape(escaped, c1 ? next : ch);
        fwrite(escaped, 1, sizeof escaped, to);
        i += c1;
        from = i + 1;
    }
    fwrite(json.p + from, 1, json.n - from, to);
}
