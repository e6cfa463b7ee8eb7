/* Goal: a host is asked for the sweeps of a few of its domains at once, and all of them have their
 * turn. Method: sweep.c alone. What a batch does is scripted here: it is begun, asks its wiki, and
 * ends when the test says so. The clock and the wikis are the test's. */
#include "page/sweep_impl.h"

#include "lib/clock.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "render/render.h"
#include "store/page_store.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_MAX = 128, DOMAINS_MAX = 256 };

struct origin {
    struct limiter_key key;
    char at[32];
};
struct batch {
    bool asks;
};

struct rig {
    struct fake_clock clock;
    struct loop *loop;
    struct page_store store;
    struct origin hosts[HOSTS_MAX];
    struct page_domain domains[DOMAINS_MAX];
    struct page_service service;
    struct page_sweeps *sweeps;
};

/* ---- what sweep.c stands on: links before the real ones ---- */

bool origin_has_api(const struct origin *o)
{
    (void)o;
    return true;
}

const struct limiter_key *render_source(const struct origin *o, enum render_want want)
{
    (void)want;
    return &o->key;
}

/* By domain: of what was begun. */
static struct sweep *begun[DOMAINS_MAX];
static unsigned begun_count, begins[DOMAINS_MAX], begins_all, begun_as[DOMAINS_MAX];
static bool paused[DOMAINS_MAX];

static unsigned index_of(const struct page_domain *d)
{
    return d->number;
}

bool page_checks_pauses(const struct page_checks *c, const struct page_domain *d)
{
    (void)c;
    return paused[index_of(d)];
}

void sweep_go(struct sweep *w)
{
    unsigned i = index_of(w->domain);
    assert_null(begun[i]);
    assert_null(w->batch);
    begun[i] = w;
    begun_count++;
    begins[i]++;
    begun_as[i] = begins_all++;
    w->batch = calloc(1, sizeof *w->batch);
    assert_non_null(w->batch);
}

static void goes_on(struct sweep *w)
{
    if (w->batch->asks)
        sweep_goes_on(w);
    w->batch->asks = false;
}

static void asks(struct sweep *w)
{
    w->batch->asks = true;
    sweep_asks(w);
}

/* Its next titles are due at once. */
static void ends(struct sweep *w)
{
    goes_on(w);
    begun[index_of(w->domain)] = NULL;
    begun_count--;
    free(w->batch);
    w->batch = NULL;
    sweep_rests(w, false);
}

void sweep_leave(struct sweep *w)
{
    ends(w);
}

static err no_note(struct page_store *s, uint32_t domain, enum page_note note, char *out, size_t *n)
{
    (void)s;
    (void)domain;
    (void)note;
    (void)out;
    *n = 0;
    return ERR_NOT_FOUND;
}

/* ---- the rig ---- */

static void rig_begin(struct rig *r, unsigned domains, unsigned hosts)
{
    static const struct page_store_ops ops = { .note_get = no_note };
    memset(r, 0, sizeof *r);
    memset(begun, 0, sizeof begun);
    begun_count = 0;
    memset(begins, 0, sizeof begins);
    memset(paused, 0, sizeof paused);
    fake_clock_init(&r->clock, 1000 * NS_PER_S);
    r->loop = loop_new(1);
    r->store.ops = &ops;
    for (unsigned h = 0; h < hosts; h++) {
        struct origin *o = &r->hosts[h];
        (void)snprintf(o->at, sizeof o->at, "host%u:443", h); /* fits */
        o->key.origin = str_of(o->at);
    }
    for (unsigned i = 0; i < domains; i++)
        r->domains[i] = (struct page_domain){ .number = i,
                                              .origin = &r->hosts[i % hosts],
                                              .sweep_period_ns = NS_PER_S };
    r->service = (struct page_service){ .store = &r->store,
                                        .domains = r->domains,
                                        .domains_count = domains,
                                        .loop = r->loop,
                                        .clock = &r->clock.clock };
    r->sweeps = page_sweeps_new(&r->service);
    assert_true(page_sweep_now(r->sweeps, &r->domains[0])); /* as the timer: a turn */
}

