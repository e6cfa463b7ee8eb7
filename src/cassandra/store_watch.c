/* store_watch.c - watches an open store: does the cluster answer, are the tables the same as at the
 * opening, is the clock right?
 *
 * Each LOOK_PERIOD_MS one row is read at LOCAL_QUORUM, that of the numbers of servers. Where the
 * row is gone, or says less than the number of this run, it is read at SERIAL. When SERIAL says so,
 * too, the keyspace is another one. The schema is looked at each CHECK_PERIOD_MS, when an event
 * tells of a change, and when a node lacks the table of that row:
 *   WHOLE    requests are taken
 *   LACKS    a table or a column is missing: no request is taken until it is there again
 *   STRANGE  a table, or the whole keyspace, was dropped and made again: no request is taken ever
 *            again. This server remembers the tables before, so it has to end
 * Why so: docs/adr/0055.
 * Invariants:
 *   1 of looking, checking and comparing one exchange each is under way at most;
 *   2 STRANGE is never left. */
#include "cassandra/store_impl.h"

#include "base/log.h"
#include "cassandra/skew.h"

#include <string.h>

enum {
    LOOK_PERIOD_MS = 1000,
    LOOK_WAIT_MS = 3000,
    CHECK_PERIOD_MS = 60000,
    CHECK_AGAIN_MS = 1000, /* while something is wrong */
    STRANGE_LOOKS = 2,     /* so many say so, before it is believed */
};

/* ---- faults ---- */

/* The text is set before the fault: a request that sees the fault finds its text. Only the loop
 * writes; other threads read the text, so it has a lock. */
static void fault_set(struct cassandra_store *s, enum store_fault fault, const char *text)
{
    enum store_fault was = (enum store_fault)atomic_load(&s->fault);
    if (was == STORE_STRANGE)
        return;
    INVARIANT(pthread_mutex_lock(&s->told_lock) == 0);
    bool news = strcmp(s->told.text, text) != 0;
    err_note_set(&s->told, "%s", text);
    INVARIANT(pthread_mutex_unlock(&s->told_lock) == 0);
    atomic_store(&s->fault, fault);
    if (fault == STORE_WHOLE && was != STORE_WHOLE)
        log_event(s->opts.log, LOG_INFO, "cluster.whole", LOG_CSTR("keyspace", s->opts.keyspace));
    else if (fault != STORE_WHOLE && (was != fault || news))
        log_event(s->opts.log, LOG_ERROR,
                  fault == STORE_LACKS ? "cluster.lacks" : "cluster.strange",
                  LOG_CSTR("why", text));
}

void store_fault_note(struct cassandra_store *s, struct err_note *note)
{
    INVARIANT(pthread_mutex_lock(&s->told_lock) == 0);
    *note = s->told;
    INVARIANT(pthread_mutex_unlock(&s->told_lock) == 0);
}

static void fault_strange(struct cassandra_store *s, const char *what)
{
    struct err_note told;
    err_note_set(&told,
                 "keyspace_remade: %s was dropped and made again under this server, which ends "
                 "and has to be started anew",
                 what);
    fault_set(s, STORE_STRANGE, told.text);
}

/* ---- the schema ---- */

void store_schema_opened(struct cassandra_store *s, const struct schema_found *found)
{
    memcpy(s->ids, found->ids, sizeof s->ids);
    s->check_at = store_in_ms(s, CHECK_PERIOD_MS);
}

/* The first table that is there and is another one than before; SCHEMA_TABLES: there is none. A
 * table that is missing is no other one: it may be seen late. */
static unsigned table_strange(const struct cassandra_store *s, const struct schema_found *found)
{
    static const unsigned char none[SCHEMA_ID_BYTES];
    unsigned i = 0;
    while (i < SCHEMA_TABLES && (memcmp(found->ids[i], none, sizeof none) == 0 ||
                                 memcmp(found->ids[i], s->ids[i], sizeof none) == 0))
        i++;
    return i;
}

static void watch_checked(void *ctx, err why, const struct schema_found *found,
                          const struct err_note *note)
{
    struct cassandra_store *s = ctx;
    struct err_note told;
    (void)note; /* what no node tells changes nothing: that the cluster is away is told elsewhere */
    s->checking = false;
    /* A look that finds a fault is followed by another one soon. */
    s->check_at = store_in_ms(s, CHECK_AGAIN_MS);
    if (why != ERR_OK)
        return;
    /* A newer version has at least the tables of this program; a server that is running goes on
     * with them. */
    unsigned version = found->version < SCHEMA_VERSION ? SCHEMA_VERSION : found->version;
    unsigned table = table_strange(s, found);
    s->strange = table < SCHEMA_TABLES ? s->strange + 1 : 0;
    /* One look may meet a node that has not heard of the newest schema: so two in a row have to say
     * so. */
    if (s->strange == STRANGE_LOOKS) {
        fault_strange(s, "a table of the store");
    } else if (s->strange > 0) {
        fault_set(
            s, STORE_LACKS,
            "keyspace_remade: a table of the store seems to be another one than before: it is "
            "looked at once more");
    } else if (schema_tell(found, version, s->opts.keyspace, &told) != ERR_OK) {
        struct err_note named;
        err_note_set(&named, "schema_missing: %s", told.text);
        fault_set(s, STORE_LACKS, named.text);
    } else {
        fault_set(s, STORE_WHOLE, "");
        s->check_at = store_in_ms(s, CHECK_PERIOD_MS);
    }
    if (s->again) /* an event came meanwhile */
        s->check_at = clock_mono(s->opts.clock);
    s->again = false;
}

