/* Goal: buckets of values answer on Cassandra as they do on the embedded store, whatever was asked
 * before.
 * Method: a real Cassandra (real.h). Random requests go through src/value to both, and to two
 * servers of the cluster in turn; each answer is compared. The seed is printed. */
#include "values_help.h"

#include "../cmocka_all.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 700, KEYS = 3, REVS = 4 };

static const struct {
    enum value_kind kind;
    const char *name, *json;
} buckets[] = {
    { VALUE_PLAIN, "plain", "{}" },
    { VALUE_PLAIN, "mortal", "{\"default_time_to_live\": 7}" },
    { VALUE_REVS, "all", "{}" },
    { VALUE_REVS, "latest",
      "{\"revisionRetentionPolicy\": {\"type\": \"latest\", \"count\": 2, "
      "\"grace_ttl\": 5}}" },
    { VALUE_REVS, "strict",
      "{\"revisionRetentionPolicy\": {\"type\": \"latest\", \"count\": 1, "
      "\"grace_ttl\": 0}, \"default_time_to_live\": 9}" },
    { VALUE_REVS, "interval",
      "{\"revisionRetentionPolicy\": {\"type\": \"interval\", "
      "\"count\": 1, \"interval\": 10, \"grace_ttl\": 4}}" },
    { VALUE_REVS, "hash",
      "{\"revisionRetentionPolicy\": {\"type\": \"latest_hash\", "
      "\"grace_ttl\": 3}}" },
    { VALUE_REVS, "ended", "{\"revisionRetentionPolicy\": {\"type\": \"ttl\", \"ttl\": 6}}" },
};

static uint64_t seed;

static uint64_t any(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static int setup(void **state)
{
    real_setup(state);
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
    sides_open(NULL, 0);
    for (unsigned i = 0; i < COUNT_OF(buckets); i++) {
        assert_int_equal(side_bucket(&sides.embedded, buckets[i].kind, buckets[i].name,
                                     buckets[i].json),
                         ERR_OK);
        assert_int_equal(side_bucket(&sides.shared[0], buckets[i].kind, buckets[i].name,
                                     buckets[i].json),
                         ERR_OK);
    }
    return 0;
}

static int teardown(void **state)
{
    sides_close();
    return real_teardown(state);
}

/* ---- one request, on both sides ---- */

/* What a request names, the same for both. */
struct target {
    enum value_kind kind;
    const char *bucket, *key;
    bool has_rev, has_tid;
    int64_t rev;
    struct tid tid;
};

static struct tid tids[8]; /* given before: of puts and reads */

static struct target any_target(void)
{
    static const char *const keys[KEYS] = { "a", "b", "\xc3\xa9/\"c" };
    unsigned i = (unsigned)any(COUNT_OF(buckets));
    struct target t = { .kind = buckets[i].kind,
                        .bucket = buckets[i].name,
                        .key = keys[any(KEYS)] };
    if (t.kind == VALUE_REVS) {
        t.has_rev = any(4) > 0;
        t.has_tid = t.has_rev && any(3) == 0;
    }
    t.rev = t.has_rev ? (int64_t)any(REVS) : 0;
    t.tid = tids[any(COUNT_OF(tids))];
    return t;
}

static struct value_call call_of(struct side *s, const struct target *t)
{
    struct value_call c = side_call(s, t->kind, t->bucket, t->key);
    c.target.has_rev = t->has_rev;
    c.target.has_tid = t->has_tid;
    c.target.rev = t->rev;
    if (t->has_tid)
        c.target.tid = t->tid;
    return c;
}

static struct side *any_server(void)
{
    return &sides.shared[any(SIDES_SERVERS)];
}

static void same(bool yes, const struct target *t, const char *what)
{
    if (!yes)
        fail_msg("%s/%s rev %d: %s", t->bucket, t->key, (int)t->rev, what);
}

static struct value_condition any_condition(const struct target *t, char text[64])
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(tids[any(COUNT_OF(tids))], tid);
    if (t->kind == VALUE_PLAIN)
        (void)snprintf(text, 64, "\"e%d\"", (int)any(3));
    else
        (void)snprintf(text, 64, "\"%d/%s\"", (int)t->rev, tid);
    switch (any(6)) {
    case 0:
        return (struct value_condition){ .if_match = STR("*") };
    case 1:
        return (struct value_condition){ .if_none_match = STR("*") };
    case 2:
        return (struct value_condition){ .if_match = str_of(text) };
    case 3:
        return (struct value_condition){ .if_none_match = str_of(text) };
    default:
        return (struct value_condition){ .if_match = STR_NONE };
    }
}

