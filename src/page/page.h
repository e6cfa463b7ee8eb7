/* page.h - the page service: pages of wikis, whoever asks for them and however.
 *
 * Model. A service stands on a page store and, for domains with an origin, on flights: it reads
 * what is stored, has made what is missing, and keeps what the wiki says against stored renders. It
 * knows no request and no answer of HTTP: values go in, values come out. Whoever asks names a home,
 * and all that is told to it is told there.
 *
 *   get.h    one read of a content           make.h   a render that is missing, made once for all
 *   title.h  titles as the wiki writes them  ask.h    the wiki is asked, and its word is marked
 *   wiki.h, wiki_get.h  what it alone knows  tell.h   purges and marks, to and from other servers
 *   check.h  the wiki is asked for words     sweep.h  about all that is stored
 *   redo.h  all of a domain is made anew, by and by
 *   hop.h    what another server has          sealed.h  what it leaves in Redis
 *   secondary.h  what another store has, which is only read
 *   stash.h, kept.h  what is kept for editors  transform.h  what editors have the wiki do
 *   listing.h  renders of a title, titles of a domain   changes.h  did a title change since?
 *   trust.h, check.h, trusted.h  how old the wiki's word is, and asking for it
 *   remake.h  renders that nobody waits for   leave.h  private wikis
 *   Pure: condition.h, range.h, coding.h, etag.h, location.h, profile.h, headers.h, content.h,
 * declared.h, travel.h, bundle.h, json.h, transform_body.h.
 *
 * The structs here are built once by server/boot.c, which owns every part. */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include "page/trust.h"
#include "page/wiki_url.h"
#include "render/render.h"
#include "store/page_store.h"

#include <stdatomic.h>

struct budget;
struct clock;
struct flight_shared;
struct flights;
struct log;
struct loop;
struct metric;
struct page_changes;
struct page_checks;
struct page_leaves;
struct page_looks;
struct page_noted;
struct page_quota;
struct page_remakes;
struct page_secondary;
struct page_sweeps;
struct peers;

/* What the operator chose for a bucket. Lives as long as the service. */
struct page_settings {
    struct page_bucket *bucket;
    const struct page_bucket_opts *opts; /* name, contents, policy */
    const char *cache_control;           /* of answers with content; NULL: the default, private */
    int64_t age_s_max; /* Age says no more, or caches that cache_control allows would give nothing;
                          0: no limit */
    int64_t stale_if_error_ns; /* how old a render may be that is served because making it anew
                                  failed */
    unsigned stash_per_s_max;  /* of one client; 0: no limit */
};

/* Who makes a render anew that the wiki's word calls old: its next reader; the server that heard
 * the word, at once, or so many in a second; or nobody, when its page was touched at the same
 * revision. What the server is to make, a reader who comes before has made. */
enum page_rerender { RERENDER_ON_READ, RERENDER_AT_ONCE, RERENDER_PACED, RERENDER_NEVER };
/* Of what the server makes by itself (remake.h). */
struct page_rerender_limits {
    unsigned concurrency; /* at once */
    unsigned rate;        /* PACED: begun in a second */
};
/* The last line in the log; failures since. */
struct page_failures {
    mono at;
    uint64_t count;
};
struct page_domain {
    str name;
    uint32_t number;
    struct origin *origin;         /* NULL: it has none, and what is missing stays missing */
    bool forward_cookies;          /* to the origin, with transforms */
    struct trust_rules trust;      /* with an origin that has api.php */
    _Atomic int64_t check_wait_ms; /* how long a reader waits for a word */
    bool is_private;               /* who reads is asked about first (leave.h) */
    int64_t leave_ttl_ms;
    struct wiki_place place; /* what purges and events call it */
    /* all its titles are asked about in so long; 0, NEVER: not */
    _Atomic int64_t sweep_period_ns;
    _Atomic enum page_rerender rerender;
    struct page_rerender_limits rerenders; /* as of the start: page_remakes_limit */
    /* one so old is made anew, too; 0, NEVER: for this alone not */
    _Atomic int64_t rerender_after_ns;
    _Atomic int64_t *redo_ns;       /* store_time: one made before this, too (redo.h); NULL: none */
    struct metric *visible;         /* how long changes took to be stored; NULL: nobody counts */
    atomic_bool *closed;            /* the wiki said last that it is not for us to read (check.h) */
    _Atomic int64_t *busy_until_ns; /* mono: the origin has asked to be left alone until then */
    struct page_failures *failures; /* ERR_CODES of them, loop thread; NULL without an origin */
};

