/* Goal: a listing in parts is the listing; tokens of other listings and forged ones are refused.
 * Method: the store's own operation, with every size of a part; damage to each byte of a token. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

enum { TITLES = 5, REVS = 4, TOLD_MAX = 64, TOKEN_BYTES_MAX = 600 };

struct told {
    unsigned count, room;
    char what[TOLD_MAX][PAGE_TITLE_BYTES_MAX + 8];
};

static bool tell(void *ctx, str title, const struct page_render *r)
{
    struct told *t = ctx;
    if (t->room == 0)
        return false;
    t->room--;
    assert_true(t->count < TOLD_MAX);
    (void)snprintf(t->what[t->count++], sizeof t->what[0], "%.*s %llu", STR_ARG(title),
                   (unsigned long long)r->name.rev);
    return true;
}

/* Titles T0 ... of a domain, each with its revisions; those of even titles are stashed. */
static struct fixture *filled(void)
{
    struct fixture *f = fixture_new(fix_policy(POLICY_ALL));
    char title[8];
    for (unsigned i = 0; i < TITLES; i++)
        for (unsigned rev = 1; rev <= REVS; rev++) {
            struct page_put p = { .domain = f->domain,
                                  .rev = rev,
                                  .contents_count = 1,
                                  .stash_ns = i % 2 == 0 ? HOUR : 0 };
            (void)snprintf(title, sizeof title, "T%u", i);
            p.title = str_of(title);
            p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = STR("x") };
            assert_int_equal(sync_put(f->bucket, &p), ERR_OK);
        }
    return f;
}

struct lister {
    struct page_store *store;
    struct page_list list;
    struct told told;
    struct arena arena;
};

static void lister_open(struct lister *l, struct fixture *f, enum page_list_what what)
{
    *l = (struct lister){ .store = pages_store(f->pages) };
    l->list = (struct page_list){ .bucket = f->bucket,
                                  .what = what,
                                  .domain = f->domain,
                                  .title = what == LIST_HISTORY ? STR("T1") : STR(""),
                                  .from = STR(""),
                                  .steps = 10000,
                                  .each = { .render = tell, .ctx = &l->told },
                                  .arena = &l->arena };
    arena_init(&l->arena, 1 << 20);
}

/* All of it, in parts of so many. */
static void list_in_parts(struct lister *l, unsigned part)
{
    l->told.count = 0;
    l->list.from = STR("");
    do {
        l->told.room = part;
        assert_int_equal(page_store_list(l->store, &l->list), STORE_DONE);
        assert_int_equal(l->list.call.why, ERR_OK);
        l->list.from = l->list.next;
    } while (l->list.next.n > 0);
}

static const enum page_list_what kinds[] = { LIST_HISTORY, LIST_TITLES, LIST_STASHES };

static void parts_are_the_whole(void **state)
{
    (void)state;
    static struct lister l;
    static struct told whole;
    struct fixture *f = filled();
    static const unsigned counts[] = { REVS, TITLES, 3 * REVS };
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        lister_open(&l, f, kinds[k]);
        list_in_parts(&l, TOLD_MAX);
        assert_int_equal(l.told.count, counts[k]);
        whole = l.told;
        for (unsigned part = 1; part <= counts[k] + 1; part++) {
            list_in_parts(&l, part);
            assert_int_equal(l.told.count, whole.count);
            for (unsigned i = 0; i < whole.count; i++)
                assert_string_equal(l.told.what[i], whole.what[i]);
        }
        arena_fini(&l.arena);
    }
    fixture_free(f);
}

static void a_walk_that_ran_out_of_steps_goes_on(void **state)
{
    (void)state;
    static struct lister l;
    struct fixture *f = filled();
    unsigned parts = 0;
    lister_open(&l, f, LIST_STASHES);
    do {
        l.told.room = TOLD_MAX;
        l.list.steps = 3;
        assert_int_equal(page_store_list(l.store, &l.list), STORE_DONE);
        assert_int_equal(l.list.call.why, ERR_OK);
        l.list.from = l.list.next;
        parts++;
    } while (l.list.next.n > 0);
    assert_int_equal(l.told.count, 3 * REVS);
    assert_int_equal(parts, (TITLES * REVS + 2) / 3);
    arena_fini(&l.arena);
    fixture_free(f);
}

