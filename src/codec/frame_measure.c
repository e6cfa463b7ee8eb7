/* frame_measure.c - frames that strangers made: how much they hold, before memory is got for it. A
 * size is believed only as far as it is needed to refuse, or to get memory that the caller allows;
 * unpacking then checks each byte and the very size. Sources: RFC 1952 (gzip), RFC 8878 (zstd), RFC
 * 9659 (its window over HTTP). */
#include "codec/frame.h"

#include <libdeflate.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    GZIP_MEMBER_BYTES_MIN = 18,
    GZIP_TIME_AT = 4,
    GZIP_TIME_BYTES = 4,
    GZIP_FLAGS_AT = 3,
    GZIP_TAIL_BYTES = 8, /* CRC-32, then the size */
    GZIP_STEP_BYTES = 32 << 10,
    DEFLATE_RATIO_MAX = 1032, /* 258 bytes for two bits */
    ZSTD_MAGIC_BYTES = 4,
    ZSTD_HEAD_BYTES_MIN = 6, /* with the byte after its descriptor */
    ZSTD_SINGLE_SEGMENT = 1 << 5,
    ZSTD_WINDOW_LOG_MIN = 10,
    ZSTD_STEP_BYTES = 32 << 10,
    ZLIB_GZIP_BITS = 15 + 16 /* zlib's way to say gzip only */
};
_Static_assert(FRAME_WINDOW_BYTES_MAX == 1 << 23, "as ZSTD_WINDOW_LOG_MAX says");
enum { ZSTD_WINDOW_LOG_MAX = 23 };

static bool is_gzip(str frame)
{
    static const char start[] = { 0x1f, (char)0x8b, 8 };
    return frame.n >= GZIP_MEMBER_BYTES_MIN && memcmp(frame.p, start, sizeof start) == 0;
}

static uint32_t get_le32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Its last four bytes, modulo 2^32: what holds more will not fit into what they say. */
static err gzip_measure(str frame, size_t raw_max, size_t *raw_bytes)
{
    if (!is_gzip(frame))
        return ERR_BAD;
    size_t said = get_le32(frame.p + frame.n - 4);
    if (said / DEFLATE_RATIO_MAX > frame.n)
        return ERR_BAD;
    if (said > raw_max)
        return ERR_LIMIT;
    *raw_bytes = said;
    return ERR_OK;
}

/* Of one segment, the window is its whole content. */
static bool zstd_window_fits(str frame, unsigned long long content)
{
    const unsigned char *head = (const unsigned char *)frame.p;
    if ((head[ZSTD_MAGIC_BYTES] & ZSTD_SINGLE_SEGMENT) != 0)
        return content <= FRAME_WINDOW_BYTES_MAX;
    unsigned window = head[ZSTD_MAGIC_BYTES + 1];
    uint64_t base = UINT64_C(1) << (ZSTD_WINDOW_LOG_MIN + (window >> 3));
    return base + base / 8 * (window & 7) <= FRAME_WINDOW_BYTES_MAX;
}

/* Its head does not say: it is unpacked piece by piece and only counted. */
static err zstd_count(ZSTD_DCtx *d, str frame, size_t raw_max, size_t *raw_bytes)
{
    char room[ZSTD_STEP_BYTES];
    ZSTD_inBuffer in = { .src = frame.p, .size = frame.n };
    size_t count = 0, left;
    do {
        ZSTD_outBuffer out = { .dst = room, .size = sizeof room };
        left = ZSTD_decompressStream(d, &out, &in);
        if (ZSTD_isError(left))
            return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? ERR_UNAVAILABLE
                                                                           : ERR_BAD;
        count += out.pos;
        if (count > raw_max)
            return ERR_LIMIT;
        if (left > 0 && out.pos == 0 && in.pos == in.size)
            return ERR_BAD; /* it wants more, and there is none */
    } while (left > 0);
    *raw_bytes = count;
    return ERR_OK;
}

static err zstd_measure(str frame, size_t raw_max, size_t *raw_bytes)
{
    static const char magic[ZSTD_MAGIC_BYTES] = { 0x28, (char)0xb5, 0x2f, (char)0xfd };
    if (frame.n < ZSTD_HEAD_BYTES_MIN || memcmp(frame.p, magic, sizeof magic) != 0)
        return ERR_BAD;
    unsigned long long content = ZSTD_getFrameContentSize(frame.p, frame.n);
    bool known = content != ZSTD_CONTENTSIZE_UNKNOWN;
    if (content == ZSTD_CONTENTSIZE_ERROR ||
        ZSTD_findFrameCompressedSize(frame.p, frame.n) != frame.n)
        return ERR_BAD;
    if (known && content > raw_max)
        return ERR_LIMIT;
    if (!zstd_window_fits(frame, content))
        return ERR_BAD;
    if (known) {
        *raw_bytes = (size_t)content;
        return ERR_OK;
    }
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (d == NULL)
        return ERR_UNAVAILABLE;
    err why = ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX))
                  ? ERR_BAD
                  : zstd_count(d, frame, raw_max, raw_bytes);
    (void)ZSTD_freeDCtx(d); /* always says 0 */
    return why;
}

