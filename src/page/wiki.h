/* wiki.h - what only the wiki knows of a page: metadata of a revision, its wikitext, its lint
 * errors. Asked for when somebody asks for it, once for all who ask at the same time, and not
 * stored. */
#ifndef PAGE_WIKI_H
#define PAGE_WIKI_H

#include "flight/flight.h"
#include "page/page.h"

/* Shared by all who wait; read only. */
struct page_word {
    struct flight_value v;
    struct arena arena;      /* of all below */
    struct render_meta meta; /* WANT_META: all of it; else rev */
    struct tid tid;          /* of the newest render that is stored of it; zero: none */
    str type, body;          /* WIKITEXT, LINT */
    str moved_to;         /* the wiki has the page under this title: the rest is empty; else n 0 */
    int64_t namespace_id; /* of moved_to */
};
static inline struct page_word *page_word_of(struct flight_value *v)
{
    return CONTAINER_OF(v, struct page_word, v);
}
/* t: with an origin; its title is a key as the wiki writes it. want: META, WIKITEXT or LINT. The
 * value of the flight is a page_word. Refuses as flight_join. Thread: join from any; the waiter's
 * done on the loop. */
MUST_CHECK err page_word_ask(const struct page_service *s, const struct page_target *t,
                             enum render_want want, struct flight_waiter *w);

#endif
