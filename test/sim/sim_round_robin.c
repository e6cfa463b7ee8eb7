/* Goal: show what ADR 19 rejected beside what it chose, with the same failures: round robin splits
 * a request over all partitions and leaves part of it written; the whole request in one partition
 * never does. Method: both place the same requests over four partitions whose writes fail, or are
 * slower than the client waits; nothing else is simulated. Run with --verbose for the counts. */
#include "base/rng.h"
#include "queue/order/place.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 4, REQUESTS = 20000, TIMEOUT_MS = 1000, SLOW_MS = 5000 };

struct outcome {
    unsigned whole, refused, partial;
    uint64_t loads[PARTS];
};
enum trouble { NONE, FAILING, ALL_FAILING, DEGRADED, TROUBLES };
static const char *const names[TROUBLES] = { "none", "one fails now and then",
                                             "all fail now and then", "one is slow" };

/* The fate of one write: ms it takes, -1: it fails. */
static int write_ms(struct rng *rng, enum trouble t, unsigned part)
{
    if (t == FAILING && part == 1 && rng_below(rng, 4) == 0)
        return -1;
    if (t == ALL_FAILING && rng_below(rng, 3) == 0)
        return -1;
    return t == DEGRADED && part == 1 && rng_below(rng, 4) == 0 ? SLOW_MS : 1;
}

/* Items are dealt one by one from where the last request ended; what failed is dealt again to those
 * that did not. */
static void round_robin(struct rng *rng, enum trouble t, uint32_t items, unsigned *cursor,
                        struct outcome *out)
{
    uint32_t shares[PARTS] = { 0 }, written = 0, left = items;
    bool failed[PARTS] = { false };
    int waited = 0;
    for (unsigned alive = PARTS; left > 0 && alive > 0 && waited < TIMEOUT_MS;) {
        memset(shares, 0, sizeof shares);
        for (uint32_t i = 0; i < left;) {
            if (!failed[*cursor])
                shares[*cursor]++, i++;
            *cursor = (*cursor + 1) % PARTS;
        }
        int slowest = 0;
        for (unsigned p = 0; p < PARTS; p++) {
            int ms = shares[p] == 0 ? 0 : write_ms(rng, t, p);
            failed[p] |= ms < 0;
            if (ms < 0 || waited + ms > TIMEOUT_MS) {
                slowest = ms > slowest ? ms : slowest;
                continue;
            }
            written += shares[p];
            out->loads[p] += shares[p];
        }
        waited += slowest;
        left = items - written;
        alive = 0;
        for (unsigned p = 0; p < PARTS; p++)
            alive += !failed[p];
    }
    *(written == items ? &out->whole : written == 0 ? &out->refused : &out->partial) += 1;
}

/* The whole request to the least loaded; after a failure to the next, while there is one and
 * time. */
static void opportunistic(struct rng *rng, enum trouble t, uint32_t items, struct place *place,
                          struct outcome *out)
{
    struct place_store stores[PARTS] = { { .status = PLACE_OK } };
    uint32_t store;
    for (;;) {
        place_look(place, stores);
        store = place_pick(stores, PARTS);
        if (store == PLACE_NONE)
            break;
        int ms = write_ms(rng, t, store);
        if (ms == 1)
            break;
        stores[store].status =
            PLACE_SUSPECT; /* also when it is slow: the write is given up before the client does */
    }
    *(store == PLACE_NONE ? &out->refused : &out->whole) += 1;
    if (store != PLACE_NONE) {
        out->loads[store] += items;
        place_load(place, stores[store].partition, out->loads[store]);
    }
}

static struct place *four(void)
{
    struct place *p = place_new(PARTS);
    for (uint32_t i = 0; i < PARTS; i++) {
        place_put(p, i, i);
        place_open(p, i, true);
    }
    return p;
}

static void run(enum trouble t, bool verbose)
{
    struct rng rng, same;
    struct outcome robin = { .whole = 0 }, whole = { .whole = 0 };
    struct place *place = four();
    unsigned cursor = 0;
    rng_init(&rng, 19);
    rng_init(&same, 19);
    for (unsigned i = 0; i < REQUESTS; i++) {
        uint32_t items = 2 + (uint32_t)rng_below(&rng, 100);
        round_robin(&rng, t, items, &cursor, &robin);
        opportunistic(&same, t, items, place, &whole);
    }
    if (verbose)
        printf("%-24s round robin: %5u whole %5u refused %5u partial | whole requests: %5u whole "
               "%5u refused %u "
               "partial\n",
               names[t], robin.whole, robin.refused, robin.partial, whole.whole, whole.refused,
               whole.partial);
    INVARIANT(whole.partial == 0);
    INVARIANT((robin.partial > 0) == (t == ALL_FAILING || t == DEGRADED));
    INVARIANT(t != NONE || (robin.whole == REQUESTS && whole.whole == REQUESTS));
    place_free(&place);
}

/* The ADR's own figures: 50, 30 and 100 items give 45 each. */
static void figures(void)
{
    static const uint32_t counts[] = { 50, 30, 100 };
    struct rng rng;
    struct outcome robin = { .whole = 0 };
    unsigned cursor = 0;
    rng_init(&rng, 1);
    for (unsigned i = 0; i < 3; i++)
        round_robin(&rng, NONE, counts[i], &cursor, &robin);
    for (unsigned p = 0; p < PARTS; p++)
        INVARIANT(robin.loads[p] == 45);
}

int main(int argc, char **argv)
{
    figures();
    for (unsigned t = 0; t < TROUBLES; t++)
        run((enum trouble)t, argc > 1 && strcmp(argv[1], "--verbose") == 0);
    return 0;
}