err frame_measure(enum frame_coding coding, str frame, size_t raw_max, size_t *raw_bytes)
{
    switch (coding) {
    case FRAME_GZIP:
        return gzip_measure(frame, raw_max, raw_bytes);
    case FRAME_ZSTD:
        return zstd_measure(frame, raw_max, raw_bytes);
    case FRAME_IDENTITY:
    case FRAME_CODINGS:
        break;
    }
    if (frame.n > raw_max)
        return ERR_LIMIT;
    *raw_bytes = frame.n;
    return ERR_OK;
}

static err gzip_unpack(str frame, size_t raw_bytes, struct arena *a, str *out)
{
    char *raw = arena_alloc(a, raw_bytes + 1); /* one more, to see that it ends there */
    if (raw == NULL)
        return ERR_LIMIT;
    z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)frame.p,
                   .avail_in = (uInt)frame.n,
                   .next_out = (Bytef *)raw,
                   .avail_out = (uInt)raw_bytes + 1 };
    if (frame.n > UINT32_MAX || raw_bytes >= UINT32_MAX)
        return ERR_LIMIT;
    if (inflateInit2(&z, ZLIB_GZIP_BITS) != Z_OK)
        return ERR_UNAVAILABLE;
    int said = inflate(&z, Z_FINISH);
    bool whole = said == Z_STREAM_END && z.avail_in == 0 && z.total_out == raw_bytes;
    (void)inflateEnd(&z); /* says whether all was read, which whole says */
    *out = whole ? (str){ .p = raw, .n = raw_bytes } : STR_NONE;
    return whole ? ERR_OK : said == Z_MEM_ERROR ? ERR_UNAVAILABLE : ERR_CORRUPT;
}

err frame_unpack(struct frame_codec *f, enum frame_coding coding, str frame, size_t raw_bytes,
                 struct arena *a, str *out)
{
    if (coding == FRAME_GZIP)
        return gzip_unpack(frame, raw_bytes, a, out);
    return frame_decompress(f, coding, frame, raw_bytes, a, out);
}

/* Piece by piece, up to the first difference. */
static err gzip_compare(z_stream *z, str raw, bool *holds)
{
    char room[GZIP_STEP_BYTES];
    int said = Z_OK;
    while (said == Z_OK) {
        z->next_out = (Bytef *)room;
        z->avail_out = sizeof room;
        said = inflate(z, Z_NO_FLUSH); /* Z_BUF_ERROR: it wants more, and there is none */
        size_t n = sizeof room - z->avail_out;
        if (!str_eq(str_take(raw, n), (str){ .p = room, .n = n }))
            return ERR_OK;
        raw = str_skip(raw, n);
    }
    *holds = said == Z_STREAM_END && z->avail_in == 0 && raw.n == 0;
    return said == Z_MEM_ERROR ? ERR_UNAVAILABLE : ERR_OK;
}

struct frame_sum frame_sum_of(str raw)
{
    return (struct frame_sum){ .bytes = raw.n,
                               .crc = libdeflate_crc32(0, raw.n == 0 ? "" : raw.p, raw.n) };
}

bool frame_gzip_says(str frame, struct frame_sum sum)
{
    if (!is_gzip(frame) || frame.n > UINT32_MAX || sum.bytes > UINT32_MAX)
        return false;
    const char *tail = frame.p + frame.n - GZIP_TAIL_BYTES;
    return get_le32(tail + 4) == sum.bytes && get_le32(tail) == sum.crc;
}

err frame_gzip_holds(str frame, str raw, bool *holds)
{
    *holds = false;
    if (!frame_gzip_says(frame, frame_sum_of(raw)))
        return ERR_OK;
    z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)frame.p, .avail_in = (uInt)frame.n };
    if (inflateInit2(&z, ZLIB_GZIP_BITS) != Z_OK)
        return ERR_UNAVAILABLE;
    err why = gzip_compare(&z, raw, holds);
    (void)inflateEnd(&z); /* says whether all was read, which holds says */
    return why;
}

bool frame_is_plain(enum frame_coding coding, str frame)
{
    return coding == FRAME_ZSTD ||
           (coding == FRAME_GZIP && is_gzip(frame) && frame.p[GZIP_FLAGS_AT] == 0);
}

void frame_clean(enum frame_coding coding, char *frame, size_t n)
{
    if (coding != FRAME_GZIP)
        return;
    INVARIANT(n >= GZIP_MEMBER_BYTES_MIN);
    memset(frame + GZIP_TIME_AT, 0, GZIP_TIME_BYTES);
}
