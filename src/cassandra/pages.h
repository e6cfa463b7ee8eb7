/* pages.h - renders of pages on Cassandra: reads, puts, orders, explanations, histories, decided on
 * any number of servers.
 *
 * Model. Each request loads the facts of its title (titles.h), derives the title (title/derive.h)
 * and decides on it, as the embedded store decides on its rows (title/decide.h): the same machine,
 * so the same answers. What a decision makes are facts, which are appended. Two servers that decide
 * at once both append; the fold says later which came first. So a condition (If-Match) is judged on
 * what was acknowledged before the request began, and not against a request beside it.
 *   The time of a fact is title_stamp of what its decision saw. A title whose facts are ahead of
 * this server's clock by more than the skew allowed is not written to: ERR_UNAVAILABLE, and the
 * note begins with "clock_skew". Reads go on.
 *   The wiki's word is of a title in all its buckets: rows beside the facts (words.h). What follows
 * from it is facts in each bucket, which are written before the word; what hides is a fact also
 * when no render is there yet. So a put that was asked for before is hidden, whichever of both is
 * written first, and a word that is acknowledged is seen by each read that begins afterwards. A
 * read or put that heeds the word loads it beside the facts. Why so: docs/adr/0047.
 *   Listings find titles by rows of their own (lists.h), which are written before the facts: a put
 * into a title that has a put needs none. Titles are then derived one by one, LISTS_LOADS_MAX at a
 * time. A listing is of no single instant.
 *   Upkeep of one title is cassandra_pages_cull. sweep.h finds the titles: by rows that say when
 * something is due (due.h), which are filed beside what makes it due; and by going through all.
 * Requests: those of store/page_read.h, page_write.h, page_word.h and page_sweep.h. Each is
 * STORE_LATER. Followers are not here yet (issue 16).
 * Thread: any, unless said. */
#ifndef CASSANDRA_PAGES_H
#define CASSANDRA_PAGES_H

#include "cassandra/titles.h"
#include "store/page_store.h"

enum { CASSANDRA_BUCKETS_MAX = 64, CASSANDRA_DOMAINS_MAX = 65536 };

struct cassandra_pages;
struct skew_guard;
struct cassandra_pages_opts {
    struct titles *titles; /* outlives it */
    struct clock *clock;
    struct log *log;   /* NULL: silent */
    struct home *pool; /* where bytes are hashed and compressed; NULL: at the home of each call */
    uint32_t srv;      /* of this run of this server: no two have the same */
    /* How far clocks may be wrong; the longest from a decision to the end of its write; the longest
     * making of a render. Bytes and facts are deleted when all three have passed */
    int64_t max_skew_ns, write_timeout_ns, making_ns;
    const struct skew_guard *guard; /* of the clock (skew.h); NULL: none */
    /* Of a title that are kept at once, but for those that policy keeps for good; one more is
     * ERR_AGAIN; 0: no limit */
    unsigned renders_max;
    const struct page_bucket_opts *buckets; /* borrowed for its life */
    unsigned buckets_count;
    /* How often a title is filed that has something due (due.h): 1 always, 0.1 one time of ten, 0
     * never: then the sweep alone finds it. dc: of this server; NULL: "" */
    double due_sample;
    const char *dc;
    /* What hides something is acknowledged by a quorum of each data centre. With one that cannot be
     * had it is hidden here, and an error all the same */
    bool each_quorum;
};
/* NULL: ERR_BAD with a note: a policy without a window (latest_hash, or a grace_ttl below ten times
 * the skew), which cannot promise pins across servers; too many buckets. */
struct cassandra_pages *cassandra_pages_new(const struct cassandra_pages_opts *o,
                                            struct err_note *note);
void cassandra_pages_free(struct cassandra_pages **pp); /* no request is under way */

/* The number of a domain in this process. ERR_LIMIT: CASSANDRA_DOMAINS_MAX. */
MUST_CHECK err cassandra_pages_domain(struct cassandra_pages *p, str name, uint32_t *out);
struct page_bucket *cassandra_pages_bucket(struct cassandra_pages *p, str name); /* NULL: none */
/* The one in force now; lives as long as the store. */
const struct page_policy *cassandra_pages_bucket_policy(const struct page_bucket *b);
uint16_t cassandra_pages_bucket_number(const struct page_bucket *b);
/* The number of this run, where opts.srv was not known yet. Before the first request. */
void cassandra_pages_number(struct cassandra_pages *p, uint32_t srv);
/* As page_store_listen. It is told of a write that failed, too: it may have happened. */
void cassandra_pages_listen(struct cassandra_pages *p, const struct page_listener *l);
void cassandra_pages_stats(struct cassandra_pages *p, struct pages_stats *out);

