/* Goal: the seam. What is in memory is read at once; what is not, on the pool, behind a pin, and
 * its reader goes on at its home, once. Only what the caller chose is read. Method: the store's own
 * operations, on an engine in memory whose reads turn cold; pool and home are lists that the test
 * runs. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

/* A home whose tasks run when the test says so. */
struct list_home {
    struct home home;
    struct task_list tasks;
    unsigned posted;
};

static void list_post(struct home *h, struct task *t)
{
    struct list_home *l = CONTAINER_OF(h, struct list_home, home);
    (void)task_list_put(&l->tasks, t);
    l->posted++;
}

static unsigned list_run(struct list_home *l)
{
    unsigned ran = 0;
    for (struct task *t = task_list_take(&l->tasks); t != NULL; t = task_list_take(&l->tasks)) {
        t->run(t);
        ran++;
    }
    return ran;
}

struct reader {
    struct page_read read;
    struct arena arena;
    unsigned done, asked;
    unsigned bits; /* what choose answers */
};

static void read_done(struct store_call *c)
{
    CONTAINER_OF(c, struct reader, read.call)->done++;
}

static unsigned choose(struct page_read *r)
{
    struct reader *k = CONTAINER_OF(r, struct reader, read);
    assert_true(r->found);
    k->asked++;
    return k->bits;
}

static const str names[] = { { "html", 4 }, { "none", 4 }, { "data", 4 } };
static const str bodies[] = { { "<p>one", 6 }, { NULL, 0 }, { "{\"a\":1}", 7 } };

/* One title with two contents. */
struct seam {
    struct fixture *f;
    struct page_store *store;
    struct list_home pool, home;
    struct reader r;
};

static void seam_open(struct seam *s, bool pool)
{
    struct page_put p = { .title = STR("T"), .rev = 3, .contents_count = 2 };
    *s = (struct seam){ .f = fixture_new(fix_policy(POLICY_APP_TTL)),
                        .pool.home.post = list_post,
                        .home.home.post = list_post };
    s->store = pages_store(s->f->pages);
    if (pool)
        pages_read_on(s->f->pages, &s->pool.home);
    p.domain = s->f->domain;
    for (unsigned i = 0; i < 2; i++)
        p.contents[i] = (struct page_put_content){ .name = names[2 * i],
                                                   .headers = STR("content-type: text/x\n"),
                                                   .raw = bodies[2 * i] };
    assert_int_equal(sync_put(s->f->bucket, &p), ERR_OK);
    s->r.read = (struct page_read){ .call = { .home = &s->home.home, .done = read_done },
                                    .bucket = page_store_bucket(s->store, STR("page")),
                                    .which = { .domain = s->f->domain, .title = STR("T") },
                                    .arena = &s->r.arena,
                                    .wanted_count = COUNT_OF(names) };
    memcpy(s->r.read.wanted, names, sizeof names);
    arena_init(&s->r.arena, 1 << 16);
}

static void seam_close(struct seam *s)
{
    assert_int_equal(engine_mem_pins(s->f->engine), 0);
    arena_fini(&s->r.arena);
    fixture_free(s->f);
}

static void assert_bodies(const struct seam *s, unsigned bits)
{
    const struct page_read *r = &s->r.read;
    struct arena a;
    arena_init(&a, 1 << 16);
    assert_int_equal(r->call.why, ERR_OK);
    assert_int_equal(r->render.name.rev, 3);
    assert_true(r->contents[0] != NULL && r->contents[1] == NULL && r->contents[2] != NULL);
    for (unsigned i = 0; i < COUNT_OF(names); i++) {
        const struct page_body *b = &r->bodies[i];
        str raw;
        assert_int_equal(b->pieces_count > 0, (bits & BIT(i)) != 0);
        if (b->pieces_count == 0)
            continue;
        assert_int_equal(page_body_raw(b, &a, &raw), ERR_OK);
        assert_true(str_eq(raw, bodies[i]));
        assert_true(str_eq(b->headers, STR("content-type: text/x\n")));
    }
    arena_fini(&a);
}

static void what_is_in_memory_is_read_at_once(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    assert_bodies(&s, 5);
    assert_int_equal(s.r.done, 0);
    assert_int_equal(s.pool.posted + s.home.posted, 0);
    seam_close(&s);
}

static void what_is_not_is_read_on_the_pool_behind_a_pin(void **state)
{
    (void)state;
    struct seam s;
    for (unsigned warm = 0; warm < 2; warm++) { /* the first content, too; or the second alone */
        seam_open(&s, true);
        engine_mem_cold(s.f->engine, warm, 1);
        assert_int_equal(page_store_read(s.store, &s.r.read), STORE_LATER);
        assert_int_equal(engine_mem_pins(s.f->engine), 1);
        assert_int_equal(s.r.done, 0);
        assert_int_equal(list_run(&s.pool), 1);
        assert_int_equal(engine_mem_pins(s.f->engine), 0);
        assert_int_equal(s.r.done, 0);
        assert_int_equal(list_run(&s.home), 1);
        assert_int_equal(s.r.done, 1);
        assert_bodies(&s, 5);
        seam_close(&s);
    }
}

