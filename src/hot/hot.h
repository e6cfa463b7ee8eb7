/* hot.h - answers that are ready: sent again without looking at the store, as long as nothing
 * changed.
 *
 * An entry is the whole answer to a plain GET of one raw target in one set of accepted codings, and
 * its 304; the 304 alone when nobody needed more. It is good while (a) its title did not change:
 * an entry keeps what its maker saw of the title's changes (page/changes.h) BEFORE beginning the
 * read it was made from; (b) the clock is before valid_until; and (c) where a wiki is behind it,
 * its last word on the title is young enough (page/trust.h). The first who finds it a little old
 * asks for a new one, and is answered. Sharded by the hash of the key; each shard is a hash table
 * and a CLOCK ring (Corbato 1968) under one lock held for a look-up; what is evicted is what was
 * not hit since the hand passed last. Thread: all functions from any thread, but new and free. */
#ifndef HOT_HOT_H
#define HOT_HOT_H

#include "base/check.h"
#include "base/str.h"
#include "base/times.h"
#include "http/http.h"
#include "page/changes.h"
#include "page/trust.h"

enum {
    HOT_SEEN = 1 << 16,
    HOT_SHARDS_MAX = 64,
    HOT_TARGET_BYTES_MAX = 2048,
    HOT_TAG_BYTES_MAX = 64,
    HOT_KINDS_MAX = 4
};

struct app_hot;
/* Owner: caller. bytes_max 0: it keeps nothing. seed: of the hashes. changes: borrowed. Dies when
 * out of memory. */
struct app_hot *hot_new(size_t bytes_max, uint64_t seed, const struct page_changes *changes);
void hot_free(struct app_hot **hp);

struct hot_key {
    str target;       /* raw path */
    unsigned variant; /* what the client accepts; part of the key */
};
struct hot_entry_opts {
    struct page_seen seen;
    store_time valid_until;  /* NEVER: until the title changes */
    struct trust_cell *cell; /* NULL: no wiki; else it says this, to such a reader */
    uint64_t says;
    enum trust_reader reader;
    const struct trust_rules *rules; /* outlives the table */
    int64_t age_s_max;               /* the age is told up to this; 0: no limit */
    unsigned kind;                   /* below HOT_KINDS_MAX: by which its hits are counted */
    str tag;                         /* entity tag without quotes */
    struct http_ready *full,
        *same; /* 200 (or NULL) and 304; the entry takes references of its own */
};
/* Was this key asked for before, not long ago? It is remembered in one of HOT_SEEN places, by its
 * hash: an answer is made ready at the second request, so that a walk over all titles costs nothing
 * and evicts nothing. */
bool hot_wants(struct app_hot *h, struct hot_key key);
/* Could an answer with a body of that size be kept? A copy for nothing would double what a large
 * answer holds. */
bool hot_takes(const struct app_hot *h, size_t body_bytes);
/* Keeps an entry. An older entry of the key is dropped, also when the new one is too large to keep.
 * Nothing is kept or dropped when the title has changed since opts->seen, when the target or the
 * tag is longer than its limit, or when there is no memory. An entry may take half of its shard's
 * bytes. valid_until is not checked here. */
void hot_put(struct app_hot *h, struct hot_key key, const struct hot_entry_opts *opts);
/* The ready answer with a reference for the caller, or NULL. if_none_match (empty: none) chooses
 * between 200 and 304; an entry that has only the other one is a miss. age_s: of the wiki's last
 * word; -1: the entry has no cell. Reads the clock only for an entry that ends at an
 * instant, or has a cell. Allocates nothing. */
struct http_ready *hot_get(struct app_hot *h, struct hot_key key, struct clock *clock,
                           str if_none_match, int64_t *age_s);

struct hot_stats {
    uint64_t hits, misses, entries, bytes, evicted;
    uint64_t hits_of[HOT_KINDS_MAX];
};
void hot_stats_get(struct app_hot *h, struct hot_stats *out);

#endif
