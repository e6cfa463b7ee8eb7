#include "pg_lock.h"

#include "model.h"
#include "pg_many.h"
#include "pg_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { WRITES = 20, WAITS_MAX = 5 };

void pg_lock_alone(struct queue_store *s, struct pg_server *server, struct pg *c,
                   int64_t timeout_ms)
{
    struct queue_part p = { .queue = 903, .partition = 0 };
    struct queue_part_record owned;
    static struct many m;
    assert_int_equal(model_own_one(s, p, &owned), ERR_OK);
    pg_server_run(server, c, "BEGIN", NULL);
    pg_server_run(server, c, "LOCK TABLE queue_903_0_r", NULL);
    assert_int_equal(model_write_nothing(s, p, owned.epoch), ERR_TIMEOUT);
    mono before = clock_mono(server->clock);
    many_begin(&m);
    for (unsigned i = 0; i < WRITES; i++)
        m.writes[i].parts[0] = (struct queue_write_part){ .part = p, .epoch = owned.epoch };
    for (unsigned i = 0; i < WRITES; i++)
        many_start(&m, s, i);
    many_wait(&m, WRITES);
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(m.results[i], ERR_TIMEOUT);
    int64_t waited_ms = (clock_mono(server->clock).ns - before.ns) / NS_PER_MS;
    assert_true(waited_ms < WAITS_MAX * timeout_ms); /* not one after the other */
    pg_server_run(server, c, "ROLLBACK", NULL);
    assert_int_equal(model_write_nothing(s, p, owned.epoch), ERR_OK);
}

void pg_lock_beside(struct queue_store *s, struct pg_server *server, struct pg *c,
                    int64_t timeout_ms)
{
    struct queue_part parts[] = { { .queue = 904, .partition = 0 },
                                  { .queue = 904, .partition = 1 } };
    struct queue_part_record owned[2], r;
    static struct many m;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(model_own_one(s, parts[i], &owned[i]), ERR_OK);
    pg_server_run(server, c, "BEGIN", NULL);
    pg_server_run(server, c, "LOCK TABLE queue_904_0_r", NULL);
    many_begin(&m);
    mono deadline = mono_add_ms(clock_mono(server->clock), timeout_ms); /* as a queue sets it */
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
    pg_server_run(server, c, "ROLLBACK", NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(model_write_nothing(s, parts[i], owned[i].epoch), ERR_OK);
        assert_int_equal(s->ops->record(s, parts[i], &r), ERR_OK);
        assert_int_equal(r.ready, i == 0 ? 0 : WRITES / 2); /* what was told is so */
    }
}
