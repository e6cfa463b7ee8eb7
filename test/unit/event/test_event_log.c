/* Goal: events come out as they went in, in order, once, for as long as the limits say.
 * Method: the log on an engine in memory with a clock that the test moves; a random history against
 * a model that is a plain array. */
#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "append_wait.h"
#include "base/rng.h"
#include "engine/store.h"
#include "event/append.h"
#include "event/rows.h"
#include "lib/clock.h"

#include <stdio.h>
#include <string.h>

#define DAY_NS (24 * 3600 * NS_PER_S)
enum { SEEN_MAX = 4096, TEXT_BYTES = 64 };

struct seen {
    uint64_t seq, count;
    char stream[TEXT_BYTES], domain[TEXT_BYTES], text[TEXT_BYTES];
};

struct stage {
    struct fake_clock clock;
    struct engine *engine;
    struct event_log *log;
    unsigned hops; /* of the last one that was read */
    unsigned told;
    struct seen seen[SEEN_MAX];
    unsigned seen_count;
};

static void follower_told(void *ctx)
{
    struct stage *s = ctx;
    s->told++;
}

static void stage_open(struct stage *s)
{
    const struct event_log_opts opts = { .engine = s->engine,
                                         .clock = &s->clock.clock,
                                         .random = 0x1234,
                                         .limits = { .retention_ns = 7 * DAY_NS,
                                                     .bytes_max = 1 << 20,
                                                     .dedupe_ns = 3600 * NS_PER_S,
                                                     .ids_max = 1000000 } };
    struct err_note note;
    assert_int_equal(event_log_new(&opts, &s->log, &note), ERR_OK);
    const struct event_follower follower = { follower_told, s, home_here() };
    event_log_follow(s->log, &follower);
}

static int stage_begin(void **state)
{
    static struct stage s;
    memset(&s, 0, sizeof s);
    fake_clock_init(&s.clock, 1800000000 * NS_PER_S);
    s.engine = engine_mem_new(&s.clock.clock);
    stage_open(&s);
    *state = &s;
    return 0;
}

static int stage_end(void **state)
{
    struct stage *s = *state;
    event_log_free(&s->log);
    engine_close(&s->engine);
    return 0;
}

static err append(struct stage *s, const struct event *events, unsigned count,
                  struct event_taken *taken)
{
    return append_wait(s->log, events, count, taken);
}

static struct event event_of(const char *stream, const char *id, const char *text)
{
    return (struct event){
        .stream = str_of(stream), .domain = STR("en.test"), .id = str_of(id), .bytes = str_of(text)
    };
}

static struct event_taken append_one(struct stage *s, const char *stream, const char *id,
                                     const char *text)
{
    const struct event e = event_of(stream, id, text);
    struct event_taken taken;
    assert_int_equal(append(s, &e, 1, &taken), ERR_OK);
    return taken;
}

static void text_copy(char *dst, str from)
{
    assert_true(str_to_cstr(from, dst, TEXT_BYTES));
}

static void take(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    assert_true(s->seen_count < SEEN_MAX);
    struct seen *seen = &s->seen[s->seen_count++];
    seen->seq = e->seq;
    seen->count = e->count;
    text_copy(seen->stream, e->stream);
    text_copy(seen->domain, e->domain);
    text_copy(seen->text, bytes);
    assert_int_equal(e->size, bytes.n);
    s->hops = e->hops;
}

/* All that is behind after; returns how the last call went. */
static struct event_read read_behind(struct stage *s, uint64_t after)
{
    struct event_read r = {
        .after = after, .looks_max = 1000, .bytes_max = 1 << 20, .take = take, .ctx = s
    };
    s->seen_count = 0;
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    return r;
}

static void advance(struct stage *s, int64_t ns)
{
    fake_clock_advance(&s->clock, ns);
}

static void upkeep(struct stage *s)
{
    bool more = true;
    store_time next;
    for (unsigned i = 0; more; i++) {
        assert_true(i < 100);
        assert_int_equal(event_log_upkeep(s->log, &more, &next), ERR_OK);
    }
}

