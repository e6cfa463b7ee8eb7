#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "table/table_write.h"
#include "tabletest.h"

#include "lib/wait.h"

#include <stdio.h>
#include <string.h>

void tabletest_up(struct tabletest *t)
{
    scratch_init(&t->scratch);
    scratch_open(&t->scratch);
    assert_int_equal(tables_new(t->scratch.engine, &t->scratch.clock.clock, &t->tables, &t->note),
                     ERR_OK);
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
    scratch_open(&t->scratch);
    assert_int_equal(tables_new(t->scratch.engine, &t->scratch.clock.clock, &t->tables, &t->note),
                     ERR_OK);
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

static const mono never = { .ns = INT64_MAX };

static void change_done(struct table_schema_change *c, err why)
{
    awaited_tell(c->ctx, why);
}

static err change(struct tabletest *t, struct table_schema_change *c, const char *json)
{
    struct arena a;
    struct awaited w;
    arena_init(&a, 1 << 20);
    awaited_init(&w);
    c->arena = &a;
    c->json = requoted(&a, json);
    c->deadline = never;
    c->done = change_done;
    c->ctx = &w;
    err why = tables_change(t->tables, c);
    if (why == ERR_OK)
        why = awaited_wait(&w);
    t->note = c->note;
    awaited_fini(&w);
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

static void update_done(struct table_update *u, err why)
{
    awaited_tell(u->ctx, why);
}

static err update(struct tabletest *t, struct table_update *u, const struct table_query *q)
{
    err why = tables_parse(t->tables, u->domain, q, u->arena, u, &u->note);
    if (why == ERR_OK && t->allow != NULL) {
        struct table_write *w = (struct table_write *)(uintptr_t)u->writes; /* of the arena */
        w->condition = IF_ALLOWED;
        w->allow = t->allow;
        w->allow_ctx = t->allow_ctx;
        w->allow_by_key = t->allow_by_key;
        t->allow = NULL;
    }
    if (why == ERR_OK)
        why = tables_update(t->tables, u, false);
    if (why != ERR_OK)
        return why;
    why = awaited_wait(u->ctx);
    if (why == ERR_AGAIN) {
        awaited_fini(u->ctx);
        awaited_init(u->ctx); /* for the second answer */
        tables_update_warm(u);
        tables_update_again(u);
        why = awaited_wait(u->ctx);
    }
    return why;
}

err tabletest_write(struct tabletest *t, uint32_t domain, enum table_query_kind kind,
                    const char *table, const char *json)
{
    struct arena a;
    struct awaited w;
    arena_init(&a, 64 << 20);
    awaited_init(&w);
    struct table_update u = {
        .domain = domain, .arena = &a, .deadline = never, .done = update_done, .ctx = &w
    };
    struct table_query q = { .kind = kind, .table = str_of(table), .json = requoted(&a, json) };
    err why = update(t, &u, &q);
    t->note = u.note;
    t->applied = u.applied;
    t->rows_deleted = u.rows_deleted;
    awaited_fini(&w);
    arena_fini(&a);
    return why;
}

err tabletest_get(struct tabletest *t, uint32_t domain, const char *table, const char *json)
{
    struct arena a;
    struct table_answer answer;
    arena_init(&a, 64 << 20);
    err why = tables_get_json(t->tables, domain, str_of(table), requoted(&a, json), &a, false,
                              &answer, &t->note);
    if (why == ERR_OK)
        assert_true(str_to_cstr(answer.json, t->answer, sizeof t->answer));
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
