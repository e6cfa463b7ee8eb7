/* frame.c - compresses and decompresses values as gzip or zstd, with working memory that is kept
 * between calls. Invariant: a frame that does not give exactly the stored number of bytes is
 * ERR_CORRUPT. */
#include "codec/frame.h"

#include <isa-l/igzip_lib.h>
#include <libdeflate.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define FRAME_MAGIC 0xf4a3ec0du
enum {
    GZIP_LEVEL = 1,
    GZIP_WORK_BYTES = ISAL_DEF_LVL1_DEFAULT,
    GZIP_FRAME_BYTES = 64,    /* more than head and tail of a member take */
    GZIP_BLOCK_BYTES = 65535, /* of a stored block, which costs GZIP_BLOCK_HEAD_BYTES */
    GZIP_BLOCK_HEAD_BYTES = 5,
    ZSTD_LEVEL = 3
};

struct frame_codec {
    uint32_t magic;
    /* Each made at its first use: most threads need one of them. */
    unsigned char *deflate; /* GZIP_WORK_BYTES */
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
    free(f->deflate);
    if (f->inflate != NULL)
        libdeflate_free_decompressor(f->inflate);
    (void)ZSTD_freeCCtx(f->zstd); /* takes NULL, always says 0 */
    (void)ZSTD_freeDCtx(f->unzstd);
    f->magic = 0;
    free(f);
    *fp = NULL;
}

static const char *const coding_names[FRAME_CODINGS] = {
    [FRAME_IDENTITY] = "identity", [FRAME_GZIP] = "gzip", [FRAME_ZSTD] = "zstd"
};

const char *frame_coding_name(enum frame_coding coding)
{
    INVARIANT(coding < FRAME_CODINGS);
    return coding_names[coding];
}

bool frame_coding_find(str name, enum frame_coding *out)
{
    bool old = str_eq_nocase(name, STR("x-gzip")); /* RFC 9110 8.4.1.3 */
    *out = old ? FRAME_GZIP : FRAME_IDENTITY;
    for (unsigned i = 0; i < FRAME_CODINGS; i++)
        if (str_eq_nocase(name, str_of(coding_names[i]))) {
            *out = (enum frame_coding)i;
            return true;
        }
    return old || name.n == 0;
}

/* The libraries want an address also for nothing. */
static const char *address_of(str s)
{
    return s.n == 0 ? "" : s.p;
}

/* How many bytes of out the member takes; 0: more than size, or there is no memory to work in. */
static size_t gzip_into(struct frame_codec *f, str raw, char *out, size_t size)
{
    INVARIANT(raw.n <= UINT32_MAX && size <= UINT32_MAX);
    if (f->deflate == NULL)
        f->deflate = malloc(GZIP_WORK_BYTES);
    if (f->deflate == NULL)
        return 0;
    struct isal_zstream z;
    isal_deflate_stateless_init(&z);
    memcpy(&z.next_in, &raw.p,
           sizeof z.next_in); /* the library does not write to it, nor says so */
    z.avail_in = (uint32_t)raw.n;
    z.next_out = (uint8_t *)out;
    z.avail_out = (uint32_t)size;
    z.end_of_stream = 1;
    z.gzip_flag = IGZIP_GZIP;
    z.level = GZIP_LEVEL;
    z.level_buf = f->deflate;
    z.level_buf_size = GZIP_WORK_BYTES;
    return isal_deflate_stateless(&z) == COMP_OK ? z.total_out : 0;
}

/* 0 as above. */
static size_t zstd_into(struct frame_codec *f, str raw, char *out, size_t size)
{
    if (f->zstd == NULL)
        f->zstd = ZSTD_createCCtx();
    if (f->zstd == NULL)
        return 0;
    size_t n = ZSTD_compressCCtx(f->zstd, out, size, address_of(raw), raw.n, ZSTD_LEVEL);
    return ZSTD_isError(n) ? 0 : n;
}

