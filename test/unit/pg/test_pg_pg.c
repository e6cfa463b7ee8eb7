/* Goal: what goes to PostgreSQL comes back, a list of statements is one transaction, an outcome is
 * called definite only when it is, and every wait ends at its deadline.
 * Method: PostgreSQL 15 of the test's own; and a server that says what a test tells it to. */
#include "fake_pg.h"
#include "pg_server.h"

#include "base/rng.h"
#include "lib/wait.h"
#include "loop/sysclock.h"
#include "pg/pg.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_MS = 60000, HOSTS_MS = 6000, SHORT_MS = 300, STATEMENT_MS = 2000 };
enum { ARENA_BYTES = 64 << 20, BIG_BYTES = 12 << 20, MUTATIONS = 400 };

struct fixture {
    struct pg_server server;
    struct sysclock *sysclock;
    struct clock *clock;
    struct arena arena;
};
static struct fixture fixture;

static int setup(void **state)
{
    struct fixture *f = &fixture;
    *state = f;
    f->sysclock = sysclock_new();
    sysclock_start(f->sysclock, STORE_TIME_ZERO);
    f->clock = sysclock_clock(f->sysclock);
    arena_init(&f->arena, ARENA_BYTES);
    pg_server_init(&f->server, f->clock);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    pg_server_fini(&f->server);
    arena_fini(&f->arena);
    sysclock_free(&f->sysclock);
    return 0;
}

static mono within(const struct fixture *f, int64_t ms)
{
    return mono_add_ms(clock_mono(f->clock), ms);
}

static err open_at(struct fixture *f, const char *url, int64_t statement_timeout_ms, int64_t ms,
                   struct pg **out, struct err_note *note)
{
    struct pg_opts opts = { .url = url,
                            .application = "test",
                            .loop = f->server.loop,
                            .clock = f->clock,
                            .statement_timeout_ms = statement_timeout_ms };
    return pg_open(&opts, within(f, ms), out, note);
}

