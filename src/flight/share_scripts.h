/* share_scripts.h - the record of a flight in Redis, and the scripts that alone change it.
 * Private.
 *
 * Key pal:f:{ID}: ID is 32 hex digits, the first 128 bits of SHA-256 over the length-prefixed parts
 * of a key. A hash:
 *   val ver k    value, the token of who made it, its kind (V the value itself, R a reference to
 *                it)
 *   fu su at d   fresh until, stale until, when it was put, how long it took to make
 *   vb           when the lease under which it was made began
 *   lt lx lb     token, end and begin of the lease
 *   w            nodes that wait, each followed by a space
 *   ek eu en     class of the error, until when it is answered, how many there were in a row
 *   f a          the greatest fence ever given, leases given back in a row
 *   o            versions before this one that are kept, each as a hash of val ver k fu su at under
 * pal:f:{ID}:VER Key pal:p:{ID of a domain's list}: a sorted set of the displays that are pinned,
 * by when each was read last. All times are Redis TIME in ms. A token is FENCE.NODE; fence = max(f
 * + 1, TIME in microseconds): it grows also when the record was lost, and stays below 2^53, which
 * Lua's numbers hold exactly, until 2255. Nothing in a record is believed beyond what whoever asks
 * would have put there, for Redis's clock may be set back, a replica may take over, and others may
 * write: a lease is live only while 0 < lx - now <= lease_max; a value is fresh for fresh_max from
 * at, shown for stale_max more, and of no use when at is more than a second ahead; an error is
 * answered for error_max. A number that no server writes counts as 0, such a token as absent. A
 * record lives until su, at least gen_timeout + 1 s: it outlives every token, so that a record that
 * is not there means loss or eviction. The first write of each script is one that Redis refuses
 * when it is full, so OOM leaves nothing half done. Pushes go to pal:n:NODE: "ID TOKEN KIND ...": V
 * and R are followed by FRESH STALE AGE (ms left, ms old) and the value, when it is short; L says
 * look, E is followed by LEFT CLASS, T says try again. A drop goes to pal:all: "ID". */
#ifndef FLIGHT_SHARE_SCRIPTS_H
#define FLIGHT_SHARE_SCRIPTS_H

#include "redis/redis.h"

/* Arguments, in order (all text):
 *   JOIN   node lease_ms lease_max_ms gen_ms early since peek holds fresh_max stale_max error_max
 *          value_max touch want index pins_max
 *          early: -ln(random) * beta, 0 never early (XFetch); since: empty; -1: nothing made so far
 *          will do; -1-MS: what was begun less than MS ago will; else the instant that an earlier
 *          JOIN answered behind WAIT or GRANT: only what was begun after it will do; peek
 *          1: a usable value is answered with refresh 1 where 0 would have granted; peek 2: and
 *          nobody is waited for or granted, NONE is said instead; holds 1: who asks has a value of
 *          before, and is told GONE when there is no record that can be believed touch: not 0: a
 *          value is pinned: answered whatever its age, and stays for so long from now; index and
 *          pins_max: the key of the pins, and how many there may be; HIT then says behind refresh
 *            how many lost theirs want: not empty: a version to look for, in the record or kept
 *       beside it: STALE or NONE -> HIT ver fresh stale age kind value refresh | STALE (the same) |
 *        ERR class left | WAIT token left since | GRANT token since | GONE
 *   PUT    token kind payload fresh_ms stale_ms d_ms gen_ms push_max id neg_base neg_max jitter
 *          value_max touch versions_max index pins_max
 *          kind V, R, E (payload: class); jitter: 0.8 to 1.2
 *          versions_max: so many older versions are kept until their own ends
 *       -> OK left unpinned | LOST [ver fresh stale age kind value refresh]
 *   RENEW  token lease_ms gen_ms -> 1 | 0
 *   ABORT  token id gen_ms neg_base -> 1 | 0
 *   DROP   id gen_ms -> fence
 *   OFFER  ver fresh_ms stale_ms age_ms kind value gen_ms touch versions_max index pins_max
 *       -> 1 | 0   a value of before: in place of none, of one that is not believed or of an older
 *          one, unless a lease was given or a drop came after it was made
 * And for a note, whose key is pal:x:{ID}:
 *   NOTE   text ttl_ms -> 1 | 0   in place of none, of the same, or of one that has less than half
 *          of that time left. A user of Redis who may not know what is left leaves it */
enum share_script {
    SHARE_JOIN,
    SHARE_PUT,
    SHARE_RENEW,
    SHARE_ABORT,
    SHARE_DROP,
    SHARE_OFFER,
    SHARE_NOTE,
    SHARE_SCRIPTS
};
extern const struct redis_script share_scripts[SHARE_SCRIPTS];

#endif
