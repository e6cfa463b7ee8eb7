/* catalogue.c - stores which queues there are, and the name of the deployment, in the main
 * engine; for queues.c and life.c. Invariant: the number of a queue is never used again, so rows
 * of a deleted queue are never taken for those of a new one. */
#include "queue/catalogue.h"

#include "base/buf.h"
#include "engine/engine.h"
#include "queue/store/open.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* LOAD_ARENA_BYTES_MAX: of one row, blob and decoded. */
enum { ROW_VERSION = 1, KEY_BYTES = 5, ROW_BYTES_MAX = 1 << 20, LOAD_ARENA_BYTES_MAX = 4 << 20 };

/* ---- the blob ---- */

/* The order of fields is the format: catalogue_decode reads the same. */
err catalogue_encode(const struct catalogue_row *row, struct buf *b)
{
    const struct queue_info *i = &row->info;
    buf_put_u8(b, ROW_VERSION);
    buf_put_be32(b, row->number);
    buf_put_be32(b, row->keyed_count);
    buf_put_str16(b, i->name);
    buf_put_str16(b, i->space);
    buf_put_str16(b, i->dead_queue);
    buf_put_str16(b, i->reference);
    buf_put_be64(b, (uint64_t)i->lease_timeout_ns);
    buf_put_be64(b, (uint64_t)i->expire_timeout_ns);
    buf_put_be32(b, i->max_attempts);
    buf_put_u8(b, i->has_durability ? 1 : 0);
    buf_put_u8(b, (uint8_t)i->durability);
    buf_put_be64(b, (uint64_t)i->created_at.ns);
    buf_put_be64(b, (uint64_t)i->updated_at.ns);
    buf_put_u8(b, (uint8_t)row->stores_count);
    for (unsigned s = 0; s < row->stores_count; s++)
        buf_put_str16(b, str_of(row->stores[s]));
    buf_put_be32(b, i->partitions);
    for (uint32_t p = 0; p < i->partitions; p++) {
        buf_put_u8(b, (uint8_t)row->parts[p].store);
        buf_put_u8(b, row->parts[p].mode);
    }
    return buf_status(b);
}

/* Numbers of stores and modes that the code can index with. */
static bool is_sane(const struct catalogue_row *row)
{
    for (uint32_t p = 0; p < row->info.partitions; p++)
        if (row->parts[p].store >= row->stores_count || row->parts[p].mode > PART_PAUSED)
            return false;
    return row->info.durability <= QUEUE_NONE;
}

err catalogue_decode(str bytes, struct arena *a, struct catalogue_row *out)
{
    struct cursor c = { .rest = bytes };
    struct catalogue_row row = { .number = 0 };
    uint8_t version = cursor_u8(&c);
    row.number = cursor_be32(&c);
    row.keyed_count = cursor_be32(&c);
    row.info.name = cursor_str16(&c);
    row.info.space = cursor_str16(&c);
    row.info.dead_queue = cursor_str16(&c);
    row.info.reference = cursor_str16(&c);
    row.info.lease_timeout_ns = (int64_t)cursor_be64(&c);
    row.info.expire_timeout_ns = (int64_t)cursor_be64(&c);
    row.info.max_attempts = cursor_be32(&c);
    row.info.has_durability = cursor_u8(&c) == 1;
    row.info.durability = (enum queue_durability)cursor_u8(&c);
    row.info.created_at.ns = (int64_t)cursor_be64(&c);
    row.info.updated_at.ns = (int64_t)cursor_be64(&c);
    row.stores_count = cursor_u8(&c);
    /* Before the stores: their number bounds the loop. */
    if (version != ROW_VERSION || row.stores_count > QUEUE_STORES_MAX || c.failed)
        return ERR_CORRUPT;
    for (unsigned s = 0; s < row.stores_count; s++) {
        row.stores[s] = arena_cstr(a, cursor_str16(&c));
        if (row.stores[s] == NULL)
            return ERR_LIMIT;
    }
    row.info.partitions = cursor_be32(&c);
    /* Two bytes for each partition and nothing behind them, so a wrong count is found before
     * memory is taken. */
    if (c.failed || row.info.partitions > QUEUE_PARTITIONS_MAX ||
        c.rest.n != 2 * (size_t)row.info.partitions)
        return ERR_CORRUPT;
    row.parts = arena_calloc(a, row.info.partitions, sizeof *row.parts);
    if (row.parts == NULL)
        return ERR_LIMIT;
    for (uint32_t p = 0; p < row.info.partitions; p++) {
        row.parts[p].store = cursor_u8(&c);
        row.parts[p].mode = cursor_u8(&c);
    }
    if (!cursor_done(&c) || row.info.partitions == 0 || row.keyed_count == 0 || !is_sane(&row))
        return ERR_CORRUPT;
    *out = row;
    return ERR_OK;
}

