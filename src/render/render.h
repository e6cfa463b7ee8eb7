/* render.h - asks a wiki: renders, metadata of revisions, transforms, titles. Knows the three kinds of origin.
 *
 * parsoid   {url}/{domain}/v3/page/pagebundle/{title}/{rev} and v3/transform/...; api.php beside it
 * rest      {url}/v1/revision/{rev}/html (page-bundle HTML, no data-parsoid); transforms are refused
 * template  a URL with {domain}, {title}, {rev}; Content-Revision-Id or the ETag of the reply names the revision
 *
 * A render is made for one revision that was checked to belong to its title; without a revision the origin's newest
 * is asked for first (notes mediawiki.md 2: the origin itself checks neither). The tid is not minted here: the
 * store does, and render_head_put writes it into the head. Nothing is stored here and no policy known.
 * Titles: rules of the wiki's siteinfo (namespaces, aliases, case), asked for once and again after siteinfo_ttl;
 * pure once known (title.h).
 * Thread: start from any thread, done on the loop. Every request has a deadline; done exactly once, later. */
#ifndef RENDER_RENDER_H
#define RENDER_RENDER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tid.h"
#include "base/times.h"
#include "http/http.h"

struct http_client;
struct loop;
struct origin;   /* of one domain */

enum origin_kind { ORIGIN_PARSOID, ORIGIN_REST, ORIGIN_TEMPLATE, ORIGIN_KINDS };
struct origin_opts {
    enum origin_kind kind;
    const char *url;             /* of rest.php, or the template */
    const char *api;             /* api.php; NULL: url with rest.php -> api.php */
    const char *domain;          /* the name the origin knows */
    int64_t timeout_ms;          /* of one request [30 s] */
    unsigned concurrency;        /* requests at once [8] */
    unsigned retries;            /* of what is safe, after 5xx or a cut [1] */
    size_t reply_bytes_max;      /* [32 MiB] */
    int64_t siteinfo_ttl_ms;     /* [1 h] */
};
/* Owner: caller; borrowed: client, strings. ERR_BAD: a url without host, an unknown {name} in a template. */
MUST_CHECK err origin_new(struct http_client *client, struct loop *loop, struct clock *clock,
                          const struct origin_opts *opts, struct origin **out, struct err_note *note);
void origin_free(struct origin **op);  /* all requests are done */
const struct origin_opts *origin_opts_of(const struct origin *o);

/* Why a render was not had; each is another answer to the client. */
enum render_why {
    RENDER_FINE,
    RENDER_NO_PAGE,        /* the title does not exist, or was deleted: 404 */
    RENDER_NO_REVISION,    /* no such revision of this title: 404 */
    RENDER_SUPPRESSED,     /* its text is hidden: 403 access_denied#revision, 410 in transforms' 409/410 rules */
    RENDER_REFUSED,        /* the origin said 4xx: 400, detail */
    RENDER_BUSY,           /* 429 or 503: 503 with Retry-After */
    RENDER_FAILED,         /* 5xx, cut, invalid JSON, lying about type or revision: 502 */
    RENDER_TIMEOUT,        /* 504 */
    RENDER_LIMIT,          /* too large: 502 */
    RENDER_WHYS
};

struct render_content { str name, headers, raw; }; /* headers: "name: value\n" lines, sane ones */
struct render_meta {       /* api.php prop=revisions|info, or what the kind knows; empty where unknown */
    str title;             /* as the wiki writes it, DB key */
    uint64_t page_id, rev, parent_rev;
    int64_t namespace_id;
    str user_text, comment, timestamp, page_language, content_model;
    uint64_t user_id;
    str tags_json, restrictions_json; /* arrays as JSON text */
    bool redirect, text_hidden, user_hidden, comment_hidden, deleted, latest;
};
enum render_want { WANT_RENDER, WANT_META, WANT_WIKITEXT, WANT_LINT };
struct render_request {
    /* in; borrowed until done */
    struct origin *origin;
    enum render_want want;
    str title;                 /* a key */
    uint64_t rev;              /* 0: the newest */
    str accept, accept_language, cookie; /* passed on when not empty */
    mono deadline;
    struct arena *arena;
    void (*done)(struct render_request *r, enum render_why why);
    void *ctx;
    /* out */
    struct render_meta meta;
    struct render_content contents[4]; /* html, data-parsoid, ...; WIKITEXT, LINT: one */
    unsigned contents_count;
    int64_t retry_after_s;     /* BUSY: 0 when not said */
    str redirect_to;           /* the page is a redirect: the target's key with its fragment (from the HTML) */
    struct err_note note;
    void *own[64];
};
void render_start(struct render_request *r);
void render_cancel(struct render_request *r);

/* A transform at the origin: POST {domain}/v3/transform/{from}/to/{to}[/{title}[/{rev}]] with a JSON body.
 * Promise-Non-Write-API-Action: true is always sent. */
struct transform_request {
    struct origin *origin;
    const char *from, *to;     /* "html", "pagebundle", "wikitext", "lint" */
    str title;                 /* empty: none */
    uint64_t rev;              /* 0: none */
    str body;                  /* JSON */
    str accept, accept_language, cookie;
    mono deadline;
    struct arena *arena;
    void (*done)(struct transform_request *t, enum render_why why);
    void *ctx;
    int status;                /* the origin's */
    str content_type, reply;
    int64_t retry_after_s;
    struct err_note note;
    void *own[48];
};
void transform_start(struct transform_request *t);
void transform_cancel(struct transform_request *t);

/* ---- titles; pure once siteinfo is there ---- */
struct siteinfo;               /* counted; borrowed from the origin through render_siteinfo */
/* NULL: not known yet; then siteinfo_wait calls got on the loop when it is or cannot be had (why). Thread: any. */
struct siteinfo *origin_siteinfo(struct origin *o);
void siteinfo_unref(struct siteinfo **sp);
struct siteinfo_waiter {
    mono deadline;
    void (*got)(struct siteinfo_waiter *w, enum render_why why, const struct err_note *note);
    void *ctx;
    void *own[8];
};
void origin_siteinfo_wait(struct origin *o, struct siteinfo_waiter *w);
struct title_key {
    str key;                   /* underscores, normalised; in the arena */
    int64_t namespace_id;
    bool changed;              /* not what the client wrote: a candidate for 301 */
};
/* ERR_BAD with a note: no title of this wiki. A DB key with any of its namespace prefixes is not changed when
 * it is normal already. */
MUST_CHECK err title_normalise(const struct siteinfo *s, struct arena *a, str title, struct title_key *out,
                               struct err_note *note);
/* Canonical URL of a page under the wiki, for content-location; empty when unknown. */
MUST_CHECK err siteinfo_json_parse(str json, struct siteinfo **out, struct err_note *note);

/* ---- HTML heads; pure ---- */
/* html with <meta property="mw:TimeUuid" content="TID"/> behind its <head ...>; unchanged when there is no head. */
MUST_CHECK err render_head_put(struct arena *a, str html, struct tid tid, str *out);
/* The tid the head names. */
MUST_CHECK bool render_head_tid(str html, struct tid *out);
/* The revision a page's head names (<html about=".../revision/N">); 0: none. */
uint64_t render_head_rev(str html);

#endif
