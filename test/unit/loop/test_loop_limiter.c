/* Goal: limits hold at each level, turns are fair, every pass has its end, and idle keys cost
 * nothing. Method: a clock that is a number, and turns by hand. */
#include "limiter_world.h"

#include "../cmocka_all.h"

/* One more guest, who has time. */
static struct guest *come(struct world *w, const struct limiter_key *key, enum limiter_state want)
{
    assert_true(w->count < GUESTS);
    struct guest *g = &w->guests[w->count++];
    *g = (struct guest){ .pass = { .deadline = LIMITER_NEVER } };
    assert_int_equal(guest_enter(w, g, key), want);
    return g;
}

static struct guest *come_holding(struct world *w, const struct limiter_key *key,
                                  enum limiter_state want)
{
    assert_true(w->count < GUESTS);
    struct guest *g = &w->guests[w->count++];
    *g = (struct guest){ .pass = { .deadline = LIMITER_NEVER, .flags = LIMITER_HOLDS } };
    assert_int_equal(guest_enter(w, g, key), want);
    return g;
}

static void leave(struct world *w, struct guest *g)
{
    assert_false(limiter_leave(w->limiter, &g->pass));
    limiter_check(w->limiter);
    limiter_turn(w->limiter);
}

#define KEY(o, d, k)                                                                               \
    {                                                                                              \
        STR_INIT(o), STR_INIT(d), STR_INIT(k)                                                      \
    }
static const struct limiter_key a_x = KEY("one:80", "a.test", "render"),
                                a_y = KEY("one:80", "a.test", "meta"),
                                b_x = KEY("one:80", "b.test", "render"),
                                c_x = KEY("two:80", "c.test", "render");
#undef KEY

static const struct limiter_limits one_running = { .running_max = 1 };

/* ---- turns ---- */

static void without_limits_all_are_let_in(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (unsigned i = 0; i < GUESTS; i++)
        (void)come(w, i % 2 == 0 ? &a_x : &c_x, LIMITER_IN);
    assert_int_equal(figures(w, LIMITER_ALL, NULL).running, GUESTS);
    assert_int_equal(figures(w, LIMITER_ORIGIN, &a_y).running, GUESTS / 2);
    assert_int_equal(figures(w, LIMITER_KIND, &a_y).running, 0);
    world_free(w);
}

static void one_key_is_served_in_order_of_arrival(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, one_running);
    struct guest *g[10];
    for (unsigned i = 0; i < COUNT_OF(g); i++)
        g[i] = come(w, &a_x, i == 0 ? LIMITER_IN : LIMITER_WAITING);
    for (unsigned i = 0; i < COUNT_OF(g); i++) {
        assert_int_equal(g[i]->place, i + 1);
        leave(w, g[i]);
    }
    world_free(w);
}

/* A domain with twenty waiting does not come before one that has two. */
static void domains_take_turns(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_ORIGIN, NULL, one_running);
    struct guest *busy[20], *quiet[2];
    for (unsigned i = 0; i < COUNT_OF(busy); i++)
        busy[i] = come(w, &a_x, i == 0 ? LIMITER_IN : LIMITER_WAITING);
    for (unsigned i = 0; i < COUNT_OF(quiet); i++)
        quiet[i] = come(w, &b_x, LIMITER_WAITING);
    leave(w, busy[0]);
    leave(w, busy[1]);
    assert_int_equal(quiet[0]->place, 3);
    leave(w, quiet[0]);
    leave(w, busy[2]);
    assert_int_equal(quiet[1]->place, 5);
    leave(w, quiet[1]);
    for (unsigned i = 3; i < COUNT_OF(busy); i++)
        leave(w, busy[i]);
    world_free(w);
}