struct page_service {
    struct page_store *store;
    struct page_bucket *previews; /* transformed wikitext, kept for editors (stash.h); NULL: no
                                     domain has an origin */
    /* The first is "page". Another array, as long, takes its place when settings change; what a
     * request began with stays. */
    const struct page_settings *_Atomic buckets;
    unsigned buckets_count;
    const struct page_domain *domains; /* sorted by name */
    unsigned domains_count;
    struct flights *flights;      /* NULL: no domain has an origin */
    struct flight_shared *shared; /* NULL: no Redis is configured */
    struct peers *peers;      /* hop.h: who has what we lack; NULL: nobody is asked. With shared */
    struct page_noted *noted; /* with peers */
    struct page_secondary *secondary; /* what is not stored may lie there; NULL: there is none */
    struct page_changes *changes;
    struct page_trust *trust;     /* NULL: no domain has an origin with api.php */
    struct page_checks *checks;   /* with trust */
    struct page_remakes *remakes; /* with trust */
    struct page_leaves *leaves;   /* NULL: no domain keeps any */
    struct page_looks *looks;     /* with trust */
    struct page_sweeps *sweeps;   /* with trust */
    store_time began;             /* when the server started */
    struct page_quota *quota;     /* what may be kept for editors */
    struct loop *loop;
    struct clock *clock;
    struct log *log;
    struct budget *budget;    /* what requests hold; NULL: it is not counted */
    size_t arena_bytes_max;   /* of one making */
    int64_t write_timeout_ms; /* of one put or order */
    bool shared_store;        /* other servers write to it, too */
    int64_t hot_ttl_ns; /* then: how long what was read may be answered again unread; 0: never */
    void (*shape_free)(void *shape); /* make.h; NULL: no waiter builds one */
};

/* Of all buckets, as of now. An atomic that is indexed as it stands is no atomic load with gcc. */
static inline const struct page_settings *page_settings_now(const struct page_service *s)
{
    return atomic_load_explicit(&s->buckets, memory_order_acquire);
}

/* What a request is about. Strings are borrowed. */
struct page_target {
    const struct page_domain *domain;
    const struct page_settings *settings;
    str content; /* empty: none is named */
    str title;   /* a key; empty: none is named */
    bool has_rev, has_tid;
    struct page_name name;
};
/* The selection the names themselves make: latest, revision or exact. */
struct page_which page_target_which(const struct page_target *t);
/* Could an origin make what this names? */
bool page_target_can_be_made(const struct page_target *t);
/* What is kept of it for an editor is to be saved later: without the data of a page bundle that
 * could not be done as it was. */
bool page_target_can_be_edited(const struct page_target *t);

/* Do those of that bucket hold for requests that begin now? */
bool page_settings_hold(const struct page_service *s, const struct page_settings *settings);
/* NULL: not configured. */
const struct page_domain *page_domain_find(const struct page_service *s, str name);
const struct page_settings *page_settings_find(const struct page_service *s, str name);
/* Is the wiki asked whether what is stored is still what it has? */
bool page_is_asked(const struct page_service *s, const struct page_domain *d);
/* Is what its words call old made anew without a reader? */
bool page_rerenders(const struct page_service *s, const struct page_domain *d);
/* May what stands under its titles go to other servers? Not that of a private wiki; words, marks
 * and purges do. */
bool page_contents_travel(const struct page_domain *d);
/* Until when a write must have begun. */
mono page_write_deadline(const struct page_service *s);

/* What a failure of an origin is to callers. */
err page_err_of_render(enum render_why why);
/* After a failure of the origin: may what is stored be given instead? Not when it is no outage, or
 * the render is older than stale_if_error. */
bool page_may_be_stale(const struct page_service *s, const struct page_target *t, err why,
                       struct tid tid);
/* The origin failed, and said (BUSY) for how long it wants to be left alone. */
void page_heed(const struct page_service *s, const struct page_target *t, enum render_why why,
               int64_t retry_after_s);
/* When to come again after a failure that is remembered so long: not before the origin wants. */
int64_t page_retry_ms(const struct page_service *s, const struct page_target *t, err why,
                      int64_t remembered_ms);

#endif
