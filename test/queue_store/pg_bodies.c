#include "pg_bodies.h"

#include "model.h"
#include "pg_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    ARENA_BYTES_MAX = 64 << 20,
    LARGE_ITEMS = QUEUE_BATCH_ITEMS_MAX,
    LARGE_ITEM_BYTES = 100,
    SMALL_BATCHES = 100,
    SMALL_ITEM_BYTES = 60000, /* of a batch that may come whole */
    PLACES_MAX = 2 * LARGE_ITEMS,
};

struct reading {
    struct queue_store *store;
    struct queue_part part;
    uint64_t epoch;
    struct arena arena;
    struct queue_place at[PLACES_MAX];
    str bodies[PLACES_MAX];
};

static void reading_begin(struct reading *r, struct queue_store *s, uint32_t queue)
{
    struct queue_part_record own;
    *r = (struct reading){ .store = s, .part = { .queue = queue, .partition = 0 } };
    arena_init(&r->arena, ARENA_BYTES_MAX);
    assert_int_equal(model_own_one(s, r->part, &own), ERR_OK);
    r->epoch = own.epoch;
}

/* The kind of an item says which one it is. */
static void batch_write(struct reading *r, uint64_t id, unsigned count, size_t size)
{
    static const unsigned char states[LARGE_ITEMS];
    static struct item items[LARGE_ITEMS];
    struct arena a;
    arena_init(&a, ARENA_BYTES_MAX);
    str bytes = { .p = arena_calloc(&a, 1, size), .n = size };
    for (unsigned i = 0; i < count; i++) {
        char *kind = arena_alloc(&a, 32);
        assert_non_null(kind);
        int n = snprintf(kind, 32, "%llu-%u", (unsigned long long)id, i);
        items[i] = (struct item){ .bytes = bytes, .kind = { .p = kind, .n = (size_t)n } };
    }
    struct queue_op op = {
        .kind = OP_BATCH_PUT,
        .u.batch = { .first = { .low = id }, .count = (uint16_t)count, .states = states }
    };
    assert_int_equal(item_batch_encode(items, count, &a, &op.u.batch.bytes), ERR_OK);
    struct queue_write w = { .parts = { { .part = r->part,
                                          .epoch = r->epoch,
                                          .ready = count,
                                          .ops = &op,
                                          .ops_count = 1 } },
                             .parts_count = 1 };
    assert_int_equal(model_write_run(r->store, &w), ERR_OK);
    arena_fini(&a);
}

static struct queue_place place(uint64_t id, unsigned index)
{
    return (struct queue_place){ .batch = { .low = id }, .index = (uint16_t)index };
}

/* Bodies of the places from from on; those that were read are those that were asked for. */
static err bodies_read(struct reading *r, unsigned from, unsigned count, unsigned *read)
{
    struct queue_bodies b = { .at = r->at + from,
                              .count = count,
                              .bytes_max = UINT64_MAX,
                              .arena = &r->arena,
                              .out = r->bodies };
    err why = r->store->ops->bodies(r->store, r->part, &b);
    for (unsigned i = 0; i < b.read; i++) {
        const struct queue_place *at = &r->at[from + i];
        struct item it;
        char kind[32];
        (void)snprintf(kind, sizeof kind, "%llu-%u", (unsigned long long)at->batch.low, at->index);
        assert_int_equal(item_decode(r->bodies[i], &it), ERR_OK);
        assert_true(str_eq(it.kind, str_of(kind)));
    }
    *read = b.read;
    return why;
}

/* How many statements the server logged that look at the batches of queue 905. */
static unsigned statements_logged(const struct pg_server *server)
{
    char path[PG_SERVER_PATH_BYTES + 8], *line = NULL;
    size_t room = 0;
    unsigned count = 0;
    (void)snprintf(path, sizeof path, "%s/log", server->dir);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&line, &room, f) > 0)
        count += strstr(line, "SELECT") != NULL && strstr(line, "FROM queue_905_0_b") != NULL;
    free(line);
    (void)fclose(f);
    return count;
}

static void read_in_statements(struct reading *r, const struct pg_server *server, unsigned count,
                               unsigned statements)
{
    unsigned read = 0, before = statements_logged(server);
    assert_int_equal(bodies_read(r, 0, count, &read), ERR_OK);
    assert_int_equal(read, count);
    unsigned took = statements_logged(server) - before;
    print_message("%u bodies in %u statements\n", count, took);
    assert_in_range(took, 1, statements);
}