static void limits_set(struct event_log *l, int64_t retention_ns, uint64_t bytes_max,
                       int64_t dedupe_ns)
{
    const struct event_limits limits = { .retention_ns = retention_ns,
                                         .bytes_max = bytes_max,
                                         .dedupe_ns = dedupe_ns,
                                         .ids_max = 1000000 };
    event_log_limits(l, &limits);
}

static void no_damage(void *ctx, const char *what)
{
    (void)ctx;
    fail_msg("%s", what);
}

static void check(struct stage *s)
{
    assert_int_equal(event_log_check(s->engine, no_damage, NULL), ERR_OK);
}

/* ---- */

static void events_come_out_in_order(void **state)
{
    struct stage *s = *state;
    const struct event events[] = { event_of("a", "", "one"), event_of("b", "", "two"),
                                    event_of("a", "", "") };
    struct event_taken taken[3];
    assert_int_equal(append(s, events, 3, taken), ERR_OK);
    advance(s, NS_PER_S);
    const struct event_taken last = append_one(s, "c", "", "four");
    struct event_read r = read_behind(s, 0);
    assert_int_equal(s->seen_count, 4);
    assert_false(r.more || r.missed > 0);
    static const char *const texts[] = { "one", "two", "", "four" };
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(s->seen[i].text, texts[i]);
        assert_string_equal(s->seen[i].domain, "en.test");
        assert_int_equal(s->seen[i].seq, i < 3 ? taken[i].seq : last.seq);
        assert_int_equal(s->seen[i].count, i + 1);
    }
    assert_string_equal(s->seen[1].stream, "b");
    assert_int_equal(r.after, last.seq);
    r = read_behind(s, taken[1].seq);
    assert_int_equal(s->seen_count, 2);
    assert_int_equal(s->seen[0].seq, taken[2].seq);
    (void)read_behind(s, last.seq);
    assert_int_equal(s->seen_count, 0);
    check(s);
}

static void an_event_keeps_its_hops_beside_its_bytes(void **state)
{
    struct stage *s = *state;
    static const uint8_t hops[] = { 0, 1, 15, 255 };
    for (size_t i = 0; i < COUNT_OF(hops); i++) {
        struct event e = event_of("s", "", "{}");
        struct event_taken taken;
        e.hops = hops[i];
        assert_int_equal(append(s, &e, 1, &taken), ERR_OK);
        (void)read_behind(s, taken.seq - 1); /* it is the last one */
        assert_int_equal(s->seen_count, 1);
        assert_int_equal(s->hops, hops[i]);
    }
    char value[EVENT_VALUE_BYTES];
    struct event_row row = { .stream = STR("s"), .domain = STR("d"), .hops = 1 }, read;
    str bytes = event_row_encode(&row, value);
    assert_int_equal(event_row_decode(bytes, &read), ERR_OK);
    value[bytes.n - 1] = 0; /* without any it has the version of before */
    assert_int_equal(event_row_decode(bytes, &read), ERR_CORRUPT);
    assert_int_equal(event_row_decode(str_take(bytes, bytes.n - 1), &read), ERR_CORRUPT);
}

static void numbers_are_microseconds_and_rise(void **state)
{
    struct stage *s = *state;
    uint64_t first = append_one(s, "a", "", "one").seq;
    assert_int_equal(first, 1800000000000000);
    assert_int_equal(append_one(s, "a", "", "two").seq, first + 1);
    advance(s, 10 * NS_PER_US);
    assert_int_equal(append_one(s, "a", "", "three").seq, first + 10);
    (void)read_behind(s, event_log_behind((store_time){ .ns = 1800000000 * NS_PER_S }));
    assert_int_equal(s->seen_count, 3);
    (void)read_behind(s, event_log_behind((store_time){ .ns = 1800000000 * NS_PER_S + 9000 }));
    assert_int_equal(s->seen_count, 1);
    assert_int_equal(event_log_behind(STORE_TIME_ZERO), 0);
}