static err list_from(struct lister *l, str from)
{
    l->told.count = 0;
    l->told.room = TOLD_MAX;
    l->list.from = from;
    assert_int_equal(page_store_list(l->store, &l->list), STORE_DONE);
    return l->list.call.why;
}

static void tokens_of_others_are_refused(void **state)
{
    (void)state;
    static struct lister l;
    struct fixture *f = filled();
    char tokens[COUNT_OF(kinds)][TOKEN_BYTES_MAX];
    size_t sizes[COUNT_OF(kinds)];
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        lister_open(&l, f, kinds[k]);
        l.told.room = 1;
        assert_int_equal(page_store_list(l.store, &l.list), STORE_DONE);
        sizes[k] = l.list.next.n;
        assert_true(sizes[k] > 1 && sizes[k] <= TOKEN_BYTES_MAX);
        memcpy(tokens[k], l.list.next.p, sizes[k]);
        arena_fini(&l.arena);
    }
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        lister_open(&l, f, kinds[k]);
        for (size_t other = 0; other < COUNT_OF(kinds); other++)
            assert_int_equal(list_from(&l, (str){ tokens[other], sizes[other] }),
                             other == k ? ERR_OK : ERR_BAD);
        assert_int_equal(list_from(&l, STR("x")), ERR_BAD);
        arena_fini(&l.arena);
    }
    lister_open(&l, f, LIST_HISTORY);
    for (size_t n = 2; n < sizes[0]; n++)
        assert_int_equal(list_from(&l, (str){ tokens[0], n }), ERR_BAD);
    memset(tokens[0] + 1, 0, 8); /* no revision */
    assert_int_equal(list_from(&l, (str){ tokens[0], sizes[0] }), ERR_BAD);
    memset(tokens[0] + 1, 0xff, 8); /* nor one so great */
    assert_int_equal(list_from(&l, (str){ tokens[0], sizes[0] }), ERR_BAD);
    arena_fini(&l.arena);
    lister_open(&l, f, LIST_STASHES);
    memset(tokens[2] + 9, 0xff, 8); /* a tid that cannot be */
    assert_int_equal(list_from(&l, (str){ tokens[2], sizes[2] }), ERR_BAD);
    arena_fini(&l.arena);
    fixture_free(f);
}

/* Its reader may have enough before the first, and then goes on there. */
static void a_token_may_be_of_the_beginning(void **state)
{
    (void)state;
    static struct lister l;
    struct fixture *f = filled();
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        lister_open(&l, f, kinds[k]);
        list_in_parts(&l, TOLD_MAX);
        unsigned count = l.told.count;
        l.told.room = 0;
        l.list.from = STR("");
        assert_int_equal(page_store_list(l.store, &l.list), STORE_DONE);
        assert_true(l.list.next.n > 0);
        assert_int_equal(list_from(&l, l.list.next), ERR_OK);
        assert_int_equal(l.told.count, count);
        arena_fini(&l.arena);
    }
    fixture_free(f);
}

static void what_has_no_room_for_its_token_is_a_limit(void **state)
{
    (void)state;
    static struct lister l;
    struct fixture *f = filled();
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        lister_open(&l, f, kinds[k]);
        arena_fini(&l.arena);
        arena_init(&l.arena, 0);
        l.told.room = 1;
        assert_int_equal(page_store_list(l.store, &l.list), STORE_DONE);
        assert_int_equal(l.list.call.why, ERR_LIMIT);
        arena_fini(&l.arena);
    }
    fixture_free(f);
}

static void an_explanation_comes_through_the_store(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(fix_policy(POLICY_APP_TTL));
    struct page_name name = fix_put(f, 3, -1);
    struct page_explain x = {
        .bucket = f->bucket,
        .which = { .domain = f->domain, .title = STR("T"), .select = SELECT_EXACT, .name = name }
    };
    assert_int_equal(page_store_explain(pages_store(f->pages), &x), STORE_DONE);
    assert_int_equal(x.call.why, ERR_OK);
    assert_int_equal(x.is.state, PAGE_CURRENT);
    assert_name(x.is.render.name, name);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(a_walk_that_ran_out_of_steps_goes_on),
        cmocka_unit_test(tokens_of_others_are_refused),
        cmocka_unit_test(a_token_may_be_of_the_beginning),
        cmocka_unit_test(what_has_no_room_for_its_token_is_a_limit),
        cmocka_unit_test(an_explanation_comes_through_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
