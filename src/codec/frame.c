#include "codec/frame.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <zstd.h>

#define FRAME_MAGIC 0xf4a3ec0du
enum { GZIP_LEVEL = 1, ZSTD_LEVEL = 3 };

struct frame_codec {
    uint32_t magic;
    /* Each made at its first use: most threads need one of them. */
    struct libdeflate_compressor *deflate;
    struct libdeflate_decompressor *inflate;
    ZSTD_CCtx *zstd;
    ZSTD_DCtx *unzstd;
};

struct frame_codec *frame_codec_new(void)
{
    struct frame_codec *f = malloc(sizeof *f);
    INVARIANT(f != NULL);
    *f = (struct frame_codec){ .magic = FRAME_MAGIC };
    return f;
}

void frame_codec_free(struct frame_codec **fp)
{
    struct frame_codec *f = *fp;
    if (f == NULL)
        return;
    MAGIC_CHECK(f, FRAME_MAGIC);
    if (f->deflate != NULL)
        libdeflate_free_compressor(f->deflate);
    if (f->inflate != NULL)
        libdeflate_free_decompressor(f->inflate);
    (void)ZSTD_freeCCtx(f->zstd); /* takes NULL, always says 0 */
    (void)ZSTD_freeDCtx(f->unzstd);
    f->magic = 0;
    free(f);
    *fp = NULL;
}

const char *frame_coding_name(enum frame_coding coding)
{
    static const char *const names[FRAME_CODINGS] = {
        [FRAME_IDENTITY] = "identity", [FRAME_GZIP] = "gzip", [FRAME_ZSTD] = "zstd"
    };
    INVARIANT(coding < FRAME_CODINGS);
    return names[coding];
}

/* The libraries want an address also for nothing. */
static const char *address_of(str s)
{
    return s.n == 0 ? "" : s.p;
}

static err gzip_compress(struct frame_codec *f, str raw, struct arena *a, str *out)
{
    if (f->deflate == NULL)
        f->deflate = libdeflate_alloc_compressor(GZIP_LEVEL);
    INVARIANT(f->deflate != NULL);
    size_t size = libdeflate_gzip_compress_bound(f->deflate, raw.n);
    char *frame = arena_alloc(a, size);
    if (frame == NULL)
        return ERR_LIMIT;
    size_t n = libdeflate_gzip_compress(f->deflate, address_of(raw), raw.n, frame, size);
    INVARIANT(n > 0);
    *out = (str){ .p = frame, .n = n };
    return ERR_OK;
}

static err zstd_compress(struct frame_codec *f, str raw, struct arena *a, str *out)
{
    if (f->zstd == NULL)
        f->zstd = ZSTD_createCCtx();
    INVARIANT(f->zstd != NULL);
    size_t size = ZSTD_compressBound(raw.n);
    char *frame = ZSTD_isError(size) ? NULL : arena_alloc(a, size);
    if (frame == NULL)
        return ERR_LIMIT;
    size_t n = ZSTD_compressCCtx(f->zstd, frame, size, address_of(raw), raw.n, ZSTD_LEVEL);
    INVARIANT(!ZSTD_isError(n));
    *out = (str){ .p = frame, .n = n };
    return ERR_OK;
}

err frame_compress(struct frame_codec *f, enum frame_coding coding, str raw, struct arena *a,
                   str *out)
{
    MAGIC_CHECK(f, FRAME_MAGIC);
    INVARIANT(coding < FRAME_CODINGS);
    switch (coding) {
    case FRAME_IDENTITY:
        *out = raw;
        return ERR_OK;
    case FRAME_GZIP:
        return gzip_compress(f, raw, a, out);
    case FRAME_ZSTD:
        return zstd_compress(f, raw, a, out);
    case FRAME_CODINGS:
        break;
    }
    return ERR_BAD; /* not reached */
}

static bool gzip_decompress(struct frame_codec *f, str frame, char *raw, size_t raw_bytes)
{
    size_t took, made;
    if (f->inflate == NULL)
        f->inflate = libdeflate_alloc_decompressor();
    INVARIANT(f->inflate != NULL);
    return libdeflate_gzip_decompress_ex(f->inflate, address_of(frame), frame.n, raw, raw_bytes,
                                         &took, &made) == LIBDEFLATE_SUCCESS &&
           took == frame.n && made == raw_bytes;
}

static bool zstd_decompress(struct frame_codec *f, str frame, char *raw, size_t raw_bytes)
{
    if (f->unzstd == NULL)
        f->unzstd = ZSTD_createDCtx();
    INVARIANT(f->unzstd != NULL);
    if (ZSTD_findFrameCompressedSize(address_of(frame), frame.n) != frame.n)
        return false; /* several, or none */
    return ZSTD_decompressDCtx(f->unzstd, raw, raw_bytes, address_of(frame), frame.n) == raw_bytes;
}

err frame_decompress(struct frame_codec *f, enum frame_coding coding, str frame, size_t raw_bytes,
                     struct arena *a, str *out)
{
    MAGIC_CHECK(f, FRAME_MAGIC);
    INVARIANT(coding < FRAME_CODINGS);
    if (coding == FRAME_IDENTITY) {
        if (frame.n != raw_bytes)
            return ERR_CORRUPT;
        *out = frame;
        return ERR_OK;
    }
    char *raw = arena_alloc(a, raw_bytes == 0 ? 1 : raw_bytes);
    if (raw == NULL)
        return ERR_LIMIT;
    bool whole = coding == FRAME_GZIP ? gzip_decompress(f, frame, raw, raw_bytes)
                                      : zstd_decompress(f, frame, raw, raw_bytes);
    if (!whole)
        return ERR_CORRUPT;
    *out = (str){ .p = raw, .n = raw_bytes };
    return ERR_OK;
}