static struct pg *connected(struct fixture *f, int64_t statement_timeout_ms)
{
    struct pg *c = NULL;
    struct err_note note = { .text = "" };
    if (open_at(f, f->server.url, statement_timeout_ms, LONG_MS, &c, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return c;
}

/* ---- values ---- */

static void values_come_back_as_they_went(void **state)
{
    struct fixture *f = *state;
    static const int32_t small[] = { 0, -1, INT32_MAX, INT32_MIN };
    static const int64_t large[] = { 7, INT64_MIN, INT64_MAX };
    static const str texts[] = { STR_INIT("a\0b"), STR_INIT(""), STR_INIT("\xff\xfe{},\"\\") };
    struct pg_params p;
    struct pg_rows *rows = NULL;
    struct pg_outcome o;
    struct pg *c = connected(f, LONG_MS);
    pg_params_init(&p, &f->arena);
    pg_put_i32(&p, -5);
    pg_put_i64(&p, INT64_MIN);
    pg_put_bytes(&p, STR("nul \0 inside"));
    pg_put_bytes(&p, STR_NONE);
    pg_put_i32s(&p, small, COUNT_OF(small));
    pg_put_i64s(&p, large, COUNT_OF(large));
    pg_put_bytes_array(&p, texts, COUNT_OF(texts));
    pg_put_i64s(&p, large, 0);
    assert_false(p.failed);
    pg_run_one(c,
               "SELECT $1, $2, $3, $4, $5[4], $6[2], $7[1], $7[3], length($7[2]), cardinality($8), "
               "7::int2,"
               " NULL::bytea",
               &p, within(f, LONG_MS), &rows, &o);
    assert_int_equal(o.why, ERR_OK);
    assert_int_equal(pg_i64(rows, 0, 0), -5);
    assert_true(pg_i64(rows, 0, 1) == INT64_MIN);
    assert_true(str_eq(pg_bytes(rows, 0, 2), STR("nul \0 inside")));
    assert_int_equal(pg_bytes(rows, 0, 3).n, 0);
    assert_true(pg_i64(rows, 0, 4) == INT32_MIN);
    assert_true(pg_i64(rows, 0, 5) == INT64_MIN);
    assert_true(str_eq(pg_bytes(rows, 0, 6), texts[0]));
    assert_true(str_eq(pg_bytes(rows, 0, 7), texts[2]));
    assert_int_equal(pg_i64(rows, 0, 8), 0);
    assert_int_equal(pg_i64(rows, 0, 9), 0);
    assert_int_equal(pg_i64(rows, 0, 10), 7);
    assert_int_equal(pg_bytes(rows, 0, 11).n, 0);
    pg_rows_free(&rows);
    pg_close_wait(&c);
    arena_reset(&f->arena);
}

static void too_many_parameters_are_a_failure(void **state)
{
    struct fixture *f = *state;
    struct pg_params p;
    pg_params_init(&p, &f->arena);
    for (int i = 0; i < PG_PARAMS_MAX; i++)
        pg_put_i32(&p, i);
    assert_false(p.failed);
    pg_put_i32(&p, 0);
    assert_true(p.failed);
    struct arena small;
    arena_init(&small, 1024);
    pg_params_init(&p, &small);
    pg_put_bytes(&p, (str){ .p = "", .n = 1 << 20 }); /* is not read */
    assert_true(p.failed);
    arena_fini(&small);
    arena_reset(&f->arena);
}

/* Larger than the buffers of both sides, in both directions at once. */
static void large_values_pass_both_ways(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_params p;
    struct pg_rows *rows[3];
    struct pg_outcome o;
    char *bytes = arena_alloc(&f->arena, BIG_BYTES);
    assert_non_null(bytes);
    memset(bytes, 'x', BIG_BYTES);
    pg_params_init(&p, &f->arena);
    pg_put_bytes(&p, (str){ .p = bytes, .n = BIG_BYTES });
    struct pg_statement list[] = {
        { .sql = "SELECT $1", .params = &p },
        { .sql = "SELECT $1", .params = &p },
        { .sql = "SELECT 3" },
    };
    pg_run(c, list, COUNT_OF(list), within(f, LONG_MS), rows, &o);
    assert_int_equal(o.why, ERR_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_true(str_eq(pg_bytes(rows[i], 0, 0), (str){ .p = bytes, .n = BIG_BYTES }));
    assert_int_equal(pg_i64(rows[2], 0, 0), 3);
    for (unsigned i = 0; i < 3; i++)
        pg_rows_free(&rows[i]);
    pg_close_wait(&c);
    arena_reset(&f->arena);
}

/* ---- outcomes ---- */

static void an_error_in_the_middle_undoes_all(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_outcome o;
    struct pg_rows *rows[4];
    pg_server_run(&f->server, c, "CREATE TABLE middle (n int4 PRIMARY KEY)", NULL);
    struct pg_statement list[] = {
        { .sql = "INSERT INTO middle VALUES (1)" },
        { .sql = "SELECT 7" },
        { .sql = "SELECT 1 / 0" },
        { .sql = "INSERT INTO middle VALUES (2)" },
    };
    pg_run(c, list, COUNT_OF(list), within(f, LONG_MS), rows, &o);
    assert_int_equal(o.why, ERR_PRECONDITION);
    assert_int_equal(o.failed, 2);
    assert_string_equal(o.state, "22012");
    assert_non_null(strstr(o.note.text, "division by zero"));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_null(rows[i]);
    assert_false(pg_broken(c));
    assert_int_equal(pg_server_number(&f->server, c, "SELECT count(*) FROM middle"), 0);
    list[2].sql = "SELECT 9";
    pg_run(c, list, COUNT_OF(list), within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_OK);
    assert_int_equal(pg_server_number(&f->server, c, "SELECT count(*) FROM middle"), 2);
    pg_close_wait(&c);
}

static void an_error_of_the_commit_is_definite(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_outcome o;
    pg_server_run(&f->server, c, "CREATE TABLE late (n int4 UNIQUE DEFERRABLE INITIALLY DEFERRED)",
                  NULL);
    struct pg_statement list[] = {
        { .sql = "INSERT INTO late VALUES (1)" },
        { .sql = "INSERT INTO late VALUES (1)" },
    };
    pg_run(c, list, COUNT_OF(list), within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_PRECONDITION);
    assert_int_equal(o.failed, COUNT_OF(list));
    assert_string_equal(o.state, "23505");
    assert_false(pg_broken(c));
    assert_int_equal(pg_server_number(&f->server, c, "SELECT count(*) FROM late"), 0);
    pg_close_wait(&c);
}

static void text_with_a_nul_is_refused_by_the_server_alone(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_params p;
    struct pg_outcome o;
    pg_params_init(&p, &f->arena);
    pg_put_bytes(&p, STR("a\0b"));
    pg_run_one(c, "SELECT convert_from($1, 'UTF8')", &p, within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_PRECONDITION);
    assert_string_equal(o.state, "22021");
    assert_false(pg_broken(c));
    pg_close_wait(&c);
    arena_reset(&f->arena);
}

static void a_slow_statement_is_given_up_by_the_server(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, STATEMENT_MS);
    struct pg_outcome o;
    pg_run_one(c, "SELECT pg_sleep(600)", NULL, within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_TIMEOUT);
    assert_string_equal(o.state, "57014");
    assert_false(pg_broken(c));
    assert_int_equal(pg_server_number(&f->server, c, "SELECT 5"), 5);
    pg_close_wait(&c);
}

static void a_missed_deadline_leaves_the_outcome_unknown(void **state)
{
    struct fixture *f = *state;
    struct pg_outcome o;
    for (int64_t ms = -1; ms < SHORT_MS;
         ms += SHORT_MS) { /* one that is over before it begins, too */
        struct pg *c = connected(f, LONG_MS);
        pg_run_one(c, "SELECT pg_sleep(600)", NULL, within(f, ms), NULL, &o);
        assert_int_equal(o.why, ERR_IO);
        assert_true(pg_broken(c));
        pg_run_one(c, "SELECT 1", NULL, within(f, LONG_MS), NULL, &o);
        assert_int_equal(o.why, ERR_UNAVAILABLE); /* never sent */
        assert_string_equal(o.state, "");
        pg_close_wait(&c);
    }
}

/* More than the socket takes is on its way to one that reads no more. */
static void a_send_that_nobody_takes_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_params p;
    struct pg_outcome o;
    char *bytes = arena_alloc(&f->arena, BIG_BYTES);
    assert_non_null(bytes);
    memset(bytes, 'x', BIG_BYTES);
    pg_params_init(&p, &f->arena);
    pg_put_bytes(&p, (str){ .p = bytes, .n = BIG_BYTES });
    pid_t backend = (pid_t)pg_server_number(&f->server, c, "SELECT pg_backend_pid()");
    assert_int_equal(kill(backend, SIGSTOP), 0);
    mono until = within(f, LONG_MS / 2);
    pg_run_one(c, "SELECT length($1)", &p, within(f, SHORT_MS), NULL, &o);
    assert_int_equal(kill(backend, SIGCONT), 0);
    assert_int_equal(o.why, ERR_IO);
    assert_true(clock_mono(f->clock).ns < until.ns);
    assert_true(pg_broken(c));
    pg_close_wait(&c);
    arena_reset(&f->arena);
}

static void a_server_that_ends_a_statement_says_so(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_outcome o;
    struct pg_statement list[] = {
        { .sql = "SELECT 1" },
        { .sql = "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(600)" },
        { .sql = "SELECT 2" },
    };
    pg_run(c, list, COUNT_OF(list), within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_UNAVAILABLE);
    assert_int_equal(o.failed, 1);
    assert_string_equal(o.state, "57P01");
    assert_true(pg_broken(c));
    pg_close_wait(&c);
}

/* libpq closes the socket of one that went, and the next one has its number. */
static void a_connection_that_went_leaves_the_next_one_alone(void **state)
{
    struct fixture *f = *state;
    struct pg *admin = connected(f, LONG_MS), *gone = connected(f, LONG_MS);
    char text[64];
    (void)snprintf(text, sizeof text, "SELECT pg_terminate_backend(%lld)",
                   (long long)pg_server_number(&f->server, gone, "SELECT pg_backend_pid()"));
    pg_server_run(&f->server, admin, text, NULL);
    while (!pg_broken(gone)) /* seen while nobody asks */
        wait_pause(1);
    struct pg *next = connected(f, LONG_MS);
    pg_close_wait(&gone);
    assert_int_equal(pg_server_number(&f->server, next, "SELECT 5"), 5);
    pg_close_wait(&next);
    pg_close_wait(&admin);
}

static void copying_is_refused(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_outcome o;
    pg_run_one(c, "COPY (SELECT 1) TO STDOUT", NULL, within(f, LONG_MS), NULL, &o);
    assert_int_equal(o.why, ERR_IO);
    assert_true(pg_broken(c));
    pg_close_wait(&c);
}

static void a_refused_connection_says_why(void **state)
{
    struct fixture *f = *state;
    struct fake_pg nobody;
    struct pg *c = NULL;
    struct err_note note = { .text = "" };
    char url[PG_SERVER_URL_BYTES];
    fake_pg_init(&nobody); /* for its port */
    (void)snprintf(url, sizeof(url), "%s", nobody.url);
    fake_pg_serve(&nobody);
    fake_pg_fini(&nobody);
    assert_int_equal(open_at(f, url, LONG_MS, LONG_MS, &c, &note), ERR_UNAVAILABLE);
    assert_non_null(strstr(note.text, "refused"));
    (void)snprintf(url, sizeof(url), "postgresql://stranger@127.0.0.1:%u/postgres", f->server.port);
    assert_int_equal(open_at(f, url, LONG_MS, LONG_MS, &c, &note), ERR_UNAVAILABLE);
    assert_non_null(strstr(note.text, "stranger"));
    assert_null(strchr(note.text, '\n'));
    assert_int_equal(open_at(f, "postgresql://u@localhost/d", LONG_MS, LONG_MS, &c, &note),
                     ERR_BAD);
    assert_null(c);
}

/* ---- a server that misbehaves ---- */

static void a_server_without_a_word_is_given_up_at_the_deadline(void **state)
{
    struct fixture *f = *state;
    struct pg *c = NULL;
    struct err_note note = { .text = "" };
    struct fake_pg fake;
    fake_pg_init(&fake);
    fake.holds = true;
    fake_pg_serve(&fake);
    assert_int_equal(open_at(f, fake.url, LONG_MS, SHORT_MS, &c, &note), ERR_TIMEOUT);
    assert_true(note.text[0] != '\0');
    fake_pg_fini(&fake);
}

/* The one before it was cut off from its net, or is stopped: nobody refuses. */
static void a_host_that_never_answers_hides_no_other(void **state)
{
    struct fixture *f = *state;
    struct fake_pg fake;
    char url[PG_SERVER_URL_BYTES + 64];
    atomic_uint address = 0;
    unsigned port = 0;
    fake_pg_init(&fake);
    fake.holds = true;
    assert_int_equal(sscanf(strrchr(fake.url, ':'), ":%u", &port), 1);
    (void)snprintf(url, sizeof(url),
                   "postgresql://postgres@/postgres?host=127.0.0.1,127.0.0.1&port=%u,%u", port,
                   f->server.port);
    fake_pg_serve(&fake);
    for (int i = 0; i < 2; i++) {
        struct pg *c = NULL;
        struct err_note note = { .text = "" };
        struct pg_opts opts = { .url = url,
                                .application = "test",
                                .loop = f->server.loop,
                                .clock = f->clock,
                                .statement_timeout_ms = LONG_MS,
                                .address = &address };
        if (pg_open(&opts, within(f, HOSTS_MS), &c, &note) !=
            ERR_OK) /* the second time at once: the fake takes one */
            fail_msg("%s", note.text);
        pg_server_run(&f->server, c, "SELECT 1", NULL);
        assert_int_equal(atomic_load(&address), 1);
        pg_close_wait(&c);
    }
    fake_pg_fini(&fake);
}

static void lists_of_hosts_and_ports_are_read_as_libpq_reads_them(void **state)
{
    struct fixture *f = *state;
    static const char *const urls[] = {
        "postgresql://postgres@127.0.0.9:1,127.0.0.1:%u/postgres",
        "postgresql://postgres@127.0.0.1:1,127.0.0.1:1,127.0.0.1:%u/postgres",
        "postgresql://postgres@/postgres?host=127.0.0.1,127.0.0.1&port=,%u",
        "postgresql://postgres@/postgres?hostaddr=127.0.0.9,127.0.0.1&port=%u",
        "postgresql://postgres@/postgres?host=one,two&hostaddr=127.0.0.9,127.0.0.1&port=%u",
        "postgresql://postgres@/postgres?host=,two&hostaddr=127.0.0.1,127.0.0.9&port=%u",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char url[PG_SERVER_URL_BYTES + 64];
        struct pg *c = NULL;
        struct err_note note = { .text = "" };
        str rest = str_of(urls[i]), before = str_split(&rest, '%');
        (void)snprintf(url, sizeof(url), "%.*s%u%.*s", STR_ARG(before), f->server.port,
                       STR_ARG(str_skip(rest, 1)));
        if (open_at(f, url, LONG_MS, LONG_MS, &c, &note) != ERR_OK)
            fail_msg("%s: %s", url, note.text);
        pg_close_wait(&c);
    }
}

static void each_address_that_was_tried_has_its_reason(void **state)
{
    struct pg *c = NULL;
    struct err_note note = { .text = "" };
    assert_int_equal(open_at(*state, "postgresql://u@127.0.0.1:1,127.0.0.9:1/d", LONG_MS, LONG_MS,
                             &c, &note),
                     ERR_UNAVAILABLE);
    assert_string_equal(note.text,
                        "PostgreSQL refuses: connection to server at \"127.0.0.1\", port 1 failed:"
                        " Connection refused; PostgreSQL refuses: connection to server at "
                        "\"127.0.0.9\", port 1 failed:"
                        " Connection refused");
}

static void urls_of_addresses_are_taken_and_lists_that_do_not_fit_refused(void **state)
{
    static const char *const fine[] = {
        "postgresql://u@[::1]/d",
        "postgresql://u@[::1]:5433,[fe80::7]:5434,10.0.0.7/d",
        "postgres://u@10.0.0.7:/d",
        "postgresql://%2Ftmp/d",
        "postgresql://u:p%40%3A%2F%25@%2Fvar%2Frun:5433/d",
        "postgresql:///d?host=/tmp",
        "postgresql://u@10.0.0.7,10.0.0.8/d?port=5433",
        "postgresql://u@10.0.0.7/d?hostaddr=",
        "postgresql:///d?host=::1",
        "postgresql:///d?host=one,two&hostaddr=10.0.0.7,10.0.0.8&port=5432,5433",
        "postgresql://u@10.0.0.7/d?options=-c%20search_path%3Dqueues",
    };
    static const char *const bad[] = {
        "postgresql:///d?host=10.0.0.7,10.0.0.8&port=1,2,3",
        "postgresql:///d?host=10.0.0.7&port=1,2",
        "postgresql:///d?host=10.0.0.7,10.0.0.8,10.0.0.9&port=1,2",
        "postgresql:///d?host=one&hostaddr=10.0.0.7,10.0.0.8",
        "postgresql:///d?host=one,two&hostaddr=10.0.0.7",
        "postgresql://u@10.0.0.7,/d",
        "postgresql://u@one,10.0.0.7/d",
        "postgresql://u@10.0.0.7:99999/d",
        "postgresql://u@10.0.0.7:x/d",
        "postgresql://u@10.0.0.7/d?port=0",
        "postgresql://u@/d",
        "postgresql://u@10.0.0.7%00/d",
        "postgresql://u@[::1/d",
        "postgresql://u@%40abstract/d",
        "postgresql://u@10.0.0.7/d?sslmode=perhaps",
        "postgresql://u@10.0.0.7/d?target_session_attrs=perhaps",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        struct err_note note = { .text = "" };
        if (pg_url_check(fine[i], &note) != ERR_OK)
            fail_msg("%s: %s", fine[i], note.text);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err_note note = { .text = "" };
        if (pg_url_check(bad[i], &note) != ERR_BAD || note.text[0] == '\0' ||
            strstr(note.text, "perhaps") != NULL)
            fail_msg("%s: '%s'", bad[i], note.text);
    }
}

/* What the URL asks of a session, what statements need of it, and what a role says of its own. */
static void sessions_have_the_settings_of_the_url_and_ours_whatever_the_role_says(void **state)
{
    struct fixture *f = *state;
    static const char *const roles[] = {
        "default_transaction_isolation = 'serializable'",
        "idle_session_timeout = '1min'",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '1ms'",
        "client_min_messages = 'debug1'",
        "client_encoding = 'latin1'",
        "standard_conforming_strings = off",
        "search_path = nowhere",
    };
    char url[PG_SERVER_URL_BYTES + 96], long_url[2048];
    struct pg *c = NULL, *admin = connected(f, LONG_MS);
    pg_server_run(&f->server, admin, "CREATE ROLE odd LOGIN SUPERUSER", NULL);
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        char text[128];
        (void)snprintf(text, sizeof text, "ALTER ROLE odd SET %s", roles[i]);
        pg_server_run(&f->server, admin, text, NULL);
    }
    (void)snprintf(url, sizeof url, "postgresql://odd@127.0.0.1:%u/postgres?options=%s",
                   f->server.port, "-c%20search_path%3Delsewhere%20-c%20lock_timeout%3D7");
    assert_int_equal(open_at(f, url, STATEMENT_MS, LONG_MS, &c, NULL), ERR_OK);
    assert_int_equal(pg_server_number(&f->server, c,
                                      "SELECT (current_setting('default_transaction_isolation')"
                                      " = 'read committed')::int4"),
                     1);
    assert_int_equal(
        pg_server_number(&f->server, c,
                         "SELECT (current_setting('idle_session_timeout') = '0')::int4"),
        1);
    assert_int_equal(pg_server_number(&f->server, c,
                                      "SELECT (current_setting('statement_timeout') = '2s')::int4"),
                     1);
    assert_int_equal(pg_server_number(&f->server, c,
                                      "SELECT (current_setting('lock_timeout') = '1332ms')::int4"),
                     1);
    assert_int_equal(pg_server_number(&f->server, c,
                                      "SELECT (current_setting('client_encoding') = 'UTF8')::int4"),
                     1);
    assert_int_equal(
        pg_server_number(&f->server, c,
                         "SELECT (current_setting('search_path') = 'elsewhere')::int4"),
        1);
    pg_close_wait(&c);
    int n = snprintf(long_url, sizeof long_url, "%s", url);
    memset(long_url + n, 'x', sizeof long_url - 1 - (size_t)n); /* more than fits beside ours */
    long_url[sizeof long_url - 1] = '\0';
    assert_int_equal(pg_url_check(long_url, NULL), ERR_BAD);
    pg_server_run(&f->server, admin, "DROP ROLE odd", NULL);
    pg_close_wait(&admin);
}

