/* word.h - what the wiki says of a title, and what follows from it for what is stored.
 *
 * A word is what the wiki answered about a title, with the instant at which it answered by its own
 * clock, and the one at which it was asked by ours. Times of the wiki are compared with each other
 * alone. A mark is what it says of some of the title's revisions.
 *   Of each title the last word is kept; and of a render that the wiki made, under which word. It
 * is *dated* when the page was touched since: a template of it was edited, a link's target made,
 * its text changed. Plain values; pure. */
#ifndef TITLE_WORD_H
#define TITLE_WORD_H

#include "codec/newest.h"
#include "title/stored.h"

struct title_word {
    bool missing, redirect;
    uint64_t page_id, rev; /* rev: its newest revision. Missing: 0 */
    int64_t touched, said; /* the wiki's clock, in seconds since 1970; touched: missing: 0 */
    store_time asked_at;   /* ours, just before it was asked */
    /* Of a page with an imported history: the greatest revision that is known to be there though it
     * is greater than the newest; 0: none. Nothing that the word itself says */
    uint64_t there;
    /* The newest change that its answer showed; id 0: none, or the answer came from a copy of the
     * database that is known to be behind. Not kept with it */
    struct wiki_newest newest;
};
/* What of it is about the page, whenever it was said: equal words have equal hashes. */
bool title_word_eq(const struct title_word *a, const struct title_word *b);
uint64_t title_word_hash(const struct title_word *w);

/* How a word stands to the last one. */
enum title_word_is {
    WORD_SAME, /* as the last one */
    WORD_NEWS,
    WORD_OLD,  /* asked before the last one: it says nothing any more */
    WORD_LAGS, /* of the same page, but of a time before the last one: a copy of the wiki's database
                  is behind. It says nothing yet */
};
/* last NULL: it is the first, which is news. */
enum title_word_is title_word_judge(const struct title_word *last, const struct title_word *w);

/* What a word must reach to have heard of a change: 0: nothing. A page that went was touched as it
 * went: so a word that it is missing reaches each instant, but no revision.
 *   heard: what must be reached of a word that another server heard, and the newest change that the
 * answer with that word showed. An answer that shows a newer change comes from a database that had
 * come further than that one: its word reaches all of heard, whatever it says of the page. One that
 * shows the same change need not: a touch is no change of the list, and an edit enters the list
 * only after the page shows it. */
struct title_bound {
    uint64_t rev;
    int64_t touched; /* the wiki's clock, in seconds since 1970 */
    struct {
        uint64_t rev;
        int64_t touched;
        struct wiki_newest newest;
    } heard;
};
bool title_bound_is_none(const struct title_bound *b);
/* All of both. What heard reaches is reached with it. */
void title_bound_join(struct title_bound *b, const struct title_bound *other);
bool title_word_reaches(const struct title_word *w, const struct title_bound *b);
/* So far behind is no copy of a wiki's database, or it is believed. */
enum { TITLE_BEHIND_S = 36 };
/* Does it show what came after all that the last word said, also when it comes from a copy of the
 * wiki's database that is behind? By the wiki's own numbers and clock, which an undelete alone sets
 * back (page/behind.h tells such copies). That the page is missing does so when the wiki has named
 * the page for TITLE_BEHIND_S: then each copy has heard of it. */
bool title_word_is_later(const struct title_word *last, const struct title_word *w);

/* What `there` is once a word is heard. found: a revision that was asked for by its number, and is
 * there; 0: none was. Another page under the title has a history of its own. */
uint64_t title_word_there(const struct title_word *last, const struct title_word *w,
                          uint64_t found);

struct title_mark {
    enum page_state state; /* SUPPRESSED, DELETED; CURRENT: not hidden any more */
    uint64_t first, last;  /* revisions */
    store_time said_at;    /* when the wiki was asked */
};

enum {
    TITLE_SETTLE_S = 3,
    TITLE_MAKING_S_MAX = 60, /* no making is taken for longer (title_is_astride) */
};
/* Of a render that the wiki made under this word. revised: when its newest revision was made; 0: it
 * is of another. A page that was touched by that alone is settled: what it was made of was there.
 */
struct title_under title_under_of(const struct title_word *w, int64_t revised);
/* Was the page touched since this render was made? It is settled when the wiki was asked
 * TITLE_SETTLE_S after the page was touched; before that, it may have been made of what was there
 * before. NOT, too, of a render that no wiki made under a word. */
enum title_dated { DATED_NOT, DATED_UNSETTLED, DATED_TOUCHED };
enum title_dated title_dated(const struct title_word *last, const struct page_render *r);
/* Has the wiki something newer: a revision, or what the page is made of? By its last word. */
bool title_has_newer(const struct title_word *last, const struct page_render *r);
/* When a render was made, as far as its row says that. made.said 0: no wiki made it. */
struct title_making {
    uint64_t rev;
    struct title_under made;
    store_time stored_at;
};
static inline struct title_making title_making_of(const struct page_render *r)
{
    return (struct title_making){ .rev = r->name.rev, .made = r->made, .stored_at = r->stored_at };
}
/* May the page have been touched last while the wiki was at that render of the same revision? By
 * the wiki's clock, and by how long the making took by ours. */
bool title_is_astride(const struct title_word *w, const struct title_making *m);
/* UNSETTLED, where what a page is made of may be settle_s behind its touch. */
bool title_is_unsettled(const struct title_word *last, const struct page_render *r,
                        int64_t settle_s);
/* When the wiki was asked for the word that this render was made under. Of one without a word: when
 * it came. */
store_time title_made_at(const struct page_render *r);
/* From when on, by our clock, could it be settled? */
store_time title_settles_at(const struct title_word *last, int64_t settle_s);
/* Was what came under that word asked for before the page went, or before another page took its
 * title? last: the last word. */
bool title_word_denies(const struct title_word *last, const struct title_word *under);

#endif
