/* Goal: of a hearing that breaks off the word is not known, and the next one does it all; what
 * hides is written here also when another data centre is away; and a request of a title costs as
 * many exchanges as said.
 * Method: a fake cluster that fails on demand (test/unit/cql/node.h): it is told what it finds, and
 * asked what it was sent. */
#include "../cql/rig.h"

#include "../cmocka_all.h"
#include "cassandra/pages.h"
#include "loop/loop.h"
#include "title/words.h"

#include <stdlib.h>
#include <string.h>

#define KEY "bucket = ? AND domain = ? AND title = ?"
static const char facts_text[] = "SELECT fact FROM ks.title WHERE " KEY;
static const char words_text[] =
    "SELECT at, srv, how, word FROM ks.word WHERE domain = ? AND title = ? LIMIT ?";

static const struct node_match facts_read = { .ops = BIT(CQL_OP_EXECUTE), .text = facts_text };
static const struct node_match words_read = { .ops = BIT(CQL_OP_EXECUTE), .text = words_text };
static const struct node_match facts_put = { .ops = BIT(CQL_OP_BATCH), .text = "ks.title" };
static const struct node_match word_put = { .ops = BIT(CQL_OP_EXECUTE),
                                            .text = "INSERT INTO ks.word" };
static const struct node_match all = { .ops = BIT(CQL_OP_EXECUTE) | BIT(CQL_OP_BATCH) };

enum { BUCKETS = 2 };
struct fixture {
    struct rig rig;
    struct titles *titles;
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    struct cql_values facts, words;
    struct arena arena;
    unsigned under_way;
};

static void titles_make(struct rig *r, void *ctx)
{
    struct fixture *f = ctx;
    f->titles = titles_new(r->client, "ks", r->clock, NULL);
}

/* The statements as their tables have them. A title has a render of revision 5 in each bucket, and
 * the word that it was made under. */
static void tables_tell(struct fixture *f)
{
    const struct node_statement s[] = {
        { .text = facts_text,
          .markers = "bucket text, domain text, title text",
          .columns = "fact blob",
          .rows = &f->facts },
        { .text = words_text,
          .markers = "domain text, title text, most int",
          .columns = "at bigint, srv int, how tinyint, word blob",
          .rows = &f->words },
        { .text = "INSERT INTO ks.title (bucket, domain, title, kind, rev, tid, at, n, srv, fact) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          .markers = "bucket text, domain text, title text, kind tinyint, rev bigint, tid blob, "
                     "at bigint, n int, srv int, fact blob" },
        { .text = "INSERT INTO ks.body (bucket, domain, title, content, rev, tid, digest, chunk, "
                  "bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
          .markers = "bucket text, domain text, title text, content text, rev bigint, tid blob, "
                     "digest blob, chunk int, bytes blob" },
        { .text = "INSERT INTO ks.word (domain, title, asked_at, at, srv, how, word) "
                  "VALUES (?, ?, ?, ?, ?, ?, ?)",
          .markers = "domain text, title text, asked_at bigint, at bigint, srv int, how tinyint, "
                     "word blob" },
    };
    for (unsigned i = 0; i < COUNT_OF(s); i++)
        node_statement(f->rig.nodes, &s[i]);
}

static const struct title_word known = {
    .page_id = 3, .rev = 5, .touched = 1000, .said = 1001, .asked_at = { 2 * NS_PER_S }
};

static void rows_make(struct fixture *f, const struct title_word *last)
{
    const struct fact put = { .what = FACT_PUT,
                              .srv = 1,
                              .at = { 3 * NS_PER_S },
                              .name = { .rev = 5, .tid = tid_make(1000, 1) },
                              .said_at = { 2 * NS_PER_S } };
    char fact[FACT_BYTES_MAX], word[TITLE_WORD_BYTES_MAX];
    cql_values_init(&f->facts, 4096);
    cql_values_init(&f->words, 4096);
    cql_put_bytes(&f->facts, fact_encode(&put, fact));
    if (last == NULL)
        return;
    cql_put_i64(&f->words, 3 * NS_PER_S);
    cql_put_i32(&f->words, 1);
    cql_put_i8(&f->words, 0);
    cql_put_bytes(&f->words, title_word_encode(last, word));
}

