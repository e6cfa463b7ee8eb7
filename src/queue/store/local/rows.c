/* rows.c - encodes and decodes the rows of a local store of partitions (rows.h has the layout).
 * Pure. Invariants: the byte order of keys is the order of ids and of instants; a decoder writes
 * *out only when all of the row is right. */
#include "queue/store/local/rows.h"

#include "base/buf.h"
#include "queue/store/open.h"

#include <string.h>

enum { VERSION = 1, STATE_BITS = 2, STATES_PER_BYTE = 4, STATE_MASK = 3 };
#define SIGN_BIT ((uint64_t)1 << 63)

/* ---- keys ---- */

/* Partition numbers end at QUEUE_PARTITIONS_MAX, so two bytes hold them. */
struct row_key row_key_prefix(struct queue_part p, enum row_kind kind)
{
    INVARIANT(p.partition <= QUEUE_PARTITIONS_MAX);
    struct row_key k = { .n = ROW_PREFIX_BYTES };
    put_be32(k.bytes, p.queue);
    put_be16(k.bytes + 4, (uint16_t)p.partition);
    k.bytes[ROW_PART_BYTES] = (char)kind;
    return k;
}

static void key_put(struct row_key *k, const void *bytes, size_t n)
{
    INVARIANT(k->n + n <= sizeof(k->bytes));
    memcpy(k->bytes + k->n, bytes, n);
    k->n += n;
}

static void key_put_id(struct row_key *k, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    key_put(k, bytes, sizeof(bytes));
}

struct row_key row_key_id(struct queue_part p, enum row_kind kind, struct ksuid id)
{
    struct row_key k = row_key_prefix(p, kind);
    key_put_id(&k, id);
    return k;
}

struct row_key row_key_scheduled(struct queue_part p, store_time at, struct ksuid id)
{
    struct row_key k = row_key_prefix(p, ROW_SCHEDULED);
    unsigned char bytes[8];
    /* With its sign flipped, an instant before 1970 comes before later ones. */
    put_be64(bytes, (uint64_t)at.ns ^ SIGN_BIT);
    key_put(&k, bytes, sizeof(bytes));
    key_put_id(&k, id);
    return k;
}

struct row_key row_key_hash(struct queue_part p, const unsigned char hash[16])
{
    struct row_key k = row_key_prefix(p, ROW_KEY);
    key_put(&k, hash, 16);
    return k;
}

static struct ksuid take_id(struct cursor *c)
{
    str bytes = cursor_bytes(c, KSUID_BYTES);
    return c->failed ? KSUID_NIL : ksuid_from_key((const unsigned char *)bytes.p);
}

/* What stands behind the prefix, by kind. c->failed: too short. */
static void parse_rest(struct cursor *c, struct row_key_parts *k)
{
    switch (k->kind) {
    case ROW_RECORD:
    case ROW_HEARTBEAT:
    case ROW_OWNER:
        break;
    case ROW_SCHEDULED:
        k->at = (store_time){ .ns = (int64_t)(cursor_be64(c) ^ SIGN_BIT) };
        k->id = take_id(c);
        break;
    /* Kind 8 was never written. */
    case ROW_UNUSED:
        c->failed = true;
        break;
    case ROW_KEY: {
        str hash = cursor_bytes(c, sizeof(k->hash));
        if (!c->failed)
            memcpy(k->hash, hash.p, hash.n);
        break;
    }
    case ROW_BATCH:
    case ROW_ASIDE:
    case ROW_READY:
    case ROW_LEASE:
        k->id = take_id(c);
        break;
    case ROW_KINDS:
        INVARIANT(false);
    }
}

err row_key_parse(str key, struct row_key_parts *out)
{
    struct cursor c = { .rest = key };
    struct row_key_parts k = { .part.queue = cursor_be32(&c) };
    k.part.partition = cursor_be16(&c);
    uint8_t kind = cursor_u8(&c);
    if (kind < ROW_RECORD || kind >= ROW_KINDS)
        return ERR_CORRUPT;
    k.kind = (enum row_kind)kind;
    parse_rest(&c, &k);
    if (!cursor_done(&c))
        return ERR_CORRUPT;
    *out = k;
    return ERR_OK;
}

/* ---- values ---- */

/* Writes into a buffer that is large enough: ROW_VALUE_BYTES_MAX. */
struct writer {
    char *p;
    size_t n;
};

static struct writer writer_begin(char *buf)
{
    buf[0] = VERSION;
    return (struct writer){ .p = buf, .n = 1 };
}

static void w16(struct writer *w, uint16_t v)
{
    put_be16(w->p + w->n, v);
    w->n += 2;
}

static void w32(struct writer *w, uint32_t v)
{
    put_be32(w->p + w->n, v);
    w->n += 4;
}