/* Whatever the clock says; and many events at once have numbers ahead of it. */
static void a_line_lies_behind_what_is_stored_and_before_what_comes(void **state)
{
    struct stage *s = *state;
    struct event_taken taken[3];
    const struct event three[] = { event_of("a", "", "1"), event_of("a", "", "2"),
                                   event_of("a", "", "3") };
    assert_int_equal(append(s, three, 3, taken), ERR_OK);
    assert_int_equal(event_log_cut(s->log), taken[2].seq);
    advance(s, 10 * NS_PER_US);
    uint64_t cut = event_log_cut(s->log);
    assert_int_equal(cut, taken[0].seq + 10);
    advance(s, -9 * NS_PER_US);
    assert_int_equal(event_log_cut(s->log), cut);
    assert_int_equal(append(s, three, 3, taken), ERR_OK);
    assert_int_equal(taken[0].seq, cut + 1);
    assert_int_equal(taken[2].seq, cut + 3);
    event_log_free(&s->log);
    stage_open(s);
    assert_int_equal(event_log_cut(s->log), cut + 3);
    (void)read_behind(s, cut);
    assert_int_equal(s->seen_count, 3);
    check(s);
}

static void a_log_goes_on_where_it_was(void **state)
{
    struct stage *s = *state;
    const uint64_t id = event_log_id(s->log), first = append_one(s, "a", "x", "one").seq;
    limits_set(s->log, 0, 0, 3600 * NS_PER_S);
    upkeep(s);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 0);
    event_log_free(&s->log);
    stage_open(s);
    assert_int_equal(event_log_id(s->log), id);
    assert_int_equal(append_one(s, "a", "", "two").seq, first + 1);
    struct event_figures f;
    assert_int_equal(event_log_figures(s->log, &f), ERR_OK);
    assert_int_equal(f.taken, 2);
    assert_int_equal(f.count, 1);
    assert_int_equal(f.culled, first);
    assert_int_equal(f.oldest.ns, clock_store(&s->clock.clock).ns);
    check(s);
}

static void an_id_counts_once_in_its_stream(void **state)
{
    struct stage *s = *state;
    const struct event twice[] = { event_of("a", "x", "one"), event_of("a", "x", "again"),
                                   event_of("b", "x", "other stream") };
    struct event_taken taken[3];
    assert_int_equal(append(s, twice, 3, taken), ERR_OK);
    assert_false(taken[0].before || taken[2].before);
    assert_true(taken[1].before && taken[1].seq == taken[0].seq);
    advance(s, 3600 * NS_PER_S - 1);
    struct event_taken late = append_one(s, "a", "x", "late");
    assert_true(late.before && late.seq == taken[0].seq);
    advance(s, 1);
    assert_false(append_one(s, "a", "x", "anew").before);
    assert_true(append_one(s, "a", "x", "again").before);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 3);
    assert_string_equal(s->seen[2].text, "anew");
    check(s);
}

static void ids_are_known_after_a_restart(void **state)
{
    struct stage *s = *state;
    const struct event several[] = { event_of("a", "p", "1"), event_of("a", "", "2"),
                                     event_of("a", "q", "3") };
    struct event_taken taken[3];
    (void)append_one(s, "a", "x", "one");
    advance(s, 1800 * NS_PER_S);
    const uint64_t second = append_one(s, "a", "y", "two").seq;
    assert_int_equal(append(s, several, 3, taken), ERR_OK);
    assert_int_equal(engine_mem_rows(s->engine, SPACE_EVENT), 1 + 2 + 1);
    advance(s, 1800 * NS_PER_S);
    for (unsigned round = 0; round < 2; round++) {
        event_log_free(&s->log);
        stage_open(s);
        const struct event_taken y = append_one(s, "a", "y", "two"),
                                 q = append_one(s, "a", "q", "three");
        assert_true(y.before && y.seq == second);
        assert_true(q.before && q.seq == taken[2].seq);
    }
    assert_false(append_one(s, "a", "x", "anew").before);
    event_log_free(&s->log);
    stage_open(s);
    assert_true(append_one(s, "a", "x", "again").before);
    struct event_figures f;
    assert_int_equal(event_log_figures(s->log, &f), ERR_OK);
    assert_int_equal(f.ids, 4);
    check(s);
}