static void a_read_that_is_canceled_reads_nothing_and_is_done(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    engine_mem_cold(s.f->engine, 0, 1);
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_LATER);
    store_cancel(&s.r.read.call);
    assert_int_equal(list_run(&s.pool), 1);
    assert_int_equal(engine_mem_pins(s.f->engine), 0);
    assert_int_equal(list_run(&s.home), 1);
    assert_int_equal(s.r.done, 1);
    assert_int_equal(s.r.read.call.why, ERR_TIMEOUT);
    assert_int_equal(s.r.read.bodies[0].pieces_count, 0);
    seam_close(&s);
}

static void without_a_pool_the_caller_waits(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, false);
    engine_mem_cold(s.f->engine, 0, 2);
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    assert_bodies(&s, 5);
    seam_close(&s);
}

static void only_what_was_chosen_is_read(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    s.r.read.choose = choose;
    for (unsigned bits = 0; bits < 8; bits++) {
        s.r.bits = bits;
        assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
        assert_bodies(&s, bits & 5);
    }
    assert_int_equal(s.r.asked, 8);
    s.r.read.which.title = STR("U"); /* of what is not there nothing is chosen */
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    assert_int_equal(s.r.read.call.why, ERR_NOT_FOUND);
    assert_false(s.r.read.found);
    assert_int_equal(s.r.asked, 8);
    seam_close(&s);
}

static void a_read_that_fails_says_so_in_both_ways(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    char *filler;
    while ((filler = arena_alloc(&s.r.arena, 2048)) != NULL)
        memset(filler, 0, 2048);
    while (arena_alloc(&s.r.arena, 16) != NULL)
        continue;
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    assert_true(s.r.read.found);
    assert_int_equal(s.r.read.call.why, ERR_LIMIT);
    assert_int_equal(engine_mem_pins(s.f->engine), 0);
    seam_close(&s);
}

static void done_runs_where_the_caller_wants_it(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    store_call_then(page_store_read(s.store, &s.r.read), &s.r.read.call);
    assert_int_equal(s.r.done, 1);
    store_call_post(page_store_read(s.store, &s.r.read), &s.r.read.call);
    assert_int_equal(s.r.done, 1);
    assert_int_equal(list_run(&s.home), 1);
    assert_int_equal(s.r.done, 2);
    engine_mem_cold(s.f->engine, 0, 1);
    store_call_post(page_store_read(s.store, &s.r.read), &s.r.read.call);
    assert_int_equal(list_run(&s.home), 0);
    assert_int_equal(list_run(&s.pool), 1);
    assert_int_equal(list_run(&s.home), 1);
    assert_int_equal(s.r.done, 3);
    seam_close(&s);
}

static void a_read_says_how_long_it_lasts(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    struct page_name old = fix_put(s.f, 2, -1);
    s.r.read.which.select = SELECT_EXACT;
    s.r.read.which.name = old;
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    store_time now = { s.f->clock.now_ns };
    assert_true(store_time_before(s.r.read.lasts_until, now));
    assert_true(page_wants_extension(s.f->bucket, &s.r.read.render, now));
    seam_close(&s);
}

/* ---- writing ---- */

struct writer {
    struct page_put put;
    struct arena arena;
    char text[64];
    unsigned filled, done;
    err fill; /* what fill answers */
};

static err fill_with_tid(struct page_put *p)
{
    struct writer *w = CONTAINER_OF(p, struct writer, put);
    char tid[TID_TEXT_BYTES + 1];
    tid_format(p->tid, tid);
    (void)snprintf(w->text, sizeof w->text, "made as %s", tid);
    p->contents[0] = (struct page_put_content){ .name = STR("html"), .raw = str_of(w->text) };
    w->filled++;
    return w->fill;
}

static void write_done(struct store_call *c)
{
    CONTAINER_OF(c, struct writer, put.call)->done++;
}

static void write_start(struct seam *s, struct writer *w, int64_t began_s, int64_t fence_s)
{
    w->put = (struct page_put){ .call = { .home = &s->home.home, .done = write_done },
                                .bucket = s->f->bucket,
                                .domain = s->f->domain,
                                .title = STR("T"),
                                .rev = 7,
                                .began = { T0 + began_s * NS_PER_S },
                                .fence = { fence_s < 0 ? 0 : T0 + fence_s * NS_PER_S },
                                .random = 5,
                                .fill = fill_with_tid,
                                .contents_count = 1,
                                .arena = &w->arena };
    arena_init(&w->arena, 1 << 20);
}

