/* Goal: buckets of values do what value/value.h says, whoever asks: nothing of HTTP is here.
 * Method: a service on tables of a real engine; each request is waited for, whichever way it
 * ends. */
#include "codec/frame.h"
#include "lib/wait.h"
#include "scratch.h"
#include "table/tables.h"
#include "value/value.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 64 << 20 };

static const struct page_policy all = { .kind = POLICY_ALL };
static const struct page_policy latest = { .kind = POLICY_LATEST,
                                           .count = 1,
                                           .grace_ttl_ns = 60 * NS_PER_S };

static struct fixture {
    struct scratch scratch;
    struct tables *tables;
    struct value_settings settings[2];
    struct value_service service;
    struct arena arena; /* of all requests of a test */
    struct awaited over;
} * f;

static void service_open(void)
{
    struct err_note note;
    assert_int_equal(tables_new(f->scratch.engine, &f->scratch.clock.clock, &f->tables, &note),
                     ERR_OK);
    f->service = (struct value_service){ .store = tables_store(f->tables),
                                         .clock = &f->scratch.clock.clock,
                                         .buckets = f->settings,
                                         .buckets_count = COUNT_OF(f->settings),
                                         .domains_count = 1 };
    value_service_init(&f->service);
}

static void service_close(void)
{
    value_service_fini(&f->service);
    tables_free(&f->tables);
}

static int up(void **state)
{
    (void)state;
    f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->settings[0] = (struct value_settings){
        .kind = VALUE_PLAIN, .name = STR("plain"), .ttl_ns = DURATION_NEVER, .policy = &all
    };
    f->settings[1] = (struct value_settings){
        .kind = VALUE_REVS, .name = STR("revs"), .ttl_ns = DURATION_NEVER, .policy = &all
    };
    scratch_init(&f->scratch);
    scratch_open(&f->scratch);
    service_open();
    arena_init(&f->arena, ARENA_BYTES);
    awaited_init(&f->over);
    return 0;
}

static int down(void **state)
{
    (void)state;
    awaited_fini(&f->over);
    arena_fini(&f->arena);
    service_close();
    scratch_fini(&f->scratch);
    free(f);
    return 0;
}

/* ---- requests ---- */

static void call_over(struct store_call *c)
{
    awaited_tell(&f->over, c->why);
}

/* About a key of a bucket that is configured when a setting has its name. */
static struct value_call request(enum value_kind kind, const char *bucket, const char *key)
{
    return (struct value_call){
        .call = { .home = home_here(), .done = call_over },
        .target = { .domain = STR("en.test"),
                    .domain_number = 1,
                    .kind = kind,
                    .settings = value_settings_find(&f->service, kind, str_of(bucket)),
                    .bucket = str_of(bucket),
                    .key = key == NULL ? STR_NONE : str_of(key) },
        .arena = &f->arena,
    };
}

static struct value_call revision(const char *bucket, const char *key, int64_t rev)
{
    struct value_call c = request(VALUE_REVS, bucket, key);
    c.target.has_rev = true;
    c.target.rev = rev;
    return c;
}

static err waited(struct value_call *c, enum store_start start)
{
    store_call_then(start, &c->call);
    err why = awaited_wait(&f->over);
    awaited_fini(&f->over);
    awaited_init(&f->over); /* of the next one */
    return why;
}

static struct value_put a_put(struct value_call of, str body)
{
    return (struct value_put){
        .of = of, .body = body, .raw = body, .headers = STR("content-type: text/plain\n")
    };
}

static err put(struct value_put *p)
{
    return waited(&p->of, value_put(&f->service, p));
}

static void must_put(struct value_call of, const char *body)
{
    struct value_put p = a_put(of, str_of(body));
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_WRITTEN);
}

/* body NULL: none is there. */
static void must_read(struct value_call of, const char *body)
{
    struct value_read r = { .of = of };
    assert_int_equal(waited(&r.of, value_read(&f->service, &r)), ERR_OK);
    assert_int_equal(r.of.row.found, body != NULL);
    if (body != NULL)
        assert_true(str_eq(r.of.row.body, str_of(body)));
}

static err bucket_make(enum value_kind kind, const char *name, const char *json)
{
    struct value_bucket b = { .of = request(kind, name, NULL), .json = str_of(json) };
    return waited(&b.of, value_bucket(&f->service, &b));
}

