/* stored.h - one render of a title as its row says it, and what is left of it when it is gone.
 *
 * Plain values: copy them freely. Pure. */
#ifndef TITLE_STORED_H
#define TITLE_STORED_H

#include "base/str.h"
#include "base/tid.h"
#include "base/times.h"
#include "title/policy.h"

enum {
    PAGE_CONTENTS_MAX = 16,
    PAGE_CONTENT_NAME_BYTES_MAX = 32,
    /* rows (SERVED_AT) or revisions (CURRENT_AT) looked at for one answer */
    PAGE_AT_STEPS_MAX = 100000,
};
#define PAGE_REV_MAX INT64_MAX

enum page_state {
    PAGE_CURRENT,
    PAGE_RECENT,
    PAGE_HISTORICAL,
    PAGE_HELD,
    PAGE_ARCHIVE,
    PAGE_CULLED,
    PAGE_PURGED,
    PAGE_SUPPRESSED,
    PAGE_UNKNOWN,
    PAGE_DELETED,
    PAGE_STATES
};
const char *page_state_name(enum page_state s);

struct page_content {
    char name[PAGE_CONTENT_NAME_BYTES_MAX + 1];
    enum page_codec codec;
    uint32_t offset, headers_bytes, stored_bytes,
        raw_bytes; /* headers, then the stored frame, at offset in the blob */
    uint64_t sum;  /* XXH3-64 of headers and frame */
};
struct page_name {
    uint64_t rev;
    struct tid tid; /* zero: no render of rev was seen yet */
};
static inline bool page_name_is_unmade(struct page_name n)
{
    return n.tid.ticks == 0 && n.tid.low == 0;
}
/* (rev, tid) order: <0, 0, >0. */
int page_name_cmp(struct page_name a, struct page_name b);
/* The least and the greatest name of a revision, whatever its tids. */
struct page_name page_name_low(uint64_t rev);
struct page_name page_name_high(uint64_t rev);
/* The next name above, the next one below. Invariant: there is one. */
struct page_name page_name_above(struct page_name name);
struct page_name page_name_below(struct page_name name);
/* The least and the greatest name there can be. */
extern const struct page_name page_name_first, page_name_last;

/* What the wiki said of the page just before it made a render, by its clock, in seconds since 1970:
 * when the page was touched, and when it said so; and when it was asked, by ours (of a render that
 * another server made: when it came). said 0: nothing, or no wiki made it. */
struct title_under {
    int64_t touched, said;
    store_time asked_at;
};
/* Was a made later than b? */
static inline bool title_under_later(struct title_under a, struct title_under b)
{
    if (a.touched != b.touched)
        return a.touched > b.touched;
    return a.said != b.said ? a.said > b.said : a.asked_at.ns > b.asked_at.ns;
}

/* Where a store has the bytes of a render: its own words, which nobody else reads. */
struct page_where {
    uint64_t words[6];
};
struct page_render {
    struct page_name name;
    store_time stored_at;     /* arrival */
    store_time superseded_at; /* NEVER: it is the latest */
    struct page_name superseded_by;
    store_time out_at; /* when policy stopped keeping it, NEVER while it does; ttl: stored_at */
    store_time requested_until, stash_until, hold_until; /* ZERO: none */
    /* CURRENT: no; SUPPRESSED, DELETED: what the origin said of it, as of hidden_at */
    enum page_state hidden;
    store_time hidden_at;
    struct title_under made;
    store_time due_at; /* NEVER or the greatest that applies */
    unsigned contents_count;
    struct page_content contents[PAGE_CONTENTS_MAX];
    enum page_state state;   /* at the time it was read */
    struct page_where where; /* valid as the store says */
};
const struct page_content *page_content_find(const struct page_render *r, str name); /* NULL */
/* As stored: headers and frames. Pure. */
uint64_t page_render_bytes(const struct page_render *r);

/* What is left of a render that is gone. */
struct page_trace {
    struct page_name name;
    enum page_state state; /* culled, purged, suppressed */
    store_time at;
    enum page_policy_kind policy;
    store_time superseded_at;
    struct page_name superseded_by;
};

/* What a read asks for. SERVED_AT: of those stored the one that was latest then; CURRENT_AT: the
 * newest of the greatest revision of which a render not newer than that is known or traced. */
enum page_select { SELECT_LATEST, SELECT_REV, SELECT_EXACT, SELECT_SERVED_AT, SELECT_CURRENT_AT };

/* What is asked of renders that are stored. */
enum page_order_kind {
    ORDER_EXTEND,
    ORDER_STASH,
    ORDER_UNSTASH,
    ORDER_HOLD,
    ORDER_RELEASE,
    ORDER_PURGE
};

struct page_explanation {
    struct page_render render;    /* when stored */
    struct page_trace trace;      /* when gone */
    enum page_state state;        /* UNKNOWN: neither */
    enum page_policy_kind policy; /* in force; of what is gone its trace says which it was */
    const char *reason;           /* a sentence, static */
    bool stashed, held, requested;
    /* newer renders gone past because they are damaged (not when EXACT: ERR_CORRUPT) */
    unsigned passed;
    struct page_name passed_name; /* the newest; rev 0: unreadable */
};

#endif