static struct page_name written(struct seam *s, int64_t began_s, int64_t fence_s)
{
    struct writer w = { .fill = ERR_OK };
    write_start(s, &w, began_s, fence_s);
    assert_int_equal(page_store_put(s->store, &w.put), STORE_LATER);
    while (w.done == 0)
        (void)list_run(&s->home);
    assert_int_equal(w.put.call.why, ERR_OK);
    assert_int_equal(w.filled, 1);
    assert_int_equal(tid_cmp(w.put.stored.tid, w.put.tid), 0);
    struct page_name name = w.put.stored;
    arena_fini(&w.arena);
    return name;
}

static void a_put_makes_its_tid_before_its_bytes(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    fake_clock_advance(&s.f->clock, 100 * NS_PER_S);
    struct page_name first = written(&s, 10, -1);
    assert_int_equal(tid_time(first.tid).ns, T0 + 10 * NS_PER_S);
    struct page_name second = written(&s, 10, -1); /* greater than all there were */
    assert_true(tid_cmp(second.tid, first.tid) > 0);
    struct page_name fenced = written(&s, 20, 30);
    assert_int_equal(tid_time(fenced.tid).ns, T0 + 30 * NS_PER_S);
    struct page_order o = { .elsewhere = false };
    assert_int_equal(fix_order(s.f, ORDER_PURGE, (struct page_name){ .rev = 7 }, &o), ERR_OK);
    fake_clock_advance(&s.f->clock, 100 * NS_PER_S);
    struct page_name again = written(&s, 150, 90); /* the fence was purged */
    assert_int_equal(tid_time(again.tid).ns, T0 + 150 * NS_PER_S);
    seam_close(&s);
}

static void what_is_wrong_at_once_is_told_at_once(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    fake_clock_advance(&s.f->clock, 100 * NS_PER_S);
    struct writer w = { .fill = ERR_FULL };
    write_start(&s, &w, 10, -1);
    assert_int_equal(page_store_put(s.store, &w.put), STORE_DONE);
    assert_int_equal(w.put.call.why, ERR_FULL);
    w.fill = ERR_OK;
    w.put.rev = 0;
    assert_int_equal(page_store_put(s.store, &w.put), STORE_DONE);
    assert_int_equal(w.put.call.why, ERR_BAD);
    assert_true(w.put.note.text[0] != 0);
    struct page_order o = { .elsewhere = false };
    assert_int_equal(fix_order(s.f, ORDER_PURGE, (struct page_name){ .rev = 7 }, &o), ERR_OK);
    w.put.rev = 7; /* its making began before the purge */
    assert_int_equal(page_store_put(s.store, &w.put), STORE_DONE);
    assert_int_equal(w.put.call.why, ERR_GONE);
    assert_int_equal(w.done, 0);
    arena_fini(&w.arena);
    seam_close(&s);
}

static void a_mark_that_changes_nothing_writes_nothing(void **state)
{
    (void)state;
    struct seam s;
    seam_open(&s, true);
    struct title_mark mark = {
        .state = PAGE_DELETED, .first = 4, .last = PAGE_REV_MAX, .said_at = { T0 + NS_PER_S }
    };
    struct page_hear h = {
        .domain = s.f->domain, .title = STR("T"), .marks = &mark, .marks_count = 1
    };
    unsigned told = s.f->told;
    assert_int_equal(page_store_hear(s.store, &h), STORE_DONE);
    assert_int_equal(h.call.why, ERR_OK);
    assert_int_equal(s.f->told, told);
    mark.first = 3;
    assert_int_equal(sync_hear(s.f->pages, &h), ERR_OK);
    assert_int_equal(s.f->told, told + 1);
    assert_int_equal(page_store_read(s.store, &s.r.read), STORE_DONE);
    assert_int_equal(s.r.read.call.why, ERR_GONE);
    assert_int_equal(s.r.read.trace.state, PAGE_DELETED);
    h.title = STR("");
    assert_int_equal(page_store_hear(s.store, &h), STORE_DONE);
    assert_int_equal(h.call.why, ERR_BAD);
    seam_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_memory_is_read_at_once),
        cmocka_unit_test(what_is_not_is_read_on_the_pool_behind_a_pin),
        cmocka_unit_test(a_read_that_is_canceled_reads_nothing_and_is_done),
        cmocka_unit_test(without_a_pool_the_caller_waits),
        cmocka_unit_test(only_what_was_chosen_is_read),
        cmocka_unit_test(a_read_that_fails_says_so_in_both_ways),
        cmocka_unit_test(done_runs_where_the_caller_wants_it),
        cmocka_unit_test(a_read_says_how_long_it_lasts),
        cmocka_unit_test(a_put_makes_its_tid_before_its_bytes),
        cmocka_unit_test(what_is_wrong_at_once_is_told_at_once),
        cmocka_unit_test(a_mark_that_changes_nothing_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