void pg_bodies_statements(struct queue_store *s, struct pg_server *server)
{
    static struct reading r;
    reading_begin(&r, s, 905);
    batch_write(&r, 2000, LARGE_ITEMS, LARGE_ITEM_BYTES);
    batch_write(&r, 4000, LARGE_ITEMS, LARGE_ITEM_BYTES);
    for (unsigned i = 0; i < LARGE_ITEMS; i++)
        r.at[i] = place(2000, i);
    read_in_statements(&r, server, 1, 2);
    read_in_statements(&r, server, LARGE_ITEMS, 2);
    for (unsigned i = 0; i < LARGE_ITEMS; i++) { /* by turns, and from the end */
        r.at[2 * i] = place(4000, LARGE_ITEMS - 1 - i);
        r.at[2 * i + 1] = place(2000, LARGE_ITEMS - 1 - i);
    }
    read_in_statements(&r, server, 2 * LARGE_ITEMS, 2);
    for (unsigned i = 0; i < SMALL_BATCHES; i++) {
        batch_write(&r, 10 + i, 1, SMALL_ITEM_BYTES);
        r.at[2 * i] = place(10 + i, 0);
        r.at[2 * i + 1] = place(2000, i);
    }
    read_in_statements(&r, server, 2 * SMALL_BATCHES, 3); /* more than come whole */
    r.at[1] = place(11, 0);
    r.at[2] = place(10, 0);
    read_in_statements(&r, server, 3, 1);
    arena_fini(&r.arena);
}

/* Those before the damage are read, and those behind it when it was passed over. */
static void reads_around(struct reading *r, unsigned count, unsigned harmed, err as)
{
    unsigned read = 0;
    assert_int_equal(bodies_read(r, 0, count, &read), as);
    assert_int_equal(read, harmed);
    assert_int_equal(bodies_read(r, harmed, 1, &read), as);
    assert_int_equal(read, 0);
    assert_int_equal(bodies_read(r, harmed + 1, count - harmed - 1, &read), ERR_OK);
    assert_int_equal(read, count - harmed - 1);
}

void pg_bodies_harmed(struct queue_store *s, struct pg_server *server, struct pg *c)
{
    static const char *const harms[] = {
        /* a byte of item 7, which begins behind the slots and items of 100, 21 and 6 bytes */
        "bytes = set_byte(bytes, 4 + 1000 * 12 + 7 * 127 + 60, 255)",
        "bytes = set_byte(bytes, 4 + 7 * 12 + 8, get_byte(bytes, 4 + 7 * 12 + 8) # 1)",
    };
    static struct reading r;
    char sql[256];
    reading_begin(&r, s, 906);
    for (unsigned i = 0; i < 20; i++)
        r.at[i] = place(2000, i);
    for (size_t i = 0; i < COUNT_OF(harms); i++) {
        batch_write(&r, 2000, LARGE_ITEMS, LARGE_ITEM_BYTES);
        (void)snprintf(sql, sizeof sql, "UPDATE queue_906_0_b SET %s", harms[i]);
        pg_server_run(server, c, sql, NULL);
        reads_around(&r, 20, 7, ERR_CORRUPT);
        pg_server_run(server, c, "TRUNCATE queue_906_0_b", NULL);
    }
    batch_write(&r, 2000, LARGE_ITEMS, LARGE_ITEM_BYTES);
    batch_write(&r, 4000, 1, LARGE_ITEM_BYTES);
    for (unsigned i = 0; i < 20; i++)
        r.at[i] = i == 12 ? place(3000, 0) : i == 5 ? place(4000, 0) : place(2000, i);
    reads_around(&r, 20, 12, ERR_NOT_FOUND);
    /* what is cut off is damaged, the rest is not */
    unsigned read = 0;
    pg_server_run(server, c,
                  "UPDATE queue_906_0_b SET bytes = substring(bytes for 20000) WHERE count = 1000",
                  NULL);
    for (unsigned i = 0; i < LARGE_ITEMS; i++)
        r.at[i] = place(2000, i);
    assert_int_equal(bodies_read(&r, 0, LARGE_ITEMS, &read), ERR_CORRUPT);
    assert_in_range(read, 50, 70);
    assert_int_equal(bodies_read(&r, LARGE_ITEMS - 1, 1, &read), ERR_CORRUPT);
    pg_server_run(server, c, "UPDATE queue_906_0_b SET count = -1", NULL);
    assert_int_equal(bodies_read(&r, 0, 1, &read), ERR_CORRUPT);
    pg_server_run(server, c, "UPDATE queue_906_0_b SET count = 2147483647, size = 2147483647",
                  NULL);
    assert_int_equal(bodies_read(&r, 0, 1, &read), ERR_CORRUPT);
    arena_fini(&r.arena);
}