static void watch_check(struct cassandra_store *s)
{
    const struct schema_opts o = { .client = s->opts.client,
                                   .clock = s->opts.clock,
                                   .keyspace = s->opts.keyspace,
                                   .deadline = store_in_ms(s, STORE_WAIT_MS) };
    s->checking = true;
    schema_look(&o, watch_checked, s);
}

void cassandra_store_schema_changed(struct cassandra_store *s, str keyspace)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    if (!str_eq(keyspace, str_of(s->opts.keyspace)))
        return;
    /* A look that is under way may have read before the change. */
    s->again = s->checking;
    s->check_at = clock_mono(s->opts.clock);
}

/* ---- the numbers of servers ---- */

/* Does the row still say what this server knows of it? False: it is gone, or the last number that
 * was given out is less than ours. */
static bool number_stands(const struct cassandra_store *s, struct cql_rows rows)
{
    struct cql_cell cell;
    uint64_t number = 0;
    str value;
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell) ||
        !cql_get_bytes(&cell, &value))
        return false;
    return str_to_u64(str_split(&value, ' '), &number) && number >= s->number;
}

static void watch_looked(struct cql_request *q)
{
    struct cassandra_store *s = CONTAINER_OF(q, struct cassandra_store, look);
    /* The last answer to this read is what /readyz tells. */
    bool fine = q->out.why == ERR_OK, was = atomic_exchange(&s->ready, fine);
    bool stands = !fine || number_stands(s, q->out.rows);
    if (was && !fine)
        log_event(s->opts.log, LOG_WARN, "cluster.away", LOG_CSTR("why", q->out.note.text));
    else if (fine && !was)
        log_event(s->opts.log, LOG_INFO, "cluster.back", LOG_CSTR("keyspace", s->opts.keyspace));
    err_note_set(&s->why, "%s", fine ? "" : q->out.note.text);
    /* CQL_INVALID: the node knows no such table. */
    if (q->out.code == CQL_INVALID) /* it knows no such table */
        s->check_at = clock_mono(s->opts.clock);
    /* The second reading was at SERIAL, so no replica that is behind can be meant. */
    if (!stands && s->doubted)
        fault_strange(s, "the keyspace");
    s->doubted = !stands;
    cql_outcome_fini(&q->out);
    s->looking = false;
    /* A doubt is looked into at the next tick. */
    s->look_at = stands ? store_in_ms(s, LOOK_PERIOD_MS) : clock_mono(s->opts.clock);
}

static void watch_look(struct cassandra_store *s)
{
    struct cql_request *q = &s->look;
    s->looking = true;
    *q = (struct cql_request){ .way = CQL_WAY_TEXT,
                               .text = str_of(s->look_text),
                               .done = watch_looked };
    q->params.consistency = s->doubted ? CQL_SERIAL : CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = store_in_ms(s, LOOK_WAIT_MS);
    cql_start(s->opts.client, q);
}

/* ---- the clock ---- */

/* No node told its time: the last judgement stands. */
static void watch_compared(void *ctx, err why, int64_t ahead_ns)
{
    struct cassandra_store *s = ctx;
    if (why == ERR_OK)
        store_skew_judge(s, ahead_ns);
    s->comparing = false;
    s->skew_at = store_in_ms(s, s->opts.skew_period_ms);
}

static void watch_compare(struct cassandra_store *s)
{
    const struct skew_opts o = { .client = s->opts.client,
                                 .clock = s->opts.clock,
                                 .deadline = store_in_ms(s, STORE_WAIT_MS) };
    s->comparing = true;
    s->apart_ns = skew_apart(s->opts.clock);
    skew_look(&o, watch_compared, s);
}

/* On the loop, each tick of an open store; also while a fault stands, so that LACKS can end. */
void store_watch_tick(struct cassandra_store *s, int64_t now_ns)
{
    if (!s->looking && now_ns >= s->look_at.ns)
        watch_look(s);
    if (!s->checking && now_ns >= s->check_at.ns)
        watch_check(s);
    /* A clock that was set is compared at once: until then the gate refuses writes. */
    if (!s->comparing && (now_ns >= s->skew_at.ns || !skew_guard_holds(&s->guard, s->opts.clock)))
        watch_compare(s);
}
