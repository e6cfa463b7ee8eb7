/* Goal: a crew takes what is posted first before the rest, lets none of it wait for ever, and runs
 * all of it before it ends.
 * Method: a crew of one thread that is held while tasks are posted to both homes; then a crew of
 * several, and posters beside each other. */
#include "../cmocka_all.h"

#include "lib/wait.h"
#include "loop/crew.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LETTERS_MAX = 63, POSTERS = 4, POSTS = 2000 };

struct held {
    struct task task;
    sem_t begun, let_go;
};

static void held_run(struct task *t)
{
    struct held *h = CONTAINER_OF(t, struct held, task);
    sem_post(&h->begun);
    sem_wait(&h->let_go);
}

struct order {
    char letters[LETTERS_MAX + 1];
    unsigned count;
};

struct letter {
    struct task task;
    struct order *order;
    char letter;
};

static void letter_run(struct task *t)
{
    struct letter *l = CONTAINER_OF(t, struct letter, task);
    l->order->letters[l->order->count++] = l->letter;
}

/* The order in which one thread runs what was posted: small letters to the common home, capitals
 * to the other. */
static void order_is(const char *posted, const char *wanted)
{
    struct order order = { .count = 0 };
    struct letter letters[LETTERS_MAX];
    struct held held = { .task = { .run = held_run } };
    struct crew *c = crew_new(1, "crew");
    assert_non_null(c);
    assert_int_equal(sem_init(&held.begun, 0, 0), 0);
    assert_int_equal(sem_init(&held.let_go, 0, 0), 0);
    home_post(crew_home(c), &held.task);
    sem_wait(&held.begun);
    for (size_t i = 0; posted[i] != 0; i++) {
        bool first = posted[i] >= 'A' && posted[i] <= 'Z';
        letters[i] = (struct letter){ { .run = letter_run }, &order, posted[i] };
        home_post(first ? crew_home_first(c) : crew_home(c), &letters[i].task);
    }
    sem_post(&held.let_go);
    crew_free(&c);
    assert_string_equal(order.letters, wanted);
    sem_destroy(&held.begun);
    sem_destroy(&held.let_go);
}

static void what_is_first_goes_before_the_rest(void **state)
{
    (void)state;
    order_is("abc", "abc");
    order_is("ABC", "ABC");
    order_is("abcXYZ", "XYZabc");
    order_is("aXbYcZ", "XYZabc");
}

static void the_rest_has_its_turn(void **state)
{
    (void)state;
    order_is("abcABCDEFGHIJKLMNOPQRSTUVWX", "ABCDEFGHaIJKLMNOPbQRSTUVWXc");
    order_is("ABCDEFGHIJabc", "ABCDEFGHaIJbc");
    order_is("aABCDEFGHIJKLMNOPQR", "ABCDEFGHaIJKLMNOPQR");
}

struct counted {
    struct task task;
    atomic_uint *ran;
};

static void counted_run(struct task *t)
{
    atomic_fetch_add(CONTAINER_OF(t, struct counted, task)->ran, 1);
}

struct poster {
    struct crew *crew;
    struct counted tasks[POSTS];
};

static void *post_many(void *ctx)
{
    struct poster *p = ctx;
    for (unsigned i = 0; i < POSTS; i++)
        home_post(i % 3 == 0 ? crew_home_first(p->crew) : crew_home(p->crew), &p->tasks[i].task);
    return NULL;
}

static void all_that_is_posted_runs_once(void **state)
{
    (void)state;
    atomic_uint ran = 0;
    pthread_t threads[POSTERS];
    struct poster *posters = calloc(POSTERS, sizeof *posters);
    struct crew *c = crew_new(3, "crew");
    assert_non_null(c);
    assert_non_null(posters);
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i].crew = c;
        for (unsigned k = 0; k < POSTS; k++)
            posters[i].tasks[k] = (struct counted){ { .run = counted_run }, &ran };
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    crew_free(&c);
    assert_int_equal(atomic_load(&ran), POSTERS * POSTS);
    free(posters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_first_goes_before_the_rest),
        cmocka_unit_test(the_rest_has_its_turn),
        cmocka_unit_test(all_that_is_posted_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