static void too_many_ids_are_forgotten_before_their_time(void **state)
{
    struct stage *s = *state;
    /* A decision runs twice here, and strikes what it put in first: so there are two of each. */
    struct event_limits limits = {
        .retention_ns = DAY_NS, .bytes_max = 1 << 20, .dedupe_ns = 3600 * NS_PER_S, .ids_max = 4
    };
    struct event_figures f;
    event_log_limits(s->log, &limits);
    assert_false(append_one(s, "a", "x", "").before);
    assert_false(append_one(s, "a", "y", "").before);
    assert_true(append_one(s, "a", "x", "").before);
    assert_false(append_one(s, "a", "z", "").before);
    assert_false(append_one(s, "a", "x", "").before);
    assert_int_equal(event_log_figures(s->log, &f), ERR_OK);
    assert_in_range(f.ids, 1, 4);
    assert_true(f.ids_early > 0);
    limits.ids_max = 0;
    event_log_limits(s->log, &limits);
    for (unsigned i = 0; i < 2; i++)
        assert_false(append_one(s, "a", "z", "").before);
}

/* Of a refused update nothing is known. */
static void what_was_not_stored_is_not_repeated(void **state)
{
    struct stage *s = *state;
    const struct event twice[] = { event_of("a", "x", "one"), event_of("a", "x", "again") };
    struct event_taken taken[2];
    engine_mem_refuse(s->engine, ERR_FULL);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(append(s, twice, 2, taken), ERR_FULL);
    engine_mem_refuse(s->engine, ERR_OK);
    assert_int_equal(append(s, twice, 2, taken), ERR_OK);
    assert_true(!taken[0].before && taken[1].before);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 1);
}

static void what_was_refused_is_appended_when_it_is_sent_again(void **state)
{
    struct stage *s = *state;
    uint64_t first = append_one(s, "a", "x", "one").seq;
    (void)append_one(s, "a", "y", "two");
    event_log_forget(s->log, STR("a"), STR("x"));
    event_log_forget(s->log, STR("a"), STR("unknown"));
    event_log_forget(s->log, STR("a"), STR(""));
    assert_true(append_one(s, "a", "y", "two").before);
    struct event_taken again = append_one(s, "a", "x", "one");
    assert_true(!again.before && again.seq > first);
    again = append_one(s, "a", "x", "one");
    assert_true(again.before && again.seq > first);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 3);
}

static void old_events_are_removed(void **state)
{
    struct stage *s = *state;
    const uint64_t first = append_one(s, "a", "x", "one").seq;
    advance(s, DAY_NS);
    const uint64_t second = append_one(s, "a", "y", "two").seq;
    bool more;
    store_time next;
    upkeep(s);
    assert_int_equal(event_log_upkeep(s->log, &more, &next), ERR_OK);
    assert_int_equal(next.ns - clock_store(&s->clock.clock).ns, 6 * DAY_NS);
    advance(s, 6 * DAY_NS - 1);
    upkeep(s);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 2);
    assert_int_equal(event_log_upkeep(s->log, &more, &next), ERR_OK);
    assert_int_equal(next.ns - clock_store(&s->clock.clock).ns, 1);
    advance(s, 1);
    upkeep(s);
    struct event_read r = read_behind(s, first - 1);
    assert_int_equal(s->seen_count, 1);
    assert_true(r.missed);
    r = read_behind(s, first);
    assert_int_equal(s->seen_count, 1);
    assert_false(r.missed);
    assert_int_equal(r.after, second);
    advance(s, DAY_NS);
    upkeep(s);
    assert_int_equal(engine_mem_rows(s->engine, SPACE_EVENT), 1);
    check(s);
}

