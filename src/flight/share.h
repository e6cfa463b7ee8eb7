/* share.h - what flight.c asks of the part across servers. Private to this folder. */
#ifndef FLIGHT_SHARE_H
#define FLIGHT_SHARE_H

#include "flight/core.h"
#include "flight/shared.h"

struct share_call;
/* Takes part for a flight whose maker travels, in place of the maker's start. It ends the flight
 * through flight_end_now. Loop thread. */
void share_start(struct flight_shared *s, struct flight *f);
/* Its state and token, for flights_each. Loop thread. */
void share_look(const struct share_call *c, struct flight_seen *s);
/* In place of the maker's cancel. Loop thread. */
void share_cancel(struct share_call *c);
/* The maker has finished. Any thread. note is copied. */
void share_made(struct share_call *c, const struct flight_result *r);

/* flight.c: the end of a flight, past share_made. Any thread. */
void flight_end_now(struct flight *f, const struct flight_result *r, enum flight_detail detail);
/* core_impl.h's part of a flight. */
struct share_call *flight_call_of(const struct flight *f);
void flight_call_set(struct flight *f, struct share_call *c);
void flight_lease_set(struct flight *f, uint64_t fence, str token);
/* What its waiters are told when it is neither LED nor WAITED. Under the lock of flights. */
void flight_detail_set(struct flight *f, enum flight_detail detail);
/* Where its value was made, when no call of ours ends it. */
void flight_made_set(struct flight *f, enum flight_detail made);
enum flight_detail flight_made(const struct flight *f);

#endif
