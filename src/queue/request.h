/* request.h - what the module keeps of each request, in the room its struct has for that. Private
 * to queue.
 *
 *   PARKED -> PENDING -> WRITING -> ANSWERED      produce: WRITING -> UNKNOWN -> ANSWERED or PARKED
 *          \-> FETCHING -/                        a lease reads bodies first
 *   All: back to PARKED after a failure.
 * Thread: under the lock of the queue. */
#ifndef QUEUE_REQUEST_H
#define QUEUE_REQUEST_H

#include "queue/order/part.h"
#include "queue/queue.h"
#include "queue/store/job.h"

enum req_kind { REQ_PRODUCE, REQ_LEASE, REQ_CHANGE };
enum req_state {
    REQ_PARKED,   /* waits for a partition, an item, the end of a pause */
    REQ_PENDING,  /* waits for a write of its partition */
    REQ_FETCHING, /* lease: bodies are read */
    REQ_WRITING,  /* in a write */
    REQ_UNKNOWN,  /* produce: only the store knows */
    REQ_ANSWERED
};
/* Who posts its task: QUIET: whoever answers it; CALLED: a store's thread did, or will when a write
 * is over; the task then looks whether it was answered; OVER: it was. */
enum req_turn { REQ_QUIET, REQ_CALLED, REQ_OVER };
struct slot;
/* At the beginning of own of each request. */
struct req {
    struct task task;
    struct home *home;
    atomic_uint turn;       /* enum req_turn */
    struct slot *slot;      /* WRITING, until its outcome */
    struct list link;       /* where it waits */
    struct heap_node until; /* in queue.deadlines */
    mono deadline;
    struct part *part;
    uint64_t seq; /* order of arrival */
    err why;
    unsigned char kind, state;
    bool canceled, paused;
};
struct idem;
struct own_produce {
    struct req req;
    struct idem *idem;
    unsigned char digest[QUEUE_DIGEST_BYTES]; /* with an idempotency key; zero: none */
    uint64_t bytes;                           /* of the items, about */
    struct shared *encoded;                   /* as a batch of its own; NULL: shares one */
    struct ksuid batch;                       /* of the write on its way */
    uint32_t offset;                          /* first item in that batch */
    store_time created_at, expire_at;
    uint32_t fixed;                  /* partition by its order key or an import, or PLACE_NONE */
    const struct queue_item *import; /* with what they were before; NULL: new items */
    bool attached;                   /* waits for the request that had its key first */
};
struct own_lease {
    struct req req;
    struct hash_node by_client;
    struct list items, fetch; /* struct qitem in order of the reply; in queue.fetches */
    struct batch **batches;   /* of each item, held while copying */
    struct queue_place *places;
    struct queue_store *store;
    struct queue_part place;
    uint64_t bytes;
    uint32_t store_index;
    unsigned count, read; /* items; bodies of them that were read */
    bool named, copying, written, again, sized;
    err fetch_why;
    struct arena_mark tries;     /* of the request's memory: what a try takes goes with it */
    struct queue_bodies *bodies; /* being read; in the request's memory */
    struct store_job job;
};
/* What the store said of an id. */
struct looked {
    bool there, in_place, scheduled;
    struct queue_entry entry;
    struct queue_batch batch;
};
struct own_change {
    struct req req;
    struct ksuid *ids;
    struct looked *there; /* of each id, once looked */
    unsigned left;        /* outcomes awaited */
    bool ask, looked, looking;
    uint64_t judged; /* part.settled then: the same would come of it */
    err worst, look_why;
    uint64_t churn; /* of the part, when the store was asked */
    /* of the request's memory: what the store said goes when it is asked again */
    struct arena_mark looks;
    struct ksuid moving; /* an item that it waits for; NIL: none */
    struct queue_part place;
    struct queue_store *store;
    uint32_t store_index;
    struct looking *look; /* in the request's memory; NULL: there was none */
    struct store_job job;
};

struct own_produce *own_produce(struct queue_produce *p);
struct own_lease *own_lease(struct queue_lease_request *r);
struct own_change *own_change(struct queue_change *c);
struct queue_produce *req_produce(struct req *r);
struct queue_lease_request *req_lease(struct req *r);
struct queue_change *req_change(struct req *r);
void req_add(struct queue *q, struct req *r, mono deadline);
void req_answer(struct queue *q, struct req *r, err why); /* from wherever it waits */
struct err_note *req_note(struct req *r);
void req_park(struct list *by_seq, struct req *r);
/* Posts the tasks of those that were answered. Not under the lock. */
void requests_tell(struct list *replies);
bool req_is_sooner(const struct heap_node *a, const struct heap_node *b); /* by deadline */
void requests_time_out(struct queue *q, mono now);

#endif