/* ---- key_value ---- */

static void a_value_is_read_as_it_was_put(void **state)
{
    (void)state;
    struct value_put p = a_put(request(VALUE_PLAIN, "plain", "k"), STR("body"));
    p.etag = STR("\"a\"");
    assert_int_equal(put(&p), ERR_OK);
    struct value_read r = { .of = request(VALUE_PLAIN, "plain", "k") };
    assert_int_equal(value_read(&f->service, &r), STORE_DONE); /* it is in memory */
    assert_true(r.of.row.found);
    assert_true(str_eq(r.of.row.body, STR("body")));
    assert_true(str_eq(r.of.row.etag, STR("\"a\"")));
    assert_true(str_eq(r.of.row.headers, STR("content-type: text/plain\n")));
    assert_int_equal(r.of.row.coding.n, 0);
    must_read(request(VALUE_PLAIN, "plain", "other"), NULL);
}

static void a_bucket_that_is_not_made_is_not_found(void **state)
{
    (void)state;
    struct value_put p = a_put(request(VALUE_PLAIN, "made", "k"), STR("body"));
    struct value_read r = { .of = request(VALUE_PLAIN, "plain", "k") };
    assert_int_equal(put(&p), ERR_NOT_FOUND);
    assert_int_equal(waited(&r.of, value_read(&f->service, &r)), ERR_NOT_FOUND); /* no put yet */
    assert_int_equal(bucket_make(VALUE_PLAIN, "made", ""), ERR_OK);
    must_put(request(VALUE_PLAIN, "made", "k"), "body");
    struct value_bucket b = { .of = request(VALUE_PLAIN, "made", NULL), .drop = true };
    assert_int_equal(waited(&b.of, value_bucket(&f->service, &b)), ERR_OK);
    struct value_read gone = { .of = request(VALUE_PLAIN, "made", "k") };
    assert_int_equal(waited(&gone.of, value_read(&f->service, &gone)), ERR_NOT_FOUND);
}

static void conditions_are_judged_by_what_is_stored(void **state)
{
    (void)state;
    static const struct {
        const char *if_match, *if_none_match;
        enum value_outcome outcome;
    } cases[] = {
        { "", "*", VALUE_UNMET },     { "*", "", VALUE_WRITTEN },
        { "\"b\"", "", VALUE_UNMET }, { "\"a\"", "", VALUE_WRITTEN },
        { "", "\"a\"", VALUE_UNMET }, { "", "\"b\"", VALUE_WRITTEN },
    };
    struct value_put first = a_put(request(VALUE_PLAIN, "plain", "k"), STR("first"));
    first.condition.if_none_match = STR("*");
    first.etag = STR("\"a\"");
    assert_int_equal(put(&first), ERR_OK);
    assert_int_equal(first.outcome, VALUE_WRITTEN);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct value_put p = a_put(request(VALUE_PLAIN, "plain", "k"), STR("next"));
        p.etag = STR("\"a\"");
        p.condition =
            (struct value_condition){ str_of(cases[i].if_match), str_of(cases[i].if_none_match) };
        assert_int_equal(put(&p), ERR_OK);
        assert_int_equal(p.outcome, cases[i].outcome);
    }
    struct value_delete d = { .of = request(VALUE_PLAIN, "plain", "k"),
                              .condition.if_match = STR("\"b\"") };
    assert_int_equal(waited(&d.of, value_delete(&f->service, &d)), ERR_OK);
    assert_int_equal(d.outcome, VALUE_UNMET);
    must_read(request(VALUE_PLAIN, "plain", "k"), "next");
    d = (struct value_delete){ .of = request(VALUE_PLAIN, "plain", "k"),
                               .condition.if_match = STR("\"a\"") };
    assert_int_equal(waited(&d.of, value_delete(&f->service, &d)), ERR_OK);
    assert_int_equal(d.outcome, VALUE_WRITTEN);
    must_read(request(VALUE_PLAIN, "plain", "k"), NULL);
}

