/* Goal: facts and bytes of titles come back as they were written; what a write that broke off left
 * is not found; deletions spare what came later.
 * Method: a real Cassandra (real.h). */
#include "../cmocka_all.h"
#include "real.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- calls ---- */

static struct titles_key key_of(const char *title)
{
    return (struct titles_key){ .bucket = STR("page"),
                                .domain = STR("en.wikipedia.org"),
                                .title = str_of(title) };
}

static err load(struct titles_load *l, const char *title, struct arena *a)
{
    *l = (struct titles_load){ .call = real_call(), .key = key_of(title), .arena = a };
    assert_int_equal(titles_load(the.titles, l), STORE_LATER);
    real_wait("a load");
    return l->call.why;
}

static err append(const char *title, const struct fact *facts, unsigned count,
                  const struct titles_bytes *bytes, struct arena *arena)
{
    struct titles_append a = { .call = real_call(),
                               .key = key_of(title),
                               .facts = facts,
                               .facts_count = count,
                               .bytes = bytes,
                               .arena = arena };
    assert_int_equal(titles_append(the.titles, &a), STORE_LATER);
    real_wait("an append");
    if (a.call.why != ERR_OK)
        print_message("%s\n", a.note.text);
    return a.call.why;
}

static store_time at_s(int64_t s)
{
    return (store_time){ .ns = s * NS_PER_S };
}

/* A render of one content of so many bytes. */
struct render {
    struct fact fact;
    struct page_content content;
    struct titles_bytes bytes;
    char *blob;
};

static void render_init(struct render *r, uint64_t rev, int64_t at, size_t n)
{
    memset(r, 0, sizeof *r);
    r->blob = malloc(n + 1);
    assert_non_null(r->blob);
    for (size_t i = 0; i < n; i++)
        r->blob[i] = (char)((i + rev) * 2654435761u >> 9);
    (void)snprintf(r->content.name, sizeof r->content.name, "html");
    r->content.stored_bytes = r->content.raw_bytes = (uint32_t)n;
    r->content.sum = XXH3_64bits(r->blob, n);
    r->fact = (struct fact){ .what = FACT_PUT,
                             .srv = 7,
                             .at = at_s(at),
                             .name = { .rev = rev, .tid = tid_make(tid_ticks(at_s(at)), rev) },
                             .said_at = at_s(at),
                             .contents = &r->content,
                             .contents_count = 1 };
    memset(r->fact.digest, (int)rev, sizeof r->fact.digest);
    r->bytes = (struct titles_bytes){ .name = r->fact.name,
                                      .digest = r->fact.digest,
                                      .contents = &r->content,
                                      .contents_count = 1,
                                      .blob = { .p = r->blob, .n = n } };
}

static err body(const struct render *r, const char *title, struct arena *a, str *out)
{
    struct titles_body b = { .call = real_call(),
                             .key = key_of(title),
                             .name = r->fact.name,
                             .digest = r->fact.digest,
                             .content = &r->content,
                             .arena = a };
    assert_int_equal(titles_body(the.titles, &b), STORE_LATER);
    real_wait("a body");
    *out = b.bytes;
    return b.call.why;
}

/* ---- tests ---- */

static void the_schema_is_made_once(void **state)
{
    (void)state;
    real_look();
    assert_int_equal(the.why, ERR_OK);
    assert_int_equal(the.version, 0);
    real_apply();
    if (the.why != ERR_OK)
        fail_msg("%s", the.note);
    assert_int_equal(the.version, SCHEMA_VERSION);
    real_apply(); /* nothing is missing */
    assert_int_equal(the.why, ERR_OK);
    real_look();
    assert_int_equal(the.version, SCHEMA_VERSION);
}

