/* record.h - the record of one flight without Redis: the transitions of src/flight/share_scripts.c,
 * and what must hold of them whatever order they come in. A broken one ends the test, naming the
 * seed and the step. */
#ifndef TEST_FLIGHT_RECORD_H
#define TEST_FLIGHT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { RECORD_NODES_MAX = 64, RECORD_PUSHES_MAX = RECORD_NODES_MAX };

struct record_opts {
    int64_t lease_ms, gen_ms, fresh_ms, stale_ms, neg_base_ms, neg_max_ms;
    uint64_t seed;
};
enum push_kind { PUSH_VALUE, PUSH_ERROR, PUSH_RETRY };
struct record_push {
    unsigned node;
    enum push_kind kind;
    uint64_t fence, bytes, epoch;
}; /* epoch: losses so far */

struct record {
    struct record_opts opts;
    uint64_t step; /* of the schedule, for what is said when something breaks */
    int64_t now;   /* ms; moves forward only */
    uint64_t us;   /* Redis TIME: never twice the same */
    bool there;
    uint64_t fence, lease, version, bytes;
    int64_t lease_until, lease_began, fresh_until, stale_until, error_until, dies_at;
    bool has_value;
    unsigned errors, aborts;
    uint64_t waits;                               /* a bit a node */
    struct record_push pushes[RECORD_PUSHES_MAX]; /* of the last call */
    unsigned pushes_count;
    /* For the invariants. */
    uint64_t greatest;         /* token ever granted */
    uint64_t drop_fence;       /* of the last drop, unless the record was lost since; 0: none */
    uint64_t granted, allowed; /* leases; how many may be by now (S3) */
    uint64_t accepted, refused, errors_put, drops, losses, takeovers;
};
void record_init(struct record *r, const struct record_opts *opts);
void record_at(struct record *r, int64_t now);

enum join_answer { JOIN_HIT, JOIN_STALE, JOIN_ERROR, JOIN_WAIT, JOIN_GRANT };
struct joined {
    enum join_answer answer;
    uint64_t version, bytes, token;
    int64_t left_ms;
};
struct joined record_join(struct record *r, unsigned node);
enum put_answer { PUT_OK, PUT_LOST, PUT_LOST_VALUE };
struct put {
    enum put_answer answer;
    uint64_t version, bytes;
};
struct put record_put(struct record *r, uint64_t token, bool is_error, uint64_t bytes);
bool record_renew(struct record *r, uint64_t token);
bool record_abort(struct record *r, uint64_t token);
void record_drop(struct record *r);
void record_lose(struct record *r);      /* evicted, or Redis came back empty */
void record_end_lease(struct record *r); /* before its time: a clock that jumped */

#endif