static void a_delete_of_a_bucket_that_was_never_put_into_is_judged_too(void **state)
{
    (void)state;
    struct value_delete d = { .of = request(VALUE_PLAIN, "plain", "k"),
                              .condition.if_match = STR("*") };
    assert_int_equal(waited(&d.of, value_delete(&f->service, &d)), ERR_OK);
    assert_int_equal(d.outcome, VALUE_UNMET);
    d = (struct value_delete){ .of = request(VALUE_PLAIN, "plain", "k") };
    assert_int_equal(waited(&d.of, value_delete(&f->service, &d)), ERR_OK);
    assert_int_equal(d.outcome, VALUE_WRITTEN);
    d = (struct value_delete){ .of = request(VALUE_PLAIN, "unknown", "k") };
    assert_int_equal(waited(&d.of, value_delete(&f->service, &d)), ERR_NOT_FOUND);
}

static str gzip_of(str raw)
{
    struct frame_codec *codec = frame_codec_new();
    str frame;
    assert_int_equal(frame_compress(codec, FRAME_GZIP, raw, &f->arena, &frame), ERR_OK);
    frame_codec_free(&codec);
    return frame;
}

static enum value_outcome put_unlike(str body, str coding, str raw, const char *type)
{
    struct value_put p = a_put(request(VALUE_PLAIN, "plain", "k"), body);
    p.coding = coding;
    p.raw = raw;
    p.headers = str_of(type);
    p.etag = STR("\"new\"");
    p.unlike = true;
    assert_int_equal(put(&p), ERR_OK);
    if (p.outcome == VALUE_SAME) {
        assert_true(str_eq(p.same_headers, STR("content-type: text/plain\n")));
        assert_true(str_eq(p.same_etag, STR("\"old\"")));
    }
    return p.outcome;
}

#define PLAIN_TYPE "content-type: text/plain\n"

static void an_equal_value_is_not_written_whatever_its_coding(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    str raw = { .p = text, .n = sizeof text }, gzip = STR("gzip"), frame = gzip_of(raw);
    for (int stored_gzip = 0; stored_gzip < 2; stored_gzip++) {
        struct value_put p = a_put(request(VALUE_PLAIN, "plain", "k"), stored_gzip ? frame : raw);
        p.coding = stored_gzip ? gzip : STR_NONE;
        p.raw = raw;
        p.etag = STR("\"old\"");
        assert_int_equal(put(&p), ERR_OK);
        assert_int_equal(put_unlike(raw, STR_NONE, raw, PLAIN_TYPE), VALUE_SAME);
        assert_int_equal(put_unlike(frame, gzip, raw, PLAIN_TYPE), VALUE_SAME);
        assert_int_equal(put_unlike(raw, STR_NONE, raw, ""), VALUE_SAME); /* says nothing of it */
    }
    struct value_read r = { .of = request(VALUE_PLAIN, "plain", "k") };
    assert_int_equal(waited(&r.of, value_read(&f->service, &r)), ERR_OK);
    str undone;
    assert_int_equal(value_raw(&r.of.row, &f->arena, &undone), ERR_OK);
    assert_true(str_eq(undone, raw));
    assert_int_equal(put_unlike(raw, STR_NONE, raw, "content-type: text/html\n"), VALUE_WRITTEN);
    text[0] = 'y';
    assert_int_equal(put_unlike(raw, STR_NONE, raw, PLAIN_TYPE), VALUE_WRITTEN);
}

static void a_frame_that_is_none_is_told(void **state)
{
    (void)state;
    const struct value_row shorter = { .coding = STR("gzip"), .body = STR("abc") },
                           other = { .coding = STR("gzip"),
                                     .body = { .p = "no frame\x05\0\0\0", .n = 12 } };
    str raw;
    assert_int_equal(value_raw(&shorter, &f->arena, &raw), ERR_CORRUPT);
    assert_int_equal(value_raw(&other, &f->arena, &raw), ERR_CORRUPT);
}

/* ---- key_rev_value ---- */

static void the_newest_of_the_highest_revision_is_the_latest(void **state)
{
    (void)state;
    must_put(revision("revs", "k", 2), "two");
    must_put(revision("revs", "k", 1), "one");
    must_read(request(VALUE_REVS, "revs", "k"), "two");
    must_put(revision("revs", "k", 2), "two again"); /* the clock stands still */
    must_read(request(VALUE_REVS, "revs", "k"), "two again");
    must_read(revision("revs", "k", 1), "one");
    must_read(revision("revs", "k", 3), NULL);
}