bool frame_squeeze(struct frame_codec *f, enum frame_coding coding, str raw, char *out, size_t *n)
{
    MAGIC_CHECK(f, FRAME_MAGIC);
    INVARIANT(coding < FRAME_CODINGS);
    if (coding == FRAME_IDENTITY || raw.n < 2)
        return false;
    size_t made = coding == FRAME_GZIP ? gzip_into(f, raw, out, raw.n - 1)
                                       : zstd_into(f, raw, out, raw.n - 1);
    if (made == 0)
        return false;
    *n = made;
    return true;
}

static size_t bound(enum frame_coding coding, size_t n)
{
    if (coding == FRAME_ZSTD)
        return ZSTD_compressBound(n);
    return n + (n / GZIP_BLOCK_BYTES + 1) * GZIP_BLOCK_HEAD_BYTES + GZIP_FRAME_BYTES;
}

err frame_compress(struct frame_codec *f, enum frame_coding coding, str raw, struct arena *a,
                   str *out)
{
    MAGIC_CHECK(f, FRAME_MAGIC);
    INVARIANT(coding < FRAME_CODINGS);
    if (coding == FRAME_IDENTITY) {
        *out = raw;
        return ERR_OK;
    }
    size_t size = bound(coding, raw.n);
    char *frame = arena_alloc(a, size);
    if (frame == NULL)
        return ERR_LIMIT;
    size_t n =
        coding == FRAME_GZIP ? gzip_into(f, raw, frame, size) : zstd_into(f, raw, frame, size);
    if (n == 0) /* it fits, so it was memory */
        return ERR_UNAVAILABLE;
    *out = (str){ .p = frame, .n = n };
    return ERR_OK;
}

static bool gzip_decompress(struct frame_codec *f, str frame, char *raw, size_t raw_bytes)
{
    size_t took, made;
    return libdeflate_gzip_decompress_ex(f->inflate, address_of(frame), frame.n, raw, raw_bytes,
                                         &took, &made) == LIBDEFLATE_SUCCESS &&
           took == frame.n && made == raw_bytes;
}

static bool zstd_decompress(struct frame_codec *f, str frame, char *raw, size_t raw_bytes)
{
    if (ZSTD_findFrameCompressedSize(address_of(frame), frame.n) != frame.n)
        return false; /* several, or none */
    return ZSTD_decompressDCtx(f->unzstd, raw, raw_bytes, address_of(frame), frame.n) == raw_bytes;
}

/* False: there is no memory for it. */
static bool unpacker_made(struct frame_codec *f, enum frame_coding coding)
{
    if (coding == FRAME_GZIP && f->inflate == NULL)
        f->inflate = libdeflate_alloc_decompressor();
    if (coding == FRAME_ZSTD && f->unzstd == NULL)
        f->unzstd = ZSTD_createDCtx();
    return coding == FRAME_GZIP ? f->inflate != NULL : f->unzstd != NULL;
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
    if (!unpacker_made(f, coding))
        return ERR_UNAVAILABLE;
    bool whole = coding == FRAME_GZIP ? gzip_decompress(f, frame, raw, raw_bytes)
                                      : zstd_decompress(f, frame, raw, raw_bytes);
    if (!whole)
        return ERR_CORRUPT;
    *out = (str){ .p = raw, .n = raw_bytes };
    return ERR_OK;
}

struct frame_codec *frame_pool_take(struct frame_pool *p)
{
    for (size_t i = 0; i < FRAME_POOL_CODECS; i++) {
        struct frame_codec *f = atomic_exchange(&p->idle[i], NULL);
        if (f != NULL)
            return f;
    }
    return frame_codec_new();
}

void frame_pool_give(struct frame_pool *p, struct frame_codec **fp)
{
    for (size_t i = 0; i < FRAME_POOL_CODECS; i++) {
        struct frame_codec *none = NULL;
        if (atomic_compare_exchange_strong(&p->idle[i], &none, *fp)) {
            *fp = NULL;
            return;
        }
    }
    frame_codec_free(fp);
}

void frame_pool_fini(struct frame_pool *p)
{
    for (size_t i = 0; i < FRAME_POOL_CODECS; i++) {
        struct frame_codec *f = atomic_exchange(&p->idle[i], NULL);
        frame_codec_free(&f);
    }
}
