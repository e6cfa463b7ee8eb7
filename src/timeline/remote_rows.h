/* remote_rows.h - keys, members and scores of a timeline in Redis, byte by byte (remote.h). Private
 * to this folder. Pure. */
#ifndef TIMELINE_REMOTE_ROWS_H
#define TIMELINE_REMOTE_ROWS_H

#include "timeline/remote.h"
#include "timeline/rows.h"

enum {
    TIMELINE_REMOTE_KEY_BYTES_MAX =
        TIMELINE_REMOTE_DOMAIN_BYTES_MAX + TIMELINE_TITLE_BYTES_MAX + 16,
    TIMELINE_REMOTE_TAIL_BYTES = 8 + TID_KEY_BYTES, /* the member of a title */
    TIMELINE_REMOTE_NUMBER_BYTES = 24,
};

struct timeline_remote_key {
    char p[TIMELINE_REMOTE_KEY_BYTES_MAX];
    size_t n;
};
static inline str timeline_remote_key_str(const struct timeline_remote_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}
/* ERR_BAD: the domain is empty or too long. */
MUST_CHECK err timeline_remote_key_time(struct timeline_remote_key *k, str domain);
/* The same, or the title is. */
MUST_CHECK err timeline_remote_key_title(struct timeline_remote_key *k, str domain,
                                         enum timeline_kind kind, str title);

/* With a title that has a key. out: as the member of a domain; its last TIMELINE_REMOTE_TAIL_BYTES
 * are the member of a title. */
void timeline_remote_member(const struct timeline_where *w, const struct timeline_entry *e,
                            struct timeline_key *out);
/* False: it is none of ours. Sets all but the domain and the instant. The title is borrowed. */
bool timeline_remote_member_parse(str member, struct timeline_where *w, struct timeline_entry *e);
/* Of a title: the tail alone. w: kind and title are known. */
bool timeline_remote_tail_parse(str member, struct timeline_where *w, struct timeline_entry *e);

/* An instant is a whole number of microseconds. Redis writes scores as it likes: 1e+16, 100, 1.5.
 * False: it is no instant, negative, or beyond 2^53. */
bool timeline_remote_score_parse(str text, int64_t *us);

#endif
