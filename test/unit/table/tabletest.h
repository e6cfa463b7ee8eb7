/* tabletest.h - tables on a real engine for tests: JSON in, JSON out, waited for. Include after
 * cmocka.h.
 *
 * JSON is written and answered with ' in place of ", to be readable in C. */
#ifndef TEST_TABLE_TABLETEST_H
#define TEST_TABLE_TABLETEST_H

#include "scratch.h"
#include "table/table.h"

enum { ANSWER_BYTES = 1 << 16 };
struct tabletest {
    struct scratch scratch;
    struct tables *tables;
    struct table_store *store; /* the same, as callers see it */
    struct err_note note;      /* of the last call that failed */
    char answer[ANSWER_BYTES]; /* of the last get, NUL-terminated */
    bool applied;              /* of the last put or batch */
    uint64_t rows_deleted;
    /* Of the next write: IF_ALLOWED; NULL: as its JSON says. */
    bool (*allow)(void *ctx, const struct table_row *stored);
    void *allow_ctx;
    bool allow_by_key;
};
void tabletest_up(struct tabletest *t);
void tabletest_down(struct tabletest *t);
/* The one of the test that runs, for tests that want one from begin to end. */
extern struct tabletest tabletest;
int tabletest_setup(void **state);
int tabletest_teardown(void **state);
void tabletest_reopen(struct tabletest *t);
void tabletest_advance(struct tabletest *t, int64_t seconds);

err tabletest_create(struct tabletest *t, uint32_t domain, const char *table, const char *json);
err tabletest_drop(struct tabletest *t, uint32_t domain, const char *table);
err tabletest_write(struct tabletest *t, uint32_t domain, enum table_query_kind kind,
                    const char *table, const char *json);
/* Fills answer. */
err tabletest_get(struct tabletest *t, uint32_t domain, const char *table, const char *json);
/* What became of it. */
err tabletest_query(struct tabletest *t, struct table_query *q);
/* All upkeep that is due. */
void tabletest_upkeep(struct tabletest *t, store_time *next);

/* Each fails the test with the note or both texts. Domain 1. */
void must_create(struct tabletest *t, const char *table, const char *json);
void must_put(struct tabletest *t, const char *table, const char *json);
void must_delete(struct tabletest *t, const char *table, const char *json);
/* json after "items": and the whole rest must be that. */
void must_get(struct tabletest *t, const char *table, const char *query, const char *want);
/* Refused with err, the note says so. */
void must_refuse(struct tabletest *t, err got, err want, const char *says);

#endif