static void facts_come_back(void **state)
{
    (void)state;
    struct arena a;
    struct titles_load l;
    struct render r;
    arena_init(&a, 64 << 20);
    render_init(&r, 5, 1000, 20000);
    const struct fact facts[] = {
        r.fact,
        { .what = FACT_HOLD,
          .srv = 7,
          .at = at_s(1000),
          .n = 1,
          .name = r.fact.name,
          .until = at_s(9000) },
        { .what = FACT_SUPPRESSED,
          .srv = 7,
          .at = at_s(1001),
          .name = { .rev = 3 },
          .rev_last = 4,
          .said_at = at_s(999) },
        { .what = FACT_FENCE, .srv = 8, .at = at_s(500), .joined_at = at_s(1002) },
    };
    assert_int_equal(load(&l, "Nothing", &a), ERR_OK);
    assert_int_equal(l.facts_count, 0);
    for (unsigned times = 0; times < 2; times++) { /* twice is once */
        assert_int_equal(append("Facts", facts, COUNT_OF(facts), &r.bytes, &a), ERR_OK);
        assert_int_equal(load(&l, "Facts", &a), ERR_OK);
        assert_int_equal(l.facts_count, COUNT_OF(facts));
    }
    for (unsigned i = 0; i < COUNT_OF(facts); i++) {
        char want[FACT_BYTES_MAX], got[FACT_BYTES_MAX];
        bool found = false;
        for (unsigned k = 0; k < l.facts_count; k++)
            found |= str_eq(fact_encode(&facts[i], want), fact_encode(&l.facts[k], got));
        assert_true(found);
    }
    free(r.blob);
    arena_fini(&a);
}

static void many_facts_come_in_pages(void **state)
{
    (void)state;
    struct arena a;
    struct titles_load l;
    struct fact facts[50];
    arena_init(&a, 64 << 20);
    for (unsigned batch = 0; batch < 24; batch++) {
        for (unsigned i = 0; i < COUNT_OF(facts); i++)
            facts[i] = (struct fact){ .what = FACT_PURGE,
                                      .srv = 1,
                                      .at = at_s(2000 + batch),
                                      .n = i,
                                      .name = { .rev = batch * 100 + i } };
        assert_int_equal(append("Many", facts, COUNT_OF(facts), NULL, &a), ERR_OK);
    }
    assert_int_equal(load(&l, "Many", &a), ERR_OK);
    assert_int_equal(l.facts_count, 24 * COUNT_OF(facts));
    l = (struct titles_load){
        .call = real_call(), .key = key_of("Many"), .arena = &a, .facts_max = 100
    };
    assert_int_equal(titles_load(the.titles, &l), STORE_LATER);
    real_wait("a load");
    assert_int_equal(l.call.why, ERR_LIMIT);
    arena_fini(&a);
}

static void bytes_of_every_size_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, TITLES_CHUNK_BYTES, TITLES_CHUNK_BYTES + 1, TITLES_BATCH_BYTES - 1, 9 << 20
    };
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        struct arena a;
        struct titles_load l;
        struct render r;
        str got;
        arena_init(&a, 64 << 20);
        render_init(&r, i + 1, 3000 + i, sizes[i]);
        assert_int_equal(append("Sizes", &r.fact, 1, &r.bytes, &a), ERR_OK);
        assert_int_equal(body(&r, "Sizes", &a, &got), ERR_OK);
        assert_int_equal(got.n, sizes[i]);
        assert_memory_equal(got.p, r.blob, sizes[i]);
        assert_int_equal(load(&l, "Sizes", &a), ERR_OK);
        assert_int_equal(l.facts_count, i + 1);
        free(r.blob);
        arena_fini(&a);
    }
}

static void bytes_that_are_others_are_not_given(void **state)
{
    (void)state;
    struct arena a;
    struct render r;
    str got;
    arena_init(&a, 64 << 20);
    render_init(&r, 1, 4000, 1000);
    assert_int_equal(body(&r, "Other", &a, &got), ERR_NOT_FOUND);
    assert_int_equal(append("Other", &r.fact, 1, &r.bytes, &a), ERR_OK);
    r.content.sum++;
    assert_int_equal(body(&r, "Other", &a, &got), ERR_CORRUPT);
    r.content.sum--;
    r.fact.digest[0]++; /* another render of the same name */
    assert_int_equal(body(&r, "Other", &a, &got), ERR_NOT_FOUND);
    free(r.blob);
    arena_fini(&a);
}

