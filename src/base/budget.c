/* budget.c - bytes of many requests together. Invariant: held is the sum of what its parts have
 * counted. */
#include "base/budget.h"

static size_t kept_beyond(const struct budget *b)
{
    size_t kept = atomic_load_explicit(&b->kept, memory_order_relaxed);
    return kept > b->kept_max ? kept - b->kept_max : 0;
}

static void peak_raise(struct budget *b, size_t held)
{
    size_t peak = atomic_load_explicit(&b->peak, memory_order_relaxed);
    while (peak < held && !atomic_compare_exchange_weak(&b->peak, &peak, held))
        continue;
}

static size_t most_of(const struct budget *b, bool urgent)
{
    size_t reserve = urgent ? b->reserve : 0;
    return b->bytes_max == 0 || reserve > SIZE_MAX - b->bytes_max ? SIZE_MAX
                                                                  : b->bytes_max + reserve;
}

static bool budget_take(struct budget *b, size_t bytes, bool urgent)
{
    size_t max = most_of(b, urgent), beside = kept_beyond(b), held = atomic_load(&b->held);
    do {
        size_t used = held > SIZE_MAX - beside ? SIZE_MAX : held + beside;
        if (used > max || bytes > max - used) {
            (void)atomic_fetch_add_explicit(&b->refused, 1,
                                            memory_order_relaxed); /* the old value is of no use */
            return false;
        }
    } while (!atomic_compare_exchange_weak(&b->held, &held, held + bytes));
    peak_raise(b, held + bytes);
    return true;
}

static size_t counted_of(size_t bytes)
{
    return bytes > BUDGET_FREE_BYTES ? bytes - BUDGET_FREE_BYTES : 0;
}

bool budget_never(const struct budget_part *h, size_t bytes)
{
    size_t counted = counted_of(bytes);
    if (h->of == NULL || counted == 0)
        return false;
    size_t most = most_of(h->of, h->urgent);
    return counted > most || h->beside > most - counted;
}

bool budget_part_set(struct budget_part *h, size_t bytes)
{
    if (h->of == NULL)
        return true;
    size_t counted = counted_of(bytes);
    if (counted > h->counted && !budget_take(h->of, counted - h->counted, h->urgent))
        return false;
    if (counted < h->counted)
        INVARIANT(atomic_fetch_sub(&h->of->held, h->counted - counted) >= h->counted - counted);
    h->counted = counted;
    return true;
}

void budget_part_end(struct budget_part *h)
{
    INVARIANT(budget_part_set(h, 0));
}

void budget_keep(struct budget *b, size_t bytes)
{
    (void)atomic_fetch_add(&b->kept, bytes); /* the old value is of no use */
}

void budget_keep_end(struct budget *b, size_t bytes)
{
    INVARIANT(atomic_fetch_sub(&b->kept, bytes) >= bytes);
}

size_t budget_held(const struct budget *b)
{
    return atomic_load(&b->held) + kept_beyond(b);
}

size_t budget_fallen(struct budget *b)
{
    size_t held = atomic_load(&b->held), peak = atomic_exchange(&b->peak, held);
    return peak > held ? peak - held : 0;
}
