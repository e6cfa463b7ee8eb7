/* remake.h - the latest of a title is made once more, and nobody waits for it.
 *
 * Model. Each domain has a line of titles whose latest render is to be made anew. A title comes
 * into the line in two ways:
 *   - The store has heard a word of the wiki that calls the render old (old.h), and the domain's
 *     `rerender` says that the server makes such renders by itself: at once, or paced.
 *   - A render was made right after its page was touched, so it may be of what was there before:
 *     it is unsettled (title/word.h; behind.h says for how long). Its reader has got it, and has it
 *     made once more.
 * The store is looked at before a title may wait, is it old? When REMAKES_JUDGED_MAX are being
 * looked at, the next ones wait all the same, and are looked at in their turn.
 * The line is first in, first out: titles of one template come together and are equally old. The
 * first begins when a render made now could be settled (title_settles_at), so one render of each
 * title is enough. When its turn has come, the store is looked at once more: what a reader or
 * another server made meanwhile is not made again. Servers that share a Redis make a title once
 * (make.h, `since`).
 *   Who waits for the wiki comes first: a render of the line begins only while nobody waits for its
 * host and one place stays free (origin_has_room); of a domain `concurrency` are made at once, of
 * one that is paced `rate` begin in a second. Domains take turns.
 *   A wiki that fails, or wants to be left alone, is left alone by the whole line: as long as it
 * asks for, and 1 s, 2 s, and so on up to REMAKE_PAUSE_S_MAX. A title that fails REMAKE_TRIES_MAX
 * times, finds no place, or waits for REMAKE_LINE_S leaves the line. So does all of it when the
 * server ends or is killed: it is in memory alone. Its next reader finds the same then, or the next
 * sweep, whose words lead here (sweep.h). Thread: any, but where said. */
#ifndef PAGE_REMAKE_H
#define PAGE_REMAKE_H

#include "page/changes.h"
#include "page/page.h"

enum {
    REMAKES_MAX = 100000,       /* titles that wait, of all domains */
    REMAKES_DOMAIN_MAX = 20000, /* of one */
    REMAKES_JUDGED_MAX = 1000,  /* at which the store is looked at first; more wait unlooked at */
    REMAKE_TRIES_MAX = 3,       /* of one title */
    REMAKE_LINE_S = 24 * 3600,  /* that a title waits */
    REMAKE_PAUSE_S_MAX = 30,    /* after failures in a row */
    REMAKE_LOOK_MS = 100,       /* how often those that may not begin yet are looked at */
    REMAKE_SETTLES_MAX = 1,     /* made at once, where readers have the rest made anew */
};

struct page_remakes;
/* After the service's flights and loop. Owner: caller; dies when out of memory. seed: of hashes. */
struct page_remakes *page_remakes_new(const struct page_service *s, uint64_t seed);
/* Nothing is begun any more, and what waits is forgotten. Thread: loop. */
void page_remakes_stop(struct page_remakes *r);
/* Stopped, and nothing of it is under way. */
bool page_remakes_idle(struct page_remakes *r);
/* Idle, or the loop never ran. Thread: the loop's. */
void page_remakes_free(struct page_remakes **rp);
/* Other limits from here on; what runs goes on. Thread: loop. */
void page_remakes_limit(struct page_remakes *r, const struct page_domain *d,
                        struct page_rerender_limits limits);

/* t: its domain is asked for words (page_is_asked); its title is as the wiki writes it, copied. */
void page_remake(struct page_remakes *r, const struct page_target *t);
/* The store has heard a word of this title, or has a new render of it: what is old of it is made
 * anew, where the domain wants that. title: a key, copied. */
void page_remake_heard(const struct page_service *s, const struct page_domain *d, str title);

/* For people: where in the line. */
struct remake_place {
    bool waits, is_made; /* neither: it is not there */
    uint64_t place, of;  /* waits: 1 is the next */
};
struct remake_place page_remake_place(struct page_remakes *r, const struct page_target *t);
/* Of a domain. */
struct remake_figures {
    uint64_t waiting, making; /* now */
    /* since the start of the server */
    uint64_t made;
    uint64_t failed;  /* tries that the wiki, or the store, failed */
    uint64_t dropped; /* titles that found no place, waited too long or failed too often */
};
void page_remakes_figures(struct page_remakes *r, const struct page_domain *d,
                          struct remake_figures *out);

#endif