static void a_revision_without_a_tid_gets_a_later_one(void **state)
{
    (void)state;
    struct value_put p = a_put(revision("revs", "k", 1), STR("first"));
    assert_int_equal(put(&p), ERR_OK);
    struct tid first = p.of.target.tid;
    p = a_put(revision("revs", "k", 1), STR("second"));
    assert_int_equal(put(&p), ERR_OK);
    assert_true(p.of.target.tid.ticks > first.ticks);
    p = a_put(revision("revs", "k", 1), STR("last"));
    p.of.target.has_tid = true;
    p.of.target.tid = (struct tid){ .ticks = TID_TICKS_MAX, .low = first.low };
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_WRITTEN);
    p = a_put(revision("revs", "k", 1), STR("beyond"));
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_TID_LAST);
    must_read(request(VALUE_REVS, "revs", "k"), "last");
}

static void conditions_of_a_revision_are_about_what_a_read_gives(void **state)
{
    (void)state;
    struct value_put p = a_put(revision("revs", "k", 1), STR("first"));
    p.condition.if_none_match = STR("*");
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_WRITTEN);
    p = a_put(revision("revs", "k", 1), STR("second"));
    p.condition.if_none_match = STR("*");
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_UNMET);
    p = a_put(revision("revs", "k", 2), STR("of another"));
    p.condition.if_none_match = STR("*");
    assert_int_equal(put(&p), ERR_OK);
    assert_int_equal(p.outcome, VALUE_WRITTEN);
}

/* ---- listings ---- */

static struct value_list listed(struct value_call of, uint32_t limit, str from)
{
    struct value_list l = { .of = of, .limit = limit, .from = from };
    assert_int_equal(waited(&l.of, value_list(&f->service, &l)), ERR_OK);
    return l;
}

static void keys_and_revisions_are_listed_in_pages(void **state)
{
    (void)state;
    char key[] = "k0";
    unsigned keys = 0;
    str from = STR_NONE;
    for (; key[1] <= '4'; key[1]++)
        must_put(revision("revs", key, 1), "x");
    for (int64_t rev = 2; rev <= 3; rev++)
        must_put(revision("revs", "k3", rev), "x");
    do {
        struct value_list l = listed(request(VALUE_REVS, "revs", NULL), 2, from);
        assert_in_range(l.items_count, 1, 2);
        for (unsigned i = 0; i < l.items_count; i++)
            assert_int_equal(l.items[i].key.n, 2);
        keys += l.items_count;
        from = l.next;
    } while (from.n > 0);
    assert_int_equal(keys, 5);
    struct value_list l = listed(request(VALUE_REVS, "revs", "k3"), 2, STR_NONE);
    assert_int_equal(l.items_count, 2);
    assert_int_equal(l.items[0].rev, 3);
    assert_int_equal(l.items[1].rev, 2);
    l = listed(request(VALUE_REVS, "revs", "k3"), 2, l.next);
    assert_int_equal(l.items_count, 1);
    assert_int_equal(l.items[0].rev, 1);
    assert_int_equal(l.next.n, 0);
    l = (struct value_list){ .of = request(VALUE_REVS, "revs", "k3"),
                             .limit = 2,
                             .from = STR("no token") };
    assert_int_equal(waited(&l.of, value_list(&f->service, &l)), ERR_BAD);
}

/* ---- buckets ---- */

