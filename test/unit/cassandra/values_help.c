/* values_help.c - see values_help.h. */
#include "values_help.h"

#include "../cmocka_all.h"
#include "cql/cql.h"

#include <stdio.h>
#include <string.h>

struct sides sides;

static store_time time_now(struct clock *c)
{
    (void)c;
    return clock_store(&sides.scratch.clock.clock);
}

static mono time_mono(struct clock *c)
{
    (void)c;
    return clock_mono(the.clock);
}

static wall time_wall(struct clock *c)
{
    (void)c;
    return clock_wall(the.clock);
}

static bool domain_name(void *ctx, uint32_t number, str *name)
{
    (void)ctx;
    *name = STR("en.test");
    return number == 1;
}

static void side_open(struct side *s, struct table_store *store,
                      const struct value_settings *settings, unsigned count)
{
    s->service = (struct value_service){ .store = store,
                                         .clock = &sides.clock,
                                         .buckets = settings,
                                         .buckets_count = count,
                                         .domains_count = 1 };
    value_service_init(&s->service);
    arena_init(&s->arena, SIDE_ARENA_BYTES);
}

static void values_open(void *ctx)
{
    struct err_note note = { .text = "" };
    (void)ctx;
    for (unsigned i = 0; i < SIDES_SERVERS; i++) {
        const struct values_opts o = { .client = the.client,
                                       .catalog = the.catalog,
                                       .loop = real_loop(),
                                       .clock = &sides.clock,
                                       .keyspace = the.keyspace,
                                       .srv = i + 1,
                                       .domain = domain_name };
        sides.values[i] = values_new(&o, &note);
        if (sides.values[i] == NULL)
            check_failed(__FILE__, __LINE__, note.text);
    }
}

void sides_open(const struct value_settings *settings, unsigned count)
{
    struct err_note note;
    sides.clock =
        (struct clock){ .store_now = time_now, .mono_now = time_mono, .wall_now = time_wall };
    scratch_init(&sides.scratch);
    atomic_store(&sides.scratch.clock.now_ns, clock_wall(the.clock).ns);
    scratch_open(&sides.scratch);
    assert_int_equal(
        tables_new(sides.scratch.engine, &sides.scratch.clock.clock, &sides.tables, &note), ERR_OK);
    real_on_loop(values_open, NULL);
    side_open(&sides.embedded, tables_store(sides.tables), settings, count);
    for (unsigned i = 0; i < SIDES_SERVERS; i++)
        side_open(&sides.shared[i], values_store(sides.values[i]), settings, count);
}

static void side_close(struct side *s)
{
    value_service_fini(&s->service);
    arena_fini(&s->arena);
}

void sides_close(void)
{
    side_close(&sides.embedded);
    for (unsigned i = 0; i < SIDES_SERVERS; i++) {
        side_close(&sides.shared[i]);
        values_free(&sides.values[i]);
    }
    tables_free(&sides.tables);
    scratch_fini(&sides.scratch);
}

void side_clear(struct side *s)
{
    arena_reset(&s->arena);
}

void sides_advance(int64_t ns)
{
    fake_clock_advance(&sides.scratch.clock, ns);
}

/* ---- requests ---- */

struct value_call side_call(struct side *s, enum value_kind kind, const char *bucket,
                            const char *key)
{
    return (struct value_call){
        .target = { .domain = STR("en.test"),
                    .domain_number = 1,
                    .kind = kind,
                    .settings = value_settings_find(&s->service, kind, str_of(bucket)),
                    .bucket = str_of(bucket),
                    .key = key == NULL ? STR_NONE : str_of(key) },
        .arena = &s->arena,
    };
}

struct value_put side_put_of(struct value_call of, str body)
{
    return (struct value_put){
        .of = of, .body = body, .raw = body, .headers = STR("content-type: text/plain\n")
    };
}

static struct awaited over; /* of the one request that is under way */

static void call_over(struct store_call *c)
{
    awaited_tell(&over, c->why);
}

static void begin(struct value_call *c)
{
    awaited_init(&over);
    c->call = (struct store_call){ .home = home_here(), .done = call_over };
}

static err end(struct value_call *c, enum store_start start)
{
    store_call_then(start, &c->call);
    err why = awaited_wait(&over);
    awaited_fini(&over);
    return why;
}

err side_put(struct side *s, struct value_put *p)
{
    begin(&p->of);
    return end(&p->of, value_put(&s->service, p));
}

err side_read(struct side *s, struct value_read *r)
{
    begin(&r->of);
    return end(&r->of, value_read(&s->service, r));
}

err side_delete(struct side *s, struct value_delete *d)
{
    begin(&d->of);
    return end(&d->of, value_delete(&s->service, d));
}

err side_list(struct side *s, struct value_list *l)
{
    begin(&l->of);
    return end(&l->of, value_list(&s->service, l));
}

static err bucket_run(struct side *s, struct value_bucket *b)
{
    begin(&b->of);
    return end(&b->of, value_bucket(&s->service, b));
}

err side_bucket(struct side *s, enum value_kind kind, const char *name, const char *json)
{
    struct value_bucket b = { .of = side_call(s, kind, name, NULL), .json = str_of(json) };
    return bucket_run(s, &b);
}

err side_drop(struct side *s, enum value_kind kind, const char *name)
{
    struct value_bucket b = { .of = side_call(s, kind, name, NULL), .drop = true };
    return bucket_run(s, &b);
}

void side_must_put(struct side *s, struct value_call of, str body)
{
    struct value_put p = side_put_of(of, body);
    if (side_put(s, &p) != ERR_OK)
        fail_msg("%s: %s", err_name(p.of.call.why), p.of.note.text);
    assert_int_equal(p.outcome, VALUE_WRITTEN);
}

void side_must_read(struct side *s, struct value_call of, const char *body)
{
    struct value_read r = { .of = of };
    if (side_read(s, &r) != ERR_OK)
        fail_msg("%s: %s", err_name(r.of.call.why), r.of.note.text);
    assert_int_equal(r.of.row.found, body != NULL);
    if (body != NULL)
        assert_true(str_eq(r.of.row.body, str_of(body)));
}

void side_upkeep(struct side *s)
{
    bool more = true;
    while (more) {
        store_time next;
        assert_int_equal(table_store_upkeep(s->service.store, &more, &next), ERR_OK);
        assert_true(more || store_time_before(clock_store(&sides.clock), next));
    }
}

static void count_done(struct cql_request *q)
{
    awaited_tell(&over, q->out.why);
}

int64_t rows_in(const char *table, const char *column)
{
    char text[120];
    struct cql_cell cell;
    int64_t count = -1;
    (void)snprintf(text, sizeof text, "SELECT COUNT(%s) FROM %s.%s", column, the.keyspace, table);
    struct cql_request q = { .way = CQL_WAY_TEXT, .text = str_of(text), .done = count_done };
    q.params.consistency = CQL_QUORUM;
    q.params.timestamp_us = CQL_NO_TIMESTAMP;
    q.params.now_s = CQL_NO_NOW;
    q.deadline = mono_add_ms(clock_mono(the.clock), 30000);
    awaited_init(&over);
    cql_start(the.client, &q);
    assert_int_equal(awaited_wait(&over), ERR_OK);
    awaited_fini(&over);
    assert_true(cql_rows_next(&q.out.rows, &cell) && cql_get_i64(&cell, &count));
    cql_outcome_fini(&q.out);
    return count;
}
