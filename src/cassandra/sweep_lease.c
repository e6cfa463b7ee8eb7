/* sweep_lease.c - rows of the table `lease` for sweep.c: read, and written by conditional writes
 * alone.
 *
 * Invariant: a row is written only by a server that saw its last epoch. So each write of a lease
 * depends on the one before. */
#include "cassandra/sweep_impl.h"

#include <string.h>

void sweep_lease_look(struct job *j, void (*looked)(struct cql_request *q))
{
    cql_put_bytes(&j->values, str_of(j->name));
    sweep_ask(j, TITLES_LEASES, looked);
}

/* Rows that are not there are known false: nobody ever took such a part. */
bool sweep_lease_rows(struct job *j)
{
    enum { PART, HOLDER, EPOCH, UNTIL, PLACE, DONE_AT, COLUMNS };
    struct cql_rows rows = j->request.out.rows;
    struct cql_cell cells[COLUMNS];
    memset(j->leases, 0, j->parts * sizeof *j->leases);
    if (rows.columns == NULL || rows.columns->count != COLUMNS)
        return false;
    while (cql_rows_next(&rows, cells)) {
        struct lease l = { .known = true };
        int64_t part;
        if (!cql_get_i64(&cells[PART], &part) || !cql_get_i64(&cells[HOLDER], &l.holder) ||
            !cql_get_i64(&cells[EPOCH], &l.epoch) || !cql_get_i64(&cells[UNTIL], &l.until.ns) ||
            !cql_get_i64(&cells[PLACE], &l.place) || !cql_get_i64(&cells[DONE_AT], &l.done_at.ns))
            return false;
        /* Another server may have been started with more ranges. */
        if (part >= 0 && part < j->parts)
            j->leases[part] = l;
    }
    return !rows.rest.failed;
}

void sweep_lease_set(struct job *j, int64_t epoch, void (*done)(struct cql_request *q))
{
    struct cql_values *v = &j->values;
    cql_put_i64(v, j->mine.holder);
    cql_put_i64(v, j->mine.epoch);
    cql_put_i64(v, j->mine.until.ns);
    cql_put_i64(v, j->mine.place);
    cql_put_i64(v, j->mine.done_at.ns);
    cql_put_bytes(v, str_of(j->name));
    cql_put_i32(v, (int32_t)j->part);
    /* `IF epoch = null` holds where there is no row. */
    if (epoch < 0)
        cql_put_null(v);
    else
        cql_put_i64(v, epoch);
    sweep_ask(j, TITLES_LEASE_SET, done);
}

/* The first column of a conditional write's answer is [applied]. */
bool sweep_lease_was_set(struct job *j)
{
    struct cql_rows rows = j->request.out.rows;
    struct cql_cell cells[2];
    bool applied = false;
    return rows.columns != NULL && rows.columns->count <= COUNT_OF(cells) &&
           cql_rows_next(&rows, cells) && cql_get_bool(&cells[0], &applied) && applied;
}