static void the_oldest_go_when_all_are_too_large(void **state)
{
    struct stage *s = *state;
    for (unsigned i = 0; i < 3000; i++)
        (void)append_one(s, "a", "", "text");
    limits_set(s->log, 7 * DAY_NS, (uint64_t)10 * (EVENT_ROW_BYTES + 4), NS_PER_S);
    upkeep(s);
    struct event_figures f;
    assert_int_equal(event_log_figures(s->log, &f), ERR_OK);
    assert_int_equal(f.count, 10);
    assert_int_equal(f.bytes, 10 * (EVENT_ROW_BYTES + 4));
    struct event_read r = read_behind(s, 1);
    assert_true(r.missed);
    assert_int_equal(s->seen_count, 10);
    assert_int_equal(s->seen[9].count, 3000);
    check(s);
}

static bool wants_b(void *ctx, const struct event_seen *e)
{
    (void)ctx;
    return str_eq(e->stream, STR("b"));
}

static void a_reader_is_given_what_it_wants_in_portions(void **state)
{
    struct stage *s = *state;
    for (unsigned i = 0; i < 10; i++)
        (void)append_one(s, i % 2 == 0 ? "a" : "b", "", "0123456789");
    struct event_read r = {
        .looks_max = 3, .bytes_max = 1000, .wants = wants_b, .take = take, .ctx = s
    };
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_true(r.more);
    assert_int_equal(s->seen_count, 1);
    r.looks_max = 100;
    r.bytes_max = 25;
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_true(r.more);
    assert_int_equal(s->seen_count, 3);
    r.bytes_max = 1; /* the first is handed over, however large it is */
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_int_equal(s->seen_count, 4);
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_int_equal(s->seen_count, 5);
    assert_int_equal(event_log_read(s->log, &r), ERR_OK);
    assert_false(r.more);
    assert_int_equal(s->seen_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(s->seen[i].count, 2 * i + 2);
}

static void damage_is_passed_over_and_goes_with_the_rest(void **state)
{
    struct stage *s = *state;
    struct event_key key;
    uint64_t seq[4];
    for (unsigned i = 0; i < 4; i++)
        seq[i] = append_one(s, "a", "", "text").seq;
    for (unsigned i = 1; i < 3; i++) {
        event_key_event(&key, seq[i]);
        engine_mem_rot(s->engine, SPACE_EVENT, event_key_str(&key));
    }
    const struct event_read r = read_behind(s, 0);
    assert_int_equal(r.spoilt, 2);
    assert_int_equal(s->seen_count, 2);
    assert_int_equal(r.after, seq[3]);
    advance(s, 7 * DAY_NS);
    upkeep(s);
    assert_int_equal(engine_mem_rows(s->engine, SPACE_EVENT), 1);
    check(s);
}

static void damages_count(void *ctx, const char *what)
{
    unsigned *count = ctx;
    assert_non_null(strstr(what, "event 180000000000000"));
    ++*count;
}

static void a_check_finds_rows_that_contradict_each_other(void **state)
{
    struct stage *s = *state;
    const uint64_t first = append_one(s, "a", "", "text").seq;
    (void)append_one(s, "a", "", "text");
    char value[EVENT_VALUE_BYTES];
    const struct event_row row = { .count = 7, .bytes = 1, .stream = STR("a") };
    struct event_key key;
    event_key_event(&key, first);
    engine_mem_damage(s->engine, SPACE_EVENT, event_key_str(&key), event_row_encode(&row, value));
    unsigned count = 0;
    assert_int_equal(event_log_check(s->engine, damages_count, &count), ERR_CORRUPT);
    assert_int_equal(count, 2); /* the first, and the second behind it */
}

static void nothing_is_appended_in_part(void **state)
{
    struct stage *s = *state;
    char name[EVENT_NAME_BYTES_MAX + 1];
    memset(name, 'x', sizeof name);
    struct event events[] = { event_of("a", "", "one"), event_of("a", "", "two") };
    struct event_taken taken[2];
    events[1].stream = (str){ .p = name, .n = sizeof name };
    assert_int_equal(append(s, events, 2, taken), ERR_LIMIT);
    events[1].stream.n--;
    events[1].domain = (str){ .p = name, .n = sizeof name };
    assert_int_equal(append(s, events, 2, taken), ERR_LIMIT);
    events[1].domain.n--;
    engine_mem_refuse(s->engine, ERR_FULL);
    assert_int_equal(append(s, events, 2, taken), ERR_FULL);
    engine_mem_refuse(s->engine, ERR_OK);
    assert_int_equal(s->told, 0);
    (void)read_behind(s, 0);
    assert_int_equal(s->seen_count, 0);
    events[1].stream = STR("b");
    events[1].domain = STR("");
    assert_int_equal(append(s, events, 2, taken), ERR_OK);
    assert_int_equal(s->told, 1);
    check(s);
}

/* ---- followers ---- */

struct slow_home {
    struct home home;
    struct task_list tasks;
};

static void slow_post(struct home *h, struct task *t)
{
    (void)task_list_put(&CONTAINER_OF(h, struct slow_home, home)->tasks, t);
}

static void a_follower_is_told_once_for_many(void **state)
{
    struct stage *s = *state;
    struct slow_home slow = { .home = { .post = slow_post } };
    event_log_free(&s->log);
    const struct event_log_opts opts = { .engine = s->engine,
                                         .clock = &s->clock.clock,
                                         .limits = { .retention_ns = DAY_NS,
                                                     .bytes_max = 1 << 20 } };
    struct err_note note;
    assert_int_equal(event_log_new(&opts, &s->log, &note), ERR_OK);
    const struct event_follower follower = { follower_told, s, &slow.home };
    event_log_follow(s->log, &follower);
    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < 5; i++)
            (void)append_one(s, "a", "", "text");
        struct task *t = task_list_take(&slow.tasks);
        assert_non_null(t);
        assert_null(task_list_take(&slow.tasks));
        t->run(t);
        assert_int_equal(s->told, round);
    }
    event_log_hush(s->log);
    (void)append_one(s, "a", "", "text");
    assert_null(task_list_take(&slow.tasks));
}

