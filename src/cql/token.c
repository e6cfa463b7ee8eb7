/* token.c - where a partition stands: the Murmur3 of its routing key, and the routing key itself.
 * Pure.
 *
 * Cassandra's MurmurHash.java takes the bytes of the tail, those behind the last whole block of 16,
 * as signed. So its tokens differ from the textbook's wherever such a byte is above 0x7f. Only the
 * first half of the hash is the token. INT64_MIN is no token: the partitioner keeps it for the
 * ring's begin. */
#include "cql/ring.h"

enum { BLOCK_BYTES = 16, HALF_BYTES = 8 };
static const uint64_t C1 = 0x87c37b91114253d5u, C2 = 0x4cf5ad432745937fu;

static uint64_t rotl(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t get_le64(const char *p)
{
    uint64_t v = 0;
    for (unsigned i = HALF_BYTES; i-- > 0;)
        v = (v << 8) | (unsigned char)p[i];
    return v;
}

static uint64_t mix1(uint64_t k)
{
    return rotl(k * C1, 31) * C2;
}

static uint64_t mix2(uint64_t k)
{
    return rotl(k * C2, 33) * C1;
}

static uint64_t mix_last(uint64_t h)
{
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

/* Up to 8 bytes, each with its sign carried up to the top. */
static uint64_t tail_half(str bytes)
{
    uint64_t k = 0;
    for (size_t i = 0; i < bytes.n; i++)
        k ^= (uint64_t)(int64_t)(signed char)bytes.p[i] << (8 * i);
    return k;
}

int64_t cql_token(str routing_key)
{
    uint64_t h1 = 0, h2 = 0;
    str rest = routing_key;
    /* Murmur3 x64 128 of the textbook, with seed 0. */
    for (; rest.n >= BLOCK_BYTES; rest = str_skip(rest, BLOCK_BYTES)) {
        h1 = (rotl(h1 ^ mix1(get_le64(rest.p)), 27) + h2) * 5 + 0x52dce729u;
        h2 = (rotl(h2 ^ mix2(get_le64(rest.p + HALF_BYTES)), 31) + h1) * 5 + 0x38495ab5u;
    }
    h1 ^= mix1(tail_half(str_take(rest, HALF_BYTES)));
    h2 ^= mix2(tail_half(str_skip(rest, HALF_BYTES)));
    h1 ^= routing_key.n;
    h2 ^= routing_key.n;
    h1 += h2;
    h2 += h1;
    h1 = mix_last(h1);
    h2 = mix_last(h2);
    int64_t token = (int64_t)(h1 + h2);
    return token == INT64_MIN ? INT64_MAX : token;
}

bool cql_routing_key(struct buf *out, const str *parts, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (parts[i].n > UINT16_MAX)
            return false;
    /* Of one part the key is the part itself: only a composite has lengths. */
    if (count == 1) {
        buf_put(out, parts[0]);
        return true;
    }
    for (unsigned i = 0; i < count; i++) {
        buf_put_str16(out, parts[i]);
        /* The end-of-component byte of Cassandra's composites. */
        buf_put_u8(out, 0);
    }
    return true;
}
