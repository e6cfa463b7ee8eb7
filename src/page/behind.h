/* behind.h - did a copy of the wiki's database answer that is behind?
 *
 * Model. Each answer of a wiki's api.php says which its newest change is. The greatest that was
 * ever seen is kept, and when. Who shows an older one is a copy that has not heard of it yet, or
 * was asked before. What such an answer says is right for what did not change meanwhile; it takes
 * back nothing that is known (store/page_word.h). Only one that was asked for after the greatest
 * was seen shows that a copy is behind. A list of changes loses entries, too: of pages that were
 * deleted without a trace, of a wiki that was brought back from a backup. So the greatest counts
 * for BEHIND_S, then the next answer is taken as it is. A copy that is further behind than that is
 * believed. While copies are behind, a text may come from one though the word before it came from
 * another. So a render is settled (title/word.h) BEHIND_S after its page was touched, if a copy was
 * found behind in the last BEHIND_RECENT_S; else after TITLE_SETTLE_S. Pure but for its lock.
 * Thread: any, but init and fini. */
#ifndef PAGE_BEHIND_H
#define PAGE_BEHIND_H

#include "base/times.h"
#include "render/render.h"
#include "title/word.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    BEHIND_S = TITLE_BEHIND_S, /* as long as a word that lags is asked for again (check.c) */
    BEHIND_RECENT_S = 600,
};

struct page_behind {
    pthread_mutex_t lock;
    struct wiki_newest newest; /* the greatest; id 0: none yet */
    store_time asked_at;       /* ours, when it was asked for first */
    store_time seen_at;        /* ours, when it came */
    _Atomic int64_t found_ns;  /* ours, when a copy was found behind last; 0: never */
};
void page_behind_init(struct page_behind *b);
void page_behind_fini(struct page_behind *b);
/* An answer that was asked for then: does it lack a change that was seen? *news: it shows the
 * greatest. */
bool page_behind_judge(struct page_behind *b, const struct wiki_newest *n, store_time asked_at,
                       store_time now, bool *news);
/* Another server has seen it by now. Its answers go by its clock, and its messages may come late or
 * out of order: they say which change there is, and nothing of copies or of what is gone. */
void page_behind_know(struct page_behind *b, const struct wiki_newest *n, store_time now);
/* How long after its page was touched is a render settled? Takes no lock. */
int64_t page_behind_settle_s(const struct page_behind *b, store_time now);

#endif
