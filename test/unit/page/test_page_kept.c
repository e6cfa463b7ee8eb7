/* Goal: what is kept for editors is listed whole, by pages of any size, and taken away with the
 * room it took. Method: a service on a real store with pins and previews (stage.h). */
#include "stage.h"

#include "base/log.h"
#include "page/kept.h"
#include "page/quota.h"
#include "page/stash.h"

#include <stdio.h>
#include <string.h>

struct keeping {
    struct page_kept_removal removal;
    struct arena arena;
    struct awaited over;
};

static void list_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct keeping, removal.list.call)->over, ERR_OK);
}

static void removal_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct keeping, removal.call)->over, ERR_OK);
}

/* next: where to go on, and where the next goes on; in the arena that was there before. */
static err keep_run(struct stage *s, struct keeping *k, const char *title, unsigned limit, str from,
                    bool removes)
{
    memset(k, 0, sizeof *k);
    arena_init(&k->arena, 1 << 20);
    awaited_init(&k->over);
    struct page_kept_list *l = &k->removal.list;
    l->service = &s->service;
    l->domain = &s->domains[0];
    l->title = str_of(title);
    l->limit = limit;
    l->from = from;
    l->arena = &k->arena;
    l->call = (struct store_call){ .home = home_here(), .done = list_over };
    k->removal.call = (struct store_call){ .home = home_here(), .done = removal_over };
    enum store_start start = removes ? page_kept_remove(&k->removal) : page_kept_list(l);
    if (start == STORE_LATER)
        assert_int_equal(awaited_wait(&k->over), ERR_OK);
    awaited_fini(&k->over);
    return l->call.why != ERR_OK ? l->call.why : k->removal.call.why;
}

static void pin(struct stage *s, const char *title, uint64_t rev)
{
    struct page_order stash = { .kind = ORDER_STASH,
                                .has_rev = true,
                                .has_tid = true,
                                .name = stage_put(s, title, rev, "<p>") };
    assert_int_equal(stage_order(s, &stash, title), ERR_OK);
}

static void preview(struct stage *s, const char *key, uint64_t rev)
{
    const struct page_settings settings = s->settings;
    s->settings.bucket = s->service.previews;
    pin(s, key, rev + PAGE_PREVIEW_REVS);
    s->settings = settings;
}

static void what_is_kept(struct stage *s)
{
    stage_begin(s, false);
    pin(s, "A", 7);
    pin(s, "B", 7);
    preview(s, "A", 0);
    preview(s, "12#A", 7);
    (void)stage_put(s, "C", 7, "<p>");
}

static void pins_come_first_then_previews_whatever_the_page_holds(void **state)
{
    (void)state;
    static const struct {
        const char *bucket, *title, *user;
        uint64_t rev;
    } want[] = {
        { "page", "A", "", 7 }, { "page", "B", "", 7 }, { NULL, "A", "12", 7 }, { NULL, "A", "", 0 }
    };
    struct stage s;
    struct keeping k;
    what_is_kept(&s);
    for (unsigned limit = 1; limit < 6; limit++) {
        char token[64];
        str from = STR("");
        unsigned n = 0;
        do {
            assert_int_equal(keep_run(&s, &k, "", limit, from, false), ERR_OK);
            const struct page_kept_list *l = &k.removal.list;
            for (unsigned i = 0; i < l->count; i++, n++) {
                const struct page_kept *kept = &l->items[i];
                assert_true(n < COUNT_OF(want));
                assert_int_equal(kept->bucket_name == NULL, want[n].bucket == NULL);
                assert_true(str_eq(kept->title, str_of(want[n].title)));
                assert_true(str_eq(kept->user, str_of(want[n].user)));
                assert_int_equal(kept->name.rev, want[n].rev);
                assert_true(kept->bytes > 3);
            }
            assert_true(l->next.n <= sizeof token);
            memcpy(token, l->next.n > 0 ? l->next.p : token, l->next.n);
            from = (str){ .p = token, .n = l->next.n };
            arena_fini(&k.arena);
        } while (from.n > 0);
        assert_int_equal(n, COUNT_OF(want));
    }
    assert_int_equal(keep_run(&s, &k, "A", 9, STR(""), false), ERR_OK);
    assert_int_equal(k.removal.list.count, 3);
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "C", 9, STR(""), false), ERR_OK);
    assert_int_equal(k.removal.list.count, 0);
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "", 9, STR("\xff"), false), ERR_BAD);
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "", 9, STR("\0x"), false), ERR_BAD); /* the store's own */
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "", UINT32_MAX, STR(""), false), ERR_LIMIT);
    arena_fini(&k.arena);
    struct page_bucket *previews = s.service.previews;
    s.service.previews = NULL; /* no domain has an origin */
    assert_int_equal(keep_run(&s, &k, "", 9, STR(""), false), ERR_OK);
    assert_int_equal(k.removal.list.count, 2);
    arena_fini(&k.arena);
    s.service.previews = previews;
    stage_end(&s);
}

