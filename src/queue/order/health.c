/* health.c - the state machine of one store's health, fed with the outcomes of writes and
 * probes. Invariant: pauses between probes double up to HEALTH_BACKOFF_MS_MAX. */
#include "queue/order/health.h"

/* A moving average: see HEALTH_AVERAGE_OVER. */
static void average(struct health *h, mono now, int64_t took_ns)
{
    h->write_ns = h->written_at.ns == 0
                      ? took_ns
                      : h->write_ns + (took_ns - h->write_ns) / HEALTH_AVERAGE_OVER;
    h->written_at = now;
}

/* Doubles with each failure after the first. */
static int64_t backoff_ms(uint32_t failures)
{
    int64_t ms = HEALTH_BACKOFF_MS;
    for (uint32_t i = 1; i < failures && ms < HEALTH_BACKOFF_MS_MAX; i++)
        ms *= 2;
    return ms < HEALTH_BACKOFF_MS_MAX ? ms : HEALTH_BACKOFF_MS_MAX;
}

/* True: the status is another one than before. */
static bool health_turn(struct health *h, enum place_status to)
{
    bool changed = h->status != to;
    h->status = to;
    return changed;
}

static bool is_full(err why)
{
    return why == ERR_FULL || why == ERR_LIMIT;
}

/* Relapses count like failures, although a good probe came between them. */
static uint32_t failures_of(const struct health *h)
{
    return h->failures > h->relapses ? h->failures : h->relapses;
}

/* OK for so long that the next failure is no relapse. */
static bool is_calm(const struct health *h, mono now)
{
    int64_t ms = 2 * backoff_ms(failures_of(h));
    return h->relapses == 0 ||
           now.ns >= mono_add_ms(h->ok_at, ms > HEALTH_CALM_MS ? ms : HEALTH_CALM_MS).ns;
}

static void count_failure(struct health *h, mono now, err why)
{
    if (h->status == PLACE_OK)
        h->relapses = is_calm(h, now) ? 1 : h->relapses + 1;
    h->failures++;
    h->failures_total++;
    h->why = why;
    h->mute = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT;
    h->failed_at = now;
    h->probe_at = mono_add_ms(now, backoff_ms(failures_of(h)));
}

/* Unknown outcomes, damage and too many failures lead to ERROR; a full disk stays SUSPECT. */
static bool failed(struct health *h, mono now, err why)
{
    count_failure(h, now, why);
    if (why == ERR_IO || why == ERR_CORRUPT || h->status == PLACE_ERROR)
        return health_turn(h, PLACE_ERROR);
    if (failures_of(h) >= HEALTH_FAILURES_MAX && !is_full(why))
        return health_turn(h, PLACE_ERROR);
    return health_turn(h, PLACE_SUSPECT);
}

bool health_written(struct health *h, mono now, err why, int64_t took_ns, bool counts)
{
    /* Neither says anything of the store: this process ends, or another one owns the partition. */
    if (why == ERR_SHUTDOWN || why == ERR_CONFLICT)
        return false;
    if (why != ERR_OK && h->status != PLACE_OK && why != ERR_IO && why != ERR_CORRUPT) {
        h->failures_total++; /* known: the next probe stays when it is */
        return false;
    }
    if (why != ERR_OK && h->status != PLACE_ERROR)
        return failed(h, now, why);
    /* In ERROR already: only a recovery changes that. */
    if (why != ERR_OK)
        return false;
    if (counts)
        average(h, now, took_ns);
    if (h->status == PLACE_OK)
        h->failures = 0;
    if (h->status == PLACE_OK && h->why != ERR_CORRUPT && h->why != ERR_IO)
        h->relapses = 0; /* damage stays where it is, however well the rest is written */
    return false;
}

/* The write may still be answered; its time counts as the average until then. */
bool health_overdue(struct health *h, mono now, int64_t took_ns)
{
    if (took_ns > h->write_ns)
        h->write_ns = took_ns;
    h->written_at = now;
    if (h->status != PLACE_OK)
        return false;
    count_failure(h, now, ERR_TIMEOUT);
    return health_turn(h, PLACE_SUSPECT);
}

bool health_silent(const struct health *h)
{
    return h->status == PLACE_ERROR || (h->status == PLACE_SUSPECT && h->mute);
}

const char *health_why(const struct health *h)
{
    static const char *const texts[ERR_CODES] = {
        [ERR_FULL] = "it is full",
        [ERR_LIMIT] = "it is full",
        [ERR_TIMEOUT] = "no answer in time",
        [ERR_UNAVAILABLE] = "it does not answer, or refuses",
        [ERR_IO] = "its connection is lost, or what became of a write is not known",
        [ERR_CORRUPT] = "damage",
        [ERR_DENIED] = "it denies what writes need",
    };
    return texts[h->why] == NULL ? err_name(h->why) : texts[h->why];
}

/* Slow stores are probed, because place.h sends them no requests that would show that they are
 * quick again. */
static bool is_slow(const struct health *h)
{
    return h->status == PLACE_OK && h->write_ns > PLACE_SLOW_NS;
}

/* One probe at a time: the next is due once this one is over. */
mono health_next(const struct health *h)
{
    if (h->probing)
        return (mono){ .ns = INT64_MAX };
    if (is_slow(h))
        return mono_add_ms(h->written_at, HEALTH_SLOW_PROBE_MS);
    return h->status == PLACE_OK ? (mono){ .ns = INT64_MAX } : h->probe_at;
}

bool health_probe(struct health *h, mono now)
{
    if (health_next(h).ns > now.ns)
        return false;
    h->probing = true;
    return true;
}

bool health_probed(struct health *h, mono now, err why, int64_t took_ns)
{
    h->probing = false;
    if (why != ERR_OK)
        /* The process ends: what the probe said means nothing. */
        return why == ERR_SHUTDOWN ? false : failed(h, now, why);
    h->write_ns = took_ns; /* nothing else was written there: this is how it is now */
    h->written_at = now;
    h->failures = 0;
    if (h->status != PLACE_OK)
        h->ok_at = now;
    return health_turn(h, PLACE_OK);
}

void health_wanted(struct health *h, mono now)
{
    /* Not before a second after the last failure, and not later than it is due anyway. */
    mono soon = mono_add_ms(h->failed_at, HEALTH_WANTED_MS);
    if (h->status == PLACE_OK || h->relapses > 1)
        return; /* of one that passes its probes and refuses writes a probe says nothing new */
    if (soon.ns < h->probe_at.ns)
        h->probe_at = soon.ns > now.ns ? soon : now;
}

struct place_store health_view(const struct health *h)
{
    return (struct place_store){ .status = h->status,
                                 .in_flight = h->in_flight,
                                 .write_ns = h->write_ns,
                                 .partition = PLACE_NONE };
}
