/* record.c - encodes and decodes segment headers, groups, mutations and values. Invariant: each
 * checksum covers the place of its record, so bytes at a wrong place are never believed. */
#include "vlog/record.h"

#include <string.h>
#include <xxhash.h>

enum {
    RECORD_VERSION = 1,
    SPOT_BYTES = RECORD_ID_BYTES + 4 + 8,
    GROUP_SUMMED = RECORD_GROUP_BYTES - 8,
    VALUE_SUMMED = RECORD_VALUE_BYTES - 8,
    SEGMENT_SUMMED = RECORD_SEGMENT_BYTES - 8,
    MUTATION_HEAD = 6,
    INLINE_HEAD = 10,
    LOG_HEAD = 32,
};

static const char GROUP_MAGIC[4] = { '\xa7', 'G', 'r', '\x1e' };
static const char VALUE_MAGIC[4] = { '\xa7', 'V', 'a', '\x1f' };
static const char SEGMENT_MAGIC[8] = { '\xa7', 'S', 'e', 'g', 'm', 'n', 't', '\x1d' };

enum { MUTATION_PUT = 1, MUTATION_DELETE = 2 };

str record_group_magic(void)
{
    return (str){ .p = GROUP_MAGIC, .n = sizeof(GROUP_MAGIC) };
}

static uint64_t spot_seed(struct record_spot at)
{
    char b[SPOT_BYTES];
    memcpy(b, at.id, RECORD_ID_BYTES);
    put_be32(b + RECORD_ID_BYTES, at.segment);
    put_be64(b + RECORD_ID_BYTES + 4, at.offset);
    return XXH3_64bits(b, sizeof(b));
}

static uint64_t spot_sum(struct record_spot at, const char *p, size_t n)
{
    return XXH3_64bits_withSeed(p, n, spot_seed(at));
}

void record_segment_encode(struct record_spot at, char out[RECORD_SEGMENT_BYTES])
{
    memset(out, 0, RECORD_SEGMENT_BYTES);
    memcpy(out, SEGMENT_MAGIC, sizeof(SEGMENT_MAGIC));
    put_be32(out + 8, RECORD_VERSION);
    put_be32(out + 12, at.segment);
    memcpy(out + 16, at.id, RECORD_ID_BYTES);
    put_be64(out + SEGMENT_SUMMED, spot_sum(at, out, SEGMENT_SUMMED));
}

err record_segment_decode(str bytes, struct record_spot at)
{
    if (bytes.n < RECORD_SEGMENT_BYTES)
        return ERR_CORRUPT;
    char expect[RECORD_SEGMENT_BYTES];
    record_segment_encode(at, expect);
    return memcmp(bytes.p, expect, sizeof(expect)) == 0 ? ERR_OK : ERR_CORRUPT;
}

void record_group_encode(const struct record_group *g, struct record_spot at, str meta,
                         char out[RECORD_GROUP_BYTES])
{
    memset(out, 0, RECORD_GROUP_BYTES);
    memcpy(out, GROUP_MAGIC, sizeof(GROUP_MAGIC));
    put_be16(out + 4, RECORD_VERSION);
    put_be64(out + 8, g->seq);
    put_be64(out + 16, (uint64_t)g->time.ns);
    put_be32(out + 24, g->meta_bytes);
    put_be32(out + 28, g->mutations);
    put_be64(out + 32, g->values_bytes);
    put_be32(out + 40, g->values);
    put_be32(out + 44, g->unsynced);
    put_be64(out + 48, spot_sum(at, meta.p, meta.n));
    put_be64(out + GROUP_SUMMED, spot_sum(at, out, GROUP_SUMMED));
}

err record_group_decode(str bytes, struct record_spot at, struct record_group *out)
{
    if (bytes.n < RECORD_GROUP_BYTES)
        return ERR_CORRUPT;
    const char *p = bytes.p;
    if (memcmp(p, GROUP_MAGIC, sizeof(GROUP_MAGIC)) != 0)
        return ERR_CORRUPT;
    if (get_be16(p + 4) != RECORD_VERSION)
        return ERR_CORRUPT;
    if (get_be64(p + GROUP_SUMMED) != spot_sum(at, p, GROUP_SUMMED))
        return ERR_CORRUPT;
    *out = (struct record_group){
        .seq = get_be64(p + 8),
        .time = { .ns = (int64_t)get_be64(p + 16) },
        .meta_bytes = get_be32(p + 24),
        .mutations = get_be32(p + 28),
        .values_bytes = get_be64(p + 32),
        .values = get_be32(p + 40),
        .unsynced = get_be32(p + 44),
    };
    return ERR_OK;
}

bool record_meta_fits(const char *header, struct record_spot at, str meta)
{
    return get_be64(header + 48) == spot_sum(at, meta.p, meta.n);
}

static uint64_t value_sum(struct record_spot at, const char *header, str key)
{
    return XXH3_64bits_withSeed(key.p, key.n, spot_sum(at, header, VALUE_SUMMED));
}