/* ---- what nobody asked for ---- */

/* Whoever can write to the database can make a row of any size. */
static void an_answer_has_a_limit(void **state)
{
    struct fixture *f = *state;
    struct pg *c = connected(f, LONG_MS);
    struct pg_outcome o;
    struct pg_rows *rows = NULL;
    pg_run_one(c, "SELECT repeat('x', 16777216) FROM generate_series(1, 100)", NULL,
               within(f, LONG_MS), &rows, &o);
    assert_int_equal(o.why, ERR_IO);
    assert_non_null(strstr(o.note.text, "too large"));
    assert_null(rows);
    assert_true(pg_broken(c));
    pg_close_wait(&c);
}

/* A warning at each connection, of a collation's version, say, is nothing for the log of a
 * server. */
static void notices_are_not_printed(void **state)
{
    struct fixture *f = *state;
    struct fake_pg fake;
    struct pg *c = NULL;
    char text[512] = "";
    FILE *said = tmpfile();
    assert_non_null(said);
    fake_pg_init(&fake);
    fake_message(&fake.hello, 'R', (str){ .p = "\0\0\0\0", .n = 4 });
    fake_message(&fake.hello, 'N', (str){ .p = "SWARNING\0C01000\0Mhear hear\0\0", .n = 28 });
    fake_ready(&fake.hello);
    fake_pg_serve(&fake);
    int before = dup(STDERR_FILENO);
    assert_true(dup2(fileno(said), STDERR_FILENO) >= 0);
    err why = open_at(f, fake.url, LONG_MS, LONG_MS, &c, NULL);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(why, ERR_OK);
    rewind(said);
    size_t n = fread(text, 1, sizeof text - 1, said);
    if (n > 0)
        fail_msg("it printed: %s", text);
    fclose(said);
    pg_close_wait(&c);
    fake_pg_fini(&fake);
}

