/* title_rules.h - titles by the rules of a wiki, and what heads of its HTML say. Part of render.h.
 */
#ifndef RENDER_TITLE_RULES_H
#define RENDER_TITLE_RULES_H

#include "render/render.h"

/* ---- titles; pure once siteinfo is there ---- */
struct siteinfo; /* counted, read only */
/* A reference, or NULL: not known yet (and being asked for). One older than siteinfo_ttl is still
 * given while it is asked for again, and while the wiki does not answer. Thread: any. */
struct siteinfo *origin_siteinfo(struct origin *o);
void siteinfo_unref(struct siteinfo **sp);
struct siteinfo_waiter {
    mono deadline;
    bool transforms; /* waits until origin_transforms is not UNKNOWN, too */
    void (*got)(struct siteinfo_waiter *w, enum render_why why, const struct err_note *note);
    void *ctx;
    struct siteinfo_waiter *next; /* the module's */
    struct origin *origin;
    enum render_why why;
};
/* got is called once, on the loop, later: FINE: origin_siteinfo has it; else why it cannot be had.
 * Thread: any. */
void origin_siteinfo_wait(struct origin *o, struct siteinfo_waiter *w);
struct title_key {
    str key;              /* underscores, normalised, without fragment; in the arena */
    int64_t namespace_id; /* < 0: no page can have it (Special, Media) */
    bool changed; /* not what the client wrote: a candidate for 301. A namespace written as any
                     of its names, letter for letter, is no change, though key has the
                     local one */
};
/* title is decoded. ERR_BAD with a note: no title of this wiki (also: of another wiki); ERR_LIMIT:
 * arena full. */
MUST_CHECK err title_normalise(const struct siteinfo *s, struct arena *a, str title,
                               struct title_key *out, struct err_note *note);
/* Of the reply to meta=siteinfo, formatversion 2. Owner: caller. ERR_BAD. */
MUST_CHECK err siteinfo_json_parse(str json, struct siteinfo **out, struct err_note *note);
/* "https://host" of the wiki itself, for canonical URLs; its language code. Empty when unknown;
 * borrowed from s. */
str siteinfo_server(const struct siteinfo *s);
str siteinfo_language(const struct siteinfo *s);

/* ---- HTML heads; pure, linear, the first HEAD_BYTES_MAX bytes only ---- */
enum { HEAD_BYTES_MAX = 65536 };
/* html with <meta property="mw:TimeUuid" content="TID"/> behind its <head ...>, an older such meta
 * of the head taken out; html itself when there is no head. False: the arena is full. */
MUST_CHECK bool render_head_put(struct arena *a, str html, struct tid tid, str *out);
bool render_head_is(str html); /* it has a head */
/* The tid the head names. */
MUST_CHECK bool render_head_tid(str html, struct tid *out);
/* The revision a page's head names (<html about=".../revision/N">); 0: none. */
uint64_t render_head_rev(str html);
/* href of <link rel="mw:PageProp/redirect" href="./Target#frag">: target decoded, and the fragment
 * as it may stand in a URL; both in the arena. False: none, or one that leads out of the wiki. */
MUST_CHECK bool render_head_redirect(struct arena *a, str html, str *target, str *fragment);

#endif
