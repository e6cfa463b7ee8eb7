/* Goal: whatever call of the engine fails, once, on the way of an event from the router over its
 * item to its end: when the engine is well again, every event's effect has happened, in the order
 * of its title, and nothing is left. Method: all of change on a stage (stage.h), again and again,
 * the Nth call failing, for every N until none is reached; a target that fails at first, so that
 * items are put off, too. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "../event/append_wait.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define WELL "retries: 3, backoff: 1s, backoff_factor: 1"
#define HOOK                                                                                       \
    "rules: { hook: { match: { stream: t }, effect: http, url: \"$T/{title}{rev}\", on_failure: "  \
    "hold, " WELL " } }"
#define EDGE                                                                                       \
    "rules: { hook: { match: { stream: t }, effect: purge, targets: [\"$T\"], urls: "              \
    "[\"/{title}\"], "                                                                             \
    "rebound: 0s, " WELL " } }"
enum { ROUNDS = 4 }; /* enough for all */

/* An item that could not be settled is tried again after a second; here at once. */
void __real_loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms);
void __wrap_loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms);
void __wrap_loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms)
{
    __real_loop_timer_start(t, first_ms > 2 ? 2 : first_ms, repeat_ms);
}

/* Each in turn of its title, which is the letter before the digit. */
static void expect_order(const struct stage *s, int64_t n)
{
    char last[2] = { '0', '0' };
    for (unsigned i = 0; i < s->seen; i++) {
        char *of = &last[s->paths[i][1] - 'A'];
        if (s->paths[i][2] < *of)
            fail_msg("call %lld: %s came behind %c", (long long)n, s->paths[i], *of);
        *of = s->paths[i][2];
    }
}

static void expect_seen(const struct stage *s, const char *path, int64_t n)
{
    for (unsigned i = 0; i < s->seen; i++)
        if (strcmp(s->paths[i], path) == 0)
            return;
    fail_msg("call %lld: %s never came", (long long)n, path);
}

struct told {
    const char *title;
    unsigned rev;
};
static const struct told told[] = { { "A", 1 }, { "B", 1 }, { "A", 2 }, { "A", 3 } };

static void tell(struct stage *s, const struct told *t)
{
    char text[64];
    struct event_taken taken;
    (void)snprintf(text, sizeof text, "{\"page_title\":\"%s\",\"rev_id\":%u}", t->title,
                   t->rev); /* it fits */
    const struct event e = { .stream = STR("t"), .domain = STR("d"), .bytes = str_of(text) };
    fake_clock_advance(&s->clock, NS_PER_US);
    assert_int_equal(append_wait(s->events, &e, 1, &taken), ERR_OK);
}

/* Rounds of a second, in which all that is due is done. */
static void later(struct stage *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        stage_later(s, 1000);
}

/* False: the Nth call is never reached. */
static bool trial(struct stage *s, const char *rules, int64_t n)
{
    stage_open(s, rules);
    change_start(s->change);
    stage_calm(s);
    for (unsigned i = 0; i < COUNT_OF(told); i++)
        tell(s, &told[i]);
    engine_mem_fault(s->engine, n);
    stage_reply(s, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    stage_calm(s);
    stage_reply(s, NULL);
    later(s, ROUNDS);
    bool faulted = engine_mem_faulted(s->engine);
    engine_mem_fault(s->engine, -1);
    later(s, ROUNDS);
    if (stage_items(s, "hook", -1) != 0)
        fail_msg("call %lld: items are left", (long long)n);
    return faulted;
}

static void no_event_is_lost_and_none_overtakes(void **state)
{
    (void)state;
    static struct stage s;
    bool faulted = true;
    int64_t n = 0;
    for (; faulted; n++) {
        faulted = trial(&s, HOOK, n);
        for (unsigned i = 0; i < COUNT_OF(told); i++) {
            char path[16];
            (void)snprintf(path, sizeof path, "/%s%u", told[i].title, told[i].rev); /* it fits */
            expect_seen(&s, path, n);
        }
        expect_order(&s, n);
        stage_close(&s);
    }
    assert_true(n > 100);
}

/* Of a rule that collapses: the newest event of each title. */
static void the_newest_event_of_a_title_is_never_lost(void **state)
{
    (void)state;
    static struct stage s;
    bool faulted = true;
    int64_t n = 0;
    for (; faulted; n++) {
        faulted = trial(&s, EDGE, n);
        expect_seen(&s, "/A", n);
        expect_seen(&s, "/B", n);
        stage_close(&s);
    }
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_event_is_lost_and_none_overtakes),
        cmocka_unit_test(the_newest_event_of_a_title_is_never_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