void record_value_encode(const struct record_value *v, struct record_spot at, str key,
                         char out[RECORD_VALUE_BYTES])
{
    memset(out, 0, RECORD_VALUE_BYTES);
    memcpy(out, VALUE_MAGIC, sizeof(VALUE_MAGIC));
    out[4] = (char)v->space;
    out[5] = RECORD_VERSION;
    put_be16(out + 6, v->key_bytes);
    put_be32(out + 8, v->value_bytes);
    put_be64(out + 16, v->seq);
    put_be64(out + 24, v->hash);
    put_be64(out + VALUE_SUMMED, value_sum(at, out, key));
}

err record_value_decode(str bytes, struct record_spot at, struct record_value *out)
{
    if (bytes.n < RECORD_VALUE_BYTES)
        return ERR_CORRUPT;
    const char *p = bytes.p;
    if (memcmp(p, VALUE_MAGIC, sizeof(VALUE_MAGIC)) != 0)
        return ERR_CORRUPT;
    if (p[5] != RECORD_VERSION)
        return ERR_CORRUPT;
    struct record_value v = {
        .space = (uint8_t)p[4],
        .key_bytes = get_be16(p + 6),
        .value_bytes = get_be32(p + 8),
        .seq = get_be64(p + 16),
        .hash = get_be64(p + 24),
    };
    if (bytes.n < (size_t)RECORD_VALUE_BYTES + v.key_bytes) {
        *out = v;
        return ERR_LIMIT;
    }
    str key = { .p = p + RECORD_VALUE_BYTES, .n = v.key_bytes };
    if (get_be64(p + VALUE_SUMMED) != value_sum(at, p, key))
        return ERR_CORRUPT;
    *out = v;
    return ERR_OK;
}

size_t record_mutation_size(const struct record_mutation *m)
{
    size_t n = MUTATION_HEAD + 1 + m->key.n + m->value.n;
    if (m->blob == RECORD_BLOB_INLINE)
        n += INLINE_HEAD + m->bytes.n;
    if (m->blob == RECORD_BLOB_LOG)
        n += LOG_HEAD;
    return n;
}

static void place_encode(const struct record_place *at, struct buf *out)
{
    buf_put_be32(out, at->segment);
    buf_put_be64(out, at->extent_offset);
    buf_put_be32(out, at->extent_size);
    buf_put_be32(out, at->value_offset);
    buf_put_be32(out, at->n);
    buf_put_be64(out, at->hash);
}

void record_mutation_encode(const struct record_mutation *m, struct buf *out)
{
    buf_put_u8(out, m->deleted ? MUTATION_DELETE : MUTATION_PUT);
    buf_put_u8(out, (uint8_t)m->blob);
    buf_put_u8(out, m->space);
    buf_put_be16(out, (uint16_t)m->key.n);
    buf_put_be16(out, (uint16_t)m->value.n);
    if (m->blob == RECORD_BLOB_INLINE) {
        buf_put_be16(out, (uint16_t)m->bytes.n);
        buf_put_be64(out, m->place.hash);
    }
    if (m->blob == RECORD_BLOB_LOG)
        place_encode(&m->place, out);
    buf_put(out, m->key);
    buf_put(out, m->value);
    if (m->blob == RECORD_BLOB_INLINE)
        buf_put(out, m->bytes);
}

static void place_decode(struct cursor *c, struct record_place *out)
{
    out->segment = cursor_be32(c);
    out->extent_offset = cursor_be64(c);
    out->extent_size = cursor_be32(c);
    out->value_offset = cursor_be32(c);
    out->n = cursor_be32(c);
    out->hash = cursor_be64(c);
}

static bool place_sane(const struct record_place *at)
{
    return at->value_offset <= at->extent_size && at->n == at->extent_size - at->value_offset;
}

err record_mutation_decode(struct cursor *c, struct record_mutation *out)
{
    uint8_t kind = cursor_u8(c);
    uint8_t blob = cursor_u8(c);
    if (c->failed || (kind != MUTATION_PUT && kind != MUTATION_DELETE) || blob >= RECORD_BLOBS)
        return ERR_CORRUPT;
    struct record_mutation m = { .deleted = kind == MUTATION_DELETE,
                                 .blob = (enum record_blob)blob };
    if (m.deleted && m.blob != RECORD_BLOB_NONE)
        return ERR_CORRUPT;
    m.space = cursor_u8(c);
    size_t key_n = cursor_be16(c);
    size_t value_n = cursor_be16(c);
    size_t inline_n = 0;
    if (m.blob == RECORD_BLOB_INLINE) {
        inline_n = cursor_be16(c);
        m.place.n = (uint32_t)inline_n;
        m.place.hash = cursor_be64(c);
    }
    if (m.blob == RECORD_BLOB_LOG)
        place_decode(c, &m.place);
    m.key = cursor_bytes(c, key_n);
    m.value = cursor_bytes(c, value_n);
    m.bytes = cursor_bytes(c, inline_n);
    if (c->failed || (m.blob == RECORD_BLOB_LOG && !place_sane(&m.place)))
        return ERR_CORRUPT;
    *out = m;
    return ERR_OK;
}
