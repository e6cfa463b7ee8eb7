/* pages.h - the embedded page store: page buckets on an engine. What it does: store/page_store.h.
 */
#ifndef BUCKET_PAGES_H
#define BUCKET_PAGES_H

#include "store/page_store.h"

#include <stdatomic.h>

struct engine;
struct event_log;
struct pages; /* all page buckets of a store */

struct pages_opts {
    struct engine *engine;
    struct clock *clock;
    uint64_t seed;
    const struct page_bucket_opts *buckets;
    unsigned buckets_count;
};
/* Loads the catalog, creates missing buckets; a bucket whose policy changed is planned anew in the
 * background by upkeep. seed: of minted tids. The engine is started; blocks. A changed policy
 * judges what is stored as of the change: nothing is gone earlier than that, what was gone stays
 * gone, and what latest or interval do not keep went out then (or when it did, if the policy before
 * was one of them). A bucket no longer given is culled by its last policy. Fails: ERR_BAD (a policy
 * contradicts itself), ERR_LIMIT, ERR_IO, ERR_CORRUPT. */
MUST_CHECK err pages_new(const struct pages_opts *o, struct pages **out, struct err_note *note);
/* Other policies of these buckets from here on, as a start with them would bring them: all of them
 * or none. What is there is planned anew in the background by upkeep. First waits for such a
 * planning that is still under way, which may take long, until *stop. Blocks: a pool job, one at a
 * time. stop: may be NULL. ERR_BAD (a policy contradicts itself, there is no such bucket),
 * ERR_FULL, ERR_IO, ERR_CORRUPT, ERR_SHUTDOWN. */
struct pages_policy {
    str bucket;
    struct page_policy policy;
};
MUST_CHECK err pages_policies(struct pages *p, const struct pages_policy *all, unsigned count,
                              const atomic_bool *stop, struct err_note *note);
/* What becomes of renders, as streams of the event log. */
enum page_stream { STREAM_RENDER, STREAM_GONE, STREAM_DATED, PAGE_STREAMS };
const char *page_stream_name(enum page_stream s); /* "palimpsest.render" */
/* From here on the changes that these streams tell of (bits of enum page_stream) are appended to
 * log, which is of the same engine, each in the update that makes it. seed: of ids of events.
 * Before the first update; blocks. ERR_IO, ERR_CORRUPT. */
MUST_CHECK err pages_append_to(struct pages *p, struct event_log *log, unsigned streams,
                               uint64_t seed);
/* Other streams from here on. An update that was under way may be told by the streams of before or
 * by these. After pages_append_to. Thread: any. */
void pages_stream(struct pages *p, unsigned streams);
/* The engine is closed. */
void pages_free(struct pages **pp);
/* Lives as long as p. */
struct page_store *pages_store(struct pages *p);
/* Where what is not in memory is read from here on [the caller's thread]. */
void pages_read_on(struct pages *p, struct home *pool);

#endif