static void what_is_no_postgres_is_no_connection(void **state)
{
    struct fixture *f = *state;
    static const str words[] = {
        STR_INIT(""),
        STR_INIT("HTTP/1.1 400 Bad Request\r\n\r\n"),
        STR_INIT("R\0\0\0\4"),
        STR_INIT("R\0\0\0\10\0\0\0\143"),
        STR_INIT("Z\0\0\0\5I"),
        STR_INIT("R\177\377\377\377"),
        STR_INIT("\0\0\0\0\0\0\0\0\0\0"),
        STR_INIT("E\0\0\0\5"),
    };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct pg *c = NULL;
        struct err_note note = { .text = "" };
        struct fake_pg fake;
        fake_pg_init(&fake);
        buf_put(&fake.hello, words[i]);
        fake_pg_serve(&fake);
        assert_int_equal(open_at(f, fake.url, LONG_MS, LONG_MS, &c, &note), ERR_UNAVAILABLE);
        assert_true(note.text[0] != '\0');
        assert_null(c);
        fake_pg_fini(&fake);
    }
}

/* Two statements to a server that answers with what is in the fake. */
static struct pg_outcome two_at(struct fixture *f, struct fake_pg *fake, int64_t ms,
                                int64_t values[2])
{
    struct pg_statement list[] = { { .sql = "SELECT 1" }, { .sql = "SELECT 2" } };
    struct pg_rows *rows[COUNT_OF(list)];
    struct pg_outcome o;
    struct pg *c = NULL;
    fake_welcome(&fake->hello);
    fake_pg_serve(fake);
    assert_int_equal(open_at(f, fake->url, LONG_MS, LONG_MS, &c, NULL), ERR_OK);
    pg_run(c, list, COUNT_OF(list), within(f, ms), rows, &o);
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        assert_true((rows[i] != NULL) == (o.why == ERR_OK));
        if (values != NULL && rows[i] != NULL)
            values[i] = pg_i64(rows[i], 0, 0);
        pg_rows_free(&rows[i]);
    }
    assert_true(o.why != ERR_IO || pg_broken(c));
    pg_close_wait(&c);
    fake_pg_fini(fake);
    return o;
}