static void setup(struct fixture *f, const struct title_word *last)
{
    static const struct rig_opts o = { .nodes = { .nodes = 1 },
                                       .client = { .retry_min_ms = 10, .retry_max_ms = 20 } };
    static const struct page_bucket_opts buckets[BUCKETS] = {
        { .name = "page", .policy = { .kind = POLICY_ALL } },
        { .name = "mobile", .policy = { .kind = POLICY_ALL } },
    };
    struct err_note note = { .text = "" };
    memset(f, 0, sizeof *f);
    rig_start(&f->rig, &o);
    rows_make(f, last);
    tables_tell(f);
    rig_on_loop(&f->rig, titles_make, f);
    assert_non_null(f->titles);
    const struct cassandra_pages_opts p = { .titles = f->titles,
                                            .clock = f->rig.clock,
                                            .pool = loop_pool(f->rig.loop),
                                            .srv = 2,
                                            .buckets = buckets,
                                            .buckets_count = BUCKETS,
                                            .each_quorum = true };
    f->pages = cassandra_pages_new(&p, &note);
    assert_non_null(f->pages);
    f->bucket = cassandra_pages_bucket(f->pages, STR("page"));
    assert_int_equal(cassandra_pages_domain(f->pages, STR("en.wikipedia.org"), &f->domain), ERR_OK);
    arena_init(&f->arena, 1 << 20);
}

static void teardown(struct fixture *f)
{
    rig_end(&f->rig);
    cassandra_pages_free(&f->pages);
    titles_free(&f->titles);
    cql_values_fini(&f->facts);
    cql_values_fini(&f->words);
    arena_fini(&f->arena);
}

/* The next `times` such requests fail; 0: all. */
static void rule_fail(struct fixture *f, const struct node_match *match, unsigned times,
                      int32_t code)
{
    const struct node_action no = {
        .act = NODE_ERROR,
        .error = { .code = code, .message = STR("no"), .consistency = CQL_LOCAL_QUORUM }
    };
    struct node_match m = *match;
    m.times = times;
    (void)node_say(f->rig.nodes, NODE_ANY, &m, &no);
}

static unsigned sent(struct fixture *f, const struct node_match *match)
{
    return node_requests(f->rig.nodes, NODE_ANY, match);
}

/* ---- calls ---- */

static struct fixture *asks; /* whose call is under way */

static void call_over(struct store_call *c)
{
    struct fixture *f = asks;
    (void)c;
    INVARIANT(pthread_mutex_lock(&f->rig.lock) == 0);
    f->under_way = 0;
    INVARIANT(pthread_cond_broadcast(&f->rig.turned) == 0);
    INVARIANT(pthread_mutex_unlock(&f->rig.lock) == 0);
}

static struct store_call call_new(struct fixture *f)
{
    asks = f;
    f->under_way = 1;
    return (struct store_call){ .home = home_here(),
                                .done = call_over,
                                .deadline = mono_add_ms(clock_mono(f->rig.clock), RIG_WAIT_MS) };
}

static void call_wait(struct fixture *f) /* it has a deadline */
{
    assert_int_equal(pthread_mutex_lock(&f->rig.lock), 0);
    while (f->under_way != 0)
        assert_int_equal(pthread_cond_wait(&f->rig.turned, &f->rig.lock), 0);
    assert_int_equal(pthread_mutex_unlock(&f->rig.lock), 0);
}

static struct page_hear hear(struct fixture *f, const struct title_word *w,
                             const struct title_mark *m)
{
    struct page_hear h = { .call = call_new(f),
                           .domain = f->domain,
                           .title = STR("T"),
                           .word = w,
                           .marks = m,
                           .marks_count = m != NULL };
    assert_int_equal(cassandra_pages_hear(f->pages, &h), STORE_LATER);
    call_wait(f);
    return h;
}

static struct page_put put(struct fixture *f, const struct title_word *under)
{
    struct page_put p = { .call = call_new(f),
                          .bucket = f->bucket,
                          .domain = f->domain,
                          .title = STR("T"),
                          .rev = 6,
                          .heeds = true,
                          .word = under,
                          .contents_count = 1,
                          .contents = { { .name = STR("html"), .raw = STR("text") } },
                          .arena = &f->arena };
    assert_int_equal(cassandra_pages_put(f->pages, &p), STORE_LATER);
    call_wait(f);
    return p;
}

static struct title_word word_now(struct fixture *f, uint64_t page, uint64_t rev)
{
    store_time now = clock_store(f->rig.clock);
    return (struct title_word){
        .page_id = page, .rev = rev, .touched = 2000, .said = now.ns / NS_PER_S, .asked_at = now
    };
}

/* ---- what is held ---- */

