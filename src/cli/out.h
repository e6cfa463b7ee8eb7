/* out.h - what people see: aligned tables, colours on a terminal only, a progress bar. Private to
 * cli.
 *
 * Text that came from a server is printed through out_text, which takes control bytes away: a title
 * cannot move anybody's cursor. Thread: one. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include "base/str.h"
#include "base/times.h"

#include <jansson.h>
#include <stdio.h>

enum { OUT_COLUMNS_MAX = 10, OUT_ROWS_MAX = 100000 };

/* Colours: stream is a terminal, NO_COLOR is unset or empty and TERM is not "dumb". */
bool out_colours(FILE *to);
bool out_is_terminal(FILE *to);
/* s with control bytes (C0, DEL, C1) as '?'; bytes that are no UTF-8 too. */
void out_text(FILE *to, str s);
/* How many columns s takes, printed so. */
size_t out_width(str s);
/* What of s fits into so many columns. Borrowed from s. */
str out_fit(str s, size_t columns);
/* A line with SGR sequences of ours, of the rest what fits into so many columns. No line end. */
void out_line(FILE *to, str line, size_t columns);
/* A whole document for a terminal: line ends and tabs as they are, all else that out_text takes
 * away as \xHH. */
void out_shown(FILE *to, str s);

/* A table keeps its rows until it is printed, at most OUT_ROWS_MAX of them, then prints what it has
 * and goes on. Owner: caller. */
struct out_table;
struct out_column {
    const char *title;
    bool right;
};
/* columns is borrowed until the table's end. */
struct out_table *out_table_new(FILE *to, const struct out_column *columns, unsigned count);
/* Whether rows get their colours; without a call, when to is a terminal that wants them. */
void out_table_colours(struct out_table *t, bool wanted);
/* Cells are copied; colour is an SGR code for the whole row ("2" dim) or NULL. */
void out_table_row(struct out_table *t, const str *cells, const char *colour);
/* Prints and frees; drop only frees. */
void out_table_end(struct out_table **tp);
void out_table_drop(struct out_table **tp);

/* "name: value" lines, aligned under each other. */
void out_pair(FILE *to, const char *name, str value);

/* One JSON document and a newline, without a control byte. */
void out_json(FILE *to, const json_t *value);

/* Tells on stderr what a listing of the server left out because it is damaged there. True:
 * something. */
struct cli_call;
bool out_damaged(const struct cli_call *call, const json_t *listing);

/* "3.4 MB": powers of 1000, one digit. */
enum { OUT_SIZE_BYTES = 24 };
void out_size(uint64_t bytes, char text[OUT_SIZE_BYTES]);

/* A bar on stderr, drawn on a terminal only, at most ten times a second. */
struct out_progress {
    const char *what; /* "importing" */
    const char *unit; /* "commits"; NULL: bytes */
    bool shown;
    mono began, drawn_at;
    uint64_t done_before; /* not counted in the rate: skipped on resuming */
};
void out_progress_begin(struct out_progress *p, const char *what, const char *unit, mono now);
/* total 0: unknown. */
void out_progress_step(struct out_progress *p, uint64_t done, uint64_t total, mono now);
/* Wipes the bar. */
void out_progress_end(struct out_progress *p);

#endif
