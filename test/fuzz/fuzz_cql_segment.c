/* Goal: no bytes make the reading of segments, or of LZ4 bodies, go beyond them or beyond the room;
 * and what was packed is taken back.
 * Method: the first byte says what is tried. Checksums are mended in half of the runs: behind them
 * nothing would be reached by chance. */
#include "cql/segment.h"
#include "cql/wire.h"

#include <stdlib.h>
#include <string.h>

enum { TRY_LZ4 = 1, TRY_MENDED = 2, TRY_PACK = 4, TRY_BODY = 8 };
enum { BODY_BYTES_MAX = 1 << 20, PACK_BYTES = 200000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char room[CQL_SEGMENT_BYTES_MAX];

static void put_le(char *at, uint32_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(v >> 8 * i);
}

/* Writes the checksums that the segments should have. */
static void mend(char *at, size_t n, bool lz4)
{
    const size_t head = lz4 ? 5 : 3;
    while (n >= head + 3) {
        put_le(at + head, cql_crc24((str){ .p = at, .n = head }), 3);
        const unsigned char *h = (const unsigned char *)at;
        size_t sent = (size_t)h[0] | (size_t)h[1] << 8 | (size_t)(h[2] & 1) << 16;
        size_t all = head + 3 + sent + 4;
        if (n < all)
            return;
        put_le(at + head + 3 + sent, cql_crc32((str){ .p = at + head + 3, .n = sent }), 4);
        at += all;
        n -= all;
    }
}

static void take(str in, bool lz4)
{
    struct cql_segment s = { .used = 0 };
    struct err_note note = { .text = "" };
    volatile unsigned char sum = 0;
    for (;;) {
        enum cql_segment_state got = cql_segment_take(in, lz4, lz4 ? room : NULL, &s, &note);
        INVARIANT((got == CQL_SEGMENT_BAD) == (note.text[0] != 0));
        if (got != CQL_SEGMENT_WHOLE)
            return;
        INVARIANT(s.used > 0);
        INVARIANT(s.used <= in.n);
        INVARIANT(s.payload.n <= CQL_SEGMENT_BYTES_MAX);
        for (size_t i = 0; i < s.payload.n; i++)
            sum = (unsigned char)(sum + (unsigned char)s.payload.p[i]);
        in = str_skip(in, s.used);
    }
}

/* Two bytes say how large an envelope is, and the next ones are its body, over and over. */
static void pack(str bytes, bool lz4)
{
    struct buf envelopes, sent;
    buf_init(&envelopes, 1 << 20);
    buf_init(&sent, 2 << 20);
    while (bytes.n > 2 && envelopes.n < PACK_BYTES) {
        size_t large = get_be16(bytes.p), n = large * (large % 5 == 0 ? 5 : 1);
        char head[CQL_HEAD_BYTES] = { 5 };
        bytes = str_skip(bytes, 2);
        put_be32(head + CQL_HEAD_BYTES - 4, (uint32_t)n);
        buf_put(&envelopes, (str){ .p = head, .n = sizeof head });
        for (size_t left = n; left > 0; left -= left < bytes.n ? left : bytes.n)
            buf_put(&envelopes, str_take(bytes, left));
        bytes = str_skip(bytes, 1 + n % 16);
    }
    cql_segments_put(&sent, buf_str(&envelopes), lz4);
    INVARIANT(buf_status(&sent) == ERR_OK);
    str left = buf_str(&envelopes);
    for (str in = buf_str(&sent); in.n > 0;) {
        struct cql_segment s;
        INVARIANT(cql_segment_take(in, lz4, room, &s, NULL) == CQL_SEGMENT_WHOLE);
        INVARIANT(str_starts(left, s.payload));
        INVARIANT(s.payload.n > 0);
        left = str_skip(left, s.payload.n);
        in = str_skip(in, s.used);
    }
    INVARIANT(left.n == 0);
    buf_fini(&sent);
    buf_fini(&envelopes);
}

static void body(str bytes)
{
    struct buf packed;
    size_t n = 0;
    buf_init(&packed, BODY_BYTES_MAX);
    if (cql_body_pack(&packed, bytes)) {
        INVARIANT(packed.n < bytes.n);
        INVARIANT(cql_body_unpacked_bytes(buf_str(&packed), bytes.n, &n));
        INVARIANT(n == bytes.n);
        char *again = malloc(n);
        INVARIANT(again != NULL);
        INVARIANT(cql_body_unpack(buf_str(&packed), again, n));
        INVARIANT(memcmp(again, bytes.p, n) == 0);
        free(again);
    }
    buf_fini(&packed);
    if (!cql_body_unpacked_bytes(bytes, BODY_BYTES_MAX, &n))
        return;
    char *out = malloc(n + 1); /* a byte behind it stays as it is */
    INVARIANT(out != NULL);
    out[n] = '-';
    (void)cql_body_unpack(bytes, out, n);
    INVARIANT(out[n] == '-');
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned how = data[0];
    bool lz4 = (how & TRY_LZ4) != 0;
    char *bytes = malloc(size == 1 ? 1 : size - 1); /* no byte more: a read behind is seen */
    INVARIANT(bytes != NULL);
    str in = { .p = bytes, .n = size - 1 };
    memcpy(bytes, data + 1, size - 1);
    if ((how & TRY_BODY) != 0)
        body(in);
    else if ((how & TRY_PACK) != 0)
        pack(in, lz4);
    else {
        if ((how & TRY_MENDED) != 0)
            mend(bytes, size - 1, lz4);
        take(in, lz4);
    }
    free(bytes);
    return 0;
}
