/* options_value.c - one written value, checked against its row and put in its place. */
#include "server/options_impl.h"

#include "base/date.h"
#include "base/units.h"
#include "page/content.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LISTEN_WANTED "is no ADDR:PORT; ADDR is a number such as 127.0.0.1 or [::1], or localhost"
#define UNIX_WANTED                                                                                \
    "is no unix:/PATH with a path from the root of at most 107 bytes, without control bytes"
_Static_assert(HTTP_UNIX_PATH_BYTES_MAX == 107, "as UNIX_WANTED says");
enum { SHOWN_BYTES_MAX = 60, SHOWN_PATH_BYTES_MAX = 100 };

/* What may be shown of what somebody wrote: of a URL the scheme, a password may be anywhere behind
 * it. */
static str shown_of(str text)
{
    return str_take(str_take(text, str_find_str(text, STR("://"))), SHOWN_BYTES_MAX);
}

err option_fail(struct options_from from, str name, struct err_note *note, const char *format, ...)
{
    char why[ERR_NOTE_BYTES], line[16] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args); /* cut when longer */
    va_end(args);
    str file = str_of(from.file);
    const char *cut = file.n > SHOWN_PATH_BYTES_MAX ? "..." : "";
    if (file.n > SHOWN_PATH_BYTES_MAX)
        file = str_skip(file, file.n - SHOWN_PATH_BYTES_MAX);
    if (from.line > 0)
        (void)snprintf(line, sizeof line, ":%u", from.line); /* always fits */
    str shown = shown_of(name);
    err_note_set(note, "%s%.*s%s: %.*s%s%s", cut, STR_ARG(file), line, STR_ARG(shown),
                 shown.n > 0 ? ": " : "", why);
    if (note != NULL)
        for (char *p = note->text; *p != '\0'; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f)
                *p = '?';
    return ERR_BAD;
}

static err fail_value(const struct option_value *v, struct err_note *note, const char *what)
{
    return option_fail(v->from, v->name, note, "\"%.*s\" %s", STR_ARG(shown_of(v->text)), what);
}

const struct option *option_find(const struct option *rows, str name)
{
    for (const struct option *r = rows; r->name != NULL; r++)
        if (str_eq(str_of(r->name), name))
            return r;
    return NULL;
}

/* ---- numbers ---- */

static void put_number(const struct option_value *v, uint64_t number)
{
    char *at = (char *)v->base + v->row->offset;
    if (v->row->width == sizeof(uint64_t)) {
        memcpy(at, &number, sizeof number);
        return;
    }
    INVARIANT(v->row->width == sizeof(uint32_t));
    INVARIANT(number <= UINT32_MAX);
    uint32_t narrow = (uint32_t)number;
    memcpy(at, &narrow, sizeof narrow);
}

static void format_limit(const struct option *r, uint64_t limit, char out[UNITS_TEXT_BYTES])
{
    if (r->type == OPTION_SIZE)
        units_format_size(limit, out);
    else if (r->type == OPTION_COUNT || r->type == OPTION_MODE)
        (void)snprintf(out, UNITS_TEXT_BYTES, "%llu", (unsigned long long)limit); /* always fits */
    else
        units_format_duration((int64_t)limit, out);
}

static err put_limited(const struct option_value *v, uint64_t number, uint64_t unit,
                       struct err_note *note)
{
    const struct option *r = v->row;
    if (number < r->min || number > r->max) {
        char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
        format_limit(r, r->min, least);
        format_limit(r, r->max, most);
        str shown = shown_of(v->text);
        return option_fail(v->from, v->name, note, "\"%.*s\" is not within %s to %s",
                           STR_ARG(shown), least, most);
    }
    put_number(v, number / unit);
    return ERR_OK;
}

static err store_count(const struct option_value *v, struct err_note *note)
{
    uint64_t number;
    if (!str_to_u64(v->text, &number))
        return fail_value(v, note, "is no whole number");
    return put_limited(v, number, 1, note);
}

static err store_mode(const struct option_value *v, struct err_note *note)
{
    enum { MODE_DIGITS_MAX = 4 };
    uint64_t mode = 0;
    bool fine = v->text.n > 0 && v->text.n <= MODE_DIGITS_MAX;
    for (size_t i = 0; i < v->text.n && fine; i++) {
        fine = v->text.p[i] >= '0' && v->text.p[i] <= '7';
        mode = mode * 8 + (uint64_t)(v->text.p[i] - '0');
    }
    if (!fine || mode > v->row->max)
        return fail_value(v, note, "is no mode in octal such as 0660");
    return put_limited(v, mode, 1, note);
}