/* ---- a random history ---- */

enum { MODEL_EVENTS = 2000, MODEL_IDS = 40 };

struct model {
    struct {
        uint64_t seq, bytes;
        int64_t at_ns;
        unsigned id;
    } events[MODEL_EVENTS];
    unsigned count, first; /* those before first were removed */
};

static bool model_has(const struct model *m, unsigned id, int64_t now_ns, int64_t dedupe_ns)
{
    for (unsigned i = 0; i < m->count && id != 0; i++)
        if (m->events[i].id == id && now_ns - m->events[i].at_ns < dedupe_ns)
            return true;
    return false;
}

static void model_append(struct model *m, struct stage *s, struct rng *rng)
{
    char id[TEXT_BYTES] = "", text[TEXT_BYTES];
    const unsigned number = (unsigned)rng_below(rng, MODEL_IDS);
    if (number != 0)
        (void)snprintf(id, sizeof id, "id %u", number); /* it fits */
    (void)snprintf(text, sizeof text, "%u", m->count);  /* it fits */
    const int64_t now_ns = clock_store(&s->clock.clock).ns;
    const bool before = model_has(m, number, now_ns, 3600 * NS_PER_S);
    const struct event_taken taken = append_one(s, "a", id, text);
    assert_int_equal(taken.before, before);
    if (before)
        return;
    if (m->count > 0)
        assert_true(taken.seq > m->events[m->count - 1].seq);
    m->events[m->count].seq = taken.seq;
    m->events[m->count].bytes = strlen(text) + EVENT_ROW_BYTES;
    m->events[m->count].at_ns = now_ns;
    m->events[m->count++].id = number;
}

static void model_cull(struct model *m, struct stage *s)
{
    uint64_t bytes = 0;
    const int64_t now_ns = clock_store(&s->clock.clock).ns;
    for (unsigned i = m->first; i < m->count; i++)
        bytes += m->events[i].bytes;
    while (m->first < m->count &&
           (now_ns - m->events[m->first].at_ns >= 8 * 3600 * NS_PER_S || bytes > 20000))
        bytes -= m->events[m->first++].bytes;
}

