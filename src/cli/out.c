/* out.c - prints tables, pairs, JSON, sizes and progress for people. Invariant: no control byte
 * of a server's text reaches a terminal. */
#include "cli/out.h"
#include "cli/cli.h"
#include "codec/json_text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>
#include <uniwidth.h>

bool out_is_terminal(FILE *to)
{
    return isatty(fileno(to)) == 1;
}

bool out_colours(FILE *to)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (no != NULL && no[0] != '\0')
        return false;
    return term != NULL && strcmp(term, "dumb") != 0 && out_is_terminal(to);
}

/* Length of the printable character at s.p, its width in *width; 0 when it must not be printed. */
static size_t printable(str s, int *width)
{
    ucs4_t c;
    int n = u8_mbtoucr(&c, (const uint8_t *)s.p, s.n);
    if (n <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
        return 0;
    int w = uc_width(c, "UTF-8");
    *width = w < 0 ? 1 : w;
    return (size_t)n;
}

void out_text(FILE *to, str s)
{
    while (s.n > 0) {
        int width;
        size_t n = printable(s, &width);
        if (n == 0)
            fputc('?', to);
        else
            fwrite(s.p, 1, n, to);
        s = str_skip(s, n == 0 ? 1 : n);
    }
}

void out_shown(FILE *to, str s)
{
    while (s.n > 0) {
        int width;
        size_t n = printable(s, &width);
        if (n == 0 && s.p[0] != '\n' && s.p[0] != '\t')
            fprintf(to, "\\x%02x", (unsigned char)s.p[0]);
        else
            fwrite(s.p, 1, n == 0 ? 1 : n, to);
        s = str_skip(s, n == 0 ? 1 : n);
    }
}

size_t out_width(str s)
{
    size_t sum = 0;
    while (s.n > 0) {
        int width = 1;
        size_t n = printable(s, &width);
        sum += (size_t)width;
        s = str_skip(s, n == 0 ? 1 : n);
    }
    return sum;
}

str out_fit(str s, size_t columns)
{
    str rest = s;
    for (size_t sum = 0; rest.n > 0;) {
        int width = 1;
        size_t n = printable(rest, &width);
        sum += (size_t)width;
        if (sum > columns)
            break;
        rest = str_skip(rest, n == 0 ? 1 : n);
    }
    return str_take(s, s.n - rest.n);
}

/* "\033[1m" at its start; 0: it begins with none. */
static size_t sgr_bytes(str s)
{
    size_t n = sizeof "\033[" - 1;
    if (!str_starts(s, STR("\033[")))
        return 0;
    while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || s.p[n] == ';'))
        n++;
    return n < s.n && s.p[n] == 'm' ? n + 1 : 0;
}

void out_line(FILE *to, str line, size_t columns)
{
    while (line.n > 0) {
        size_t n = sgr_bytes(line);
        size_t next = line.n > 1 ? 1 + str_find(str_skip(line, 1), '\033') : 1;
        str part = str_take(line, n > 0 ? n : next);
        str shown = n > 0 ? part : out_fit(part, columns);
        if (n > 0)
            fwrite(part.p, 1, part.n, to);
        else
            out_text(to, shown);
        columns -= n > 0 ? 0 : out_width(shown);
        if (n == 0 && shown.n < part.n)
            columns = 0;
        line = str_skip(line, part.n);
    }
}

/* ---- tables ---- */

struct out_row {
    char *cells[OUT_COLUMNS_MAX];
    const char *colour;
};
struct out_table {
    FILE *to;
    const struct out_column *columns;
    unsigned columns_count;
    struct out_row *rows;
    size_t rows_count, rows_size;
    bool colours;
};

struct out_table *out_table_new(FILE *to, const struct out_column *columns, unsigned count)
{
    INVARIANT(count <= OUT_COLUMNS_MAX);
    struct out_table *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct out_table){
        .to = to, .columns = columns, .columns_count = count, .colours = out_colours(to)
    };
    return t;
}

void out_table_colours(struct out_table *t, bool wanted)
{
    t->colours = wanted;
}

static void print_cell(struct out_table *t, str cell, size_t width, unsigned column)
{
    size_t own = out_width(cell);
    int pad = (int)(width > own ? width - own : 0);
    bool last = column + 1 == t->columns_count;
    if (t->columns[column].right)
        fprintf(t->to, "%*s", pad, "");
    out_text(t->to, cell);
    if (!t->columns[column].right && !last)
        fprintf(t->to, "%*s", pad, "");
    fputs(last ? "\n" : "  ", t->to);
}

static void print_rows(struct out_table *t)
{
    size_t widths[OUT_COLUMNS_MAX] = { 0 };
    for (unsigned c = 0; c < t->columns_count; c++) {
        widths[c] = strlen(t->columns[c].title);
        for (size_t r = 0; r < t->rows_count; r++) {
            size_t w = out_width(str_of(t->rows[r].cells[c]));
            widths[c] = w > widths[c] ? w : widths[c];
        }
    }
    if (t->colours)
        fputs("\033[1m", t->to);
    for (unsigned c = 0; c < t->columns_count; c++)
        print_cell(t, str_of(t->columns[c].title), widths[c], c);
    if (t->colours)
        fputs("\033[0m", t->to);
    for (size_t r = 0; r < t->rows_count; r++) {
        const char *colour = t->colours ? t->rows[r].colour : NULL;
        if (colour != NULL)
            fprintf(t->to, "\033[%sm", colour);
        for (unsigned c = 0; c < t->columns_count; c++)
            print_cell(t, str_of(t->rows[r].cells[c]), widths[c], c);
        if (colour != NULL)
            fputs("\033[0m", t->to);
    }
}

