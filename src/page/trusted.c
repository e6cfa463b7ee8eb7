/* trusted.c - asks the cells of trust.h what is known, for reads, makings and transforms. */
#include "page/trusted.h"

#include "page/check.h"
#include "title/word.h"

bool page_is_closed(const struct page_service *s, const struct page_domain *d)
{
    return page_is_asked(s, d) && atomic_load(d->closed);
}

static struct trust_cell *cell_hold(const struct page_service *s, const struct page_domain *d,
                                    str title, uint64_t rev)
{
    const struct trust_key k = { .domain = d->number, .title = title, .rev = rev };
    return page_trust_hold(s->trust, &k);
}

/* Holds the cell; the caller lets it go. */
static struct page_trusted look_at(const struct page_service *s, const struct page_domain *d,
                                   str title, uint64_t rev, uint64_t says)
{
    struct trust_cell *c = cell_hold(s, d, title, rev);
    return (struct page_trusted){ .cell = c,
                                  .says = says,
                                  .age_ns = trust_age_ns(c, says, clock_store(s->clock)),
                                  .title_age_ns = TRUST_NEVER };
}

/* The word on the title covers the newest revision, as that is not hidden. Any other revision has a
 * word of its own. */
struct page_trusted page_trusted_look(const struct page_service *s, const struct page_domain *d,
                                      const struct page_read *r, bool named)
{
    uint64_t rev = r->render.name.rev;
    bool newest = r->heard && !r->word.missing && r->word.rev == rev;
    if (named && !newest)
        return look_at(s, d, r->which.title, rev, TRUST_SHOWN);
    struct page_trusted l =
        look_at(s, d, r->which.title, 0, r->heard ? title_word_hash(&r->word) : 0);
    if (!r->heard)
        l.age_ns = TRUST_NEVER;
    /* Too old for one who names the revision: its own cell may have a younger word. */
    if (!named || l.age_ns <= d->trust.ttl_ns)
        return l;
    struct page_trusted own = look_at(s, d, r->which.title, rev, TRUST_SHOWN);
    trust_release(&l.cell);
    own.title_age_ns = l.age_ns;
    return own;
}

struct page_trusted page_trusted_rev(const struct page_service *s, const struct page_target *t,
                                     uint64_t rev)
{
    return look_at(s, t->domain, t->title, rev, TRUST_SHOWN);
}

/* Words that a page is missing differ in their instants alone: they have one hash. */
static uint64_t says_missing(void)
{
    return title_word_hash(&(struct title_word){ .missing = true });
}

int64_t page_missing_age_ns(const struct page_service *s, const struct page_domain *d, str title)
{
    struct page_trusted l = look_at(s, d, title, 0, says_missing());
    trust_release(&l.cell);
    return l.age_ns;
}

/* What the last word said, if it was asked for after `since`. False: nothing was said since. */
static bool said_since(const struct page_service *s, const struct page_target *t, uint64_t rev,
                       store_time since, uint64_t *says, store_time *at)
{
    struct trust_cell *c = cell_hold(s, t->domain, t->title, rev);
    bool said = trust_said_since(c, since, says, at);
    trust_release(&c);
    return said;
}

/* The title's word first: a missing page has no revisions. */
struct page_denied page_denied_since(const struct page_service *s, const struct page_target *t,
                                     uint64_t rev, store_time since)
{
    struct page_denied d = { .why = RENDER_FINE };
    uint64_t says;
    if (!page_is_asked(s, t->domain))
        return d;
    if (said_since(s, t, 0, since, &says, &d.at) && says == says_missing())
        d.why = RENDER_NO_PAGE;
    else if (rev != 0 && said_since(s, t, rev, since, &says, &d.at) && says != TRUST_SHOWN)
        d.why = says == TRUST_HIDDEN ? RENDER_SUPPRESSED : RENDER_NO_REVISION;
    return d;
}

enum render_why page_known_denied(const struct page_service *s, const struct page_target *t,
                                  uint64_t rev, int64_t within_ns)
{
    static const struct {
        enum trust_shown says;
        enum render_why why;
    } of_rev[] = { { TRUST_HIDDEN, RENDER_SUPPRESSED }, { TRUST_GONE, RENDER_NO_REVISION } };
    /* A closed wiki denies to all: that is told in another way. */
    if (!page_is_asked(s, t->domain) || page_is_closed(s, t->domain))
        return RENDER_FINE;
    if (page_missing_age_ns(s, t->domain, t->title) <= within_ns)
        return RENDER_NO_PAGE;
    for (unsigned i = 0; rev != 0 && i < COUNT_OF(of_rev); i++) {
        struct page_trusted l = look_at(s, t->domain, t->title, rev, of_rev[i].says);
        trust_release(&l.cell);
        if (l.age_ns <= within_ns)
            return of_rev[i].why;
    }
    return RENDER_FINE;
}

bool page_doubted_since(const struct page_service *s, const struct page_target *t, store_time since)
{
    if (!page_is_asked(s, t->domain))
        return false;
    struct trust_cell *c = cell_hold(s, t->domain, t->title, 0);
    /* A doubt of that very instant counts: nobody knows which came first. */
    bool doubted = !store_time_before(trust_doubted_at(c), since);
    trust_release(&c);
    return doubted;
}

bool page_is_unsettled(const struct page_service *s, const struct page_domain *d,
                       const struct page_read *r, store_time *settles_at)
{
    int64_t settle_s = page_checks_settle_s(s->checks, d);
    *settles_at = title_settles_at(&r->word, settle_s);
    return r->heard && title_is_unsettled(&r->word, &r->render, settle_s);
}

bool page_word_moved(const struct page_service *s, const struct page_target *t,
                     const struct title_word *word, store_time since, store_time *at)
{
    uint64_t says;
    return page_is_asked(s, t->domain) && said_since(s, t, 0, since, &says, at) &&
           says != title_word_hash(word);
}
