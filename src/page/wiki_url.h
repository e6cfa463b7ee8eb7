/* wiki_url.h - which title does a URL of a wiki name?
 *
 * Asked of URLs that a wiki purges at its caches, and of those in its events: articles, their
 * history and talk, by the wiki's article path or by index.php?title=. Thumbnails, style sheets and
 * all else name none. A title is given as it was written there; its rules make a key of it
 * (page/title.h). Pure; fuzzed. */
#ifndef PAGE_WIKI_URL_H
#define PAGE_WIKI_URL_H

#include "base/arena.h"
#include "base/err.h"

/* Where a wiki is for its readers. */
struct wiki_place {
    str hosts;        /* separated by commas; one with a port means that port alone */
    str article_path; /* begins with '/', holds one "$1": "/wiki/$1" */
};
#define WIKI_ARTICLE_PATH "/wiki/$1"
bool wiki_article_path_is(str path);
/* authority: "host" or "host:port", in any letter case. */
bool wiki_place_has(const struct wiki_place *p, str authority);
/* path is raw, query what is behind the '?', raw. *title is empty when they name none; it is in the
 * arena, or part of what was given. ERR_LIMIT: the arena is full. */
MUST_CHECK err wiki_url_title(struct arena *a, const struct wiki_place *p, str path, str query,
                              str *title);
/* The same of a URL of our own, "/{domain}/v1/page/{content}/{title}..."; *domain is empty when it
 * is none. */
MUST_CHECK err wiki_url_own(struct arena *a, str path, str *domain, str *title);

struct wiki_url {
    str authority, path, query;
};
/* Takes "https://host/path?query" apart, or "//host/path". False: it has no host. A fragment is
 * left out. */
MUST_CHECK bool wiki_url_parse(str url, struct wiki_url *out);
/* The host of an authority, without its port. */
str wiki_url_host(str authority);

#endif
