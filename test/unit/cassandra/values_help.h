/* values_help.h - value services on two sides: the embedded store, and Cassandra, each with its own
 * clock's time, which stands where the test puts it. For the tests of src/cassandra/values.h. */
#ifndef TEST_CASSANDRA_VALUES_HELP_H
#define TEST_CASSANDRA_VALUES_HELP_H

#include "real.h"

#include "cassandra/values.h"
#include "lib/wait.h"
#include "scratch.h"
#include "table/tables.h"
#include "value/value.h"

enum { SIDES_SERVERS = 2, SIDE_ARENA_BYTES = 256 << 20 };

struct side {
    struct value_service service;
    struct arena arena; /* of all requests, until side_clear */
};
struct sides {
    struct scratch scratch;
    struct tables *tables;
    struct values *values[SIDES_SERVERS];
    struct side embedded, shared[SIDES_SERVERS]; /* servers of one cluster */
    struct clock clock; /* the embedded store's time, the machine's otherwise */
};
extern struct sides sides;

/* Settings are borrowed. Between real_setup and real_teardown. */
void sides_open(const struct value_settings *settings, unsigned count);
void sides_close(void);
void side_clear(struct side *s);
void sides_advance(int64_t ns);

/* About a key of a bucket; rev and tid to be set by the caller. */
struct value_call side_call(struct side *s, enum value_kind kind, const char *bucket,
                            const char *key);
struct value_put side_put_of(struct value_call of, str body);
/* Each waits. */
err side_put(struct side *s, struct value_put *p);
err side_read(struct side *s, struct value_read *r);
err side_delete(struct side *s, struct value_delete *d);
err side_list(struct side *s, struct value_list *l);
err side_bucket(struct side *s, enum value_kind kind, const char *name, const char *json);
err side_drop(struct side *s, enum value_kind kind, const char *name);
/* Fails the test unless it is written, or read as that; body NULL: none is there. */
void side_must_put(struct side *s, struct value_call of, str body);
void side_must_read(struct side *s, struct value_call of, const char *body);
/* A sweep: all of it. */
void side_upkeep(struct side *s);
/* Rows of a table of Cassandra that have a value in this column. */
int64_t rows_in(const char *table, const char *column);

#endif