static void the_word_is_kept_behind_all_that_follows_from_it(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, &known);
    struct title_word other = word_now(&f, 4, 9);
    rule_fail(&f, &facts_put, 2, CQL_WRITE_TIMEOUT); /* of one bucket, and sent again */
    rule_fail(&f, &facts_put, 2, CQL_WRITE_TIMEOUT);
    assert_int_equal(hear(&f, &other, NULL).call.why, ERR_UNAVAILABLE);
    assert_int_equal(sent(&f, &word_put), 0);
    node_unsay(f.rig.nodes, 0);
    rule_fail(&f, &word_put, 0, CQL_WRITE_TIMEOUT);
    assert_int_equal(hear(&f, &other, NULL).call.why, ERR_UNAVAILABLE);
    node_unsay(f.rig.nodes, 0);
    node_clear(f.rig.nodes);
    struct page_hear h = hear(&f, &other, NULL); /* as if nothing had been heard */
    assert_int_equal(h.call.why, ERR_OK);
    assert_int_equal(h.is, WORD_NEWS);
    assert_true(h.changed);
    assert_int_equal(sent(&f, &facts_put), BUCKETS);
    assert_int_equal(sent(&f, &word_put), 1);
    struct node_request fact, word;
    assert_true(node_request(f.rig.nodes, NODE_ANY, &facts_put, BUCKETS - 1, &fact));
    assert_true(node_request(f.rig.nodes, NODE_ANY, &word_put, 0, &word));
    assert_true(fact.at_ms <= word.at_ms);
    teardown(&f);
}

static void what_hides_is_hidden_here_when_another_data_centre_is_away(void **state)
{
    (void)state;
    struct fixture f;
    struct node_request first, second;
    setup(&f, &known);
    const struct title_mark mark = {
        .state = PAGE_SUPPRESSED, .first = 5, .last = 5, .said_at = clock_store(f.rig.clock)
    };
    const struct title_mark shown = { .state = PAGE_CURRENT, .first = 5, .last = 5 };
    assert_int_equal(hear(&f, NULL, &mark).call.why, ERR_OK);
    assert_true(node_request(f.rig.nodes, NODE_ANY, &facts_put, 0, &first));
    assert_int_equal(first.consistency, CQL_EACH_QUORUM);
    node_clear(f.rig.nodes);
    const struct node_action away = { .act = NODE_ERROR,
                                      .error = { .code = CQL_UNAVAILABLE,
                                                 .message = STR("no"),
                                                 .consistency = CQL_EACH_QUORUM,
                                                 .required = 2 } };
    struct node_match one = facts_put;
    one.times = 2; /* the next node is the same one */
    (void)node_say(f.rig.nodes, NODE_ANY, &one, &away);
    (void)node_say(f.rig.nodes, NODE_ANY, &one, &away);
    assert_int_equal(hear(&f, NULL, &mark).call.why, ERR_UNAVAILABLE);
    unsigned n = sent(&f, &facts_put), here = 0;
    for (unsigned i = 0; i < n; i++) {
        assert_true(node_request(f.rig.nodes, NODE_ANY, &facts_put, i, &second));
        here += second.consistency == CQL_LOCAL_QUORUM;
    }
    assert_true(here > 0);
    node_clear(f.rig.nodes);
    assert_int_equal(hear(&f, NULL, &shown).call.why, ERR_OK);
    assert_int_equal(sent(&f, &facts_put), 0); /* nothing is hidden: there is nothing to show */
    teardown(&f);
}

static void a_deleted_page_stays_so_while_another_data_centre_is_away(void **state)
{
    (void)state;
    struct fixture f;
    struct node_request r;
    const struct title_word gone = { .missing = true, .said = 1001, .asked_at = { 4 * NS_PER_S } };
    setup(&f, &gone);
    struct title_word again = gone;
    again.asked_at = clock_store(f.rig.clock);
    assert_int_equal(hear(&f, &again, NULL).is, WORD_SAME);
    assert_int_equal(sent(&f, &facts_put), BUCKETS); /* for what was asked for meanwhile */
    for (unsigned i = 0; i < BUCKETS; i++) {
        assert_true(node_request(f.rig.nodes, NODE_ANY, &facts_put, i, &r));
        assert_int_equal(r.consistency, CQL_LOCAL_QUORUM);
    }
    assert_int_equal(sent(&f, &word_put), 0);
    teardown(&f);
}

static struct page_read read_latest(struct fixture *f)
{
    struct page_read r = { .call = call_new(f),
                           .bucket = f->bucket,
                           .which = { .domain = f->domain, .title = STR("T") },
                           .heeds = true,
                           .arena = &f->arena };
    assert_int_equal(cassandra_pages_read(f->pages, &r), STORE_LATER);
    call_wait(f);
    return r;
}

static void a_word_that_cannot_be_read_stops_puts_and_no_reads(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, &known);
    struct page_read r = read_latest(&f);
    assert_int_equal(r.call.why, ERR_OK);
    assert_true(r.heard);
    assert_int_equal(r.word.rev, 5);
    rule_fail(&f, &words_read, 0, CQL_READ_TIMEOUT);
    r = read_latest(&f);
    assert_int_equal(r.call.why, ERR_OK);
    assert_false(r.heard);
    struct title_word under = word_now(&f, 3, 6);
    node_clear(f.rig.nodes);
    assert_int_equal(put(&f, &under).call.why, ERR_UNAVAILABLE);
    assert_int_equal(sent(&f, &facts_put), 0);
    teardown(&f);
}