static err store_size(const struct option_value *v, struct err_note *note)
{
    uint64_t bytes;
    if (!units_parse_size(v->text, &bytes))
        return fail_value(v, note, "is no size (4096, 64k, 8M, 1G)");
    return put_limited(v, bytes, 1, note);
}

static err store_duration(const struct option_value *v, uint64_t unit, struct err_note *note)
{
    int64_t ns;
    if (!units_parse_duration(v->text, &ns))
        return fail_value(v, note, "is no duration (500ms, 2s, 5m, 1h, 7d, never)");
    return put_limited(v, (uint64_t)ns, unit, note);
}

static err store_choice(const struct option_value *v, struct err_note *note)
{
    char names[128] = "";
    size_t n = 0;
    for (unsigned i = 0; v->row->choices[i] != NULL; i++) {
        if (str_eq(v->text, str_of(v->row->choices[i]))) {
            put_number(v, i);
            return ERR_OK;
        }
        int more =
            snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", v->row->choices[i]);
        n += (size_t)more < sizeof names - n ? (size_t)more : 0;
    }
    str shown = shown_of(v->text);
    return option_fail(v->from, v->name, note, "\"%.*s\" is none of: %s", STR_ARG(shown), names);
}

static err store_flag(const struct option_value *v, struct err_note *note)
{
    bool on = str_eq(v->text, STR("true"));
    if (!on && !str_eq(v->text, STR("false")))
        return fail_value(v, note, "is neither true nor false");
    memcpy((char *)v->base + v->row->offset, &on, sizeof on);
    return ERR_OK;
}

/* ---- texts ---- */

static const char *options_value_kept(struct options *o, str text)
{
    return arena_cstr(&o->texts, text);
}

static err too_much(const struct option_value *v, struct err_note *note)
{
    (void)option_fail(v->from, v->name, note, "all values together pass %d bytes",
                      OPTIONS_TEXT_BYTES_MAX);
    return ERR_LIMIT;
}

static err store_text(struct options *o, const struct option_value *v, struct err_note *note)
{
    if (v->text.n == 0)
        return option_fail(v->from, v->name, note, "is empty");
    for (size_t i = 0; i < v->text.n; i++)
        if ((unsigned char)v->text.p[i] < 0x20 || v->text.p[i] == 0x7f)
            return fail_value(v, note, "holds a control character");
    const char *copy = options_value_kept(o, v->text);
    if (copy == NULL)
        return too_much(v, note);
    memcpy((char *)v->base + v->row->offset, &copy, sizeof copy);
    return ERR_OK;
}

static err store_names(struct options *o, const struct option_value *v, struct err_note *note)
{
    struct page_bucket_opts *page = &o->config.buckets[v->bucket].page;
    const char **names = o->contents[v->bucket];
    unsigned count = 0;
    str rest = v->text;
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ','));
        if (!page_content_is_plain(one))
            return option_fail(v->from, v->name, note, "\"%.*s\" is no name of a content",
                               STR_ARG(shown_of(one)));
        if (page_content_is_reserved(one))
            return option_fail(v->from, v->name, note, "\"%.*s\" is a reserved name", STR_ARG(one));
        for (unsigned i = 0; i < count; i++)
            if (str_eq(str_of(names[i]), one))
                return option_fail(v->from, v->name, note, "\"%.*s\" is there twice", STR_ARG(one));
        if (count == PAGE_CONTENTS_MAX)
            return option_fail(v->from, v->name, note, "more than %d names", PAGE_CONTENTS_MAX);
        names[count] = options_value_kept(o, one);
        if (names[count] == NULL)
            return too_much(v, note);
        count++;
    }
    page->contents = count > 0 ? names : NULL;
    page->contents_count = count;
    return ERR_OK;
}

/* ---- addresses ---- */

