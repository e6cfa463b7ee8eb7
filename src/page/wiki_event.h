/* wiki_event.h - one event of a wiki (EventBus 1.39 to 1.43, mediawiki/event-schemas): which titles
 * did something happen to, and what has the wiki's word to reach to have heard of it?
 *
 * An event is an object with meta.stream. It names titles by page_title and what stands beside that
 * (a page that was moved has two), or by meta.uri; a stream that nobody here knows is looked at in
 * the same way. The bound (title/word.h) is
 *   the revision       of what makes one: creations, edits, moves, undeletions
 *   the event's time   of deletions: a page that is still there, and was not touched since, is one
 *                      that a copy of the database has not heard of. Of visibility, and of a title
 *                      whose page was moved away, too, but EVENT_SLACK_S before it: the page, or
 *                      the redirect left there, is touched a moment before the event is made
 *   none               of all else: links and properties change without a revision.
 * Pure; fuzzed. */
#ifndef PAGE_WIKI_EVENT_H
#define PAGE_WIKI_EVENT_H

#include "base/arena.h"
#include "base/err.h"
#include "title/word.h"

enum {
    EVENT_TITLES_MAX = 2,
    EVENT_MEMBERS_MAX = 256, /* of one object in it */
    EVENT_SLACK_S = 2,
};
#define EVENT_JOBS "mediawiki.job."
#define EVENT_OWN "palimpsest." /* streams of the server itself */

struct wiki_event_title {
    str title; /* as the wiki wrote it */
    struct title_bound bound;
};
/* Strings are in the arena or in the text; empty: not there. */
struct wiki_event {
    str stream, domain, uri, id; /* of meta */
    str database;
    unsigned titles_count; /* 0: uri may name one, without a bound */
    struct wiki_event_title titles[EVENT_TITLES_MAX];
};
/* json: valid JSON, valid UTF-8. ERR_BAD: it is no event, and note says why; ERR_LIMIT: the arena
 * is full. *out is written only when it is one. */
MUST_CHECK err wiki_event_parse(struct arena *a, str json, struct wiki_event *out,
                                struct err_note *note);

#endif