static void whole_answers_are_taken(void **state)
{
    struct fake_pg fake;
    int64_t values[2] = { 0, 0 };
    fake_pg_init(&fake);
    fake_row(&fake.answer, 11);
    fake_row(&fake.answer, 12);
    fake_ready(&fake.answer);
    assert_int_equal(two_at(*state, &fake, LONG_MS, values).why, ERR_OK);
    assert_int_equal(values[0], 11);
    assert_int_equal(values[1], 12);
}

/* Until the answer to the end has come nobody knows, wherever it is cut. */
static void an_answer_cut_anywhere_is_unknown(void **state)
{
    struct fake_pg fake;
    struct buf whole;
    buf_init(&whole, FAKE_BYTES_MAX);
    fake_row(&whole, 11);
    fake_row(&whole, 12);
    fake_ready(&whole);
    for (size_t n = 1; n < whole.n; n++) {
        fake_pg_init(&fake);
        buf_put(&fake.answer, str_take(buf_str(&whole), n));
        struct pg_outcome o = two_at(*state, &fake, LONG_MS, NULL);
        if (o.why != ERR_IO)
            fail_msg("%s when cut after %zu of %zu bytes", err_name(o.why), n, whole.n);
    }
    fake_pg_init(&fake);
    fake.holds = true;
    buf_put(&fake.answer, str_take(buf_str(&whole), whole.n - 1));
    assert_int_equal(two_at(*state, &fake, SHORT_MS, NULL).why, ERR_IO);
    buf_fini(&whole);
}