bool options_is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (http_listen_path(address) != NULL)
        return true; /* the mode of its file says who may connect */
    if (inet_pton(AF_INET, address, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool parse_unix(struct options *o, str text, struct http_listen *out)
{
    str path = str_skip(text, sizeof HTTP_UNIX - 1);
    if (path.n < 2 || path.n > HTTP_UNIX_PATH_BYTES_MAX || path.p[0] != '/')
        return false;
    for (size_t i = 0; i < path.n; i++)
        if ((unsigned char)path.p[i] < 0x20 || path.p[i] == 0x7f)
            return false; /* it is printed in lines that others read */
    const char *copy = options_value_kept(o, text);
    if (copy == NULL)
        return false;
    *out = (struct http_listen){ .address = copy, .content = true };
    return true;
}

const char *option_listen_wanted(str text)
{
    return str_starts(text, STR(HTTP_UNIX)) ? UNIX_WANTED : LISTEN_WANTED;
}

bool option_parse_listen(struct options *o, str text, struct http_listen *out)
{
    if (str_starts(text, STR(HTTP_UNIX)))
        return parse_unix(o, text, out);
    size_t colon = text.n;
    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return false;
    str host = str_take(text, colon - 1), port_text = str_skip(text, colon);
    bool bracketed = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    if (bracketed)
        host = str_take(str_skip(host, 1), host.n - 2);
    else if (str_eq(host, STR("localhost")))
        host = STR("127.0.0.1");
    uint64_t port;
    char address[INET6_ADDRSTRLEN];
    unsigned char parsed[sizeof(struct in6_addr)];
    if (!str_to_u64(port_text, &port) || port > UINT16_MAX ||
        !str_to_cstr(host, address, sizeof address))
        return false;
    if (inet_pton(bracketed ? AF_INET6 : AF_INET, address, parsed) != 1)
        return false;
    const char *copy = options_value_kept(o, host);
    if (copy == NULL)
        return false;
    *out = (struct http_listen){ .address = copy, .port = (uint16_t)port, .content = true };
    return true;
}

/* One each is left for admin_listen and change.purge_listen. */
enum { LISTENS_OWN_MAX = CONFIG_LISTENS_MAX - 2 };

static err store_listens(struct options *o, const struct option_value *v, struct err_note *note)
{
    struct http_listen parsed[CONFIG_LISTENS_MAX];
    unsigned count = 0;
    str rest = v->text;
    do {
        str one = str_trim(str_split(&rest, ','));
        if (count == LISTENS_OWN_MAX)
            return option_fail(v->from, v->name, note, "more than %d addresses", LISTENS_OWN_MAX);
        if (!option_parse_listen(o, one, &parsed[count]))
            return option_fail(v->from, v->name, note, "\"%.*s\" %s", STR_ARG(shown_of(one)),
                               option_listen_wanted(one));
        count++;
    } while (rest.n > 0);
    memcpy(o->config.listens, parsed, count * sizeof parsed[0]);
    o->config.listens_count = count;
    return ERR_OK;
}

static err store_hooks(struct options *o, const struct option_value *v, struct err_note *note)
{
    int64_t ns = 0;
    bool frozen = !str_eq(v->text, STR("true"));
    if (frozen && !date_parse_rfc3339(v->text, &ns))
        return fail_value(v, note, "is not " DATE_WANTED);
    o->config.test_hooks = true;
    o->config.test_frozen = frozen;
    o->config.test_instant = (store_time){ .ns = ns };
    return ERR_OK;
}

static err store_domains(struct options *o, const struct option_value *v, struct err_note *note)
{
    str rest = v->text;
    do {
        err why = option_add_domain(o, str_trim(str_split(&rest, ',')), v->from, NULL, note);
        if (why != ERR_OK)
            return why;
    } while (rest.n > 0);
    return ERR_OK;
}

err option_store(struct options *o, const struct option_value *v, struct err_note *note)
{
    size_t bytes_max = v->row->bytes_max == 0 ? OPTIONS_VALUE_BYTES_MAX : v->row->bytes_max;
    if (v->text.n > bytes_max && v->row->type != OPTION_DOMAINS)
        return option_fail(v->from, v->name, note, "a value of more than %zu bytes", bytes_max);
    struct http_listen admin;
    switch (v->row->type) {
    case OPTION_TEXT:
        return store_text(o, v, note);
    case OPTION_CHOICE:
        return store_choice(v, note);
    case OPTION_FLAG:
        return store_flag(v, note);
    case OPTION_COUNT:
        return store_count(v, note);
    case OPTION_MODE:
        return store_mode(v, note);
    case OPTION_SIZE:
        return store_size(v, note);
    case OPTION_MS:
        return store_duration(v, (uint64_t)NS_PER_MS, note);
    case OPTION_NS:
        return store_duration(v, 1, note);
    case OPTION_NAMES:
        return store_names(o, v, note);
    case OPTION_LISTENS:
        return store_listens(o, v, note);
    case OPTION_LISTEN_ADMIN: /* joins the others in options_finish */
        return option_parse_listen(o, v->text, &admin)
                   ? ERR_OK
                   : fail_value(v, note, option_listen_wanted(v->text));
    case OPTION_DOMAINS:
        return store_domains(o, v, note);
    case OPTION_HOOKS:
        return store_hooks(o, v, note);
    case OPTION_RULES:
        return option_fail(v->from, v->name, note,
                           "rules stand in the configuration file alone, as a section");
    case OPTION_GONE:
        return ERR_OK;
    }
    return ERR_BAD;
}
