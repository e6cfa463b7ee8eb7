/* client.h - a program that does with src/cql what a scene tells it: lines in, lines out.
 *
 *   client OPTION=VALUE...       the options of cql_new, and those of cql_tls_new: client.c
 *
 * A line is fields with a tab between them. The first is an id, and what comes of the line bears
 * it; the second is a verb. Each line out is one JSON object.
 *   statement NAME FLAGS TAKES GIVES TEXT   registers one; FLAGS: idempotent or -; TAKES, GIVES: or
 * - run SETTINGS NAME VALUE...              one statement batch SETTINGS KIND NAME VALUE... ; NAME
 * VALUE... text SETTINGS TEXT VALUE...             not prepared cancel ID agree MS | stats | nodes
 *   load ...                                many requests at once: client_load.c
 *   stop MS                                 the end; so is the end of the input
 * SETTINGS are KEY=VALUE with commas between, or -: client.c. A value is TYPE:TEXT, or one of
 * `null`, `unset`, and the brackets [ ] of a list or set, { } of a map, < > of a tuple.
 * All of it runs on the loop. */
#ifndef TEST_CASSANDRA_CLIENT_H
#define TEST_CASSANDRA_CLIENT_H

#include "base/list.h"
#include "cql/cql.h"
#include "loop/loop.h"

enum { FIELDS_MAX = 4096, ID_BYTES = 40, NAME_BYTES = 40, STATEMENTS = CQL_STATEMENTS_MAX };

struct named {
    char name[NAME_BYTES];
    const struct cql_statement *statement;
};
struct load;
struct client {
    struct loop *loop;
    struct clock *clock;
    struct cql *cql;
    struct loop_watch *input;
    struct named statements[STATEMENTS];
    unsigned statements_count;
    struct list asked; /* struct ask, under way */
    struct buf in, out;
    struct load *load; /* NULL: none under way */
    bool ending;
};
/* Fields of a line; they end where it ends. */
struct fields {
    char *at[FIELDS_MAX];
    unsigned count, next;
};
char *fields_take(struct fields *f); /* NULL: no more */
int64_t number_of(const char *text); /* 0 for what is none */
/* A complaint about the line of this id; the program goes on. */
void client_refuse(struct client *c, const char *id, const char *format, ...) PRINTF_LIKE(3, 4);
const struct cql_statement *client_statement(struct client *c, const char *name);
/* Writes what is in c->out, with a line's end. */
void client_flush(struct client *c);

/* ---- client_say.c: what comes back, as JSON */

void say_text(struct buf *out, str text); /* in quotes */
void say_outcome(struct buf *out, const char *id, struct cql_request *q);
void say_stats(struct buf *out, const char *id, const struct cql *c);
void say_nodes(struct buf *out, const char *id, const struct cql *c);

/* ---- client_load.c */

void load_begin(struct client *c, const char *id, struct fields *f);
/* What it measured since the last time that it was asked. */
void load_look(struct client *c, const char *id);
void load_finish(struct client *c); /* before its time */

#endif