/* Origins first, then domains, then kinds: whoever shares more with a crowd waits longer. */
static void levels_take_turns_from_the_top(void **state)
{
    (void)state;
    static const struct limiter_key *const keys[] = { &a_x, &a_y, &b_x, &c_x };
    static const struct limiter_key *const order[] = { &c_x, &a_x, &c_x, &b_x, &c_x, &a_y,
                                                       &c_x, &b_x, &a_x, &b_x, &a_y, &b_x };
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_ALL, NULL, one_running);
    struct guest *in = come(w, &a_x, LIMITER_IN);
    (void)come(w, &c_x, LIMITER_WAITING);
    for (unsigned i = 0; i < 16; i++)
        if (i != 3)
            (void)come(w, keys[i % 4], LIMITER_WAITING);
    for (unsigned i = 0; i < COUNT_OF(order); i++) {
        leave(w, in);
        in = NULL;
        for (unsigned j = 0; j < w->count; j++)
            if (w->guests[j].place == i + 2)
                in = &w->guests[j];
        assert_non_null(in);
        assert_ptr_equal(in->key, order[i]);
    }
    world_free(w);
}

/* What is full keeps nobody else's turn. */
static void a_full_key_stands_in_nobodys_way(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_DOMAIN, NULL, one_running);
    (void)come(w, &a_x, LIMITER_IN);
    (void)come(w, &a_x, LIMITER_WAITING);
    (void)come(w, &a_y, LIMITER_WAITING);
    (void)come(w, &b_x, LIMITER_IN);
    (void)come(w, &c_x, LIMITER_IN);
    world_free(w);
}

/* ---- limits ---- */

static void each_level_has_its_limit(void **state)
{
    (void)state;
    static const struct {
        const struct limiter_key *key;
        enum limiter_level shared; /* with a_x */
    } others[] = { { &c_x, LIMITER_ALL }, { &b_x, LIMITER_ORIGIN }, { &a_y, LIMITER_DOMAIN } };
    for (unsigned level = LIMITER_ALL; level < LIMITER_LEVELS; level++) {
        struct world *w = world_new();
        const struct limiter_key *key = level == LIMITER_ALL ? NULL : &a_x;
        limiter_limit(w->limiter, (enum limiter_level)level, key, one_running);
        struct guest *first = come(w, &a_x, LIMITER_IN);
        struct guest *second = come(w, &a_x, LIMITER_WAITING);
        for (unsigned i = 0; i < COUNT_OF(others); i++)
            (void)come(w, others[i].key, others[i].shared < level ? LIMITER_IN : LIMITER_WAITING);
        leave(w, first);
        assert_int_equal(second->pass.state, LIMITER_IN);
        world_free(w);
    }
}

static void each_level_bounds_who_waits(void **state)
{
    (void)state;
    for (unsigned level = LIMITER_ALL; level < LIMITER_LEVELS; level++) {
        struct world *w = world_new();
        const struct limiter_limits few = { .running_max = 1, .waiting_max = 2 };
        limiter_limit(w->limiter, (enum limiter_level)level, level == LIMITER_ALL ? NULL : &a_x,
                      few);
        (void)come(w, &a_x, LIMITER_IN);
        (void)come(w, &a_x, LIMITER_WAITING);
        struct guest *leaver = come(w, &a_x, LIMITER_WAITING);
        (void)come(w, &a_x, LIMITER_OUT);
        assert_int_equal(figures(w, LIMITER_ALL, NULL).refused, 1);
        assert_int_equal(figures(w, LIMITER_KIND, &a_x).refused, 1);
        (void)come(w, &c_x, level == LIMITER_ALL ? LIMITER_OUT : LIMITER_IN);
        struct guest *g = &w->guests[w->count++];
        *g = (struct guest){ .pass = { .deadline = LIMITER_NEVER, .flags = LIMITER_UNREFUSED } };
        assert_int_equal(guest_enter(w, g, &a_x), LIMITER_WAITING);
        assert_true(limiter_leave(w->limiter, &leaver->pass));
        (void)come(w, &a_x, LIMITER_WAITING); /* g is not in its way */
        (void)come(w, &a_x, LIMITER_OUT);
        world_free(w);
    }
}

