#include "pg_damage.h"

#include "model.h"
#include "pg_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool row_any(void *ctx, const struct queue_row *row)
{
    (void)ctx, (void)row;
    return true;
}

static err scan(struct queue_store *s, struct queue_part p, enum queue_scan_kind kind)
{
    return s->ops->scan(s, &(struct queue_scan){ .part = p, .kind = kind, .each = row_any });
}

/* One row in each table, without damage. */
static void put_rows(struct pg_server *server, struct pg *c)
{
    pg_server_run(server, c,
                  "INSERT INTO queue_902_0_b SELECT n, 1, 1, 1, 0, 'key', 1, 'x' FROM"
                  " (SELECT decode(repeat('01', 20), 'hex') n) z",
                  NULL);
    pg_server_run(server, c,
                  "INSERT INTO queue_902_0_e SELECT 0, 0, n, n, 0, 1, 1, 1, 'key' FROM"
                  " (SELECT decode(repeat('02', 20), 'hex') n) z",
                  NULL);
    pg_server_run(server, c,
                  "INSERT INTO queue_902_0_l SELECT n, n, 0, 1, 1, 1, 1, 1, 1, 'key' FROM"
                  " (SELECT decode(repeat('01', 20), 'hex') n) z",
                  NULL);
    pg_server_run(server, c,
                  "INSERT INTO queue_902_0_k SELECT 7, '0123456789abcdef', n, 1, 1 FROM"
                  " (SELECT decode(repeat('01', 20), 'hex') n) z",
                  NULL);
}

/* What others wrote into the tables, within what their columns take. */
void pg_damage_rows(struct queue_store *s, struct pg_server *server, struct pg *c)
{
    static const struct {
        char table;
        const char *set;
    } harms[] = {
        { 'b', "order_key = decode(repeat('61', 257), 'hex')" },
        { 'b', "created = -1" },
        { 'b', "expire = -9223372036854775808" },
        { 'b', "count = 65537" },
        { 'e', "order_key = decode(repeat('61', 257), 'hex')" },
        { 'e', "attempts = -1" },
        { 'e', "attempts = 4294967296" },
        { 'e', "idx = 65536" },
        { 'e', "created = -1" },
        { 'l', "order_key = decode(repeat('61', 257), 'hex')" },
        { 'l', "attempts = 4294967296" },
        { 'l', "deadline = -1" },
        { 'l', "in_place = 2" },
        { 'l', "batch = ''" },
        { 'k', "count = 4294967296" },
        { 'k', "expire = -1" },
        { 'k', "name = 'x'" },
    };
    struct queue_part p = { .queue = 902, .partition = 0 };
    struct queue_part_record owned;
    char sql[256];
    assert_int_equal(model_own_one(s, p, &owned), ERR_OK);
    for (size_t i = 0; i < COUNT_OF(harms); i++) {
        put_rows(server, c);
        assert_int_equal(scan(s, p, SCAN_READY), ERR_OK);
        assert_int_equal(scan(s, p, SCAN_LEASES), ERR_OK);
        assert_int_equal(scan(s, p, SCAN_KEYS), ERR_OK);
        (void)snprintf(sql, sizeof sql, "UPDATE queue_902_0_%c SET %s", harms[i].table,
                       harms[i].set);
        pg_server_run(server, c, sql, NULL);
        err why = harms[i].table == 'l'   ? scan(s, p, SCAN_LEASES)
                  : harms[i].table == 'k' ? scan(s, p, SCAN_KEYS)
                                          : scan(s, p, SCAN_READY);
        if (why != ERR_CORRUPT)
            fail_msg("%s: %s", sql, err_name(why));
        pg_server_run(server, c,
                      "TRUNCATE queue_902_0_b, queue_902_0_e, queue_902_0_l, queue_902_0_k", NULL);
    }
    struct queue_part_record r;
    assert_int_equal(s->ops->record(s, p, &r), ERR_OK);
    pg_server_run(server, c, "UPDATE queue_902_0_r SET ready = NULL", NULL);
    assert_int_equal(s->ops->record(s, p, &r), ERR_CORRUPT);
    assert_int_equal(model_own_one(s, p, &r), ERR_CORRUPT);
    pg_server_run(server, c,
                  "INSERT INTO queue_902_0_l SELECT n, n, 0, 1, 1, 1, 1, 1, 1, 'key' FROM"
                  " (SELECT decode(repeat('01', 20), 'hex') n) z",
                  NULL);
    assert_int_equal(scan(s, p, SCAN_LEASES), ERR_OK);
    pg_server_run(server, c, "ALTER TABLE queue_902_0_l ALTER attempts TYPE numeric", NULL);
    assert_int_equal(scan(s, p, SCAN_LEASES), ERR_CORRUPT);
}
