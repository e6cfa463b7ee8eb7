/* value_impl.h - what the files of the value service share. Private to this folder. */
#ifndef VALUE_VALUE_IMPL_H
#define VALUE_VALUE_IMPL_H

#include "value/value.h"

/* service.c. Sets the service's part of a request. False: its arena is full. */
MUST_CHECK bool value_begin(struct value_call *c, struct value_service *s);
/* The call of the step that c makes now; next goes on when that is over. Canceled with c. */
struct store_call value_step(struct value_call *c, value_next_fn *next);
/* What the start of the step gave. */
enum store_start value_go(struct value_call *c, enum store_start start);
/* The request is over. note: of a step that failed; NULL: it has none. */
enum store_start value_over(struct value_call *c, err why, const struct err_note *note);

/* read.c. The predicates of the target, in c. False: the arena is full. */
MUST_CHECK bool value_predicates(struct value_call *c);
/* Finds the row the target names (of several the newest) into c->row. Without a body only its key
 * is read. */
enum store_start value_find(struct value_call *c, bool with_body, value_next_fn *then);

/* bucket.c. Goes on when the table of a configured bucket is there as the configuration says; of
 * others at once. */
enum store_start value_there(struct value_call *c, value_next_fn *then);

/* condition.c */
bool value_condition_is_none(const struct value_condition *c);
/* By what is stored at the target, NULL: nothing. Pure. */
bool value_condition_holds(const struct value_condition *c, enum value_kind kind,
                           const struct table_row *stored);

/* schema.c. The schema of the table of a bucket that a PUT asks for; of a configured one whether it
 * is the same. ERR_BAD, ERR_LIMIT. */
MUST_CHECK err value_schema_read(struct value_call *c, str json, str *out);
enum { VALUE_VERSION_BASE = 5000 }; /* of the tables of buckets */
/* That of a configured bucket. ERR_LIMIT. */
MUST_CHECK err value_schema_configured(struct value_call *c, int64_t version, str *out);

#endif
