/* Goal: events that share a row come out one by one, as they went in; what a row says wrongly is
 * damage.
 * Method: rows that are taken apart here; the log on an engine in memory. */
#include "../bucket/engine_mem.h"
#include "../cmocka_all.h"
#include "append_wait.h"
#include "engine/store.h"
#include "event/append.h"
#include "event/rows.h"
#include "lib/clock.h"

#include <stdio.h>
#include <string.h>

#define DAY_NS (24 * 3600 * NS_PER_S)
enum { MANY = 1000, LARGE = 20 << 10, LARGE_AT = 700, ID_BYTES = 32 };

struct stage {
    struct fake_clock clock;
    struct engine *engine;
    struct event_log *log;
    unsigned next;
};

static void log_open(struct stage *s)
{
    const struct event_log_opts opts = { .engine = s->engine,
                                         .clock = &s->clock.clock,
                                         .random = 1,
                                         .limits = { .retention_ns = DAY_NS,
                                                     .bytes_max = (uint64_t)1 << 40,
                                                     .dedupe_ns = 3600 * NS_PER_S,
                                                     .ids_max = 1000000 } };
    struct err_note note;
    assert_int_equal(event_log_new(&opts, &s->log, &note), ERR_OK);
}

static void no_damage(void *ctx, const char *what)
{
    (void)ctx;
    fail_msg("%s", what);
}

static char large[LARGE];

static struct event nth(unsigned i, char id[ID_BYTES])
{
    (void)snprintf(id, ID_BYTES, "id %u", i); /* it fits */
    return (struct event){ .stream = i % 2 == 0 ? STR("a") : STR("b"),
                           .domain = i % 5 == 0 ? STR("") : STR("en.test"),
                           .id = i % 3 == 0 ? STR("") : str_of(id),
                           .bytes = i == LARGE_AT ? (str){ .p = large, .n = LARGE }
                                    : i % 7 == 0  ? STR("")
                                                  : str_of(id),
                           .hops = (uint8_t)(i % 3) };
}

static void take(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    char id[ID_BYTES];
    const struct event want = nth(s->next++, id);
    assert_int_equal(e->count, s->next);
    assert_int_equal(e->hops, want.hops);
    assert_int_equal(e->size, bytes.n);
    assert_true(str_eq(e->stream, want.stream) && str_eq(e->domain, want.domain));
    assert_true(str_eq(bytes, want.bytes));
}

static void many_events_share_rows(void **state)
{
    (void)state;
    static struct event events[MANY];
    static struct event_taken taken[MANY];
    static char ids[MANY][ID_BYTES];
    struct stage s = { .next = 0 };
    memset(large, 'x', sizeof large);
    fake_clock_init(&s.clock, 1800000000 * NS_PER_S);
    s.engine = engine_mem_new(&s.clock.clock);
    log_open(&s);
    for (unsigned i = 0; i < MANY; i++)
        events[i] = nth(i, ids[i]);
    assert_int_equal(append_wait(s.log, events, MANY, taken), ERR_OK);
    assert_int_equal(engine_mem_rows(s.engine, SPACE_EVENT), 1 + 3 + 1 + 2); /* 256 at most */
    struct event_read r = {
        .looks_max = 7, .bytes_max = 64, .take = take, .ctx = &s, .more = true
    };
    while (r.more)
        assert_int_equal(event_log_read(s.log, &r), ERR_OK);
    assert_int_equal(s.next, MANY);
    assert_int_equal(r.after, taken[MANY - 1].seq);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t found = 0;
        s.next = i;
        r = (struct event_read){
            .after = taken[i].seq - 1, .looks_max = 1, .bytes_max = 1, .take = take, .ctx = &s
        };
        assert_int_equal(event_log_read(s.log, &r), ERR_OK);
        assert_int_equal(s.next, i + 1);
        if (i % 50 == 1 && events[i].id.n > 0) {
            assert_int_equal(event_log_find(s.log, STR(""), events[i].id, &found), ERR_OK);
            assert_int_equal(found, taken[i].seq);
        }
    }
    assert_int_equal(event_log_check(s.engine, no_damage, NULL), ERR_OK);
    event_log_free(&s.log);
    engine_close(&s.engine);
}