static void do_put(void)
{
    static char bytes[3][40000];
    struct target t = any_target();
    char condition[64], etag[16];
    static const size_t sizes[] = {
        0, 1, 300, VALUES_INLINE_BYTES, VALUES_INLINE_BYTES + 1, 39999
    };
    if (t.kind == VALUE_REVS)
        t.has_rev = true;
    str body = { .p = bytes[any(3)], .n = sizes[any(COUNT_OF(sizes))] };
    memset(bytes[0], 'x', sizeof bytes[0]);
    memset(bytes[1], 'y', sizeof bytes[1]);
    memset(bytes[2], 'z', sizeof bytes[2]);
    (void)snprintf(etag, sizeof etag, "\"e%d\"", (int)any(3));
    uint64_t random = any(1u << 30);
    struct value_condition c = any_condition(&t, condition);
    bool unlike = t.kind == VALUE_PLAIN && any(4) == 0;
    struct side *on[] = { &sides.embedded, any_server() };
    struct value_put p[2];
    for (unsigned i = 0; i < 2; i++) {
        p[i] = side_put_of(call_of(on[i], &t), body);
        p[i].etag = t.kind == VALUE_PLAIN ? str_of(etag) : STR_NONE;
        p[i].condition = c;
        p[i].unlike = unlike;
        p[i].random = random;
        (void)side_put(on[i], &p[i]);
    }
    if (p[0].of.call.why != p[1].of.call.why)
        print_message("%s (%s), %s (%s)\n", err_name(p[0].of.call.why), p[0].of.note.text,
                      err_name(p[1].of.call.why), p[1].of.note.text);
    same(p[0].of.call.why == p[1].of.call.why, &t, "another end of a put");
    if (p[0].of.call.why != ERR_OK) {
        same(strcmp(p[0].of.note.text, p[1].of.note.text) == 0, &t, "another note of a put");
        return;
    }
    same(p[0].outcome == p[1].outcome, &t, "another outcome of a put");
    if (p[0].outcome == VALUE_SAME)
        same(str_eq(p[0].same_etag, p[1].same_etag) && str_eq(p[0].same_headers, p[1].same_headers),
             &t, "another value is the same");
    if (t.kind == VALUE_REVS && p[0].outcome == VALUE_WRITTEN) {
        same(tid_cmp(p[0].of.target.tid, p[1].of.target.tid) == 0, &t, "another tid");
        tids[any(COUNT_OF(tids))] = p[0].of.target.tid;
    }
}

static void do_read(void)
{
    struct target t = any_target();
    struct side *on[] = { &sides.embedded, any_server() };
    struct value_read r[2];
    for (unsigned i = 0; i < 2; i++) {
        r[i] = (struct value_read){ .of = call_of(on[i], &t) };
        if (side_read(on[i], &r[i]) != ERR_OK)
            fail_msg("%s: %s", err_name(r[i].of.call.why), r[i].of.note.text);
    }
    const struct value_row *a = &r[0].of.row, *b = &r[1].of.row;
    same(a->found == b->found, &t, "one finds it");
    if (!a->found)
        return;
    same(a->rev == b->rev && tid_cmp(a->tid, b->tid) == 0, &t, "another row is read");
    same(str_eq(a->headers, b->headers) && str_eq(a->etag, b->etag) &&
             str_eq(a->coding, b->coding) && str_eq(a->body, b->body),
         &t, "another value is read");
    if (t.kind == VALUE_REVS)
        tids[any(COUNT_OF(tids))] = a->tid;
}

static void do_delete(void)
{
    struct target t = any_target();
    char condition[64];
    struct value_condition c = any_condition(&t, condition);
    struct side *on[] = { &sides.embedded, any_server() };
    struct value_delete d[2];
    for (unsigned i = 0; i < 2; i++) {
        d[i] = (struct value_delete){ .of = call_of(on[i], &t), .condition = c };
        if (side_delete(on[i], &d[i]) != ERR_OK)
            fail_msg("%s: %s", err_name(d[i].of.call.why), d[i].of.note.text);
    }
    same(d[0].outcome == d[1].outcome, &t, "another outcome of a delete");
}

/* All of it, a few at a time. */
struct listing {
    struct value_item items[200];
    unsigned count;
};
static void list_all(struct side *s, const struct target *t, bool keys, uint32_t limit,
                     struct listing *out)
{
    str from = STR_NONE;
    out->count = 0;
    do {
        struct value_list l = { .of = call_of(s, t), .limit = limit, .from = from };
        if (keys)
            l.of.target.key = STR_NONE;
        if (side_list(s, &l) != ERR_OK)
            fail_msg("%s: %s", err_name(l.of.call.why), l.of.note.text);
        assert_int_equal(l.damaged_count, 0);
        assert_true(l.items_count <= limit);
        for (unsigned i = 0; i < l.items_count && out->count < COUNT_OF(out->items); i++)
            out->items[out->count++] = l.items[i];
        from = l.next;
    } while (from.n > 0);
}

static void do_list(void)
{
    static struct listing a, b;
    struct target t = any_target();
    bool keys = t.kind == VALUE_PLAIN || any(2) == 0;
    uint32_t limit = 1 + (uint32_t)any(4);
    t.has_tid = false;
    list_all(&sides.embedded, &t, keys, limit, &a);
    list_all(any_server(), &t, keys, limit, &b);
    same(a.count == b.count, &t, "another number of items");
    for (unsigned i = 0; i < a.count; i++) {
        same(a.items[i].rev == b.items[i].rev && tid_cmp(a.items[i].tid, b.items[i].tid) == 0, &t,
             "another revision is listed");
        same(str_eq(a.items[i].key, b.items[i].key), &t, "another key is listed");
    }
}

static void random_requests_have_the_same_answers(void **state)
{
    (void)state;
    const char *given = getenv("VALUES_SEED");
    if (given == NULL || !str_to_u64(str_of(given), &seed))
        seed = (uint64_t)clock_wall(the.clock).ns;
    print_message("VALUES_SEED=%" PRIu64 "\n", seed);
    for (unsigned i = 0; i < COUNT_OF(tids); i++)
        tids[i] = tid_make(tid_ticks(clock_store(&sides.clock)) + 30000000 * any(9), any(99));
    for (unsigned i = 0; i < STEPS; i++) {
        unsigned what = (unsigned)any(20);
        if (what < 9)
            do_put();
        else if (what < 13)
            do_read();
        else if (what < 16)
            do_delete();
        else if (what < 18)
            do_list();
        else if (any(12) == 0)
            sides_advance(26 * 3600 * NS_PER_S);
        else
            sides_advance((int64_t)any(3000) * NS_PER_MS);
        if (any(60) == 0)
            side_upkeep(any_server());
        side_clear(&sides.embedded);
        for (unsigned k = 0; k < SIDES_SERVERS; k++)
            side_clear(&sides.shared[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_requests_have_the_same_answers) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