/* ---- policies (policies.h) ----
 * A store that is told nothing more has the policies of its options, from the beginning. */
struct catalog_rows;
struct catalog_watch;
/* Those of the catalogue's scope "policies" from now on, which hold at least a policy of each
 * bucket. All or nothing: on an error the store keeps what it has, and refuses requests once it is
 * watched. ERR_BAD: a policy as of cassandra_pages_new; ERR_CONFLICT, ERR_CORRUPT, ERR_LIMIT.
 * Thread: one at a time. */
MUST_CHECK err cassandra_pages_plan(struct cassandra_pages *p, const struct catalog_rows *rows,
                                    struct err_note *note);
/* Requests are ERR_UNAVAILABLE while the watch's copy is older than POLICIES_STALE_MS: a policy may
 * have come that this server does not know. Before the first request; the watch outlives p. */
void cassandra_pages_watch(struct cassandra_pages *p, const struct catalog_watch *w);
/* policies_check with the policies of the options. */
MUST_CHECK err cassandra_pages_same(const struct cassandra_pages *p,
                                    const struct catalog_rows *rows, struct err_note *note);

/* The upkeep of one title: bytes that no one will be shown again are deleted, facts that say
 * nothing any more are forgotten. What the title answers does not change. Safe at any time, on any
 * number of servers at once. call.why: as of an order; ERR_OK also when there was nothing to do. */
struct cassandra_cull {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    uint32_t domain;
    str title;
    /* out */
    unsigned ranges;    /* of names whose bytes were deleted */
    unsigned forgotten; /* facts */
    bool unlisted;      /* nothing is left of it, and listings look for it no more */
    store_time next;    /* when there will be more to do, as far as is known; NEVER */
    struct err_note note;
};
enum store_start cassandra_pages_cull(struct cassandra_pages *p, struct cassandra_cull *c);

/* As page_store_read, _put, _order, _explain, _list. STASHES: an index says which titles have any;
 * steps are the renders of these alone, and one for each that has none left. A title whose facts
 * cannot be read is told to `damaged` without a name. */
enum store_start cassandra_pages_read(struct cassandra_pages *p, struct page_read *r);
enum store_start cassandra_pages_put(struct cassandra_pages *p, struct page_put *q);
enum store_start cassandra_pages_order(struct cassandra_pages *p, struct page_order *o);
enum store_start cassandra_pages_explain(struct cassandra_pages *p, struct page_explain *x);
enum store_start cassandra_pages_list(struct cassandra_pages *p, struct page_list *l);
/* As page_store_walk. A title counts as stored until its last render was forgotten, and for a while
 * when its first put failed. Words are not told: titles of which a word alone is left are not
 * met. */
enum store_start cassandra_pages_walk(struct cassandra_pages *p, struct page_walk *w);

/* ---- the wiki's word ---- */

/* As page_store_hear, _knows, _revs, _forget, _note_put; each is STORE_LATER. */
enum store_start cassandra_pages_hear(struct cassandra_pages *p, struct page_hear *h);
enum store_start cassandra_pages_knows(struct cassandra_pages *p, struct page_knows *k);
enum store_start cassandra_pages_revs(struct cassandra_pages *p, struct page_revs *r);
enum store_start cassandra_pages_forget(struct cassandra_pages *p, struct page_forget *f);
enum store_start cassandra_pages_note_put(struct cassandra_pages *p, struct page_note_put *n);

/* call.why: ERR_NOT_FOUND: none was ever put. */
struct cassandra_note_get {
    struct store_call call;
    /* in */
    uint32_t domain;
    enum page_note note;
    /* out */
    char bytes[PAGE_NOTE_BYTES_MAX];
    size_t n;
};
enum store_start cassandra_pages_note_get(struct cassandra_pages *p, struct cassandra_note_get *n);

#endif
