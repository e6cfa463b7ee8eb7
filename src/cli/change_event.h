/* change_event.h - an event as people see it in a line. Private to cli.
 *
 * Where wikis and the store write a title, a revision and a kind is in the table of
 * change_event.c. Pure. */
#ifndef CLI_CHANGE_EVENT_H
#define CLI_CHANGE_EVENT_H

#include "base/arena.h"
#include "base/date.h"
#include "base/err.h"

#include <stdio.h>

struct change_event {
    char at[DATE_RFC3339_BYTES + 1];      /* when the server took it; empty: not known */
    str stream, domain, title, rev, kind; /* empty: it says none; in the arena, or inside text */
};
/* position: as the server gave it. text: the event. ERR_BAD: it is no JSON object; ERR_LIMIT. */
MUST_CHECK err change_event_read(struct arena *a, str position, str text, struct change_event *out);

/* How wide the columns are so far: they only grow, so that lines stand under each other. */
enum { CHANGE_EVENT_COLUMNS = 6 };
struct change_columns {
    bool aligned; /* else a tab between two */
    size_t widths[CHANGE_EVENT_COLUMNS];
};
/* A line: time, stream, domain, title, revision, kind. What it does not say is "-". */
void change_event_print(FILE *to, struct change_columns *c, const struct change_event *e);

/* JSON without DEL and C1, which JSON may hold as they are and a terminal obeys. */
void change_json_print(FILE *to, str json);

#endif
