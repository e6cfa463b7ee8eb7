/* prewarm.h - where prewarm has its titles from: a list of lines, or a wiki's own list of pages.
 * Private to cli.
 *
 * Both hand over one title after the other, behind the place where an earlier run ended. Thread:
 * one. */
#ifndef CLI_PREWARM_H
#define CLI_PREWARM_H

#include "base/err.h"
#include "base/str.h"
#include "cli/client.h"

enum { PREWARM_TITLE_BYTES_MAX = 1024, PREWARM_NAMESPACES_MAX = 256 };

/* mark names the place for the next run; all borrowed inside the call. Not ERR_OK ends the listing
 * with it. */
typedef err prewarm_title_fn(void *ctx, str title, str mark, struct err_note *note);

struct prewarm_wiki {
    const char *api;           /* URL of api.php */
    int64_t namespace_only;    /* -1: all that hold pages */
    str from_mark, from_title; /* the last title of the run before; empty: from the start */
    prewarm_title_fn *each;
    void *ctx;
    void (*left_out)(void *ctx, str title, const char *why); /* a page whose title cannot be one */
    void (*counted)(
        void *ctx,
        uint64_t pages); /* how many there are in all; not called when that is not known */
};
/* Every page that has a title, namespace by namespace,
 * in the wiki's order, as DB key. ERR_UNAVAILABLE, ERR_BAD with a note. */
MUST_CHECK err prewarm_wiki_list(const struct prewarm_wiki *w, struct err_note *note);

/* "Help:A b" in a namespace with a name gives "A b": what allpages wants as its start. Pure. */
str prewarm_bare_title(str title, int64_t namespace_id);

#endif
