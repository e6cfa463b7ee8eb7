#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table.h"
#include "tabletest.h"

#include "lib/wait.h"

#include <stdio.h>
#include <string.h>

static void tables_open(struct tabletest *t)
{
    scratch_open(&t->scratch);
    assert_int_equal(tables_new(t->scratch.engine, &t->scratch.clock.clock, &t->tables, &t->note),
                     ERR_OK);
    t->store = tables_store(t->tables);
}

void tabletest_up(struct tabletest *t)
{
    scratch_init(&t->scratch);
    tables_open(t);
}

void tabletest_down(struct tabletest *t)
{
    tables_free(&t->tables);
    scratch_fini(&t->scratch);
}

struct tabletest tabletest;

int tabletest_setup(void **state)
{
    (void)state;
    tabletest = (struct tabletest){ .tables = NULL };
    tabletest_up(&tabletest);
    return 0;
}

int tabletest_teardown(void **state)
{
    (void)state;
    tabletest_down(&tabletest);
    return 0;
}

void tabletest_reopen(struct tabletest *t)
{
    tables_free(&t->tables);
    scratch_close(&t->scratch);
    tables_open(t);
}

void tabletest_advance(struct tabletest *t, int64_t seconds)
{
    fake_clock_advance(&t->scratch.clock, seconds * NS_PER_S);
}

/* The text with its quotes exchanged, in the arena. */
static str requoted(struct arena *a, const char *text)
{
    char *copy = arena_cstr(a, str_of(text));
    assert_non_null(copy);
    for (char *p = copy; *p != 0; p++)
        *p = *p == '\'' ? '"' : *p;
    return str_of(copy);
}

static struct awaited waited; /* one call at a time */

static void call_over(struct store_call *c)
{
    awaited_tell(&waited, c->why);
}

static void call_begin(struct store_call *c)
{
    awaited_init(&waited);
    *c = (struct store_call){ .home = home_here(), .done = call_over };
}

/* What became of it, whichever way. */
static err call_wait(struct store_call *c, enum store_start start)
{
    store_call_then(start, c);
    err why = awaited_wait(&waited);
    awaited_fini(&waited);
    return why;
}

static err change(struct tabletest *t, struct table_schema_change *c, const char *json)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    call_begin(&c->call);
    c->arena = &a;
    c->json = requoted(&a, json);
    err why = call_wait(&c->call, table_store_change(t->store, c));
    t->note = c->note;
    arena_fini(&a);
    return why;
}

err tabletest_create(struct tabletest *t, uint32_t domain, const char *table, const char *json)
{
    struct table_schema_change c = { .action = SCHEMA_CREATE,
                                     .domain = domain,
                                     .table = str_of(table) };
    return change(t, &c, json);
}

err tabletest_drop(struct tabletest *t, uint32_t domain, const char *table)
{
    struct table_schema_change c = { .action = SCHEMA_DROP,
                                     .domain = domain,
                                     .table = str_of(table) };
    return change(t, &c, "");
}

static err parse(struct tabletest *t, struct table_parse *p, struct table_update *u)
{
    call_begin(&p->call);
    err why = call_wait(&p->call, table_store_parse(t->store, p));
    u->note = p->note;
    u->writes = p->writes;
    u->writes_count = p->writes_count;
    u->one_step = p->one_step;
    if (why != ERR_OK || t->allow == NULL)
        return why;
    struct table_write *w = (struct table_write *)(uintptr_t)u->writes; /* of the arena */
    w->condition = IF_ALLOWED;
    w->allow = t->allow;
    w->allow_ctx = t->allow_ctx;
    w->allow_by_key = t->allow_by_key;
    t->allow = NULL;
    return ERR_OK;
}

err tabletest_write(struct tabletest *t, uint32_t domain, enum table_query_kind kind,
                    const char *table, const char *json)
{
    struct arena a;
    arena_init(&a, 64 << 20);
    struct table_update u = { .domain = domain, .arena = &a };
    struct table_parse p = { .kind = kind,
                             .domain = domain,
                             .table = str_of(table),
                             .json = requoted(&a, json),
                             .arena = &a };
    err why = parse(t, &p, &u);
    if (why == ERR_OK) {
        call_begin(&u.call);
        why = call_wait(&u.call, table_store_update(t->store, &u));
    }
    t->note = u.note;
    t->applied = u.applied;
    t->rows_deleted = u.rows_deleted;
    arena_fini(&a);
    return why;
}

err tabletest_query(struct tabletest *t, struct table_query *q)
{
    call_begin(&q->call);
    return call_wait(&q->call, table_store_query(t->store, q));
}

err tabletest_get(struct tabletest *t, uint32_t domain, const char *table, const char *json)
{
    struct arena a;
    arena_init(&a, 64 << 20);
    struct table_query q = {
        .domain = domain, .table = str_of(table), .query = requoted(&a, json), .arena = &a
    };
    err why = tabletest_query(t, &q);
    if (why == ERR_OK)
        assert_true(str_to_cstr(q.json, t->answer, sizeof t->answer));
    else
        t->note = q.note;
    for (char *p = t->answer; *p != 0; p++)
        *p = *p == '"' ? '\'' : *p;
    arena_fini(&a);
    return why;
}

void tabletest_upkeep(struct tabletest *t, store_time *next)
{
    bool more = true;
    for (int i = 0; more; i++) {
        assert_true(i < 1000);
        assert_int_equal(tables_upkeep(t->tables, &more, next), ERR_OK);
    }
}

static void must(struct tabletest *t, err why, const char *json)
{
    if (why != ERR_OK)
        fail_msg("%s: %s: %s", json, err_name(why), t->note.text);
}

void must_create(struct tabletest *t, const char *table, const char *json)
{
    must(t, tabletest_create(t, 1, table, json), json);
}

void must_put(struct tabletest *t, const char *table, const char *json)
{
    must(t, tabletest_write(t, 1, QUERY_PUT, table, json), json);
}

void must_delete(struct tabletest *t, const char *table, const char *json)
{
    must(t, tabletest_write(t, 1, QUERY_DELETE, table, json), json);
}

void must_get(struct tabletest *t, const char *table, const char *query, const char *want)
{
    must(t, tabletest_get(t, 1, table, query), query);
    char whole[ANSWER_BYTES];
    (void)snprintf(whole, sizeof whole, "{'items':%s}", want); /* cut, it differs */
    if (strcmp(t->answer, whole) != 0)
        fail_msg("%s\n  gave %s\n  want %s", query, t->answer, whole);
}

void must_refuse(struct tabletest *t, err got, err want, const char *says)
{
    if (got != want || strstr(t->note.text, says) == NULL)
        fail_msg("got %s: \"%s\", want %s: \"%s\"", err_name(got), t->note.text, err_name(want),
                 says);
}
