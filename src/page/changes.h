/* changes.h - did a title change since it was looked at?
 *
 * Each title hashes to one of PAGE_CHANGES_SLOTS counters, which count the changes that the page
 * store tells of: after they are on disk and visible, before their writer is answered. Whoever
 * looks at a title sees its counter BEFORE it begins to read; while the counter stands there, what
 * was read holds. Two titles of one slot only tell of too many changes. Allocates and locks
 * nothing. Thread: any, but new and free. */
#ifndef PAGE_CHANGES_H
#define PAGE_CHANGES_H

#include "base/str.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { PAGE_CHANGES_SLOTS = 1 << 16 };

struct page_changes {
    uint64_t seed;
    _Atomic uint32_t of[PAGE_CHANGES_SLOTS];
};
/* Owner: caller. Dies when out of memory. seed: of the hash. */
struct page_changes *page_changes_new(uint64_t seed);
void page_changes_free(struct page_changes **cp);

struct page_seen {
    uint32_t slot, version;
};
struct page_seen page_changes_see(struct page_changes *c, uint16_t bucket, uint32_t domain,
                                  str title);
/* It changed. */
void page_changes_tell(struct page_changes *c, uint16_t bucket, uint32_t domain, str title);
/* All did. */
void page_changes_tell_all(struct page_changes *c);
/* Has it, or one of its slot? */
static inline bool page_changed_since(const struct page_changes *c, struct page_seen seen)
{
    return atomic_load_explicit(&c->of[seen.slot], memory_order_acquire) != seen.version;
}

#endif
