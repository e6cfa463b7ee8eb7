/* Goal: a render that lies in Redis is taken by servers that share the secret, for just what it was
 * made for, and for minutes; nothing else that lies there is. Method: there and back; then another
 * target, secret, time or byte. */
#include "page/sealed.h"

#include "../cmocka_all.h"
#include "base/metrics.h"
#include "lib/clock.h"
#include "peer/peer.h"

#include <string.h>

#define SECRET STR("sixteen bytes or more")

struct world {
    struct fake_clock clock;
    struct peers *peers;
    struct metrics *metrics;
    struct page_bucket_opts opts;
    struct page_settings settings;
    struct page_domain domain;
    struct page_target target;
    struct buf bytes; /* of some_render, for that target */
};

static struct peers *peers_of(struct world *w, struct metrics *metrics, str secret)
{
    return peers_new(&(struct peers_opts){ .clock = &w->clock.clock,
                                           .metrics = metrics,
                                           .address = "http://127.0.0.1:9",
                                           .secret = secret });
}

static struct page_travel some_render(void)
{
    return (struct page_travel){ .name = { .rev = 7, .tid = tid_make(0x1f0e6a4a0b0c000, 1) },
                                 .latest = true,
                                 .contents = { { STR("html"), STR("content-type: text/html\n"),
                                                 STR("<p>") } },
                                 .contents_count = 1 };
}

static void world_begin(struct world *w)
{
    memset(w, 0, sizeof *w);
    fake_clock_init(&w->clock, INT64_C(1800000000) * NS_PER_S);
    w->metrics = metrics_new("test_");
    w->peers = peers_of(w, w->metrics, SECRET);
    w->opts.name = "page";
    w->settings.opts = &w->opts;
    w->domain.name = STR("en.test");
    w->target = (struct page_target){ .domain = &w->domain,
                                      .settings = &w->settings,
                                      .title = STR("T"),
                                      .has_rev = true,
                                      .name = { .rev = 7 } };
    struct page_travel t = some_render();
    struct page_sealing s = { .peers = w->peers, .target = &w->target };
    buf_init(&w->bytes, 1 << 16);
    page_sealed_put(&w->bytes, &s, &t);
    assert_int_equal(buf_status(&w->bytes), ERR_OK);
}

static void world_end(struct world *w)
{
    buf_fini(&w->bytes);
    peers_free(&w->peers);
    metrics_free(&w->metrics);
}

static int64_t refused(const struct world *w)
{
    static const char name[] = "\ntest_peers_refused_total ";
    int64_t n = -1;
    struct buf b;
    buf_init(&b, 1 << 20);
    metrics_render(w->metrics, &b);
    str rest = str_skip(buf_str(&b), str_find_str(buf_str(&b), str_of(name)) + sizeof name - 1);
    assert_true(str_to_i64(str_split(&rest, '\n'), &n));
    buf_fini(&b);
    return n;
}

static bool is_taken(struct world *w, struct peers *by, const struct page_target *for_what)
{
    struct page_travel t;
    struct page_sealing s = { .peers = by, .target = for_what };
    int64_t before = refused(w);
    err why = page_sealed_get(&s, buf_str(&w->bytes), &t);
    if (by == w->peers)
        assert_int_equal(refused(w) - before, why != ERR_OK);
    if (why != ERR_OK)
        return false;
    assert_int_equal(t.name.rev, 7);
    assert_true(str_eq(t.contents[0].raw, STR("<p>")));
    return true;
}

static void what_is_sealed_is_taken_for_just_what_it_is(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    assert_true(is_taken(&w, w.peers, &w.target));
    struct page_domain elsewhere = w.domain;
    struct page_bucket_opts mobile = w.opts;
    struct page_settings other = w.settings;
    elsewhere.name = STR("en.tes");
    mobile.name = "mobile";
    other.opts = &mobile;
    struct page_target wrong[5];
    for (unsigned i = 0; i < COUNT_OF(wrong); i++)
        wrong[i] = w.target;
    wrong[0].domain = &elsewhere;
    wrong[1].settings = &other;
    wrong[2].title = STR("tT");
    wrong[3].name.rev = 8;
    wrong[4].has_rev = false;
    for (unsigned i = 0; i < COUNT_OF(wrong); i++)
        assert_false(is_taken(&w, w.peers, &wrong[i]));
    world_end(&w);
}

static void every_byte_is_sealed(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    for (size_t i = 0; i < w.bytes.n; i++) {
        w.bytes.p[i] ^= 1;
        assert_false(is_taken(&w, w.peers, &w.target));
        w.bytes.p[i] ^= 1;
    }
    while (w.bytes.n-- > 0)
        assert_false(is_taken(&w, w.peers, &w.target));
    w.bytes.n = 0;
    world_end(&w);
}

static void who_has_another_secret_takes_nothing(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    struct peers *others = peers_of(&w, NULL, STR("sixteen bytes or less"));
    assert_false(is_taken(&w, others, &w.target));
    assert_false(is_taken(&w, NULL, &w.target)); /* another version's, to who has none */
    peers_free(&others);
    world_end(&w);
}

static void what_is_not_sealed_is_taken_where_nothing_is(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    struct page_travel t = some_render();
    struct page_sealing none = { .target = &w.target };
    buf_clear(&w.bytes);
    page_sealed_put(&w.bytes, &none, &t);
    assert_true(is_taken(&w, NULL, &w.target));
    assert_false(is_taken(&w, w.peers, &w.target));
    world_end(&w);
}

static void a_seal_lasts_no_longer_than_clocks_are_apart(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    fake_clock_advance(&w.clock, (PEER_QUESTION_S - 60) * NS_PER_S);
    assert_true(is_taken(&w, w.peers, &w.target));
    fake_clock_advance(&w.clock, 120 * NS_PER_S);
    assert_false(is_taken(&w, w.peers, &w.target));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_is_taken_for_just_what_it_is),
        cmocka_unit_test(every_byte_is_sealed),
        cmocka_unit_test(who_has_another_secret_takes_nothing),
        cmocka_unit_test(what_is_not_sealed_is_taken_where_nothing_is),
        cmocka_unit_test(a_seal_lasts_no_longer_than_clocks_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
