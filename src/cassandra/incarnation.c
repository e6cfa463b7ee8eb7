/* incarnation.c - takes a number that no other run of a server has, while a store opens. The row's
 * value is "NUMBER WORD".
 *
 *   LOOK -> TAKE -applied-> done
 *    ^        |
 *    \--------/  not applied, or nobody knows: the row tells
 *
 * Invariant: a number is ours only when the row was seen to hold it with our word. */
#include "cassandra/incarnation.h"

#include "cassandra/titles.h"
#include "cql/cql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 300, WORD_BYTES = 17, VALUE_BYTES = 32 };

/* One taking under way. It frees itself in take_end. Thread: the client's loop. */
struct take {
    struct incarnation_opts opts;
    incarnation_done_fn *done;
    void *ctx;
    bool takes; /* the request under way is the write */
    unsigned tries;
    uint64_t number;           /* of the row; or of the write, one more */
    char word[WORD_BYTES];     /* of this run, random: tells whose number stands in the row */
    char seen[VALUE_BYTES];    /* the row's value; empty: there is no row */
    char text[TEXT_BYTES_MAX]; /* of the statement under way */
    struct cql_request request;
};

static void take_end(struct take *t, err why, const struct err_note *note)
{
    t->done(t->ctx, why, (uint32_t)t->number, note);
    free(t);
}

static void take_answered(struct cql_request *q);

/* Sends t->text, as the read or as the conditional write. Statements go as text: they run once in
 * the life of a server. */
static void take_ask(struct take *t, bool takes)
{
    struct cql_request *q = &t->request;
    t->takes = takes;
    *q =
        (struct cql_request){ .way = CQL_WAY_TEXT, .text = str_of(t->text), .done = take_answered };
    /* A reading at SERIAL finishes a write that was cut off. So a write whose answer was lost has
     * happened or not by the time it is looked for, and its own consistency may be small. */
    q->params.consistency = takes ? CQL_LOCAL_QUORUM : CQL_SERIAL;
    q->params.serial = takes ? CQL_SERIAL : CQL_ANY;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = t->opts.deadline;
    cql_start(t->opts.client, q);
}

static void take_look(struct take *t)
{
    (void)snprintf(t->text, sizeof t->text, "SELECT value FROM %s.meta WHERE key = 'server'",
                   t->opts.keyspace); /* a keyspace is short */
    take_ask(t, false);
}

/* Writes the next number, if the row is still as it was seen. A row that was seen never goes away,
 * so INSERT serves the first server of a keyspace alone. */
static void take_next(struct take *t)
{
    t->number++;
    if (t->seen[0] == '\0')
        (void)snprintf(t->text, sizeof t->text,
                       "INSERT INTO %s.meta (key, value) VALUES ('server', '%" PRIu64
                       " %s') IF NOT EXISTS",
                       t->opts.keyspace, t->number, t->word);
    else
        (void)snprintf(t->text, sizeof t->text,
                       "UPDATE %s.meta SET value = '%" PRIu64
                       " %s' WHERE key = 'server' IF value = '%s'",
                       t->opts.keyspace, t->number, t->word, t->seen);
    take_ask(t, true);
}

/* Reads the row into number, seen and ours. No row is number 0. False: the row says no number. */
static bool row_take(struct take *t, bool *ours)
{
    struct cql_rows rows = t->request.out.rows;
    struct cql_cell cell;
    str value = STR_NONE, rest;
    t->number = 0;
    t->seen[0] = '\0';
    *ours = false;
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell))
        return !rows.rest.failed;
    if (!cql_get_bytes(&cell, &value) || !str_to_cstr(value, t->seen, sizeof t->seen))
        return false;
    rest = value;
    /* Numbers are int columns in the names of facts. */
    if (!str_to_u64(str_split(&rest, ' '), &t->number) || t->number >= INT32_MAX)
        return false;
    *ours = str_eq(rest, str_of(t->word));
    /* The value goes into the next statement as text: a quote would end it. */
    return strchr(t->seen, '\'') == NULL;
}

/* The row is known. Ours: a write before, whose answer was lost, has happened. */
static void take_looked(struct take *t)
{
    struct err_note note = { .text = "" };
    bool ours;
    if (!row_take(t, &ours)) {
        err_note_set(&note, "%s.meta holds no number of a server", t->opts.keyspace);
        take_end(t, ERR_CORRUPT, &note);
    } else if (ours) {
        take_end(t, ERR_OK, &note);
    } else if (t->tries++ == INCARNATION_TRIES) {
        err_note_set(&note, "others take the numbers of servers in %s.meta", t->opts.keyspace);
        take_end(t, ERR_CONFLICT, &note);
    } else {
        take_next(t);
    }
}

/* The first column of a conditional write is [applied]; a refused one shows the row beside it. */
static bool take_was_applied(const struct take *t)
{
    struct cql_rows rows = t->request.out.rows;
    struct cql_cell cells[3];
    bool applied = false;
    return rows.columns != NULL && rows.columns->count <= COUNT_OF(cells) &&
           cql_rows_next(&rows, cells) && cql_get_bool(&cells[0], &applied) && applied;
}

static void take_answered(struct cql_request *q)
/* take_end frees the request with its outcome; so the outcome is moved out first. */
{
    struct take *t = CONTAINER_OF(q, struct take, request);
    struct cql_outcome out = q->out;
    struct err_note note = { .text = "" };
    if (out.why == ERR_OK && t->takes && take_was_applied(t))
        take_end(t, ERR_OK, &note);
    else if (out.why == ERR_OK && !t->takes)
        take_looked(t);
    /* A write of which nobody knows is looked for. A write that certainly failed ends the taking;
     * the store tries to open again later. */
    else if (t->takes && (out.why == ERR_OK || out.unknown))
        take_look(t);
    else
        take_end(t, out.why, &out.note);
    cql_outcome_fini(&out);
}

void incarnation_take(const struct incarnation_opts *o, incarnation_done_fn *done, void *ctx)
{
    INVARIANT(strlen(o->keyspace) <= TITLES_KEYSPACE_BYTES_MAX);
    struct take *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->opts = *o;
    t->done = done;
    t->ctx = ctx;
    (void)snprintf(t->word, sizeof t->word, "%016" PRIx64, o->random); /* fits */
    take_look(t);
}
