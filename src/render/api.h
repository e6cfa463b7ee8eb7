/* api.h - what api.php says of a page and a revision. Pure. Private to this folder. */
#ifndef RENDER_API_H
#define RENDER_API_H

#include "render/render.h"
#include "render/siteinfo.h"

#include <jansson.h>

struct api_asked {
    str title;
    uint64_t rev;
}; /* title: a key, may be empty when rev is not 0; rev 0: the newest */

/* Query behind "action=query&...": by revision when there is one, else by title. p NULL: the arena
 * is full. */
str api_query(struct arena *a, const struct api_asked *asked);
/* *out in the arena; filled for FINE and SUPPRESSED, of NO_PAGE said_s alone, and newest
 * always. Asked for a title,
 * the wiki may know the page by another: OTHER_TITLE. NO_REVISION also when the revision is another
 * title's (s, NULL when unknown, tells which names mean the same). Of both *out has title and
 * namespace_id alone; no title where the wiki has no such revision at all. */
MUST_CHECK enum render_why api_parse(struct arena *a, str json, const struct api_asked *asked,
                                     const struct siteinfo *s, struct render_meta *out,
                                     struct err_note *note);

/* A reply of api.php that is an error, and why; FINE: it is none, or no JSON. */
enum render_why api_parse_error(str json, struct err_note *note);
/* Query that asks whose the cookie is, and what it says: 0 is nobody in particular. */
#define API_USER_QUERY "meta=userinfo"
MUST_CHECK enum render_why api_parse_user(str json, uint64_t *id, struct err_note *note);
/* Query that asks whether who asks may read a page, and what it says; a wiki that lets who asks
 * read nothing is DENIED. title empty, not named: has who asks the right to read, whatever page?
 * p NULL: the arena is full. */
str api_leave_query(struct arena *a, str title);
MUST_CHECK enum render_why api_parse_leave(str json, bool named, bool *may, struct err_note *note);

/* ---- for whoever reads a reply ---- */

enum { API_VALUES_MAX = 1 << 15 }; /* in one reply; 50 pages have some 2000 */
/* The query of a reply: NULL unless FINE; *root is the caller's, NULL when it is none. */
MUST_CHECK enum render_why api_read(str json, json_t **root, const json_t **query,
                                    struct err_note *note);
/* Members; false, empty and 0 when absent or of another type. */
bool api_flag(const json_t *object, const char *key);
str api_text(const json_t *object, const char *key); /* borrowed from object */
int64_t api_number(const json_t *object, const char *key);
int64_t api_instant_s(const json_t *object, const char *key); /* 1970 to DATE_S_MAX */
/* Of a query that asked for it too (WIKI_NEWEST_QUERY). */
struct wiki_newest api_newest(const json_t *query);
/* Are they one but for spaces? */
bool api_same_letters(str key, str wiki_title);
/* With underscores for spaces. p NULL: the arena is full. */
str api_key(struct arena *a, str wiki_title);

#endif
