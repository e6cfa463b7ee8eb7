/* Goal: keys and roles that many servers share: what one changes holds there at once and elsewhere
 * soon; none of two changes is lost; who knows too little lets nobody pass.
 * Method: two authorities on one real Cassandra (real.h), each with a copy and a clock of its own,
 * which the test sets ahead. */
#include "real.h"

#include "../cmocka_all.h"
#include "auth/authority.h"
#include "cassandra/rows.h"
#include "loop/entropy.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TTL_MS = 5000, CHANGERS = 3, USERS = 5 };

static struct server {
    struct clock clock; /* the machine's, and so much ahead */
    int64_t ahead_ns;
    struct cassandra_rows *rows;
    struct auth *auth;
    bool stopped;
} a, b;

static mono ahead_mono(struct clock *c)
{
    const struct server *s = CONTAINER_OF(c, struct server, clock);
    return (mono){ .ns = clock_mono(the.clock).ns + s->ahead_ns };
}

static store_time usual_store(struct clock *c)
{
    (void)c;
    return clock_store(the.clock);
}

static wall usual_wall(struct clock *c)
{
    (void)c;
    return clock_wall(the.clock);
}

static void rows_open(void *ctx)
{
    struct server *s = ctx;
    s->rows = cassandra_rows_new(&(struct cassandra_rows_opts){
        .catalog = the.catalog, .clock = &s->clock, .scope = "auth", .poll_ms = 200 });
}

static void server_open(struct server *s, bool exposed)
{
    struct err_note note;
    s->clock =
        (struct clock){ .store_now = usual_store, .mono_now = ahead_mono, .wall_now = usual_wall };
    s->stopped = false;
    real_on_loop(rows_open, s);
    const struct auth_opts o = { .rows = cassandra_rows_store(s->rows),
                                 .clock = &s->clock,
                                 .entropy = entropy_bytes,
                                 .enabled = true,
                                 .exposed = exposed };
    assert_int_equal(auth_new(&o, &s->auth, &note), ERR_OK);
}

static void rows_told(void *ctx)
{
    struct server *s = ctx;
    cassandra_rows_free(&s->rows);
    __atomic_store_n(&s->stopped, true, __ATOMIC_RELEASE);
}

static void rows_close(void *ctx)
{
    struct server *s = ctx;
    cassandra_rows_stop(s->rows, rows_told, s);
}

static bool has_stopped(void *ctx)
{
    const struct server *s = ctx;
    return __atomic_load_n(&s->stopped, __ATOMIC_ACQUIRE);
}

static void server_close(struct server *s)
{
    real_on_loop(rows_close, s);
    real_until(has_stopped, s, "the rows have stopped");
    auth_free(&s->auth);
}

/* ---- asking ---- */

struct asked {
    struct server *of;
    str field;
    const char *permission;
    err want;
};

static err ask(const struct server *s, str field, const char *permission)
{
    enum auth_reason why = AUTH_FINE;
    err got = auth_check(s->auth, field, permission, STR(AUTH_SYSTEM), &why);
    assert_int_equal(auth_glance(s->auth, field, permission, STR(AUTH_SYSTEM)), got == ERR_OK);
    return got;
}

static bool is_answered(void *ctx)
{
    const struct asked *q = ctx;
    return ask(q->of, q->field, q->permission) == q->want;
}

static void until(struct server *s, str field, const char *permission, err want)
{
    struct asked q = { s, field, permission, want };
    real_until(is_answered, &q, "another answer");
}

struct made {
    struct auth_key key;
    char secret[AUTH_KEY_BYTES_MAX + 1];
    char field[AUTH_KEY_BYTES_MAX + 8];
};

static str make(const struct server *s, const char *role, struct made *m)
{
    struct err_note note;
    const struct auth_key_new n = { .roles = { str_of(role) },
                                    .roles_count = 1,
                                    .expires_at = STORE_TIME_NEVER };
    if (auth_key_create(s->auth, &n, &m->key, m->secret, &note) != ERR_OK)
        fail_msg("%s", note.text);
    (void)snprintf(m->field, sizeof m->field, "Bearer %s", m->secret);
    return str_of(m->field);
}

/* ---- tests ---- */

static void setup(void **state)
{
    (void)state;
    real_apply();
    assert_int_equal(the.why, ERR_OK);
    server_open(&a, false);
    server_open(&b, false);
}

static void *begin_run(void *ctx)
{
    const struct server *s = ctx;
    struct err_note note;
    if (auth_begin(s->auth, &note) != ERR_OK)
        check_failed(__FILE__, __LINE__, note.text);
    return NULL;
}

