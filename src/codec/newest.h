/* newest.h - the newest of a wiki's recent changes, as an answer of its api.php shows it: how far
 * the copy of its database had come that answered. Plain values; pure. */
#ifndef CODEC_NEWEST_H
#define CODEC_NEWEST_H

#include <stdbool.h>
#include <stdint.h>

struct wiki_newest {
    int64_t at_s; /* the wiki's clock, in seconds since 1970 */
    uint64_t id;  /* 0: not said, or there is none */
};

/* Ids are given in order, instants are what the list goes by. */
static inline bool wiki_newest_is_older(const struct wiki_newest *a, const struct wiki_newest *b)
{
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->id < b->id);
}

#endif
