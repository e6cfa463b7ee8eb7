/* rows.h - the rows of timelines, byte by byte. Private to this folder.
 *
 *   kind 1, domain 4, title, 0x00, [~rev 8], ~at 8, ~rev 8, ~tid 16   by title, newest first; the
 *                                                                     first ~rev in renders alone
 *   2,      domain 4, at 8, kind 1, title, 0x00, rev 8, tid 16        by time
 *
 * No values. An entry has one row of each form. Numbers are big-endian. */
#ifndef TIMELINE_ROWS_H
#define TIMELINE_ROWS_H

#include "timeline/timeline.h"

enum {
    TIMELINE_BY_TIME = 2, /* stands where the kind does */
    TIMELINE_DOMAIN_BYTES = 1 + 4,
    TIMELINE_TAIL_BYTES = 8 + 8 + TID_KEY_BYTES,
};

struct timeline_key {
    char p[TIMELINE_KEY_BYTES_MAX];
    size_t n;
    size_t prefix; /* by title: up to the tail */
};
static inline str timeline_key_str(const struct timeline_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}
/* What the keys of all entries of w begin with. ERR_LIMIT: title empty, too long, or with a zero
 * byte. */
MUST_CHECK err timeline_key_prefix(struct timeline_key *k, const struct timeline_where *w);
/* Of a key with that prefix. */
void timeline_key_tail(struct timeline_key *k, const struct timeline_entry *e);
/* With a title that timeline_key_prefix takes. */
void timeline_key_time(struct timeline_key *k, const struct timeline_where *w,
                       const struct timeline_entry *e);
/* What all keys of a form and domain begin with; form: a kind, or TIMELINE_BY_TIME. */
void timeline_key_domain(struct timeline_key *k, unsigned form, uint32_t domain);
/* False: it is no key of a timeline. The title is borrowed from it. */
bool timeline_key_parse(str key, bool *by_time, struct timeline_where *w, struct timeline_entry *e);

/* list.c: may a page of that list begin behind its pivot? */
bool timeline_pivot_fits(const struct timeline_listing *l);

#endif
