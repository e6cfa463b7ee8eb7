/* tell.h - what was heard and done here goes to every server that shares our Redis.
 *
 *   purge  is done in each store
 *   mark   of the wiki on revisions: is heard by each store, and puts the title in doubt
 *   look   a word of the wiki that was news, or a hint that something changed: puts the title in
 *          doubt
 *   made   a render that was made anew: who has an older one of the title takes it out of Redis
 *   newest how far the wiki's database had come: who is answered by a copy that is further behind
 *          takes nothing back (behind.h)
 *
 * Told once, before the answer, best effort: a server that is away or cut off does not learn of it,
 * and is right by its own next question (docs/several-servers.md). Nobody waits for the others.
 *
 * Why a word is not taken over but doubted. Words are ordered by when they were asked for, by the
 * clock of who asked. Clocks of servers differ, and messages come late. The wiki's own instants are
 * whole seconds, and a copy of its database may be behind. So a word from elsewhere cannot be
 * ordered among our own, and one that is forged would hide pages. A doubt is by our clock alone:
 * nothing asked for before the message is trusted. Of the word only its revision and its touched
 * are used, as a bound: what we are told must reach them, or is asked for again (trust.h), for
 * another copy of the database may be behind. With them comes the newest change that the wiki
 * showed with that word: an answer that shows a newer one has heard of it (title/word.h). Late,
 * twice, out of order or forged, a message costs a question, or four with a bound that nothing
 * reaches, and makes nothing older be served. The question goes out when the title is read next.
 * What has no cell is not trusted, so a title that is not stored or not read costs nothing. Who has
 * heard the same word asks nothing: else each of N servers would ask N times.
 *
 * The messages are codec/told.h's. Thread: any. */
#ifndef PAGE_TELL_H
#define PAGE_TELL_H

#include "page/page.h"
#include "render/render.h"

/* What was purged here. Does nothing without Redis. */
void page_purge_tell(const struct page_service *s, const struct page_target *t);
/* What a wiki said was heard here. Does nothing without Redis. */
void page_mark_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_mark *mark);
/* This word was news here. Does nothing without Redis. */
void page_word_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_word *word);
/* Something may have changed, and nobody has asked the wiki yet; bound: as of page_look (look.h).
 * Does nothing without Redis. */
void page_look_tell(const struct page_service *s, const struct page_domain *domain, str title,
                    const struct title_bound *bound);
/* This render was made anew here. Does nothing without Redis. */
void page_made_tell(const struct page_service *s, const struct page_target *t,
                    struct page_name name);
/* The wiki showed this change here, and none that is newer. Does nothing without Redis. */
void page_newest_tell(const struct page_service *s, const struct page_domain *domain,
                      const struct wiki_newest *newest);
/* The other end: a word from another server. Thread: loop. */
void page_told(const struct page_service *s, str text);

#endif
