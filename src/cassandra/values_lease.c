/* values_lease.c - which server sweeps the values: a row of the table `lease`, of one data centre,
 * which conditional writes alone change. For values_upkeep.c, on its thread; all of it blocks.
 *
 * A server that lost the lease finds out when it renews it, and does no harm until then: see
 * values_upkeep.c. The clocks of two servers differ by less than MARGIN_S.
 * Invariant: each write depends on the epoch that was seen last, and adds one. */
#include "cassandra/values_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { MARGIN_S = 60, JOB_BYTES = 128 };

/* The row as it is read; epoch -1: there is none. */
struct lease_row {
    int64_t holder, epoch;
    store_time until, done_at;
};

/* The job's name, which is the row's key: one for each data centre. */
static void job_put(const struct values *v, struct cql_values *to)
{
    char job[JOB_BYTES];
    (void)snprintf(job, sizeof job, "values %.64s",
                   v->opts.dc == NULL ? "" : v->opts.dc); /* fits */
    cql_put_bytes(to, str_of(job));
}

static bool row_get(struct cql_rows rows, struct lease_row *r)
{
    struct cql_cell cells[4];
    *r = (struct lease_row){ .epoch = -1 };
    if (rows.columns == NULL || rows.columns->count != COUNT_OF(cells))
        return false;
    if (!cql_rows_next(&rows, cells))
        return !rows.rest.failed;
    return cql_get_i64(&cells[0], &r->holder) && cql_get_i64(&cells[1], &r->epoch) &&
           cql_get_i64(&cells[2], &r->until.ns) && cql_get_i64(&cells[3], &r->done_at.ns);
}

static err lease_get(struct values_ask *a, struct lease_row *r)
{
    job_put(a->values, values_ask_add(a, VALUES_LEASE_GET, JOB_BYTES));
    values_ask_background(a);
    /* LOCAL_SERIAL: a taking that is being written just now is seen. */
    a->request.params.consistency = CQL_LOCAL_SERIAL;
    err e = values_ask_wait(a);
    if (e == ERR_OK && !row_get(a->request.out.rows, r))
        e = ERR_CORRUPT;
    cql_outcome_fini(&a->request.out);
    values_ask_clear(a);
    return e;
}

/* Writes the lease with the next epoch. *applied: the row had the epoch that l has, so the write
 * counts. */
static err lease_set(struct values_ask *a, const struct values_lease *l, bool *applied)
{
    struct cql_values *to = values_ask_add(a, VALUES_LEASE_SET, JOB_BYTES);
    cql_put_i64(to, a->values->opts.srv);
    cql_put_i64(to, l->epoch + 1);
    cql_put_i64(to, l->until.ns);
    cql_put_i64(to, l->done_at.ns);
    job_put(a->values, to);
    /* `IF epoch = null`: there is no row. */
    if (l->epoch < 0)
        cql_put_null(to);
    else
        cql_put_i64(to, l->epoch);
    values_ask_background(a);
    a->request.params.consistency = CQL_LOCAL_QUORUM;
    a->request.params.serial = CQL_LOCAL_SERIAL;
    err e = values_ask_wait(a);
    *applied = e == ERR_OK && values_applied(&a->request.out, &e);
    cql_outcome_fini(&a->request.out);
    values_ask_clear(a);
    return e;
}

static int64_t period_ns(const struct values *v)
{
    return v->opts.period_ns == 0 ? VALUES_SWEEP_PERIOD_S * NS_PER_S : v->opts.period_ns;
}

/* May the lease be taken: is it this server's or over, and is a sweep due? Else *next says when. */
static bool row_is_free(const struct values *v, const struct lease_row *r, store_time now,
                        store_time *next)
{
    /* By the other server's clock it may still hold. */
    store_time ends = store_time_add(r->until, MARGIN_S * NS_PER_S);
    store_time due = r->done_at.ns == 0 ? now : store_time_add(r->done_at, period_ns(v));
    if (r->epoch < 0 || r->holder == v->opts.srv)
        ends = now;
    *next = store_time_max(ends, due);
    return !store_time_before(now, *next);
}

/* Takes the lease, or renews it while held. ERR_OK with held false: another server has it. */
static err lease_take(struct values *v, struct values_ask *a, struct values_lease *l,
                      store_time *next)
{
    store_time now = clock_store(v->opts.clock);
    struct lease_row row = { .epoch = l->epoch, .holder = v->opts.srv, .done_at = l->done_at };
    err e = l->held ? ERR_OK : lease_get(a, &row);
    bool taken = false;
    if (e != ERR_OK || (!l->held && !row_is_free(v, &row, now, next)))
        return e;
    l->epoch = row.epoch;
    l->done_at = row.done_at;
    l->until = store_time_add(now, VALUES_LEASE_S * NS_PER_S);
    e = lease_set(a, l, &taken);
    l->held = e == ERR_OK && taken;
    /* When the write was refused the row is read again before the next try. */
    l->epoch++;
    *next = store_time_add(now, MARGIN_S * NS_PER_S); /* where another one was sooner */
    return e;
}

static struct values_ask *ask_new(struct values *v)
{
    struct values_ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    a->values = v;
    return a;
}

err values_lease_hold(struct values *v, struct values_lease *l, store_time *next)
{
    /* Renewed from its half on, so that a step of the sweep seldom begins with a lease that ends.
     */
    store_time half = store_time_add(clock_store(v->opts.clock), VALUES_LEASE_S * NS_PER_S / 2);
    if (l->held && store_time_before(half, l->until))
        return ERR_OK;
    struct values_ask *a = ask_new(v);
    err e = lease_take(v, a, l, next);
    free(a);
    if (e != ERR_OK)
        /* Nobody knows whether the lease was written: it is read before it is relied on. */
        l->held = false;
    return e;
}

err values_lease_done(struct values *v, struct values_lease *l, store_time *next)
{
    struct values_ask *a = ask_new(v);
    bool applied; /* refused: another server took the lease meanwhile, and sweeps once more */
    /* Ends at once, so another server may take the next sweep. */
    l->until = STORE_TIME_ZERO;
    l->done_at = clock_store(v->opts.clock);
    *next = store_time_add(l->done_at, period_ns(v));
    err e = lease_set(a, l, &applied);
    l->held = false;
    free(a);
    return e;
}
