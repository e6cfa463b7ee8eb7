/* router.h - route tables compiled into a trie of path segments; matching is pure. Private to http.
 *
 * Model: the path chooses the node, the method chooses within it. At each segment a literal beats
 * {name} beats {+rest}; the first node found that has a row visible on this listener wins, whatever
 * its methods, so that a wrong method is told as such and never falls through to a less exact
 * pattern. A listener's filter is asked behind that: what it hides has no path, and falls through
 * to nothing either. Each trie node is visited at most once per match. Thread: a built router is
 * read-only. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/http.h"

enum { ROUTER_SEGMENTS_MAX = 24, ROUTER_PARAMS_MAX = 8 };

/* A row and what its pattern names. */
struct router_row {
    const struct http_route *route;
    str names[ROUTER_PARAMS_MAX];
    unsigned names_count;
    bool everywhere; /* on listeners of all kinds, but for those of PURGE */
    uint16_t hidden; /* BIT(number) of each listener whose filter lacks it */
    struct router_row *next;
};

enum router_result {
    ROUTER_FOUND,
    ROUTER_NO_PATH,   /* nothing visible matches, or what does is hidden */
    ROUTER_NO_METHOD, /* the path is known; allowed tells its methods */
    ROUTER_BROKEN,    /* a '%' without two hex digits behind it */
    ROUTER_NO_MEMORY  /* the arena is full */
};

struct router_match {
    const struct router_row *row;  /* ROUTER_FOUND only */
    str params[ROUTER_PARAMS_MAX]; /* as row->names; p NULL: absent */
    unsigned allowed;              /* BIT(method) of each method at this path */
};

struct router;
/* Fails: ERR_BAD with a note for a pattern it cannot read and for two rows that want one path and
 * method. */
MUST_CHECK err router_new(const struct http_route *const *tables, unsigned tables_count,
                          struct router **out, struct err_note *note);
void router_free(struct router **rp);
/* Marks what this listener's filter hides. Before matching begins. */
void router_hide(struct router *r, const struct http_listen *l);

/* path is raw and starts with '/'. Decoded segments are in the arena or in path itself. *out is
 * written for ROUTER_FOUND and ROUTER_NO_METHOD. */
enum router_result router_match(const struct router *r, str path, enum http_method method,
                                const struct http_listen *seen_from, struct arena *a,
                                struct router_match *out);
/* It tells whether the server runs or takes requests. */
bool router_is_health(const struct http_route *route);

#endif