static void what_is_taken_away_gives_its_room_back(void **state)
{
    (void)state;
    struct stage s;
    struct keeping k;
    what_is_kept(&s);
    assert_int_equal(keep_run(&s, &k, "B", 9, STR(""), true), ERR_OK);
    assert_int_equal(k.removal.removed, 1);
    uint64_t one = k.removal.bytes;
    arena_fini(&k.arena);
    assert_true(one > 3);
    assert_true(page_stash_take(&s.service, 100000 - one));
    assert_false(page_stash_take(&s.service, 2 * one));
    assert_int_equal(keep_run(&s, &k, "", 2, STR(""), true), ERR_OK);
    assert_int_equal(k.removal.removed, 2);
    assert_true(k.removal.list.next.n > 0);
    arena_fini(&k.arena);
    assert_true(page_stash_take(&s.service, 2 * one)); /* all but what ran out meanwhile */
    assert_int_equal(keep_run(&s, &k, "", 9, STR(""), true), ERR_OK);
    assert_int_equal(k.removal.removed, 1);
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "", 9, STR(""), true), ERR_OK);
    assert_int_equal(k.removal.removed, 0);
    arena_fini(&k.arena);
    assert_int_equal(keep_run(&s, &k, "", 9, STR("\xff"), true), ERR_BAD);
    arena_fini(&k.arena);
    stage_end(&s);
}

static void a_pin_and_a_preview_have_one_shape(void **state)
{
    (void)state;
    struct buf b;
    struct page_kept k = { .bucket_name = "page",
                           .title = STR("A \"b\""),
                           .name = { .rev = 7 },
                           .until = { .ns = NS_PER_S },
                           .bytes = 5 };
    const char *tail = ",\"until\":\"1970-01-01T00:00:01.000Z\",\"bytes\":5}";
    buf_init(&b, 1000);
    page_kept_json(&b, &k);
    str text = buf_str(&b);
    assert_true(str_starts(
        text, STR("{\"kind\":\"pin\",\"bucket\":\"page\",\"title\":\"A \\\"b\\\"\",\"rev\":7,")));
    assert_true(str_find_str(text, STR(",\"user\":null,")) < text.n);
    assert_true(str_ends(text, str_of(tail)));
    buf_clear(&b);
    k.bucket_name = NULL;
    k.user = STR("12");
    page_kept_json(&b, &k);
    text = buf_str(&b);
    assert_true(str_starts(text, STR("{\"kind\":\"preview\",\"bucket\":null,")));
    assert_true(str_find_str(text, STR(",\"user\":12,")) < text.n);
    buf_fini(&b);
}

static void previews_have_keys_that_no_title_has(void **state)
{
    (void)state;
    struct arena a;
    str user, title;
    arena_init(&a, 1024);
    page_preview_split(page_preview_key(&a, 12, STR("T")), &user, &title);
    assert_true(str_eq(user, STR("12")) && str_eq(title, STR("T")));
    page_preview_split(page_preview_key(&a, 0, STR("T")), &user, &title);
    assert_true(user.n == 0 && str_eq(title, STR("T")));
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_come_first_then_previews_whatever_the_page_holds),
        cmocka_unit_test(what_is_taken_away_gives_its_room_back),
        cmocka_unit_test(a_pin_and_a_preview_have_one_shape),
        cmocka_unit_test(previews_have_keys_that_no_title_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