static void an_end_without_answers_is_no_commit(void **state)
{
    struct fake_pg fake;
    fake_pg_init(&fake);
    fake_ready(&fake.answer);
    assert_int_equal(two_at(*state, &fake, LONG_MS, NULL).why, ERR_IO);
    fake_pg_init(&fake);
    fake_row(&fake.answer, 11);
    fake_ready(&fake.answer);
    assert_int_equal(two_at(*state, &fake, LONG_MS, NULL).why, ERR_IO);
}

/* What was answered before the connection went decides. */
static void a_last_word_is_definite_only_before_the_commit(void **state)
{
    struct fake_pg fake;
    fake_pg_init(&fake);
    fake_row(&fake.answer, 11);
    fake_error(&fake.answer, "FATAL", "57P01");
    struct pg_outcome o = two_at(*state, &fake, LONG_MS, NULL);
    assert_int_equal(o.why, ERR_UNAVAILABLE);
    assert_int_equal(o.failed, 1);
    assert_non_null(strstr(o.note.text, "it is so"));
    fake_pg_init(&fake);
    fake_row(&fake.answer, 11);
    fake_row(&fake.answer, 12);
    fake_error(&fake.answer, "FATAL", "57P01");
    assert_int_equal(two_at(*state, &fake, LONG_MS, NULL).why, ERR_IO);
    fake_pg_init(&fake);
    fake_error(&fake.answer, "ERROR", NULL);
    fake_ready(&fake.answer);
    assert_int_equal(two_at(*state, &fake, LONG_MS, NULL).why, ERR_IO);
    fake_pg_init(&fake);
    fake_error(&fake.answer, "ERROR", "53100");
    fake_ready(&fake.answer);
    assert_int_equal(two_at(*state, &fake, LONG_MS, NULL).why, ERR_FULL);
}

