/* render.h - asks a wiki: renders, metadata of revisions, transforms, titles. Knows the three kinds
 * of origin.
 *
 * parsoid   {url}/{domain}/v3/page/pagebundle/{title}/{rev} and v3/transform/...; api.php beside it
 * rest      {url}/v1/revision/{rev}/html (page-bundle HTML, no data-parsoid);
 * {url}/v1/transform/... where the wiki has
 *           that (core since 1.41): html and wikitext, no bundles
 * template  a URL with {domain}, {title}, {rev}; Content-Revision-Id or the ETag of the reply names
 * the revision
 *
 * A render is made for one revision that was checked to belong to its title; without a revision the
 * origin's newest is asked for first (the origin itself checks neither: docs/peers.md, 3). The
 * tid is not minted here: the store does, and render_head_put writes it into the head. Nothing is
 * stored here and no policy known. Titles: rules of the wiki's siteinfo (namespaces, aliases,
 * case), asked for once and again after siteinfo_ttl; pure once known (title.h).
 * Thread: start from any thread, done on the loop. Every request has a deadline; done exactly once,
 * later. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tid.h"
#include "base/times.h"
#include "codec/newest.h"

#include <stdatomic.h>

struct http_client;
struct limiter_key;
struct limiter_pass;
struct log;
struct loop;
struct metrics;
struct origin; /* of one domain */

enum origin_kind { ORIGIN_PARSOID, ORIGIN_REST, ORIGIN_TEMPLATE, ORIGIN_KINDS };
struct origin_opts {
    enum origin_kind kind;
    const char *url;    /* of rest.php, or the template */
    const char *api;    /* api.php; NULL: url with rest.php -> api.php */
    const char *domain; /* the name the origin knows */
    /* What Authorization says of the server itself, with all it asks; NULL: nothing */
    const char *authorization;
    _Atomic int64_t timeout_ms; /* of one request [30 s]. Atomics may change: origins_limit */
    /* renders at once [8], half as many transforms, and as many for metadata */
    unsigned concurrency;
    _Atomic unsigned retries;        /* of what is safe, after 500, 502, 504 or a cut; 0: none */
    _Atomic size_t reply_bytes_max;  /* [32 MiB] */
    _Atomic int64_t siteinfo_ttl_ms; /* [1 h] */
};
/* Do they make an origin? ERR_BAD: no, with a note that says why and *field, static, of "url" and
 * "api". */
MUST_CHECK err origin_check(const struct origin_opts *opts, const char **field,
                            struct err_note *note);
/* 0 in opts: the default in brackets. Owner: caller; borrowed: client, loop, clock; strings are
 * copied. ERR_BAD: a url without host, a parsoid or rest url without rest.php and no api, an
 * unknown {name} in a template. */
MUST_CHECK err origin_new(struct http_client *client, struct loop *loop, struct clock *clock,
                          const struct origin_opts *opts, struct origin **out,
                          struct err_note *note);
struct origin_limit {
    struct origin *origin;
    const struct origin_opts *opts; /* its numbers count; a 0 of a time or a size is passed over */
};
/* Other limits and times from here on, of all origins of a client at once: those that share a host
 * may have together what the one of them that wants most may. What runs goes on. Thread: the
 * loop's. */
void origins_limit(const struct origin_limit *all, size_t count);
/* All requests are done and the client is stopped, or it never asked for siteinfo (origin_idle).
 * Loop thread. */
void origin_free(struct origin **op);
bool origin_idle(struct origin *o); /* no request of its own is under way */
const struct origin_opts *origin_opts_of(const struct origin *o);
/* Nobody waits for the host, and one render more leaves a place free, or is alone. Thread: any. */
bool origin_has_room(struct origin *o);
/* Since it was made; making, waiting: renders now, which the metrics show as of this call. Thread:
 * any. */
struct origin_stats {
    uint64_t requests, retries, making, waiting;
};
void origin_stats_get(struct origin *o, struct origin_stats *out);
/* What all origins are asked, for /metrics: requests by kind, outcome and domain, their time,
 * retries, failures remembered, renders made and waiting. The first ORIGIN_METRICS_DOMAINS_MAX
 * domains measured have series of their own. m must outlive it, and it the origins. */
enum { ORIGIN_METRICS_DOMAINS_MAX = 32 };
struct origin_metrics;
struct origin_metrics *origin_metrics_new(struct metrics *m);
void origin_metrics_free(struct origin_metrics **mp);
/* From here on; before it is asked anything. */
void origin_measure(struct origin *o, struct origin_metrics *all, str domain);
/* Failed questions for siteinfo are told there, from here on; before it is asked anything. Both
 * outlive the origin. */