static void a_key_has_its_own_limits_or_its_levels(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, NULL, one_running);
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, (struct limiter_limits){ .running_max = 2 });
    (void)come(w, &a_x, LIMITER_IN);
    (void)come(w, &a_x, LIMITER_IN);
    (void)come(w, &a_x, LIMITER_WAITING);
    (void)come(w, &b_x, LIMITER_IN);
    (void)come(w, &b_x, LIMITER_WAITING);
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, (struct limiter_limits){ .waiting_max = 9 });
    struct limiter_limits own = limiter_limits_of(w->limiter, LIMITER_KIND, &a_x),
                          levels = limiter_limits_of(w->limiter, LIMITER_KIND, &c_x);
    assert_int_equal(own.running_max, 1);
    assert_int_equal(own.waiting_max, 9);
    assert_int_equal(levels.running_max, 1);
    assert_int_equal(levels.waiting_max, 0);
    assert_int_equal(limiter_limits_of(w->limiter, LIMITER_KIND, NULL).running_max, 1);
    assert_int_equal(limiter_limits_of(w->limiter, LIMITER_ALL, NULL).running_max, 0);
    world_free(w);
}

static void limits_change_while_some_wait(void **state)
{
    (void)state;
    for (unsigned level = LIMITER_ALL; level < LIMITER_LEVELS; level++)
        for (unsigned own = level == LIMITER_ALL ? 0 : 1; own <= (level > LIMITER_ALL); own++) {
            struct world *w = world_new();
            enum limiter_level at = (enum limiter_level)level;
            const struct limiter_key *key = own == 1 ? &a_x : NULL;
            struct guest *g[6];
            limiter_limit(w->limiter, at, key, one_running);
            for (unsigned i = 0; i < COUNT_OF(g); i++)
                g[i] = come(w, &a_x, i == 0 ? LIMITER_IN : LIMITER_WAITING);
            limiter_limit(w->limiter, at, key, (struct limiter_limits){ .running_max = 3 });
            limiter_check(w->limiter);
            limiter_turn(w->limiter);
            for (unsigned i = 0; i < COUNT_OF(g); i++)
                assert_int_equal(g[i]->pass.state, i < 3 ? LIMITER_IN : LIMITER_WAITING);
            limiter_limit(w->limiter, at, key, one_running); /* takes nothing away */
            assert_int_equal(figures(w, at, key).running, 3);
            leave(w, g[0]);
            leave(w, g[1]);
            assert_int_equal(g[3]->pass.state, LIMITER_WAITING);
            leave(w, g[2]);
            assert_int_equal(g[3]->pass.state, LIMITER_IN);
            limiter_limit(w->limiter, at, key, (struct limiter_limits){ 0 });
            limiter_turn(w->limiter);
            assert_int_equal(g[5]->pass.state, LIMITER_IN);
            world_free(w);
        }
}

/* ---- holding ---- */

static void who_rests_makes_room_and_is_held(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, &a_x,
                  (struct limiter_limits){ .running_max = 1, .held_max = 2 });
    struct guest *first = come_holding(w, &a_x, LIMITER_IN);
    struct guest *second = come_holding(w, &a_x, LIMITER_WAITING);
    struct guest *third = come_holding(w, &a_x, LIMITER_WAITING);
    limiter_rest(w->limiter, &first->pass);
    limiter_rest(w->limiter, &first->pass); /* twice is once */
    limiter_turn(w->limiter);
    assert_int_equal(first->pass.state, LIMITER_RESTING);
    assert_int_equal(second->pass.state, LIMITER_IN);
    limiter_rest(w->limiter, &second->pass);
    limiter_turn(w->limiter);
    assert_int_equal(third->pass.state, LIMITER_WAITING); /* two are held */
    assert_int_equal(figures(w, LIMITER_KIND, &a_x).held, 2);
    assert_int_equal(figures(w, LIMITER_KIND, &a_x).running, 0);
    leave(w, first);
    assert_int_equal(third->pass.state, LIMITER_IN);
    struct guest *plain = come(w, &b_x, LIMITER_IN);
    limiter_rest(w->limiter, &plain->pass); /* one that holds nothing leaves */
    assert_int_equal(plain->pass.state, LIMITER_OUT);
    world_free(w);
}