static void what_is_said_of_a_bucket_is_checked(void **state)
{
    static const struct {
        enum value_kind kind;
        const char *name, *json;
        err why;
    } cases[] = {
        { VALUE_PLAIN, "a", "{\"keyType\":\"string\",\"valueType\":\"blob\"}", ERR_OK },
        { VALUE_PLAIN, "a", "{\"keyType\":\"int\"}", ERR_BAD },
        { VALUE_PLAIN, "a", "[]", ERR_BAD },
        { VALUE_PLAIN, "a", "{\"unknown\":1}", ERR_BAD },
        { VALUE_PLAIN, "a", "{\"table\":\"b\"}", ERR_BAD },
        { VALUE_PLAIN, "a", "{\"table\":\"a\",\"domain\":\"en.test\"}", ERR_OK },
        { VALUE_PLAIN, "a", "{\"retention_policy\":{\"type\":\"all\"}}", ERR_BAD },
        { VALUE_REVS, "a", "{\"retention_policy\":{\"type\":\"all\"}}", ERR_OK },
        { VALUE_REVS, "a", "{\"version\":2,\"options\":{\"default_time_to_live\":60}}", ERR_OK },
        { VALUE_REVS, "a", "{\"version\":1}", ERR_BAD },
        { VALUE_PLAIN, "plain", "{}", ERR_OK },
        { VALUE_PLAIN, "plain", "{\"options\":{\"default_time_to_live\":60}}", ERR_BAD },
        { VALUE_REVS, "revs", "{\"retention_policy\":{\"type\":\"latest\"}}", ERR_BAD },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        err why = bucket_make(cases[i].kind, cases[i].name, cases[i].json);
        if (why != cases[i].why)
            fail_msg("%s gave %s", cases[i].json, err_name(why));
    }
}

static void names_that_a_path_cannot_have_are_none(void **state)
{
    static const char *const bad[] = { "", ".", "..", "a/b" };
    char longest[TABLE_NAME_BYTES_MAX];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(value_name_fits(str_of(bad[i])));
    memset(longest, 'x', sizeof longest);
    assert_true(value_name_fits((str){ .p = longest, .n = TABLE_NAME_BYTES_MAX - 16 }));
    assert_false(value_name_fits((str){ .p = longest, .n = TABLE_NAME_BYTES_MAX - 15 }));
}

static void a_configured_bucket_becomes_what_the_configuration_says(void **state)
{
    (void)state;
    must_put(revision("revs", "k", 1), "one");
    must_put(revision("revs", "k", 2), "two");
    service_close();
    f->settings[1].policy = &latest;
    f->settings[0].ttl_ns = 60 * NS_PER_S;
    service_open();
    must_put(revision("revs", "k", 3), "three");
    must_put(request(VALUE_PLAIN, "plain", "k"), "short");
    must_read(request(VALUE_PLAIN, "plain", "k"), "short");
    fake_clock_advance(&f->scratch.clock, 61 * NS_PER_S);
    must_read(request(VALUE_PLAIN, "plain", "k"), NULL);
    must_read(request(VALUE_REVS, "revs", "k"), "three");
    service_close();
    service_open(); /* the same again is no change */
    must_put(request(VALUE_PLAIN, "plain", "k"), "again");
    must_read(request(VALUE_PLAIN, "plain", "k"), "again");
}

/* ---- where it goes on ---- */

/* Runs tasks when it is told to, as a worker with others to look after. */
struct desk {
    struct home home;
    pthread_mutex_t lock;
    struct task_list tasks;
};

static void desk_post(struct home *h, struct task *t)
{
    struct desk *d = CONTAINER_OF(h, struct desk, home);
    pthread_mutex_lock(&d->lock);
    (void)task_list_put(&d->tasks, t);
    pthread_mutex_unlock(&d->lock);
}

static bool desk_work(struct desk *d)
{
    pthread_mutex_lock(&d->lock);
    struct task *t = task_list_take(&d->tasks);
    pthread_mutex_unlock(&d->lock);
    if (t != NULL)
        t->run(t);
    return t != NULL;
}

static unsigned overs;

static void count_over(struct store_call *c)
{
    assert_int_equal(c->why, ERR_OK);
    overs++;
}

static void a_request_goes_on_at_its_home_alone(void **state)
{
    (void)state;
    struct desk d = { .home.post = desk_post, .lock = PTHREAD_MUTEX_INITIALIZER };
    struct value_put p = a_put(revision("revs", "k", 1), STR("body"));
    p.of.call = (struct store_call){ .home = &d.home, .done = count_over };
    overs = 0;
    assert_int_equal(value_put(&f->service, &p), STORE_LATER);
    WAIT_UNTIL(desk_work(&d)); /* its table is made, */
    assert_int_equal(overs, 0);
    WAIT_UNTIL(desk_work(&d)); /* its value is written */
    assert_int_equal(overs, 1);
    assert_false(desk_work(&d));
    must_read(request(VALUE_REVS, "revs", "k"), "body");
}

static err last_why;

static void keep_why(struct store_call *c)
{
    last_why = c->why;
}

