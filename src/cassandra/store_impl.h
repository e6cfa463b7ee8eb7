/* store_impl.h - what the files of store.h share. Private to this folder. */
#ifndef CASSANDRA_STORE_IMPL_H
#define CASSANDRA_STORE_IMPL_H

#include "cassandra/blame.h"
#include "cassandra/catalog.h"
#include "cassandra/pages.h"
#include "cassandra/schema.h"
#include "cassandra/skew.h"
#include "cassandra/store.h"
#include "cassandra/sweep.h"
#include "cql/cql.h"

#include <pthread.h>

enum cassandra_store_step { STORE_OPENING, STORE_OPEN, STORE_CLOSED };
enum store_fault { STORE_WHOLE, STORE_LACKS, STORE_STRANGE }; /* store_watch.c */
enum { STORE_WAIT_MS = 10000 };
#define STORE_CLOSED_TEXT                                                                          \
    "the store of pages is not open yet: the server waits for its cluster; its log says why"

struct cassandra_store {
    uint32_t magic;
    struct page_store store;
    struct cassandra_store_opts opts;
    struct titles *titles;
    struct cassandra_pages *pages;
    struct catalog *catalog;
    struct catalog_watch *policies; /* NULL: they were not read yet */
    struct catalog_load load;       /* of them, while it opens */
    struct table_store tables;
    struct values *values;
    struct cassandra_sweep *sweep; /* NULL: the store was never open */
    atomic_int state;
    atomic_uint starting; /* requests that are being started at this moment */
    atomic_bool ready, skewed;
    atomic_int fault;
    pthread_mutex_t told_lock; /* of told: what the fault is */
    struct err_note told;
    /* the loop's */
    bool busy, looking, checking, comparing; /* exchanges that are under way */
    bool again;                              /* the schema changed while it was looked at */
    bool doubted;                            /* the last look did not find our number */
    unsigned strange;                        /* looks in a row that met another table */
    unsigned char ids[SCHEMA_TABLES][SCHEMA_ID_BYTES]; /* of the tables that it was opened with */
    bool denied;
    mono open_at, look_at, check_at, skew_at;
    int64_t ahead_ns, apart_ns; /* apart: when the comparison began that is under way */
    struct skew_guard guard;    /* without test hooks alone, which move the clock on purpose */
    uint32_t number;
    struct err_note why;
    char look_text[128];
    struct cql_request look;
};
#define CASSANDRA_STORE_MAGIC 0xca555707u

extern const struct page_store_ops cassandra_store_ops;

/* store_tables.c */
extern const struct table_store_ops cassandra_tables_ops;
struct values *cassandra_store_values(struct cassandra_store *c, struct err_note *note);

/* Each request passes a gate: it is counted while it is being started, and looks then whether the
 * store is open. So who closes the store knows when the last one has begun. ERR_OK:
 * store_gate_leave has to follow. note: of the request; NULL: it has none. */
MUST_CHECK err store_gate_enter(struct cassandra_store *c, bool writes, struct err_note *note);
enum store_start store_gate_leave(struct cassandra_store *c, enum store_start start);

/* store.c */
mono store_in_ms(const struct cassandra_store *s, int64_t ms);
void store_skew_judge(struct cassandra_store *s, int64_t ahead_ns);
/* store_watch.c */
void store_schema_opened(struct cassandra_store *s, const struct schema_found *found);
void store_watch_tick(struct cassandra_store *s, int64_t now_ns); /* of an open store */
void store_fault_note(struct cassandra_store *s, struct err_note *note);

/* store_wait.c: as page_store_note_get. */
MUST_CHECK err store_wait_note(struct cassandra_store *s, uint32_t domain, enum page_note note,
                               char *out, size_t *n);

#endif
