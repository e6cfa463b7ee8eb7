/* Goal: a damaged frame is an error, never an overrun, and every value comes back from its frame.
 * Input: two bytes of raw size, then the frame or the value. */
#include "codec/frame.h"

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum frame_coding codings[] = { FRAME_GZIP, FRAME_ZSTD };
    if (size < 2)
        return 0;
    size_t raw_bytes = get_be16(data);
    str rest = { .p = (const char *)data + 2, .n = size - 2 };
    struct frame_codec *f = frame_codec_new();
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        struct arena a;
        str frame, back;
        arena_init(&a, 8 << 20);
        if (frame_decompress(f, codings[i], rest, raw_bytes, &a, &back) == ERR_OK)
            INVARIANT(back.n == raw_bytes);
        INVARIANT(frame_compress(f, codings[i], rest, &a, &frame) == ERR_OK);
        INVARIANT(frame_decompress(f, codings[i], frame, rest.n, &a, &back) == ERR_OK);
        INVARIANT(str_eq(back, rest));
        arena_fini(&a);
    }
    frame_codec_free(&f);
    return 0;
}
