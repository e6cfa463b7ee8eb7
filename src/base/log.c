/* log.c - formats one log line and writes it with one call. Invariant: a line is never cut
 * inside a field or inside a character, and no byte of a value can end a line or move a
 * terminal's cursor. */
#include "base/log.h"

#include "base/check.h"
#include "base/date.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

#define LOG_MAGIC 0x10910919u

struct log {
    uint32_t magic;
    int fd;
    _Atomic(enum log_level) least;
    enum log_format format;
    struct clock *clock;
};

/* A line being built. room keeps place for what must still come; past it an append fails whole. */
struct line {
    char *p;
    size_t n, room;
};

static const char *const level_names[LOG_LEVELS] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"
};

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

struct log *log_new(int fd, enum log_level least, enum log_format format, struct clock *clock)
{
    INVARIANT(clock != NULL);
    struct log *l = malloc(sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct log){
        .magic = LOG_MAGIC, .fd = fd, .least = least, .format = format, .clock = clock
    };
    return l;
}

void log_free(struct log **lp)
{
    if (*lp == NULL)
        return;
    MAGIC_CHECK(*lp, LOG_MAGIC);
    (*lp)->magic = 0;
    free(*lp);
    *lp = NULL;
}

void log_level_set(struct log *l, enum log_level least)
{
    MAGIC_CHECK(l, LOG_MAGIC);
    atomic_store_explicit(&l->least, least, memory_order_relaxed);
}

bool log_enabled(const struct log *l, enum log_level level)
{
    if (l == NULL)
        return false;
    MAGIC_CHECK(l, LOG_MAGIC);
    return level >= atomic_load_explicit(&l->least, memory_order_relaxed);
}

static bool line_put(struct line *line, str s)
{
    if (s.n > line->room - line->n)
        return false;
    memcpy(line->p + line->n, s.p, s.n);
    line->n += s.n;
    return true;
}

static str hex_escape(char prefix, unsigned value, unsigned digits, char *out)
{
    static const char hex[] = "0123456789abcdef";
    out[0] = '\\';
    out[1] = prefix;
    for (unsigned i = 0; i < digits; i++)
        out[2 + i] = hex[value >> 4 * (digits - 1 - i) & 15];
    return (str){ .p = out, .n = 2 + digits };
}

/* The next character of *rest as it may stand within quotes: escaped when it is a quote, a
 * backslash, a control (C0, DEL, C1: terminals obey those) or not UTF-8. scratch holds the
 * escape. */
static str escape_next(str *rest, enum log_format format, char scratch[8])
{
    ucs4_t c = 0;
    int size = u8_mbtoucr(&c, (const uint8_t *)rest->p, rest->n);
    unsigned char first = (unsigned char)rest->p[0];
    str raw = str_take(*rest, size > 0 ? (size_t)size : 1);
    *rest = str_skip(*rest, raw.n);
    if (size <= 0)
        return format == LOG_JSON ? STR("\\ufffd") : hex_escape('x', first, 2, scratch);
    if (c == '"' || c == '\\') {
        scratch[0] = '\\';
        scratch[1] = (char)c;
        return (str){ .p = scratch, .n = 2 };
    }
    if (c == '\n')
        return STR("\\n");
    if (c == '\t')
        return STR("\\t");
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029)
        return hex_escape('u', c, 4, scratch);
    return raw;
}

/* In quotes, at most LOG_VALUE_BYTES_MAX bytes between them, never cut inside a character. */
static bool put_quoted(struct line *line, enum log_format format, str value)
{
    char scratch[8];
    size_t bytes = 0;
    if (!line_put(line, STR("\"")))
        return false;
    while (value.n > 0) {
        str piece = escape_next(&value, format, scratch);
        bytes += piece.n;
        if (bytes > LOG_VALUE_BYTES_MAX)
            break;
        if (!line_put(line, piece))
            return false;
    }
    return line_put(line, STR("\""));
}

static bool is_plain(str value)
{
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=')
            return false;
    }
    return value.n > 0 && value.n <= LOG_VALUE_BYTES_MAX;
}

static bool put_value(struct line *line, enum log_format format, const struct log_field *field)
{
    char digits[24];
    if (field->is_int) {
        uint64_t left = (uint64_t)field->number;
        size_t at = sizeof digits;
        if (field->number < 0)
            left = 0 - left;
        do {
            digits[--at] = (char)('0' + left % 10);
            left /= 10;
        } while (left > 0);
        if (field->number < 0)
            digits[--at] = '-';
        return line_put(line, (str){ .p = digits + at, .n = sizeof digits - at });
    }
    if (format == LOG_TEXT && is_plain(field->text))
        return line_put(line, field->text);
    return put_quoted(line, format, field->text);
}

/* All of the field, or nothing of it and false. */
static bool put_field(struct line *line, enum log_format format, const struct log_field *field)
{
    size_t before = line->n;
    bool json = format == LOG_JSON;
    if (line_put(line, json ? STR(",\"") : STR(" ")) && line_put(line, str_of(field->name)) &&
        line_put(line, json ? STR("\":") : STR("=")) && put_value(line, format, field))
        return true;
    line->n = before;
    return false;
}

static void put_head(struct line *line, const struct log *l, enum log_level level,
                     const char *event)
{
    char when[DATE_RFC3339_BYTES + 1];
    date_format_ms(clock_wall(l->clock).ns, when);
    const char *const json[] = {
        "{\"time\":\"", when, "\",\"level\":\"", level_names[level], "\",\"event\":\"", event, "\""
    };
    const char *const text[] = { "", when, " ", level_names[level], " ", event, "" };
    for (size_t i = 0; i < COUNT_OF(json); i++)
        if (!line_put(line, str_of(l->format == LOG_JSON ? json[i] : text[i])))
            return; /* an event name that long is cut away */
}

static void write_line(int fd, const char *p, size_t n)
{
    ssize_t wrote;
    do {
        wrote = write(fd, p, n);
    } while (wrote < 0 && errno == EINTR);
}

void log_write(struct log *l, enum log_level level, const char *event,
               const struct log_field *fields, unsigned count)
{
    char bytes[LOG_LINE_BYTES_MAX];
    static const struct log_field cut = { .name = "cut", .number = 1, .is_int = true };
    if (!log_enabled(l, level))
        return;
    int saved = errno;        /* callers log between a failure and its report */
    enum { TAIL_BYTES = 16 }; /* of ',"cut":1' and the end of the line */
    struct line line = { .p = bytes, .room = sizeof bytes - TAIL_BYTES };
    bool whole = true;
    put_head(&line, l, level, event);
    for (unsigned i = 0; i < count; i++)
        whole = put_field(&line, l->format, &fields[i]) && whole;
    line.room = sizeof bytes;
    if (!whole)
        (void)put_field(&line, l->format, &cut); /* the tail has room for it */
    (void)line_put(&line, l->format == LOG_JSON ? STR("}\n") : STR("\n")); /* and for this */
    write_line(l->fd, line.p, line.n);
    errno = saved;
}
