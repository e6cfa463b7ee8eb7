/* share_core.h - one node's part in one flight across servers, pure: event in, actions out. Private
 * to this folder.
 *
 * The machine of docs/flights.md, 4, without its waiters: those are the flight's (core.h). Time,
 * Redis and the maker are share.c's; the simulation drives it against a record of its own.
 *
 *   JOINING --grant--> LEADING --made--> PUBLISHING --stored--> OVER
 *      ^ |--wait--> WAITING --push--> OVER      |--lost, no value: JOINING, SHARE_REJOINS_MAX times
 *      | '--hit, error--> OVER                  '--lost with a value, or Redis failed--> OVER
 *      |                   |
 *      '----timer, retry---'      JOINING, WAITING --Redis failed--> ALONE --made--> OVER */
#ifndef FLIGHT_SHARE_CORE_H
#define FLIGHT_SHARE_CORE_H

#include "base/check.h"

#include <stdbool.h>

enum { SHARE_REJOINS_MAX = 2 };

enum share_state {
    SHARE_JOINING,
    SHARE_WAITING,
    SHARE_LEADING,
    SHARE_PUBLISHING,
    SHARE_ALONE,
    SHARE_OVER,
    SHARE_STATES
};
const char *share_state_name(enum share_state s);

enum share_event {
    SHARE_GOT_VALUE, /* JOIN: there is a fresh one, or a stale one that somebody else refreshes; or
                        a push of one */
    SHARE_GOT_ERROR, /* JOIN: an error pause runs, nothing usable; or a push of an error */
    SHARE_GOT_WAIT,  /* JOIN: somebody leads */
    SHARE_GOT_GRANT, /* JOIN: we lead */
    SHARE_GOT_RETRY, /* a push: the leader gave up, or the key was dropped; or the value was too
                        large to push */
    SHARE_LEASE_RAN_OUT, /* the timer of WAITING */
    SHARE_NO_REDIS,      /* JOIN failed, or what we waited on was lost and the bucket works alone */
    SHARE_MADE,          /* the maker has finished, well or not */
    SHARE_STORED,        /* PUT was accepted */
    SHARE_LOST_VALUE,    /* PUT was refused; there is a winner's value */
    SHARE_LOST,          /* PUT was refused; there is none */
    SHARE_PUT_FAILED,    /* Redis did not answer PUT */
    SHARE_STOP,          /* nobody wants it any more, or the server ends */
    SHARE_EVENTS
};
/* What share.c has to do now; several at once. */
enum share_action {
    SHARE_DO_JOIN = 1,
    SHARE_DO_WAIT = 2, /* start the timer of the lease */
    SHARE_DO_MAKE = 4,
    SHARE_DO_PUT = 8,
    SHARE_DO_ABORT = 16,      /* give the lease back */
    SHARE_DO_CANCEL = 32,     /* tell the maker to stop */
    SHARE_ANSWER_THEIRS = 64, /* with the value or error that came */
    SHARE_ANSWER_OURS = 128,  /* with what we made */
    SHARE_ANSWER_STOPPED = 256,
    SHARE_MARK_DEGRADED = 512, /* ours was not stored for the others */
};
struct share_machine {
    enum share_state state;
    unsigned rejoins;
    bool making; /* the maker runs */
    bool answered;
};
/* The machine begins in JOINING; returns the first actions. */
unsigned share_begin(struct share_machine *m);
/* Events that mean nothing in the state they come in (a push after the end) do nothing. */
unsigned share_step(struct share_machine *m, enum share_event e);

#endif
