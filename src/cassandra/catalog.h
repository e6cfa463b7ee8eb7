/* catalog.h - what all servers of a cluster must agree on: policies, keys and roles, numbers.
 *
 * Model. A scope ("policies", "auth") is one partition of the table `decide`: cells by key, in
 * order of their bytes, and a generation, the id of the last change. Nothing is written to that
 * table but by conditional writes, without timestamps of ours. All scopes are small and read whole.
 *   A change writes or deletes cells of one scope, all or none. It may depend on the generation
 * (nothing of the scope has changed since it was read), or on versions of cells; the version of a
 * cell is the id of the change that wrote it. Changes that depend on nothing go as well.
 *   Each change has an id of its own and leaves a note of it in the scope for a day. When an answer
 * is lost, the note is looked for at SERIAL: so a change knows whether it happened. It is sent
 * again until that is certain, or its time is over (then `unknown`). Sent twice it happens once: a
 * change depends on there being no note of it. A watch keeps a copy of a scope: each second it asks
 * for the generation, and reads the scope when that is another one. So what a change decided is
 * seen everywhere a second later, and a copy says how old it may be. Consistency: changes are
 * decided at SERIAL over all data centres, and written at EACH_QUORUM, so that readings at
 * LOCAL_QUORUM see them everywhere (keyspaces of the class NetworkTopologyStrategy only). A change
 * that was cut off while it was written is seen in another data centre when the cluster has mended
 * itself. Why so: docs/adr/0050. Requests embed a store_call (store/store.h): each is STORE_LATER,
 * done runs at its home, once. Errors: those of src/cql; ERR_LIMIT; ERR_CORRUPT, also when the
 * table is another one. Thread: any, unless said. */
#ifndef CASSANDRA_CATALOG_H
#define CASSANDRA_CATALOG_H

#include "store/store.h"

#include "base/str.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    CATALOG_ID_BYTES = 16,
    CATALOG_SCOPE_BYTES_MAX = 64,
    CATALOG_KEY_BYTES_MAX = 512,
    CATALOG_VALUE_BYTES_MAX = 16 << 10,
    CATALOG_CHANGE_MAX = 250,              /* cells of one change */
    CATALOG_CELLS_MAX = 1000000,           /* of one scope */
    CATALOG_SCOPE_BYTES_LIMIT = 128 << 20, /* keys and values of one scope */
    CATALOG_WAIT_MS = 10000,               /* of a request without a deadline */
    CATALOG_NOTE_TTL_S = 86400,            /* so long a change can be asked for */
    CATALOG_POLL_MS = 1000,
};

struct cql;
struct loop;
struct catalog;
struct catalog_opts {
    struct cql *client; /* outlives it */
    struct loop *loop;  /* the client's */
    struct clock *clock;
    const char *keyspace;                 /* as of titles_new */
    void (*entropy)(void *dst, size_t n); /* bytes that no other server has */
};
/* Registers its statements with the client. NULL: ERR_BAD with a note. Thread: the client's loop,
 * or before it runs. */
struct catalog *catalog_new(const struct catalog_opts *o, struct err_note *note);
void catalog_free(struct catalog **cp); /* no request is under way, and no watch is left */

/* Of a change; of the cells that it wrote; of the scope behind it. All zero: none (the cell is not
 * there; nothing was ever written to the scope). */
struct catalog_id {
    unsigned char bytes[CATALOG_ID_BYTES];
};
bool catalog_id_eq(const struct catalog_id *a, const struct catalog_id *b);

/* ---- reading ---- */