/* The bound of all holders lets others by that hold nothing. */
static void held_max_is_for_holders_alone(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_ALL, NULL,
                  (struct limiter_limits){ .running_max = 4, .held_max = 1 });
    struct guest *first = come_holding(w, &a_x, LIMITER_IN);
    struct guest *second = come_holding(w, &a_x, LIMITER_WAITING);
    struct guest *third = come_holding(w, &c_x, LIMITER_WAITING);
    (void)come(w, &a_y, LIMITER_IN);
    (void)come(w, &c_x, LIMITER_WAITING); /* behind third, in order */
    leave(w, first);
    assert_int_equal(second->pass.state + third->pass.state, LIMITER_IN + LIMITER_WAITING);
    assert_true(limiter_leave(w->limiter, second->pass.state == LIMITER_WAITING ? &second->pass
                                                                                : &third->pass));
    world_free(w);
}

/* ---- ends ---- */

static void who_waits_too_long_is_told(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, NULL, one_running);
    struct guest *in = come(w, &a_x, LIMITER_IN);
    struct guest *late[3];
    for (unsigned i = 0; i < COUNT_OF(late); i++) {
        late[i] = &w->guests[w->count++];
        late[i]->pass.deadline = (mono){ .ns = w->now_ns + (int64_t)(3 - i) * NS_PER_MS };
        assert_int_equal(guest_enter(w, late[i], &a_x), LIMITER_WAITING);
    }
    struct guest *patient = come(w, &a_x, LIMITER_WAITING);
    w->now_ns += 2 * NS_PER_MS - 1;
    limiter_turn(w->limiter);
    assert_true(late[2]->late && !late[1]->late && !late[0]->late);
    w->now_ns += NS_PER_S;
    limiter_turn(w->limiter);
    limiter_check(w->limiter);
    for (unsigned i = 0; i < COUNT_OF(late); i++)
        assert_true(late[i]->late);
    assert_int_equal(in->pass.state, LIMITER_IN); /* a deadline is of waiting alone */
    assert_true(figures(w, LIMITER_ALL, NULL).wait_ns_max >= NS_PER_S);
    leave(w, in);
    assert_int_equal(patient->pass.state, LIMITER_IN);
    world_free(w);
}

/* The one before the others holds and may not; when its time is over the others may. */
static void who_waits_is_late_when_it_closes(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_ORIGIN, NULL, one_running);
    struct guest *in = come(w, &a_x, LIMITER_IN);
    for (unsigned i = 0; i < 2; i++) {
        struct guest *patient = &w->guests[w->count++];
        patient->pass.deadline = (mono){ .ns = INT64_MAX - 1 };
        assert_int_equal(guest_enter(w, patient, &a_x), LIMITER_WAITING);
        if (i == 0)
            limiter_close(w->limiter);
        limiter_turn(w->limiter);
        assert_true(patient->late);
    }
    leave(w, in);
    world_free(w);
}

static void a_late_holder_frees_who_stands_behind(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, NULL, (struct limiter_limits){ .held_max = 1 });
    (void)come_holding(w, &a_x, LIMITER_IN);
    struct guest *g = &w->guests[w->count++];
    g->pass.deadline = (mono){ .ns = w->now_ns + NS_PER_MS };
    g->pass.flags = LIMITER_HOLDS;
    assert_int_equal(guest_enter(w, g, &a_x), LIMITER_WAITING);
    struct guest *behind = come(w, &a_x, LIMITER_WAITING);
    w->now_ns += NS_PER_MS;
    limiter_turn(w->limiter);
    assert_true(g->late);
    assert_int_equal(behind->pass.state, LIMITER_IN);
    world_free(w);
}