void origin_log(struct origin *o, struct log *log, str domain);
/* Somebody was told a remembered failure instead of asking. Thread: any. */
void origin_count_remembered(struct origin *o);
/* Has api.php: siteinfo, metadata. A template without api has not; its titles are keys as the store
 * has them. */
bool origin_has_api(const struct origin *o);

/* Can it transform? Of kind rest the wiki is asked, with the rules of titles. Thread: any. */
enum origin_transforms { TRANSFORMS_NONE, TRANSFORMS_UNKNOWN, TRANSFORMS_HAD };
enum origin_transforms origin_transforms(struct origin *o);

/* Why a render was not had; each is another answer to the client. */
enum render_why {
    RENDER_FINE,
    RENDER_NO_PAGE,     /* the title does not exist, or was deleted: 404 */
    RENDER_NO_REVISION, /* no such revision of this title: 404 */
    RENDER_SUPPRESSED, /* its text is hidden: pages 410; metadata, wikitext and lint 403; transforms
                          409 */
    RENDER_OTHER_TITLE, /* the wiki writes the title in another way, which meta.title has: 301 to
                           that */
    RENDER_DENIED,      /* only some may read there: 403 */
    RENDER_REFUSED,     /* the origin said another 4xx: 400, detail */
    RENDER_BUSY,        /* 408, 425, 429 or 503: 503 with Retry-After */
    RENDER_FAILED,      /* 5xx, cut, invalid JSON, lying about type or revision: 502 */
    RENDER_TIMEOUT,     /* 504 */
    RENDER_LIMIT,       /* too large: 502 */
    RENDER_CANCELED,    /* by render_cancel, or the client is stopped: 503 shutting_down */
    RENDER_WHYS
};

const char *render_why_name(enum render_why w); /* "no_page": for logs and counters */

/* The newest of the wiki's recent changes (codec/newest.h): a copy of its database that is behind
 * shows an older one. */
#define WIKI_NEWEST_QUERY "list=recentchanges&rclimit=1&rcprop=ids%7Ctimestamp"

struct render_content {
    str name, headers, raw;
}; /* headers: "name: value\n" lines: content-type, -language */
/* api.php prop=revisions|info, or what the kind knows; empty where unknown. What is hidden of a
 * revision is empty, and restrictions_json names it. last_rev, touched_s, redirect are the page's,
 * as of said_s: the wiki's word (words.h) before a render was asked for. */
struct render_meta {
    struct wiki_newest newest; /* whatever came of it, when api.php answered */
    str title;                 /* as the wiki writes it, DB key */
    uint64_t page_id, rev, parent_rev, last_rev;
    /* by the wiki's clock, in seconds since 1970; 0: not said. revised_s: timestamp */
    int64_t touched_s, said_s, revised_s;
    int64_t namespace_id, size; /* size: of the text in bytes; 0: not said, or empty */
    str user_text, comment, timestamp, page_language, content_model;
    uint64_t user_id;
    str tags_json, restrictions_json; /* arrays as JSON text */
    bool redirect, text_hidden, user_hidden, comment_hidden, deleted;
};
static inline bool render_is_latest(const struct render_meta *m)
{
    return m->rev != 0 && m->rev == m->last_rev;
}
enum render_want { WANT_RENDER, WANT_META, WANT_WIKITEXT, WANT_LINT, WANT_USER, WANT_LEAVE };
struct render_request {
    /* in; borrowed until done */
    struct origin *origin;
    enum render_want want;
    str title;    /* a key */
    uint64_t rev; /* 0: the newest */
    /* RENDER of the newest, by core's routes: will what the wiki has in its cache not do? Asked
     * once meta is there; NULL: it will. Else the page is purged first, which touches it */
    bool (*fresh)(const struct render_request *r);
    str accept, accept_language, cookie; /* passed on when not empty */
    str authorization;                   /* LEAVE: of whoever wants to read */
    mono deadline;
    /* A holder of the client's limiter that entered with render_source: while it is IN the request
     * waits for no turn. It rests when the origin has done its part. NULL, resting: it has none */
    struct limiter_pass *pass;
    struct arena *arena;
    void (*done)(struct render_request *r, enum render_why why);
    /* NULL, or instead of done when the text came: on the pool, where it was parsed */
    void (*parsed)(struct render_request *r, enum render_why why);
    void *ctx;
    /* out; strings in the arena. meta: newest always; also when the page was found and the render
     * was not (SUPPRESSED); OTHER_TITLE: its title and namespace_id alone; NO_PAGE: said_s alone */
    struct render_meta meta;
    struct render_content contents[4]; /* html, data-parsoid, ...; WIKITEXT, LINT: one */
    unsigned contents_count;
    uint64_t user_id; /* USER: whose the cookie is, as the wiki says; 0: nobody's in particular */
    bool may_read, purged; /* LEAVE; fresh: before meta was said */
    int64_t retry_after_s; /* BUSY: 0 when not said */
    str redirect_to; /* the revision is a redirect: the target's key (from the HTML), else empty */
    str redirect_fragment;    /* behind #, encoded as in the HTML; may be empty */
    struct err_note note;     /* not FINE: a sentence without addresses */
    struct render_work *work; /* the module's */
};
/* META and a RENDER without revision: one request for metadata; RENDER: then one for the text.
 * title is a key of this wiki (title_normalise); a revision that is not this title's, also because
 * the page was moved, is NO_REVISION. Rules change, and capitals of some letters differ between
 * wikis: where the wiki has the title normalised to another key, that is OTHER_TITLE. Of a revision
 * this costs one request more, asked only for titles that may be such. USER: one request; title and
 * revision are not looked at. LEAVE: may who has this cookie and authorization read the title
 * (empty: whatever page of the wiki)? One request, without the server's own authorization; DENIED:
 * no, nothing of it. BUSY without a request when too many wait already for their turn; each want is
 * one of three kinds of calls there (loop/limiter.h). Replies are parsed on the pool. Thread: any;
 * done on the loop, later. */
