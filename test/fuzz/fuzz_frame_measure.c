/* Goal: a frame of a stranger's that is taken can be read back as any stored frame, and holds no
 * more than is allowed; zlib too refuses what is refused. Input: a byte for the limit, then the
 * frame. */
#include "codec/frame.h"

#include "base/buf.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GZIP_BITS = 15 + 16, LIMIT_STEP_BYTES = 1024, ROOM_BYTES = 256 << 10 };

/* One member, nothing behind it, at most max bytes. */
static bool zlib_takes(str frame, size_t max, char *room)
{
    z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)frame.p,
                   .avail_in = (uInt)frame.n,
                   .next_out = (Bytef *)room,
                   .avail_out = (uInt)max + 1 };
    INVARIANT(inflateInit2(&z, GZIP_BITS) == Z_OK);
    bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.total_out <= max;
    INVARIANT(inflateEnd(&z) == Z_OK);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum frame_coding codings[] = { FRAME_GZIP, FRAME_ZSTD };
    static char room[ROOM_BYTES + 1];
    if (size < 1)
        return 0;
    size_t max = (size_t)data[0] * LIMIT_STEP_BYTES;
    str frame = { .p = (const char *)data + 1, .n = size - 1 };
    struct frame_codec *f = frame_codec_new();
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        struct arena a;
        size_t n = SIZE_MAX;
        str raw, again;
        arena_init(&a, 2 * (ROOM_BYTES + LIMIT_STEP_BYTES));
        bool fine = frame_measure(codings[i], frame, max, &n) == ERR_OK;
        INVARIANT(!fine || n <= max);
        fine = fine && frame_unpack(f, codings[i], frame, n, &a, &raw) == ERR_OK;
        if (fine) {
            INVARIANT(frame_decompress(f, codings[i], frame, n, &a, &again) == ERR_OK);
            INVARIANT(str_eq(raw, again));
        } else if (codings[i] == FRAME_GZIP) {
            INVARIANT(!zlib_takes(frame, max, room));
        }
        arena_fini(&a);
    }
    frame_codec_free(&f);
    return 0;
}