static bool both_came(struct node_cluster *c, void *ctx)
{
    (void)ctx;
    return node_requests(c, NODE_ANY, &facts_read) == 1 &&
           node_requests(c, NODE_ANY, &words_read) == 1;
}

static void a_read_that_heeds_the_word_is_two_at_once(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, &known);
    (void)read_latest(&f); /* prepared */
    node_clear(f.rig.nodes);
    unsigned rule = node_say(f.rig.nodes, NODE_ANY, &all, &(struct node_action){ .held = true });
    struct page_read r = { .call = call_new(&f),
                           .bucket = f.bucket,
                           .which = { .domain = f.domain, .title = STR("T") },
                           .heeds = true,
                           .arena = &f.arena };
    assert_int_equal(cassandra_pages_read(f.pages, &r), STORE_LATER);
    assert_true(node_wait_for(f.rig.nodes, both_came, NULL, RIG_WAIT_MS)); /* none is answered */
    node_unsay(f.rig.nodes, rule);
    (void)node_release(f.rig.nodes, 0);
    call_wait(&f);
    assert_int_equal(r.call.why, ERR_OK);
    assert_int_equal(sent(&f, &all), 2);
    teardown(&f);
}

static void a_put_is_two_reads_and_a_batch(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, &known);
    struct title_word under = word_now(&f, 3, 6);
    struct page_put p = put(&f, &under);
    assert_int_equal(p.call.why, ERR_OK);
    assert_true(p.created);
    assert_false(p.first);
    assert_int_equal(sent(&f, &facts_read), 1);
    assert_int_equal(sent(&f, &words_read), 1);
    assert_int_equal(sent(&f, &facts_put), 1);
    assert_int_equal(sent(&f, &all), 3);
    teardown(&f);
}

static void the_first_word_costs_a_write_and_a_read_more(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, NULL);
    struct title_word under = word_now(&f, 3, 6);
    struct page_put p = put(&f, &under);
    assert_int_equal(p.call.why, ERR_OK);
    assert_true(p.first);
    assert_int_equal(sent(&f, &facts_put), 1);
    assert_int_equal(sent(&f, &word_put), 1);
    assert_int_equal(sent(&f, &words_read), 2);
    assert_int_equal(sent(&f, &all), 5);
    node_clear(f.rig.nodes);
    rule_fail(&f, &word_put, 0, CQL_WRITE_TIMEOUT);
    assert_int_equal(put(&f, &under).call.why, ERR_UNAVAILABLE);
    node_unsay(f.rig.nodes, 0);
    rule_fail(&f, &facts_put, 0, CQL_WRITE_TIMEOUT);
    assert_int_equal(put(&f, &under).call.why, ERR_UNAVAILABLE);
    teardown(&f);
}

/* Every answer in turn fails. Whichever it is, each request ends. */
static void whatever_fails_each_hearing_ends(void **state)
{
    (void)state;
    struct fixture f;
    unsigned done = 0;
    setup(&f, &known);
    for (unsigned skip = 0; skip < 12; skip++) {
        const struct node_action cut = { .act = NODE_ERROR,
                                         .error = { .code = CQL_INVALID, .message = STR("no") } };
        struct node_match one = all;
        one.skip = skip;
        one.times = 1;
        unsigned rule = node_say(f.rig.nodes, NODE_ANY, &one, &cut);
        struct title_word gone = word_now(&f, 0, 0);
        gone.missing = true;
        gone.touched = 0;
        done += hear(&f, &gone, NULL).call.why == ERR_OK;
        struct title_word under = word_now(&f, 3, 6);
        (void)put(&f, &under).call.why; /* it ends */
        node_unsay(f.rig.nodes, rule);
        arena_reset(&f.arena);
    }
    assert_true(done > 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_word_is_kept_behind_all_that_follows_from_it),
        cmocka_unit_test(what_hides_is_hidden_here_when_another_data_centre_is_away),
        cmocka_unit_test(a_deleted_page_stays_so_while_another_data_centre_is_away),
        cmocka_unit_test(a_word_that_cannot_be_read_stops_puts_and_no_reads),
        cmocka_unit_test(a_read_that_heeds_the_word_is_two_at_once),
        cmocka_unit_test(a_put_is_two_reads_and_a_batch),
        cmocka_unit_test(the_first_word_costs_a_write_and_a_read_more),
        cmocka_unit_test(whatever_fails_each_hearing_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