void render_start(struct render_request *r);
/* done comes soon, with CANCELED unless it is on its way already. Thread: the loop's. */
void render_cancel(struct render_request *r);
/* Whose turn such a request is: of the origin, the domain and the kind. Also the source of flights:
 * those that wait for slow renders must not take the places of cheap ones. The origin's. */
const struct limiter_key *render_source(const struct origin *o, enum render_want want);

/* A transform at the origin: POST {domain}/v3/transform/{from}/to/{to}[/{title}[/{rev}]] with a
 * JSON body, of kind rest v1/transform/... REFUSED where origin_transforms is not HAD.
 * Promise-Non-Write-API-Action: true is always sent. At most half the origin's concurrency at once,
 * the rest wait. */
enum transform_empty {
    EMPTY_NEVER, /* something with text was sent: no text comes of it when the origin is broken */
    EMPTY_IF_NAMED, /* when the reply's type names the wikitext specification, as a serialiser's
                       does */
    EMPTY_FINE,
};
struct transform_request {
    struct origin *origin;
    const char *from, *to;      /* "html", "pagebundle", "wikitext", "lint" */
    str title;                  /* empty: none */
    uint64_t rev;               /* 0: none */
    str body;                   /* JSON */
    enum transform_empty empty; /* may the reply be? */
    str accept; /* as a client of HTML sends it; goes out, said for bundles, with html and
                   pagebundle */
    str accept_language, cookie;
    mono deadline;
    struct arena *arena;
    void (*done)(struct transform_request *t, enum render_why why);
    void *ctx;
    /* out. FINE: status is 200, the reply of the type asked for, in UTF-8, whole (a bundle is to be
     * taken apart yet). REFUSED, NO_REVISION (404): reply and content_type are the origin's, as
     * they came */
    int status; /* the origin's; 0: no reply */
    str content_type, reply;
    int64_t retry_after_s;
    struct err_note note;
    struct transform_work *work; /* the module's */
};
void transform_start(struct transform_request *t); /* threads as render_start */
void transform_cancel(struct transform_request *t);
/* A pagebundle reply or body taken apart on the calling thread (large ones: on the pool): html and
 * its headers, then data-parsoid as JSON text; of a page that is no wikitext a fragment of HTML
 * alone, which is for readers. ERR_BAD with a note: no bundle, or a half one (no head, no ids);
 * ERR_LIMIT: arena full. */
MUST_CHECK err pagebundle_parse(str json, struct arena *a, struct render_content *out, unsigned max,
                                unsigned *count, struct err_note *note);

/* The HTML alone, whole or a fragment. As above; what is not looked at may be anything. */
MUST_CHECK err pagebundle_html(str json, struct arena *a, struct render_content *out,
                               struct err_note *note);

#endif
