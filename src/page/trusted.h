/* trusted.h - what the cells of trust.h say of a title or revision: of what was read of the store,
 * of what is not there, and of what was asked of the wiki a while ago.
 *
 * Thread: any. */
#ifndef PAGE_TRUSTED_H
#define PAGE_TRUSTED_H

#include "page/page.h"
#include "page/trust.h"

/* Has the wiki said last that only some may read it? Then nothing of it is given. */
bool page_is_closed(const struct page_service *s, const struct page_domain *d);

struct page_trusted {
    struct trust_cell *cell; /* with a reference */
    uint64_t says;           /* what is stored is trusted while the cell says that */
    int64_t age_ns;          /* of the last word; TRUST_NEVER */
    int64_t title_age_ns;    /* of one on the title that says the same, for who gets no other */
};
/* By which word a render is trusted that was found, with heeds; named: by its revision or as it is,
 * not as the latest. The wiki's newest revision is not hidden: so a word on the title is one on
 * that revision, too. The domain's wiki is asked. */
struct page_trusted page_trusted_look(const struct page_service *s, const struct page_domain *d,
                                      const struct page_read *r, bool named);
/* The same of a revision of t's title, whatever is stored of it. */
struct page_trusted page_trusted_rev(const struct page_service *s, const struct page_target *t,
                                     uint64_t rev);
/* For how long it is known that no page stands under this title; TRUST_NEVER: it is not known. The
 * domain's wiki is asked. */
int64_t page_missing_age_ns(const struct page_service *s, const struct page_domain *d, str title);

/* What the wiki was asked for at `since` has come. Did it say meanwhile, to somebody who asked
 * later, that the page or this revision is not to be given any more? NO_PAGE, NO_REVISION,
 * SUPPRESSED, and when it was asked for that; FINE: no. rev 0: it is not known which. */
struct page_denied {
    enum render_why why;
    store_time at;
};
struct page_denied page_denied_since(const struct page_service *s, const struct page_target *t,
                                     uint64_t rev, store_time since);
/* What it has denied is known for that long at most, and not doubted: as above. For who asks
 * nobody.
 */
enum render_why page_known_denied(const struct page_service *s, const struct page_target *t,
                                  uint64_t rev, int64_t within_ns);
/* Did somebody say since then that the title changed? Forgotten, unless somebody asks the wiki. */
MUST_CHECK bool page_doubted_since(const struct page_service *s, const struct page_target *t,
                                   store_time since);
/* Was a render that was found, with heeds, made too soon after a touch of its page to have that for
 * sure? Then from when on it could be made once more, by our clock. The domain's wiki is asked. */
MUST_CHECK bool page_is_unsettled(const struct page_service *s, const struct page_domain *d,
                                  const struct page_read *r, store_time *settles_at);
/* Did it say anything else of the title than this word, to somebody who asked after `since`? *at:
 * when. */
MUST_CHECK bool page_word_moved(const struct page_service *s, const struct page_target *t,
                                const struct title_word *word, store_time since, store_time *at);

#endif