static unsigned bindings_of_anonymous(const struct server *s)
{
    struct arena arena;
    struct err_note note;
    const struct auth_page page = { .limit = 0 };
    struct auth_binding_list l = { .space = STR(AUTH_SYSTEM),
                                   .user_id = STR(AUTH_ANONYMOUS),
                                   .page = &page };
    arena_init(&arena, 1 << 20);
    err e = auth_binding_list(s->auth, &l, &arena);
    (void)note;
    assert_int_equal(e, ERR_OK);
    arena_fini(&arena);
    return l.count;
}

static void two_that_begin_at_once_begin_once(void **state)
{
    (void)state;
    pthread_t other;
    assert_int_not_equal(ask(&a, STR_NONE, "page.read"), ERR_OK); /* nothing is there yet */
    assert_int_equal(pthread_create(&other, NULL, begin_run, &b), 0);
    (void)begin_run(&a);
    assert_int_equal(pthread_join(other, NULL), 0);
    until(&a, STR_NONE, "page.read", ERR_OK);
    until(&b, STR_NONE, "page.read", ERR_OK);
    assert_int_equal(bindings_of_anonymous(&a), 1);
    assert_int_equal(bindings_of_anonymous(&b), 1);
    bool open = false;
    assert_int_equal(auth_door_open(b.auth, &open), ERR_OK);
    assert_true(open);
}

static void a_key_holds_here_at_once_and_there_soon(void **state)
{
    (void)state;
    struct made m;
    struct err_note note;
    str field = make(&a, "Admin", &m);
    assert_int_equal(ask(&a, field, "page.purge"), ERR_OK);
    until(&b, field, "page.purge", ERR_OK);
    mono began = clock_mono(the.clock);
    assert_int_equal(auth_key_delete(a.auth, str_of(m.key.id), &note), ERR_OK);
    assert_int_equal(ask(&a, field, "page.purge"), ERR_DENIED);
    until(&b, field, "page.purge", ERR_DENIED);
    assert_true(clock_mono(the.clock).ns - began.ns < TTL_MS * NS_PER_MS);
}

static void who_has_not_looked_of_late_lets_nobody_pass(void **state)
{
    (void)state;
    struct made m;
    str field = make(&b, "Admin", &m);
    struct arena arena;
    struct auth_user *users;
    unsigned count;
    arena_init(&arena, 1 << 20);
    assert_int_equal(ask(&b, field, "page.read"), ERR_OK);
    b.ahead_ns = (TTL_MS + 1000) * NS_PER_MS; /* its copy is that old */
    assert_int_equal(ask(&b, field, "page.read"), ERR_UNAVAILABLE);
    assert_int_equal(ask(&b, STR_NONE, "page.read"), ERR_UNAVAILABLE);
    assert_int_equal(ask(&b, STR("Bearer qtr-live-unheard"), "page.read"), ERR_DENIED); /* no key */
    assert_int_equal(auth_user_list(b.auth, &(struct auth_page){ .limit = 0 }, &arena, &users,
                                    &count),
                     ERR_UNAVAILABLE);
    b.ahead_ns = 0;
    assert_int_equal(ask(&b, field, "page.read"), ERR_OK);
    arena_fini(&arena);
}

static void texts_and_lists_come_back(void **state)
{
    (void)state;
    struct err_note note;
    struct arena arena;
    struct auth_space *spaces;
    unsigned count;
    static char text[AUTH_TEXT_BYTES_MAX];
    memset(text, 'x', sizeof text);
    arena_init(&arena, 8 << 20);
    for (unsigned i = 0; i < 5; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "s%u", i);
        const struct auth_space s = { .name = str_of(name),
                                      .description = { text, i * 499 },
                                      .tag = STR("tag") };
        assert_int_equal(auth_space_create(a.auth, &s, &note), ERR_OK);
        assert_int_equal(auth_space_create(a.auth, &s, &note), ERR_CONFLICT);
    }
    const struct auth_page page = { .pivot = STR("s1"), .limit = 3 };
    assert_int_equal(auth_space_list(a.auth, &page, &arena, &spaces, &count), ERR_OK);
    assert_int_equal(count, 3);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(spaces[i].name.p[1], '1' + (int)i);
        assert_int_equal(spaces[i].description.n, (i + 1) * 499);
    }
    assert_int_equal(auth_space_delete(a.auth, STR("s1"), false, &note), ERR_OK);
    assert_int_equal(auth_space_find(a.auth, STR("s1"), &note), ERR_NOT_FOUND);
    assert_int_equal(auth_space_delete(a.auth, STR("s1"), false, &note), ERR_NOT_FOUND);
    arena_fini(&arena);
}