static void drop_rows(struct out_table *t)
{
    for (size_t r = 0; r < t->rows_count; r++)
        for (unsigned c = 0; c < t->columns_count; c++)
            free(t->rows[r].cells[c]);
    t->rows_count = 0;
}

void out_table_row(struct out_table *t, const str *cells, const char *colour)
{
    if (t->rows_count == OUT_ROWS_MAX) {
        print_rows(t);
        drop_rows(t);
    }
    if (t->rows_count == t->rows_size) {
        t->rows_size = t->rows_size == 0 ? 64 : t->rows_size * 2;
        t->rows = reallocarray(t->rows, t->rows_size, sizeof *t->rows);
        INVARIANT(t->rows != NULL);
    }
    struct out_row *row = &t->rows[t->rows_count++];
    *row = (struct out_row){ .colour = colour };
    for (unsigned c = 0; c < t->columns_count; c++) {
        row->cells[c] = strndup(cells[c].p != NULL ? cells[c].p : "", cells[c].n);
        INVARIANT(row->cells[c] != NULL);
    }
}

void out_table_end(struct out_table **tp)
{
    if (*tp != NULL)
        print_rows(*tp);
    out_table_drop(tp);
}

void out_table_drop(struct out_table **tp)
{
    if (*tp == NULL)
        return;
    drop_rows(*tp);
    free((*tp)->rows);
    free(*tp);
    *tp = NULL;
}

/* ---- pairs, JSON, sizes ---- */

void out_pair(FILE *to, const char *name, str value)
{
    fprintf(to, "%-14s ", name);
    out_text(to, value);
    fputc('\n', to);
}

bool out_damaged(const struct cli_call *call, const json_t *listing)
{
    const json_t *rows = json_object_get(listing, "damaged");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *rev = json_object_get(row, "rev");
        const char *title = json_string_value(json_object_get(row, "title"));
        char revision[OUT_SIZE_BYTES + 16] = "";
        if (json_is_integer(rev))
            (void)snprintf(revision, sizeof revision, " revision %lld",
                           (long long)json_integer_value(rev)); /* fits */
        cli_warn(call, "damaged on the server, left out: %s%s",
                 title != NULL ? title : "a row whose name cannot be read", revision);
    }
    return json_array_size(rows) > 0;
}

/* A control character that JSON may hold as it is and a terminal obeys, U+007F to U+009F: its
 * bytes; 0: none. */
static size_t json_control(const char *p)
{
    const unsigned char *c = (const unsigned char *)p;
    if (c[0] == 0x7f)
        return 1;
    return c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
}

void out_json(FILE *to, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    INVARIANT(text != NULL);
    for (const char *p = text; *p != '\0';) {
        size_t n = json_control(p);
        char escaped[6];
        if (n > 0)
            json_text_escape(escaped, (unsigned char)p[n - 1]);
        (void)fwrite(n > 0 ? escaped : p, 1, n > 0 ? sizeof escaped : 1, to);
        p += n > 0 ? n : 1;
    }
    fputc('\n', to); /* a failed write is found when stdout is flushed */
    free(text);
}

void out_size(uint64_t bytes, char text[OUT_SIZE_BYTES])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double n = (double)bytes;
    size_t unit = 0;
    while (n >= 999.95 && unit + 1 < COUNT_OF(units)) {
        n /= 1000;
        unit++;
    }
    snprintf(text, OUT_SIZE_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
}

/* ---- progress ---- */

#define PROGRESS_EVERY_NS (NS_PER_S / 10)
enum { PROGRESS_CELLS = 30 };

void out_progress_begin(struct out_progress *p, const char *what, const char *unit, mono now)
{
    *p = (struct out_progress){
        .what = what, .unit = unit, .shown = out_is_terminal(stderr), .began = now
    };
}

static void print_amount(const struct out_progress *p, uint64_t n)
{
    char text[OUT_SIZE_BYTES];
    out_size(n, text);
    if (p->unit == NULL)
        fputs(text, stderr);
    else
        fprintf(stderr, "%llu", (unsigned long long)n);
}

void out_progress_step(struct out_progress *p, uint64_t done, uint64_t total, mono now)
{
    if (!p->shown || now.ns - p->drawn_at.ns < PROGRESS_EVERY_NS)
        return;
    p->drawn_at = now;
    fprintf(stderr, "\r\033[K%s ", p->what);
    if (total > 0) {
        int filled = (int)(done >= total ? PROGRESS_CELLS : done * PROGRESS_CELLS / total);
        fprintf(stderr, "[%.*s%*s] ", filled, "##############################",
                PROGRESS_CELLS - filled, "");
    }
    print_amount(p, done);
    if (total > 0) {
        fputs(" of ", stderr);
        print_amount(p, total);
    }
    if (p->unit != NULL)
        fprintf(stderr, " %s", p->unit);
    int64_t ns = now.ns - p->began.ns;
    if (ns > NS_PER_S / 2) {
        fputs(", ", stderr);
        print_amount(p, (uint64_t)((double)(done - p->done_before) * 1e9 / (double)ns));
        fputs("/s", stderr);
    }
    fflush(stderr);
}

void out_progress_end(struct out_progress *p)
{
    if (p->shown && p->drawn_at.ns != 0)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