static void take_any(void *ctx, const struct event_seen *e, str bytes)
{
    struct stage *s = ctx;
    (void)e;
    (void)bytes;
    s->next++;
}

/* A row of several that fails its sum takes all of them along; they are counted. */
static void a_damaged_row_is_as_many_as_it_held(void **state)
{
    (void)state;
    static char ids[10][ID_BYTES];
    struct stage s = { .next = 0 };
    struct event events[10];
    struct event_taken taken[10];
    fake_clock_init(&s.clock, 1800000000 * NS_PER_S);
    s.engine = engine_mem_new(&s.clock.clock);
    log_open(&s);
    for (unsigned i = 0; i < 10; i++)
        events[i] = nth(i, ids[i]);
    assert_int_equal(append_wait(s.log, events, 10, taken), ERR_OK);
    struct event_key key;
    char value[EVENT_VALUE_BYTES];
    const struct event_row row = { .at = { .ns = 1 }, .count = 10, .bytes = 1, .events = 9 };
    event_key_event(&key, taken[9].seq);
    engine_mem_damage(s.engine, SPACE_EVENT, event_key_str(&key), event_row_encode(&row, value));
    assert_int_equal(append_wait(s.log, &events[1], 1, taken), ERR_OK);
    const struct event other = { .stream = STR("c") };
    assert_int_equal(append_wait(s.log, &other, 1, taken), ERR_OK);
    struct event_read r = { .looks_max = 100, .bytes_max = 1000, .take = take_any, .ctx = &s };
    assert_int_equal(event_log_read(s.log, &r), ERR_OK);
    assert_int_equal(r.spoilt, 9);
    assert_int_equal(s.next, 1);
    assert_int_equal(r.after, taken[0].seq);
    event_log_free(&s.log);
    log_open(&s); /* ids are sought in what can be read */
    event_log_free(&s.log);
    engine_close(&s.engine);
}

static void rows_that_contradict_themselves_are_damage(void **state)
{
    (void)state;
    char value[EVENT_VALUE_BYTES], blob[1000], *end = blob, ids[2][ID_BYTES];
    struct event_row row = { .count = 7, .bytes = 1, .events = 2 }, read;
    struct event_walk walk;
    for (unsigned i = 1; i < 3; i++) {
        const struct event e = nth(i, ids[i - 1]);
        end = event_frame_put(end, &e);
        assert_ptr_equal(end, i == 1 ? blob + event_frame_bytes(&e) : end);
    }
    memset(end, 1, 2 * EVENT_DIGEST_BYTES);
    const str whole = { .p = blob, .n = (size_t)(end - blob) + 2 * EVENT_DIGEST_BYTES };
    str bytes = event_row_encode(&row, value);
    assert_int_equal(event_row_decode(bytes, &read), ERR_OK);
    assert_int_equal(event_walk_begin(&walk, 5, &read, whole), ERR_OK);
    for (size_t n = 0; n < whole.n; n++)
        assert_int_equal(event_walk_begin(&walk, 5, &read, str_take(whole, n)), ERR_CORRUPT);
    assert_int_equal(event_walk_begin(&walk, 1, &read, whole), ERR_CORRUPT);
    for (size_t n = 0; n < bytes.n; n++)
        assert_int_equal(event_row_decode(str_take(bytes, n), &read), ERR_CORRUPT);
    value[bytes.n - 1] = 1; /* one, which is no several */
    assert_int_equal(event_row_decode(bytes, &read), ERR_CORRUPT);
    value[bytes.n - 1] = 8; /* more than there ever were */
    assert_int_equal(event_row_decode(bytes, &read), ERR_CORRUPT);
    value[bytes.n - 2] = 2;
    assert_int_equal(event_row_decode(bytes, &read), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_events_share_rows),
        cmocka_unit_test(a_damaged_row_is_as_many_as_it_held),
        cmocka_unit_test(rows_that_contradict_themselves_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