struct catalog_cell {
    str key, value;
    struct catalog_id version;
};
/* A scope as it was at some instant; never changes. Held by whoever looks at it. */
struct catalog_rows {
    atomic_uint holders;
    struct catalog_id generation;
    mono asked_at; /* all that was acknowledged before is in it */
    size_t count, bytes;
    struct catalog_cell *cells; /* in order of their keys */
};
struct catalog_rows *catalog_rows_hold(struct catalog_rows *r);
void catalog_rows_drop(struct catalog_rows **rp); /* NULL is allowed */
/* Index of the first cell whose key is not less; count: there is none. */
size_t catalog_rows_from(const struct catalog_rows *r, str key);
/* NULL: it is not there. Borrowed from r. */
const struct catalog_cell *catalog_rows_find(const struct catalog_rows *r, str key);

/* The cells of a scope, or that of one key alone. */
struct catalog_load {
    struct store_call call;
    /* in; borrowed until done */
    str scope;
    str key;     /* p NULL: all */
    bool serial; /* at SERIAL: also what is being written just now, all over the cluster */
    /* out */
    struct catalog_rows *rows; /* the caller's, to be dropped */
    struct err_note note;
};
enum store_start catalog_load(struct catalog *c, struct catalog_load *l);

/* The generation alone. */
struct catalog_look {
    struct store_call call;
    /* in; borrowed until done */
    str scope;
    /* out */
    struct catalog_id generation;
    struct err_note note;
};
enum store_start catalog_look(struct catalog *c, struct catalog_look *l);

/* ---- changes ---- */

struct catalog_put {
    str key;
    str value; /* p NULL: the cell is deleted */
    /* Only while its cell has this version (none: it is not there); else nothing of the change
     * happens. NULL: whatever it is */
    const struct catalog_id *if_version;
};
struct catalog_change {
    struct store_call call;
    /* in; borrowed until done */
    str scope;
    const struct catalog_id *if_generation; /* NULL: whatever it is */
    const struct catalog_put *puts;         /* 1 to CATALOG_CHANGE_MAX, no key twice */
    unsigned puts_count;
    /* out */
    struct catalog_id id; /* of this change: the version of its cells, the generation behind it */
    bool unknown;         /* it failed, and may have happened or happen yet */
    struct err_note note;
};
/* ERR_OK: it happened, on a quorum of each data centre unless the answer was lost on the way.
 * ERR_CONFLICT: something it depends on is another one; nothing happened. */
enum store_start catalog_change(struct catalog *c, struct catalog_change *q);

/* ---- a copy that follows ---- */

struct catalog_watch;
struct catalog_watch_opts {
    struct catalog *catalog; /* outlives it */
    const char *scope;       /* borrowed for its life */
    int64_t poll_ms;         /* 0: CATALOG_POLL_MS */
    /* Another copy is here; NULL: nobody is told. Borrowed during the call. Thread: loop. */
    void (*changed)(void *ctx, struct catalog_rows *rows);
    void *ctx;
};
/* Begins at once. Thread: loop, or before it runs. */
struct catalog_watch *catalog_watch_new(const struct catalog_watch_opts *o);
/* Asks no more, and has no timer any more; stopped is called once, later, when nothing is under
 * way: then catalog_watch_free. The copy can be looked at until then. Thread: loop. */
void catalog_watch_stop(struct catalog_watch *w, void (*stopped)(void *ctx), void *ctx);
void catalog_watch_free(struct catalog_watch **wp); /* stopped, or the loop never ran */
/* The copy, held for the caller; NULL: there is none yet. *fresh_at: all that was acknowledged
 * before is in it. Never blocks but for a lock held briefly. */
struct catalog_rows *catalog_watch_rows(struct catalog_watch *w, mono *fresh_at);
/* The second alone; false: there is no copy. */
bool catalog_watch_fresh(const struct catalog_watch *w, mono *fresh_at);
/* A copy that the caller read, as after a change of its own: taken unless a later one is there.
 * changed is not called for it. Thread: any. */
void catalog_watch_take(struct catalog_watch *w, struct catalog_rows *rows);
/* There is no copy until one is read whose reading begins later. Thread: any. */
void catalog_watch_forget(struct catalog_watch *w);

#endif
