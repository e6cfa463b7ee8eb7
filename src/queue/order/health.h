/* health.h - how a store is doing, from the outcomes of its writes: what place.h is told of it.
 *
 *   OK -- definite failure --> SUSPECT -- probe written --> OK
 *   OK | SUSPECT -- unknown outcome, damage, HEALTH_FAILURES_MAX failures --> ERROR
 *   ERROR -- recovered and read --> OK
 *
 * A good probe is no good write: a store that passes its probes and refuses each write after them
 * relapses. As many relapses as failures lead to ERROR, and each makes the next pause twice as
 * long. They are forgotten after a write, or when the store stayed OK for longer than
 * HEALTH_CALM_MS and twice the pause before. A suspect store gets no client's request; it is probed
 * by a heartbeat record of our own, first after HEALTH_BACKOFF_MS, then after twice as long each
 * time, and sooner when a request waits for it: HEALTH_WANTED_MS after the last probe. A full disk
 * stays SUSPECT however often it fails: what is there is still served. A slow store (place.h) is
 * probed once in HEALTH_SLOW_PROBE_MS, because nothing else would show that it got better. The
 * average forgets one part in HEALTH_AVERAGE_OVER at each write: one slow write among quick ones
 * marks no store, and does not hide one that is always slow beside it. Pure: now is an argument.
 * Thread: one at a time. Private to queue. */
#ifndef QUEUE_ORDER_HEALTH_H
#define QUEUE_ORDER_HEALTH_H

#include "queue/order/place.h"

enum {
    HEALTH_BACKOFF_MS = 100,
    HEALTH_BACKOFF_MS_MAX = 30000,
    HEALTH_FAILURES_MAX = 5,
    HEALTH_WANTED_MS = 1000,
    HEALTH_CALM_MS = 5000,
    HEALTH_SLOW_PROBE_MS = 1000,
    HEALTH_AVERAGE_OVER = 8,
};

struct health {
    enum place_status status;
    uint32_t in_flight; /* produce requests placed there */
    uint32_t failures;  /* in a row, probes too */
    uint32_t relapses;  /* times it failed soon after it was OK again */
    mono ok_at;         /* since when it is OK */
    mono failed_at;     /* the last failure that was told, of a write or a probe */
    int64_t write_ns;
    mono written_at; /* of the average */
    mono probe_at;   /* not before, while SUSPECT or ERROR */
    bool probing;
    err why;   /* of the failure that changed the status last */
    bool mute; /* SUSPECT: it did not answer; else it did, such as that its disk is full */
    uint64_t failures_total;
};

/* A write was answered; ERR_CONFLICT says nothing of the store. took_ns: since it was started;
 * counts for the average when it is a synced one. True: the status changed. */
bool health_written(struct health *h, mono now, err why, int64_t took_ns, bool counts);
/* A write has no answer in time: no more requests for now, the outcome may still come. */
bool health_overdue(struct health *h, mono now, int64_t took_ns);
/* A probe (SUSPECT, slow) or a recovery (ERROR) is wanted now: it is the caller's to do, once. */
bool health_probe(struct health *h, mono now);
bool health_probed(struct health *h, mono now, err why, int64_t took_ns);
/* A request waits for it: its next probe comes soon. */
void health_wanted(struct health *h, mono now);
/* In ERROR, or suspected because it did not answer. */
bool health_silent(const struct health *h);
/* For the log: what made it what it is. */
const char *health_why(const struct health *h);
/* When health_probe is to be asked again; ns INT64_MAX: not before something happens. */
mono health_next(const struct health *h);
/* As place.h wants it, partition and load left out. */
struct place_store health_view(const struct health *h);

#endif