static void w64(struct writer *w, uint64_t v)
{
    put_be64(w->p + w->n, v);
    w->n += 8;
}

static void wtime(struct writer *w, store_time t)
{
    w64(w, (uint64_t)t.ns);
}

static void wbytes(struct writer *w, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(w->p + w->n, bytes, n);
    w->n += n;
}

static void wid(struct writer *w, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    wbytes(w, bytes, sizeof(bytes));
}

static void worder(struct writer *w, str key)
{
    INVARIANT(key.n <= QUEUE_ORDER_KEY_BYTES_MAX);
    wbytes(w, key.p, key.n);
}

static str rows_written(const struct writer *w)
{
    INVARIANT(w->n <= ROW_VALUE_BYTES_MAX);
    return (str){ .p = w->p, .n = w->n };
}

/* Another version is read as damage. */
static struct cursor reader_begin(str value)
{
    struct cursor c = { .rest = value };
    if (cursor_u8(&c) != VERSION)
        c.failed = true;
    return c;
}

static store_time rtime(struct cursor *c)
{
    return (store_time){ .ns = (int64_t)cursor_be64(c) };
}

/* The order key is the rest of a value: its length is that of the row. */
static err rorder(struct cursor *c, str *out)
{
    if (c->failed || c->rest.n > QUEUE_ORDER_KEY_BYTES_MAX)
        return ERR_CORRUPT;
    *out = c->rest;
    return ERR_OK;
}

str row_record_encode(const struct queue_part_record *r, char *buf)
{
    struct writer w = writer_begin(buf);
    w64(&w, r->ready);
    w64(&w, r->scheduled);
    w64(&w, r->leased);
    w64(&w, r->bytes);
    wid(&w, r->last_id);
    wid(&w, r->settled);
    w64(&w, r->epoch);
    wbytes(&w, r->boot, sizeof(r->boot));
    return rows_written(&w);
}

err row_record_decode(str value, struct queue_part_record *out)
{
    struct cursor c = reader_begin(value);
    struct queue_part_record r = { .ready = cursor_be64(&c) };
    r.scheduled = cursor_be64(&c);
    r.leased = cursor_be64(&c);
    r.bytes = cursor_be64(&c);
    r.last_id = take_id(&c);
    r.settled = take_id(&c);
    r.epoch = cursor_be64(&c);
    str boot = cursor_bytes(&c, sizeof(r.boot));
    if (!cursor_done(&c))
        return ERR_CORRUPT;
    memcpy(r.boot, boot.p, sizeof(r.boot));
    *out = r;
    return ERR_OK;
}

str row_batch_encode(const struct queue_batch *b, char *buf)
{
    INVARIANT(b->count > 0 && b->count <= QUEUE_BATCH_ITEMS_MAX);
    struct writer w = writer_begin(buf);
    w16(&w, b->count);
    wtime(&w, b->created_at);
    wtime(&w, b->expire_at);
    /* Two bits for each item, the first in the low bits. */
    size_t packed = ((size_t)b->count + STATES_PER_BYTE - 1) / STATES_PER_BYTE;
    char *at = w.p + w.n;
    memset(at, 0, packed);
    for (size_t i = 0; i < b->count; i++) {
        INVARIANT(b->states[i] < ITEM_STATES);
        at[i / STATES_PER_BYTE] =
            (char)(at[i / STATES_PER_BYTE] | b->states[i] << i % STATES_PER_BYTE * STATE_BITS);
    }
    w.n += packed;
    worder(&w, b->order_key);
    return rows_written(&w);
}

static err unpack_states(str packed, size_t count, unsigned char *states)
{
    for (size_t i = 0; i < packed.n * STATES_PER_BYTE; i++) {
        unsigned byte = (unsigned char)packed.p[i / STATES_PER_BYTE];
        unsigned state = byte >> i % STATES_PER_BYTE * STATE_BITS & STATE_MASK;
        /* Spare bits are zero: a row has one encoding. */
        if (state >= ITEM_STATES || (i >= count && state != 0))
            return ERR_CORRUPT;
        if (i < count)
            states[i] = (unsigned char)state;
    }
    return ERR_OK;
}

err row_batch_decode(str value, unsigned char states[QUEUE_BATCH_ITEMS_MAX],
                     struct queue_batch *out)
{
    struct cursor c = reader_begin(value);
    struct queue_batch b = { .count = cursor_be16(&c), .states = states };
    b.created_at = rtime(&c);
    b.expire_at = rtime(&c);
    if (c.failed || b.count == 0 || b.count > QUEUE_BATCH_ITEMS_MAX)
        return ERR_CORRUPT;
    str packed = cursor_bytes(&c, ((size_t)b.count + STATES_PER_BYTE - 1) / STATES_PER_BYTE);
    if (c.failed || unpack_states(packed, b.count, states) != ERR_OK)
        return ERR_CORRUPT;
    if (rorder(&c, &b.order_key) != ERR_OK)
        return ERR_CORRUPT;
    *out = b;
    return ERR_OK;
}