static err cull(const char *title, const struct title_cull *c)
{
    const str html = STR("html");
    struct titles_cull q = {
        .call = real_call(), .key = key_of(title), .cull = c, .contents = &html, .contents_count = 1
    };
    assert_int_equal(titles_cull(the.titles, &q), STORE_LATER);
    real_wait("a cull");
    if (q.call.why != ERR_OK)
        print_message("%s\n", q.note.text);
    return q.call.why;
}

static void a_cull_spares_what_came_later(void **state)
{
    (void)state;
    struct arena a;
    struct render old, mid, late;
    str got;
    arena_init(&a, 64 << 20);
    render_init(&old, 1, 5000, 100);
    render_init(&mid, 2, 5010, 100);
    render_init(&late, 1, 5020, 100); /* of the old revision, put later */
    assert_int_equal(append("Cull", &old.fact, 1, &old.bytes, &a), ERR_OK);
    assert_int_equal(append("Cull", &mid.fact, 1, &mid.bytes, &a), ERR_OK);
    struct title_range range = { page_name_low(1), page_name_high(1) };
    const struct title_cull c = { .at = at_s(5015), .ranges = &range, .count = 1 };
    assert_int_equal(cull("Cull", &c), ERR_OK);
    assert_int_equal(append("Cull", &late.fact, 1, &late.bytes, &a), ERR_OK); /* arrives last */
    assert_int_equal(cull("Cull", &c), ERR_OK);
    assert_int_equal(body(&old, "Cull", &a, &got), ERR_NOT_FOUND);
    assert_int_equal(body(&mid, "Cull", &a, &got), ERR_OK);
    assert_int_equal(body(&late, "Cull", &a, &got), ERR_OK);
    free(old.blob);
    free(mid.blob);
    free(late.blob);
    arena_fini(&a);
}

static void a_cull_of_all_names_takes_all(void **state)
{
    (void)state;
    struct arena a;
    struct render one;
    str got;
    arena_init(&a, 64 << 20);
    render_init(&one, 7, 5500, 100);
    assert_int_equal(append("Cull_all", &one.fact, 1, &one.bytes, &a), ERR_OK);
    struct title_range range = { page_name_first, page_name_last };
    const struct title_cull c = { .at = at_s(5600), .ranges = &range, .count = 1 };
    assert_int_equal(cull("Cull_all", &c), ERR_OK);
    assert_int_equal(body(&one, "Cull_all", &a, &got), ERR_NOT_FOUND);
    free(one.blob);
    arena_fini(&a);
}

static void facts_that_are_forgotten_are_gone(void **state)
{
    (void)state;
    struct arena a;
    struct titles_load l;
    struct render one, two;
    arena_init(&a, 64 << 20);
    render_init(&one, 1, 6000, 10);
    render_init(&two, 2, 6010, 10);
    assert_int_equal(append("Forget", &one.fact, 1, NULL, &a), ERR_OK);
    assert_int_equal(append("Forget", &two.fact, 1, NULL, &a), ERR_OK);
    const struct fact *gone = &one.fact;
    struct titles_forget f = { .call = real_call(),
                               .key = key_of("Forget"),
                               .facts = &gone,
                               .facts_count = 1,
                               .horizon = at_s(6005) };
    assert_int_equal(titles_forget(the.titles, &f), STORE_LATER);
    real_wait("a forget");
    assert_int_equal(f.call.why, ERR_OK);
    assert_int_equal(load(&l, "Forget", &a), ERR_OK);
    assert_int_equal(l.facts_count, 1);
    assert_int_equal(l.facts[0].name.rev, 2);
    free(one.blob);
    free(two.blob);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_is_made_once),
        cmocka_unit_test(facts_come_back),
        cmocka_unit_test(many_facts_come_in_pages),
        cmocka_unit_test(bytes_of_every_size_come_back),
        cmocka_unit_test(bytes_that_are_others_are_not_given),
        cmocka_unit_test(a_cull_spares_what_came_later),
        cmocka_unit_test(a_cull_of_all_names_takes_all),
        cmocka_unit_test(facts_that_are_forgotten_are_gone),
    };
    return cmocka_run_group_tests(tests, real_setup, real_teardown);
}