/* ---- rows ---- */

/* Keys without a number are one letter. */
static str key_of(char kind, uint32_t number, char key[KEY_BYTES])
{
    key[0] = kind;
    put_be32(key + 1, number);
    return (str){ .p = key, .n = kind == 'n' || kind == 'i' ? 1 : KEY_BYTES };
}

/* The row's number stands in the key as well: a blob under another key is damage. */
static err read_row(struct engine *e, const struct engine_row *r, struct arena *a,
                    struct catalogue_row *out)
{
    char *bytes = r->blob.n > ROW_BYTES_MAX ? NULL : arena_alloc(a, r->blob.n);
    if (bytes == NULL)
        return ERR_CORRUPT;
    err why = engine_blob_read(e, &r->blob, 0, r->blob.n, bytes);
    if (why != ERR_OK)
        return why;
    if (XXH3_64bits(bytes, r->blob.n) != r->blob.hash || r->key.n != KEY_BYTES)
        return ERR_CORRUPT;
    uint32_t number = get_be32(r->key.p + 1);
    why = catalogue_decode((str){ .p = bytes, .n = r->blob.n }, a, out);
    return why == ERR_OK && out->number != number ? ERR_CORRUPT : why;
}

err catalogue_load(struct engine *e, uint32_t *next_number,
                   err (*each)(void *ctx, const struct catalogue_row *row, bool deleted), void *ctx)
{
    struct engine_view *v = engine_view_begin(e);
    struct engine_cursor *c = engine_cursor_open(v, &(struct engine_range){ .space = SPACE_QUEUE });
    struct engine_row r;
    struct arena a;
    err why;
    arena_init(&a, LOAD_ARENA_BYTES_MAX);
    /* An engine without a catalogue: numbers begin at 1. */
    *next_number = 1;
    while ((why = engine_cursor_next(c, &r)) == ERR_OK) {
        struct catalogue_row row;
        /* Keys are in order of letters: deleted queues come first, then the next number, then
         * queues. */
        char kind = r.key.n == 0 ? '\0' : r.key.p[0];
        if (kind == 'n' && r.value.n == 4) {
            *next_number = get_be32(r.value.p);
            continue;
        }
        if (kind == 'i' && r.key.n == 1)
            continue;
        why = kind == 'q' || kind == 'd' ? read_row(e, &r, &a, &row) : ERR_CORRUPT;
        if (why == ERR_OK)
            why = each(ctx, &row, kind == 'd');
        if (why != ERR_OK)
            break;
        /* Names and parts are valid inside each alone. */
        arena_reset(&a);
    }
    arena_fini(&a);
    engine_cursor_close(&c);
    engine_view_end(&v);
    /* ERR_NOT_FOUND: the cursor is at its end. */
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* One atomic change of the catalogue: what to put, what to remove ('\0': nothing), the next
 * number (0: as it is). */
struct change {
    char put, remove;
    uint32_t number, next_number;
    str bytes;
};

/* On the committer: all of it in one update. */
static err catalogue_decide(struct engine_txn *t, void *ctx)
{
    const struct change *c = ctx;
    char key[KEY_BYTES], next[4];
    char version = ROW_VERSION;
    err why = ERR_OK;
    if (c->put != '\0')
        why = engine_txn_put(t, SPACE_QUEUE, key_of(c->put, c->number, key),
                             (str){ .p = &version, .n = 1 }, c->bytes);
    if (why == ERR_OK && c->remove != '\0')
        why = engine_txn_delete(t, SPACE_QUEUE, key_of(c->remove, c->number, key));
    put_be32(next, c->next_number);
    if (why == ERR_OK && c->next_number != 0)
        why = engine_txn_put(t, SPACE_QUEUE, key_of('n', 0, key),
                             (str){ .p = next, .n = sizeof next }, STR_NONE);
    return why;
}

/* Waits until it is on disk. row NULL: nothing is put. */
static err catalogue_change(struct engine *e, const struct catalogue_row *row, struct change *c)
{
    struct buf b;
    buf_init(&b, ROW_BYTES_MAX);
    err why = row == NULL ? ERR_OK : catalogue_encode(row, &b);
    c->bytes = buf_str(&b);
    if (why == ERR_OK)
        why = engine_update_wait(e, catalogue_decide, c);
    buf_fini(&b);
    return why;
}

err catalogue_put(struct engine *e, const struct catalogue_row *row, uint32_t next_number)
{
    return catalogue_change(
        e, row, &(struct change){ .put = 'q', .number = row->number, .next_number = next_number });
}

/* Both in one update: after a crash the queue is there, or to be dropped. */
err catalogue_delete(struct engine *e, const struct catalogue_row *row)
{
    return catalogue_change(e, row,
                            &(struct change){ .put = 'd', .remove = 'q', .number = row->number });
}

err catalogue_forget(struct engine *e, uint32_t number)
{
    return catalogue_change(e, NULL, &(struct change){ .remove = 'd', .number = number });
}

/* ---- the deployment ---- */

/* ERR_NOT_FOUND: there is no name yet. */
static err deployment_read(struct engine *e, char out[QUEUE_DEPLOYMENT_MADE_BYTES])
{
    struct engine_row r;
    char key[KEY_BYTES];
    struct engine_view *v = engine_view_begin(e);
    err why = engine_get(v, SPACE_QUEUE, key_of('i', 0, key), &r);
    if (why == ERR_OK &&
        (r.value.n != QUEUE_DEPLOYMENT_MADE_BYTES - 1 || !str_to_cstr(r.value, out, r.value.n + 1)))
        why = ERR_CORRUPT;
    engine_view_end(&v);
    return why;
}

static err deployment_decide(struct engine_txn *t, void *ctx)
{
    char key[KEY_BYTES];
    return engine_txn_put(t, SPACE_QUEUE, key_of('i', 0, key), str_of(ctx), STR_NONE);
}

err queue_deployment(struct engine *e, uint64_t high, uint64_t low,
                     char out[QUEUE_DEPLOYMENT_MADE_BYTES])
{
    err why = deployment_read(e, out);
    if (why != ERR_NOT_FOUND)
        return why;
    (void)snprintf(out, QUEUE_DEPLOYMENT_MADE_BYTES, "%016llx%016llx", (unsigned long long)high,
                   /* high and low are random: two deployments do not meet. */
                   (unsigned long long)low); /* 32 digits */
    return engine_update_wait(e, deployment_decide, out);
}

err queue_deployment_check(const char *name, struct err_note *note)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    if (n > 0 && n <= QUEUE_DEPLOYMENT_BYTES_MAX && strspn(name, allowed) == n)
        return ERR_OK;
    err_note_set(note, "queue.deployment: a name of at most %d letters, digits, . _ - is wanted",
                 QUEUE_DEPLOYMENT_BYTES_MAX);
    return ERR_BAD;
}