static void rig_end(struct rig *r)
{
    page_sweeps_stop(r->sweeps);
    for (unsigned i = 0; i < r->service.domains_count; i++)
        if (begun[i] != NULL)
            ends(begun[i]);
    assert_true(page_sweeps_idle(r->sweeps));
    page_sweeps_free(&r->sweeps);
    loop_free(&r->loop);
}

/* All that are begun wait for their wikis, until no other begins. */
static void all_ask(struct rig *r)
{
    for (unsigned i = 0; i < r->service.domains_count; i++)
        if (begun[i] != NULL && !begun[i]->batch->asks) {
            asks(begun[i]);
            i = UINT32_MAX; /* others may have begun: once more */
        }
}

static unsigned begun_at(const struct rig *r, unsigned host)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->service.domains_count; i++)
        n += begun[i] != NULL && r->domains[i].origin == &r->hosts[host];
    return n;
}

/* Of those begun at that host, the one that began first. */
static struct sweep *first_at(const struct rig *r, unsigned host)
{
    struct sweep *first = NULL;
    for (unsigned i = 0; i < r->service.domains_count; i++)
        if (begun[i] != NULL && r->domains[i].origin == &r->hosts[host] &&
            (first == NULL || begun_as[i] < begun_as[index_of(first->domain)]))
            first = begun[i];
    assert_non_null(first);
    return first;
}

/* ---- tests ---- */

static void a_few_domains_of_a_host_are_swept_at_once(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r, 200, 1);
    all_ask(&r);
    assert_int_equal(begun_count, SWEEPS_OF_HOST);
    ends(first_at(&r, 0));
    assert_int_equal(begun_count, SWEEPS_OF_HOST); /* another has begun */
    all_ask(&r);
    assert_int_equal(begun_count, SWEEPS_OF_HOST);
    rig_end(&r);
}

static void a_host_that_hangs_holds_up_no_other(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r, 200, 3);
    all_ask(&r);
    for (unsigned host = 0; host < 3; host++)
        assert_int_equal(begun_at(&r, host), SWEEPS_OF_HOST);
    for (unsigned n = 0; n < 500; n++) { /* host 0 hangs */
        ends(first_at(&r, 1 + n % 2));
        all_ask(&r);
    }
    assert_int_equal(begun_at(&r, 0), SWEEPS_OF_HOST);
    for (unsigned i = 0; i < 200; i++)
        assert_true(i % 3 == 0 || begins[i] >= 3);
    rig_end(&r);
}

/* Also where all are always due. */
static void domains_of_a_host_take_turns(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r, 120, 2);
    all_ask(&r);
    for (unsigned n = 0; n < 600; n++) {
        ends(first_at(&r, n % 2));
        all_ask(&r);
    }
    unsigned least = begins[0], most = begins[0];
    for (unsigned i = 0; i < 120; i++) {
        least = begins[i] < least ? begins[i] : least;
        most = begins[i] > most ? begins[i] : most;
    }
    assert_true(least >= 5);
    assert_true(most <= 6);
    rig_end(&r);
}

static void each_host_has_places_of_its_own(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r, HOSTS_MAX, HOSTS_MAX);
    all_ask(&r);
    assert_int_equal(begun_count, HOSTS_MAX);
    rig_end(&r);
}

/* A place at a host is for who asks it. */
static void a_wiki_that_wants_to_be_left_alone_holds_no_place(void **state)
{
    (void)state;
    struct rig r;
    rig_begin(&r, 40, 1);
    for (unsigned i = 0; i < 20; i++)
        paused[i] = true;
    all_ask(&r);
    for (unsigned n = 0; n < 60; n++) {
        ends(first_at(&r, 0));
        all_ask(&r);
    }
    for (unsigned i = 1; i < 20; i++)
        assert_true(begins[i] <= 1);
    for (unsigned i = 20; i < 40; i++)
        assert_true(begins[i] >= 2);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_domains_of_a_host_are_swept_at_once),
        cmocka_unit_test(a_host_that_hangs_holds_up_no_other),
        cmocka_unit_test(domains_of_a_host_take_turns),
        cmocka_unit_test(each_host_has_places_of_its_own),
        cmocka_unit_test(a_wiki_that_wants_to_be_left_alone_holds_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