static void a_listing_that_is_canceled_ends(void **state)
{
    enum { KEYS = 600 }; /* more than are looked at without the pool */
    struct desk pool = { .home.post = desk_post, .lock = PTHREAD_MUTEX_INITIALIZER };
    char key[16];
    (void)state;
    for (unsigned i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "key %u", i);
        must_put(request(VALUE_PLAIN, "plain", key), "x");
    }
    tables_read_on(f->tables, &pool.home);
    for (unsigned canceled = 0; canceled < 2; canceled++) {
        struct value_list l = { .of = request(VALUE_PLAIN, "plain", NULL), .limit = 1000 };
        l.of.call = (struct store_call){ .home = home_here(), .done = keep_why };
        assert_int_equal(value_list(&f->service, &l), STORE_LATER);
        if (canceled > 0)
            store_cancel(&l.of.call);
        assert_true(desk_work(&pool));
        assert_int_equal(last_why, canceled > 0 ? ERR_TIMEOUT : ERR_OK);
        assert_int_equal(l.items_count, canceled > 0 ? 0 : KEYS);
    }
    tables_read_on(f->tables, home_here());
}

/* The store of the service, and how fresh what it read last had to be. */
static struct watched {
    struct table_store store;
    struct table_store *real;
    enum store_fresh fresh;
} watched;

static enum store_start watched_rows(struct table_store *s, struct table_rows *r)
{
    struct watched *w = CONTAINER_OF(s, struct watched, store);
    w->fresh = r->call.fresh;
    return table_store_rows(w->real, r);
}

static enum store_start watched_update(struct table_store *s, struct table_update *u)
{
    return table_store_update(CONTAINER_OF(s, struct watched, store)->real, u);
}

static void what_a_put_reads_is_as_fresh_as_can_be(void **state)
{
    static const struct table_store_ops ops = { .rows = watched_rows, .update = watched_update };
    (void)state;
    must_put(revision("revs", "k", 1), "one"); /* its table is made */
    watched = (struct watched){ .store.ops = &ops, .real = f->service.store };
    f->service.store = &watched.store;
    must_put(revision("revs", "k", 1), "two");
    assert_int_equal(watched.fresh, STORE_QUORUM);
    must_read(request(VALUE_REVS, "revs", "k"), "two");
    assert_int_equal(watched.fresh, STORE_ANY);
    f->service.store = watched.real;
}

static void a_request_that_needs_more_memory_than_it_has_says_so(void **state)
{
    (void)state;
    struct arena none;
    arena_init(&none, 1);
    struct value_put p = a_put(request(VALUE_PLAIN, "plain", "k"), STR("body"));
    struct value_read r = { .of = p.of };
    p.of.arena = r.of.arena = &none;
    assert_int_equal(put(&p), ERR_LIMIT);
    assert_int_equal(waited(&r.of, value_read(&f->service, &r)), ERR_LIMIT);
    arena_fini(&none);
}

#define VALUE_TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        VALUE_TEST(a_value_is_read_as_it_was_put),
        VALUE_TEST(a_bucket_that_is_not_made_is_not_found),
        VALUE_TEST(conditions_are_judged_by_what_is_stored),
        VALUE_TEST(a_delete_of_a_bucket_that_was_never_put_into_is_judged_too),
        VALUE_TEST(an_equal_value_is_not_written_whatever_its_coding),
        VALUE_TEST(a_frame_that_is_none_is_told),
        VALUE_TEST(the_newest_of_the_highest_revision_is_the_latest),
        VALUE_TEST(a_revision_without_a_tid_gets_a_later_one),
        VALUE_TEST(conditions_of_a_revision_are_about_what_a_read_gives),
        VALUE_TEST(keys_and_revisions_are_listed_in_pages),
        VALUE_TEST(what_is_said_of_a_bucket_is_checked),
        VALUE_TEST(names_that_a_path_cannot_have_are_none),
        VALUE_TEST(a_configured_bucket_becomes_what_the_configuration_says),
        VALUE_TEST(a_request_goes_on_at_its_home_alone),
        VALUE_TEST(a_listing_that_is_canceled_ends),
        VALUE_TEST(what_a_put_reads_is_as_fresh_as_can_be),
        VALUE_TEST(a_request_that_needs_more_memory_than_it_has_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
