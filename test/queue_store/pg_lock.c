#include "pg_lock.h"

#include "model.h"
#include "pg/pg.h"
#include "pg_many.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WRITES = 20, WAITS_MAX = 5, SQL_MS = 60000 };

static void run_sql(struct pg *c, struct clock *clock, const char *sql)
{
    struct pg_outcome o;
    pg_run_one(c, sql, NULL, mono_add_ms(clock_mono(clock), SQL_MS), NULL, &o);
    if (o.why != ERR_OK)
        fail_msg("%s", o.note.text);
}

static void own(struct queue_store *s, struct queue_part p, struct queue_part_record *out)
{
    static const unsigned char boot[QUEUE_BOOT_BYTES] = "boot";
    assert_int_equal(s->ops->own(s, &p, 1, boot, out, NULL), ERR_OK);
}

static err write_nothing(struct queue_store *s, struct queue_part p, uint64_t epoch)
{
    struct queue_write w = { .parts = { { .part = p, .epoch = epoch } }, .parts_count = 1 };
    return model_write_run(s, &w);
}

void pg_lock_alone(struct queue_store *s, struct pg *c, struct clock *clock, int64_t timeout_ms)
{
    struct queue_part p = { .queue = 903, .partition = 0 };
    struct queue_part_record owned;
    static struct many m;
    own(s, p, &owned);
    run_sql(c, clock, "BEGIN");
    run_sql(c, clock, "LOCK TABLE queue_903_0_r");
    assert_int_equal(write_nothing(s, p, owned.epoch), ERR_TIMEOUT);
    mono before = clock_mono(clock);
    many_begin(&m);
    for (unsigned i = 0; i < WRITES; i++)
        m.writes[i].parts[0] = (struct queue_write_part){ .part = p, .epoch = owned.epoch };
    for (unsigned i = 0; i < WRITES; i++)
        many_start(&m, s, i);
    many_wait(&m, WRITES);
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(m.results[i], ERR_TIMEOUT);
    int64_t waited_ms = (clock_mono(clock).ns - before.ns) / NS_PER_MS;
    assert_true(waited_ms < WAITS_MAX * timeout_ms); /* not one after the other */
    run_sql(c, clock, "ROLLBACK");
    assert_int_equal(write_nothing(s, p, owned.epoch), ERR_OK);
}

void pg_lock_beside(struct queue_store *s, struct pg *c, struct clock *clock, int64_t timeout_ms)
{
    struct queue_part parts[] = { { .queue = 904, .partition = 0 },
                                  { .queue = 904, .partition = 1 } };
    struct queue_part_record owned[2], r;
    static struct many m;
    for (unsigned i = 0; i < 2; i++)
        own(s, parts[i], &owned[i]);
    run_sql(c, clock, "BEGIN");
    run_sql(c, clock, "LOCK TABLE queue_904_0_r");
    many_begin(&m);
    mono deadline = mono_add_ms(clock_mono(clock), timeout_ms); /* as a queue sets it */
    for (unsigned i = 0; i < WRITES; i++) {
        m.writes[i].deadline = deadline;
        m.writes[i].parts[0] = (struct queue_write_part){ .part = parts[i % 2],
                                                          .epoch = owned[i % 2].epoch,
                                                          .ready = 1 };
        many_start(&m, s, i);
    }
    many_wait(&m, WRITES);
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(m.results[i], i % 2 == 0 ? ERR_TIMEOUT : ERR_OK);
    run_sql(c, clock, "ROLLBACK");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(write_nothing(s, parts[i], owned[i].epoch), ERR_OK);
        assert_int_equal(s->ops->record(s, parts[i], &r), ERR_OK);
        assert_int_equal(r.ready, i == 0 ? 0 : WRITES / 2); /* what was told is so */
    }
}