err queue_owner_check(const char *store, const char *what, str owner, const char *ours,
                      struct err_note *note)
{
    if (str_eq(owner, str_of(ours)))
        return ERR_OK;
    err_note_set(
        note,
        "store %s: its %s belongs to the deployment '%.*s', this one is '%s'; to stand by for it"
        " or to take over what is there, set queue.deployment to its name",
        store, what, STR_ARG(str_take(owner, QUEUE_DEPLOYMENT_BYTES_MAX)), ours);
    return ERR_BAD;
}

/* Which store is looked for, and whether a row names it. */
struct usage {
    const char *name;
    bool used;
};

static err look_for_use(void *ctx, const struct catalogue_row *row, bool deleted)
{
    struct usage *u = ctx;
    (void)deleted; /* its partitions have still to be dropped there */
    /* A store that no partition lies on may stand in the row, too. */
    for (uint32_t p = 0; p < row->info.partitions && !u->used; p++)
        u->used = strcmp(row->stores[row->parts[p].store], u->name) == 0;
    return ERR_OK;
}

err queue_store_used(struct engine *e, const char *name, bool *used)
{
    struct usage u = { .name = name };
    uint32_t next_number;
    err why = catalogue_load(e, &next_number, look_for_use, &u);
    if (why == ERR_OK)
        *used = u.used;
    return why;
}