static void *change_run(void *ctx)
{
    const char *name = ctx;
    const struct server *s = name[0] == 'a' ? &a : &b;
    for (unsigned i = 0; i < USERS; i++) {
        char user[16], id[AUTH_ID_BYTES + 1];
        struct err_note note;
        err e;
        (void)snprintf(user, sizeof user, "%s-%u", name, i);
        do
            e = auth_user_create(s->auth, &(struct auth_user){ .name = str_of(user) }, id, &note);
        while (e == ERR_AGAIN);
        if (e != ERR_OK)
            check_failed(__FILE__, __LINE__, note.text);
    }
    return NULL;
}

/* Users are counted in a row of their own, which each change reads and writes. */
static void of_changes_at_once_none_is_lost(void **state)
{
    (void)state;
    static char names[CHANGERS][3] = { "a1", "b2", "a3" };
    pthread_t threads[CHANGERS];
    struct arena arena;
    struct auth_user *users;
    unsigned before, count;
    arena_init(&arena, 8 << 20);
    const struct auth_page page = { .limit = 0 };
    assert_int_equal(auth_user_list(a.auth, &page, &arena, &users, &before), ERR_OK);
    for (unsigned i = 0; i < CHANGERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change_run, names[i]), 0);
    for (unsigned i = 0; i < CHANGERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)make(&a, "Admin", &(struct made){ .secret = "" }); /* its copy has all that was before */
    assert_int_equal(auth_user_list(a.auth, &page, &arena, &users, &count), ERR_OK);
    assert_int_equal(count, before + CHANGERS * USERS + 1);
    arena_fini(&arena);
}

static void too_much_at_once_says_so(void **state)
{
    (void)state;
    enum { KEYS = CATALOG_CHANGE_MAX / 3 + 1 }; /* of three rows each */
    char id[AUTH_ID_BYTES + 1];
    struct err_note note;
    assert_int_equal(
        auth_user_create(a.auth, &(struct auth_user){ .name = STR("many") }, id, &note), ERR_OK);
    struct auth_secret s = { .id = "" };
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(auth_apikey_create(a.auth,
                                            &(struct auth_apikey){ .user_id = str_of(id),
                                                                   .expires_at = STORE_TIME_NEVER },
                                            &s, &note),
                         ERR_OK);
    assert_int_equal(auth_user_delete(a.auth, str_of(id), &note), ERR_LIMIT);
    assert_non_null(strstr(note.text, "one by one"));
    for (unsigned i = 0; i < 4; i++) {
        struct arena arena;
        struct auth_apikey *keys;
        unsigned count;
        arena_init(&arena, 1 << 20);
        assert_int_equal(auth_apikey_list(a.auth, str_of(id), &(struct auth_page){ .limit = 1 },
                                          &arena, &keys, &count),
                         ERR_OK);
        assert_int_equal(auth_apikey_delete(a.auth, keys[0].id, &note), ERR_OK);
        arena_fini(&arena);
    }
    assert_int_equal(auth_user_delete(a.auth, str_of(id), &note), ERR_OK);
}

static void a_door_that_one_closes_is_closed(void **state)
{
    (void)state;
    struct err_note note;
    struct server out = { .auth = NULL };
    server_open(&out, true); /* others reach it: an open door is none of its */
    until(&a, STR_NONE, "page.read", ERR_OK);
    until(&out, STR_NONE, "page.read", ERR_DENIED);
    assert_int_equal(auth_door_set(a.auth, false, &note), ERR_OK);
    assert_int_equal(ask(&a, STR_NONE, "page.read"), ERR_DENIED);
    until(&b, STR_NONE, "page.read", ERR_DENIED);
    assert_int_equal(auth_begin(b.auth, &note), ERR_OK); /* and stays so */
    until(&b, STR_NONE, "page.read", ERR_DENIED);
    server_close(&out);
}

static void teardown(void **state)
{
    (void)state;
    server_close(&a);
    server_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup),
        cmocka_unit_test(two_that_begin_at_once_begin_once),
        cmocka_unit_test(a_key_holds_here_at_once_and_there_soon),
        cmocka_unit_test(who_has_not_looked_of_late_lets_nobody_pass),
        cmocka_unit_test(texts_and_lists_come_back),
        cmocka_unit_test(of_changes_at_once_none_is_lost),
        cmocka_unit_test(too_much_at_once_says_so),
        cmocka_unit_test(a_door_that_one_closes_is_closed),
        cmocka_unit_test(teardown),
    };
    return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