static void model_compare(const struct model *m, struct stage *s)
{
    const struct event_read r = read_behind(s, 0);
    assert_int_equal(s->seen_count, m->count - m->first);
    assert_int_equal(r.missed > 0, m->first > 0);
    for (unsigned i = m->first; i < m->count; i++)
        assert_int_equal(s->seen[i - m->first].seq, m->events[i].seq);
    check(s);
}

static void a_random_history_is_as_the_model_says(void **state)
{
    struct stage *s = *state;
    static struct model m;
    struct rng rng;
    m = (struct model){ .count = 0 };
    rng_init(&rng, 15);
    limits_set(s->log, 8 * 3600 * NS_PER_S, 20000, 3600 * NS_PER_S);
    while (m.count < MODEL_EVENTS) {
        switch (rng_below(&rng, 20)) {
        case 0:
            upkeep(s);
            model_cull(&m, s);
            model_compare(&m, s);
            break;
        case 1:
            event_log_free(&s->log);
            stage_open(s);
            limits_set(s->log, 8 * 3600 * NS_PER_S, 20000, 3600 * NS_PER_S);
            break;
        case 2:
            advance(s, (int64_t)rng_below(&rng, 3600 * NS_PER_S));
            break;
        default:
            model_append(&m, s, &rng);
            break;
        }
    }
}

static void an_event_is_found_by_its_id(void **state)
{
    struct stage *s = *state;
    uint64_t seq = 0;
    assert_int_equal(event_log_find(s->log, STR(""), STR("x"), &seq), ERR_NOT_FOUND);
    uint64_t first = append_one(s, "a", "x", "1").seq;
    uint64_t other = append_one(s, "b", "x", "2").seq;
    (void)append_one(s, "a", "", "3");
    for (unsigned i = 0; i < 5000; i++) /* more than one view */
        (void)append_one(s, "c", "", "");
    uint64_t last = append_one(s, "a", "y", "4").seq;
    assert_int_equal(event_log_find(s->log, STR("a"), STR("x"), &seq), ERR_OK);
    assert_int_equal(seq, first);
    assert_int_equal(event_log_find(s->log, STR(""), STR("x"), &seq), ERR_OK);
    assert_int_equal(seq, other);
    assert_int_equal(event_log_find(s->log, STR(""), STR("y"), &seq), ERR_OK);
    assert_int_equal(seq, last);
    assert_int_equal(event_log_find(s->log, STR("b"), STR("y"), &seq), ERR_NOT_FOUND);
    assert_int_equal(event_log_find(s->log, STR(""), STR(""), &seq), ERR_NOT_FOUND);
    assert_int_equal(event_log_find(s->log, STR("a"), STR(""), &seq), ERR_NOT_FOUND);
    /* The same id again, when it is not kept any more: the newest counts. */
    fake_clock_advance(&s->clock, 2 * 3600 * NS_PER_S);
    uint64_t again = append_one(s, "a", "x", "5").seq;
    assert_int_equal(event_log_find(s->log, STR("a"), STR("x"), &seq), ERR_OK);
    assert_int_equal(seq, again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_come_out_in_order, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(an_event_keeps_its_hops_beside_its_bytes, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(numbers_are_microseconds_and_rise, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(a_line_lies_behind_what_is_stored_and_before_what_comes,
                                        stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(a_log_goes_on_where_it_was, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(an_id_counts_once_in_its_stream, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(ids_are_known_after_a_restart, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(too_many_ids_are_forgotten_before_their_time, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(what_was_not_stored_is_not_repeated, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(an_event_is_found_by_its_id, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(what_was_refused_is_appended_when_it_is_sent_again,
                                        stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(old_events_are_removed, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(the_oldest_go_when_all_are_too_large, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_reader_is_given_what_it_wants_in_portions, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(damage_is_passed_over_and_goes_with_the_rest, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(a_check_finds_rows_that_contradict_each_other, stage_begin,
                                        stage_end),
        cmocka_unit_test_setup_teardown(nothing_is_appended_in_part, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(a_follower_is_told_once_for_many, stage_begin, stage_end),
        cmocka_unit_test_setup_teardown(a_random_history_is_as_the_model_says, stage_begin,
                                        stage_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
