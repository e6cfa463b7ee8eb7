#include "history.h"

#include "base/times.h"

enum { AT_2015 = 1427846400 }; /* 2015-04-01T00:00:00Z */

const char *tid_at(int second, char text[TID_TEXT_BYTES + 1])
{
    store_time at = { .ns = (AT_2015 + (int64_t)second) * NS_PER_S };
    tid_format(tid_make(tid_ticks(at), 7), text);
    return text;
}

int history_pick(struct history *h, unsigned below)
{
    return (int)rng_below(&h->rng, below);
}

bool history_lives(const struct history *h, int version)
{
    return h->there[version] && h->now < h->own[version] && h->now < h->fall[version];
}

void history_put(struct history *h, int version, int ttl_s)
{
    h->there[version] = true;
    h->own[version] = ttl_s > 0 ? h->now + ttl_s : INT64_MAX;
    h->fall[version] = INT64_MAX;
}

void history_settle(struct history *h, int low, int high)
{
    int64_t end = h->now + h->grace_s;
    for (int v = high - 1, kept = 0; v >= low; v--) {
        if (!history_lives(h, v) || h->own[v] <= end)
            continue;
        if (kept++ < h->keep)
            h->fall[v] = INT64_MAX;
        else if (h->fall[v] > end)
            h->fall[v] = end;
    }
}

void history_expire(struct history *h)
{
    for (int v = 0; v < HISTORY_VERSIONS_MAX; v++)
        h->there[v] = history_lives(h, v);
}