/* Nothing that comes over the wire is believed to be well formed: no crash, no wait beyond the
 * end. */
static void damaged_answers_harm_nobody(void **state)
{
    struct rng rng;
    rng_init(&rng, 5);
    for (unsigned i = 0; i < MUTATIONS; i++) {
        struct fake_pg fake;
        fake_pg_init(&fake);
        fake_row(&fake.answer, 11);
        if (i % 3 == 0)
            fake_error(&fake.answer, "ERROR", "22012");
        else
            fake_row(&fake.answer, 12);
        fake_ready(&fake.answer);
        for (uint64_t n = 1 + rng_below(&rng, 3); n > 0; n--)
            fake.answer.p[rng_below(&rng, fake.answer.n)] = (char)rng_below(&rng, 256);
        (void)two_at(*state, &fake, LONG_MS, NULL);
    }
}

int main(void)
{
    pg_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_as_they_went),
        cmocka_unit_test(too_many_parameters_are_a_failure),
        cmocka_unit_test(large_values_pass_both_ways),
        cmocka_unit_test(an_error_in_the_middle_undoes_all),
        cmocka_unit_test(an_error_of_the_commit_is_definite),
        cmocka_unit_test(text_with_a_nul_is_refused_by_the_server_alone),
        cmocka_unit_test(a_slow_statement_is_given_up_by_the_server),
        cmocka_unit_test(a_missed_deadline_leaves_the_outcome_unknown),
        cmocka_unit_test(a_send_that_nobody_takes_ends_at_its_deadline),
        cmocka_unit_test(a_server_that_ends_a_statement_says_so),
        cmocka_unit_test(a_connection_that_went_leaves_the_next_one_alone),
        cmocka_unit_test(copying_is_refused),
        cmocka_unit_test(a_refused_connection_says_why),
        cmocka_unit_test(a_server_without_a_word_is_given_up_at_the_deadline),
        cmocka_unit_test(a_host_that_never_answers_hides_no_other),
        cmocka_unit_test(lists_of_hosts_and_ports_are_read_as_libpq_reads_them),
        cmocka_unit_test(each_address_that_was_tried_has_its_reason),
        cmocka_unit_test(urls_of_addresses_are_taken_and_lists_that_do_not_fit_refused),
        cmocka_unit_test(sessions_have_the_settings_of_the_url_and_ours_whatever_the_role_says),
        cmocka_unit_test(an_answer_has_a_limit),
        cmocka_unit_test(notices_are_not_printed),
        cmocka_unit_test(what_is_no_postgres_is_no_connection),
        cmocka_unit_test(whole_answers_are_taken),
        cmocka_unit_test(an_answer_cut_anywhere_is_unknown),
        cmocka_unit_test(an_end_without_answers_is_no_commit),
        cmocka_unit_test(a_last_word_is_definite_only_before_the_commit),
        cmocka_unit_test(damaged_answers_harm_nobody),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