static void one_may_leave_in_every_state(void **state)
{
    (void)state;
    struct world *w = world_new();
    limiter_limit(w->limiter, LIMITER_KIND, NULL, one_running);
    struct guest *first = come_holding(w, &a_x, LIMITER_IN);
    struct guest *second = come(w, &a_x, LIMITER_WAITING);
    struct guest *third = come(w, &a_x, LIMITER_WAITING);
    struct guest *fourth = come(w, &a_x, LIMITER_WAITING);
    assert_true(limiter_leave(w->limiter, &fourth->pass));  /* WAITING */
    assert_false(limiter_leave(w->limiter, &fourth->pass)); /* OUT */
    limiter_rest(w->limiter, &first->pass);
    assert_int_equal(second->pass.state, LIMITER_GRANTED);
    assert_true(limiter_leave(w->limiter, &second->pass)); /* GRANTED: the next has its place */
    limiter_check(w->limiter);
    assert_int_equal(third->pass.state, LIMITER_GRANTED);
    limiter_turn(w->limiter);
    assert_int_equal(second->goes + fourth->goes, 0);
    assert_int_equal(third->goes, 1);
    assert_false(limiter_leave(w->limiter, &third->pass)); /* IN */
    assert_int_equal(figures(w, LIMITER_ALL, NULL).held, 1);
    assert_false(limiter_leave(w->limiter, &first->pass)); /* RESTING */
    struct limiter_figures f = figures(w, LIMITER_ALL, NULL);
    assert_int_equal(f.running + f.held + f.waiting, 0);
    world_free(w);
}

static void idle_keys_are_given_back(void **state)
{
    (void)state;
    struct world *w = world_new();
    for (unsigned round = 0; round < 3; round++) {
        struct guest *g[3];
        static const struct limiter_key *const keys[] = { &a_x, &a_y, &c_x };
        w->count = 0;
        for (unsigned i = 0; i < COUNT_OF(keys); i++)
            g[i] = come(w, keys[i], LIMITER_IN);
        assert_int_equal(figures(w, LIMITER_ALL, NULL).places, 7);
        for (unsigned i = 0; i < COUNT_OF(keys); i++)
            leave(w, g[i]);
        assert_int_equal(figures(w, LIMITER_ALL, NULL).places, 0);
    }
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, one_running);
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, one_running);
    assert_int_equal(figures(w, LIMITER_ALL, NULL).places, 3);
    limiter_limit(w->limiter, LIMITER_KIND, &a_x, (struct limiter_limits){ 0 });
    assert_int_equal(figures(w, LIMITER_ALL, NULL).places, 0);
    limiter_limit(w->limiter, LIMITER_DOMAIN, &a_x, one_running); /* limiter_free takes it */
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits_all_are_let_in),
        cmocka_unit_test(one_key_is_served_in_order_of_arrival),
        cmocka_unit_test(domains_take_turns),
        cmocka_unit_test(levels_take_turns_from_the_top),
        cmocka_unit_test(a_full_key_stands_in_nobodys_way),
        cmocka_unit_test(each_level_has_its_limit),
        cmocka_unit_test(each_level_bounds_who_waits),
        cmocka_unit_test(a_key_has_its_own_limits_or_its_levels),
        cmocka_unit_test(limits_change_while_some_wait),
        cmocka_unit_test(who_rests_makes_room_and_is_held),
        cmocka_unit_test(held_max_is_for_holders_alone),
        cmocka_unit_test(who_waits_too_long_is_told),
        cmocka_unit_test(who_waits_is_late_when_it_closes),
        cmocka_unit_test(a_late_holder_frees_who_stands_behind),
        cmocka_unit_test(one_may_leave_in_every_state),
        cmocka_unit_test(idle_keys_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