static void wplace(struct writer *w, struct queue_place place)
{
    wid(w, place.batch);
    w16(w, place.index);
}

static struct queue_place rplace(struct cursor *c)
{
    struct queue_place place = { .batch = take_id(c) };
    place.index = cursor_be16(c);
    /* An index that no batch has. */
    if (place.index >= QUEUE_BATCH_ITEMS_MAX)
        c->failed = true;
    return place;
}

str row_entry_encode(const struct queue_entry *e, char *buf)
{
    struct writer w = writer_begin(buf);
    wplace(&w, e->place);
    w32(&w, e->attempts);
    wtime(&w, e->created_at);
    wtime(&w, e->expire_at);
    worder(&w, e->order_key);
    return rows_written(&w);
}

err row_entry_decode(str value, struct queue_entry *out)
{
    struct cursor c = reader_begin(value);
    struct queue_entry e = { .place = rplace(&c) };
    e.attempts = cursor_be32(&c);
    e.created_at = rtime(&c);
    e.expire_at = rtime(&c);
    if (rorder(&c, &e.order_key) != ERR_OK)
        return ERR_CORRUPT;
    *out = e;
    return ERR_OK;
}

str row_lease_encode(const struct queue_lease *l, char *buf)
{
    struct writer w = writer_begin(buf);
    wplace(&w, l->place);
    wbytes(&w, l->in_place ? "\1" : "\0", 1);
    wtime(&w, l->deadline);
    w32(&w, l->attempts);
    w64(&w, l->token);
    wtime(&w, l->created_at);
    wtime(&w, l->expire_at);
    worder(&w, l->order_key);
    return rows_written(&w);
}

err row_lease_decode(str value, struct queue_lease *out)
{
    struct cursor c = reader_begin(value);
    struct queue_lease l = { .place = rplace(&c) };
    uint8_t in_place = cursor_u8(&c);
    l.in_place = in_place == 1;
    l.deadline = rtime(&c);
    l.attempts = cursor_be32(&c);
    l.token = cursor_be64(&c);
    l.created_at = rtime(&c);
    l.expire_at = rtime(&c);
    /* Strict: any other byte is damage. */
    if (rorder(&c, &l.order_key) != ERR_OK || in_place > 1)
        return ERR_CORRUPT;
    *out = l;
    return ERR_OK;
}

bool queue_key_has_digest(const struct queue_key *k)
{
    static const unsigned char none[QUEUE_DIGEST_BYTES];
    return memcmp(k->digest, none, sizeof(none)) != 0;
}

str row_key_encode(const struct queue_key *k, char *buf)
{
    struct writer w = writer_begin(buf);
    wid(&w, k->first);
    w32(&w, k->count);
    wtime(&w, k->expire_at);
    /* A key without a digest is as long as those of older versions. */
    if (queue_key_has_digest(k))
        wbytes(&w, k->digest, sizeof(k->digest));
    return rows_written(&w);
}

err row_key_decode(str value, struct queue_key *out)
{
    struct cursor c = reader_begin(value);
    struct queue_key k = { .first = take_id(&c) };
    k.count = cursor_be32(&c);
    k.expire_at = rtime(&c);
    if (!c.failed && c.rest.n > 0) {
        str digest = cursor_bytes(&c, sizeof(k.digest));
        if (!c.failed)
            memcpy(k.digest, digest.p, digest.n);
        /* A digest of zeros is never written. */
        c.failed = c.failed || !queue_key_has_digest(&k);
    }
    if (!cursor_done(&c))
        return ERR_CORRUPT;
    *out = k;
    return ERR_OK;
}

str row_heartbeat_encode(uint64_t count, char *buf)
{
    struct writer w = writer_begin(buf);
    w64(&w, count);
    return rows_written(&w);
}

err row_heartbeat_decode(str value, uint64_t *out)
{
    struct cursor c = reader_begin(value);
    uint64_t count = cursor_be64(&c);
    if (!cursor_done(&c))
        return ERR_CORRUPT;
    *out = count;
    return ERR_OK;
}

str row_owner_encode(str name, char *buf)
{
    INVARIANT(name.n > 0 && name.n <= QUEUE_DEPLOYMENT_BYTES_MAX);
    struct writer w = writer_begin(buf);
    memcpy(w.p + w.n, name.p, name.n);
    w.n += name.n;
    return rows_written(&w);
}

err row_owner_decode(str value, str *out)
{
    struct cursor c = reader_begin(value);
    if (c.failed || c.rest.n == 0 || c.rest.n > QUEUE_DEPLOYMENT_BYTES_MAX)
        return ERR_CORRUPT;
    *out = c.rest;
    return ERR_OK;
}
