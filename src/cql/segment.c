/* segment.c - version 5's segments and version 4's LZ4 bodies, as bytes. Pure.
 *
 * A header is 3 bytes (stored) or 5 (LZ4), little-endian: 17 bits of the payload's size as sent;
 * with LZ4 17 more of its size unpacked, where 0 means that the payload is sent as it is; one bit
 * for self-contained. The bits above are padding and are not looked at, as servers do. Behind it
 * come its CRC24, the payload, and the CRC32 of the payload as sent, each little-endian.
 *
 * Invariants:
 *   1 no size is believed before the checksum over it held;
 *   2 a payload leaves here only with its checksum right and, unpacked, exactly as large as its
 *     header says. */
#include "cql/segment.h"

#include "cql/wire.h"

#include <isa-l/crc.h>
#include <lz4.h>
#include <string.h>

enum {
    LENGTH_BITS = 17,
    LENGTH_MASK = CQL_SEGMENT_BYTES_MAX,
    HEADER_BYTES = 3,
    HEADER_LZ4_BYTES = 5,
    CRC24_BYTES = 3,
    CRC32_BYTES = 4,
    SIZE_BYTES = 4, /* before a body of version 4 */
    /* One byte of LZ4 stands for 255 bytes at most: of a run's length. */
    LZ4_RATIO_MAX = 255,
};

/* Eight bits of a CRC24 at a time. An entry is the sum of those of its bits, which are the
 * remainders of x^24 to x^31. */
#define CRC24_BIT(i, bit, rest) (((i) & (bit)) != 0 ? (rest) : 0u)
#define CRC24_OF(i)                                                                                \
    (CRC24_BIT(i, 1, 0x974f0bu) ^ CRC24_BIT(i, 2, 0xb9d11du) ^ CRC24_BIT(i, 4, 0xe4ed31u) ^        \
     CRC24_BIT(i, 8, 0x5e9569u) ^ CRC24_BIT(i, 16, 0xbd2ad2u) ^ CRC24_BIT(i, 32, 0xed1aafu) ^      \
     CRC24_BIT(i, 64, 0x4d7a55u) ^ CRC24_BIT(i, 128, 0x9af4aau))
#define CRC24_OF4(i) CRC24_OF(i), CRC24_OF((i) + 1), CRC24_OF((i) + 2), CRC24_OF((i) + 3)
#define CRC24_OF16(i) CRC24_OF4(i), CRC24_OF4((i) + 4), CRC24_OF4((i) + 8), CRC24_OF4((i) + 12)
#define CRC24_OF64(i)                                                                              \
    CRC24_OF16(i), CRC24_OF16((i) + 16), CRC24_OF16((i) + 32), CRC24_OF16((i) + 48)
static const uint32_t crc24_of_byte[256] = { CRC24_OF64(0), CRC24_OF64(64), CRC24_OF64(128),
                                             CRC24_OF64(192) };

uint32_t cql_crc24(str bytes)
{
    uint32_t crc = 0x875060;
    for (size_t i = 0; i < bytes.n; i++)
        crc = ((crc << 8) & 0xffffff) ^ crc24_of_byte[(crc >> 16) ^ (unsigned char)bytes.p[i]];
    return crc;
}

/* isa-l's: of 50 bytes six times as fast as zlib's, of a whole segment thirteen times. */
uint32_t cql_crc32(str bytes)
{
    static const uint32_t begun = 0x44777ed3; /* zlib's of FA 2D 55 CA */
    return bytes.n == 0 ? begun : crc32_gzip_refl(begun, (const unsigned char *)bytes.p, bytes.n);
}

static void put_le(char *at, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(unsigned char)(v >> 8 * i);
}

static uint64_t get_le(const char *at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return v;
}

/* Appends one segment. The payload is packed straight into its place, and copied there when packing
 * gains nothing. */
static void segment_put(struct buf *out, str payload, bool self_contained, bool lz4)
{
    const size_t head = lz4 ? HEADER_LZ4_BYTES : HEADER_BYTES;
    char *at = buf_extend(out, head + CRC24_BYTES + payload.n + CRC32_BYTES);
    if (at == NULL)
        return;
    char *body = at + head + CRC24_BYTES;
    size_t sent = 0;
    if (lz4 && payload.n > 1)
        /* Room for one byte less: it must become smaller. */
        sent = (size_t)LZ4_compress_default(payload.p, body, (int)payload.n, (int)payload.n - 1);
    uint64_t unpacked = sent == 0 ? 0 : payload.n;
    if (sent == 0) {
        memcpy(body, payload.p, payload.n);
        sent = payload.n;
    }
    uint64_t header = sent;
    if (lz4)
        header |= unpacked << LENGTH_BITS;
    header |= (uint64_t)self_contained << (lz4 ? 2 * LENGTH_BITS : LENGTH_BITS);
    put_le(at, header, head);
    put_le(at + head, cql_crc24((str){ .p = at, .n = head }), CRC24_BYTES);
    put_le(body + sent, cql_crc32((str){ .p = body, .n = sent }), CRC32_BYTES);
    /* The rest of the room was for a payload as it is. */
    out->n -= payload.n - sent;
}

/* The first envelope's size. INVARIANT: it is whole. */
static size_t envelope_bytes(str envelopes)
{
    INVARIANT(envelopes.n >= CQL_HEAD_BYTES);
    size_t n = CQL_HEAD_BYTES + (size_t)get_be32(envelopes.p + CQL_HEAD_BYTES - 4);
    INVARIANT(n <= envelopes.n);
    return n;
}

/* Whole envelopes share segments as long as they fit; a large one is cut. */
void cql_segments_put(struct buf *out, str envelopes, bool lz4)
{
    while (envelopes.n > 0) {
        size_t n = envelope_bytes(envelopes);
        if (n > CQL_SEGMENT_BYTES_MAX) {
            for (str large = str_take(envelopes, n); large.n > 0;
                 large = str_skip(large, CQL_SEGMENT_BYTES_MAX))
                segment_put(out, str_take(large, CQL_SEGMENT_BYTES_MAX), false, lz4);
        } else {
            while (n < envelopes.n) {
                size_t next = envelope_bytes(str_skip(envelopes, n));
                if (n + next > CQL_SEGMENT_BYTES_MAX)
                    break;
                n += next;
            }
            segment_put(out, str_take(envelopes, n), true, lz4);
        }
        envelopes = str_skip(envelopes, n);
    }
}

enum cql_segment_state cql_segment_take(str in, bool lz4, char *room, struct cql_segment *out,
                                        struct err_note *note)
{
    const size_t head = lz4 ? HEADER_LZ4_BYTES : HEADER_BYTES;
    if (in.n < head + CRC24_BYTES)
        return CQL_SEGMENT_SHORT;
    uint32_t crc24 = cql_crc24(str_take(in, head));
    if (crc24 != get_le(in.p + head, CRC24_BYTES)) {
        err_note_set(note, "a segment's header has CRC24 %06x, and says %06x", crc24,
                     (unsigned)get_le(in.p + head, CRC24_BYTES));
        return CQL_SEGMENT_BAD;
    }
    uint64_t header = get_le(in.p, head);
    size_t sent = header & LENGTH_MASK;
    size_t unpacked = lz4 ? (header >> LENGTH_BITS) & LENGTH_MASK : 0;
    size_t used = head + CRC24_BYTES + sent + CRC32_BYTES;
    if (in.n < used)
        return CQL_SEGMENT_SHORT;
    str payload = { .p = in.p + head + CRC24_BYTES, .n = sent };
    uint32_t crc32 = cql_crc32(payload);
    if (crc32 != get_le(payload.p + sent, CRC32_BYTES)) {
        err_note_set(note, "a segment's payload of %zu bytes has CRC32 %08x, and says %08x", sent,
                     crc32, (unsigned)get_le(payload.p + sent, CRC32_BYTES));
        return CQL_SEGMENT_BAD;
    }
    if (unpacked != 0) {
        INVARIANT(room != NULL);
        int got = LZ4_decompress_safe(payload.p, room, (int)sent, (int)unpacked);
        if (got < 0 || (size_t)got != unpacked) {
            err_note_set(note, "a segment's payload of %zu bytes is no LZ4 of %zu bytes", sent,
                         unpacked);
            return CQL_SEGMENT_BAD;
        }
        payload = (str){ .p = room, .n = unpacked };
    }
    *out = (struct cql_segment){
        .payload = payload,
        .self_contained = (header >> (lz4 ? 2 * LENGTH_BITS : LENGTH_BITS)) & 1,
        .used = used,
    };
    return CQL_SEGMENT_WHOLE;
}

bool cql_body_pack(struct buf *out, str body)
{
    if (body.n <= SIZE_BYTES + 1 || body.n > LZ4_MAX_INPUT_SIZE)
        return false;
    char *at = buf_extend(out, body.n);
    if (at == NULL)
        return false;
    int room = (int)body.n - SIZE_BYTES - 1;
    int sent = LZ4_compress_default(body.p, at + SIZE_BYTES, (int)body.n, room);
    put_be32(at, (uint32_t)body.n);
    out->n -= sent <= 0 ? body.n : body.n - SIZE_BYTES - (size_t)sent;
    return sent > 0;
}

bool cql_body_unpacked_bytes(str packed, size_t bytes_max, size_t *out)
{
    if (packed.n < SIZE_BYTES)
        return false;
    size_t claimed = get_be32(packed.p);
    if (claimed > bytes_max || claimed > LZ4_MAX_INPUT_SIZE)
        return false;
    /* A size that LZ4 cannot have made of so few bytes would only take memory. */
    if (claimed / LZ4_RATIO_MAX > packed.n - SIZE_BYTES)
        return false;
    *out = claimed;
    return true;
}

bool cql_body_unpack(str packed, char *out, size_t bytes)
{
    size_t claimed;
    if (packed.n > LZ4_MAX_INPUT_SIZE || !cql_body_unpacked_bytes(packed, bytes, &claimed))
        return false;
    if (claimed != bytes)
        return false;
    int got =
        LZ4_decompress_safe(packed.p + SIZE_BYTES, out, (int)(packed.n - SIZE_BYTES), (int)bytes);
    return got >= 0 && (size_t)got == bytes;
}
