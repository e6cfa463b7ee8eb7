/* inflate.c - decompresses gzip and deflate bodies as they arrive. Invariant: the output never
 * passes the maximum of its buffer, however well the input is compressed. */
#include "http/inflate.h"

enum {
    INFLATE_GZIP_BITS = 15 + 16, /* zlib's way to say gzip only */
    INFLATE_ZLIB_BITS = 15,
    INFLATE_BARE_BITS = -15,
    INFLATE_STEP_BYTES = 32 << 10
};

void inflater_init(struct inflater *f, enum inflate_format format)
{
    *f = (struct inflater){ .format = format };
}

void inflater_fini(struct inflater *f)
{
    if (f->begun)
        (void)inflateEnd(&f->z); /* says whether all was read, which inflater_end has said */
    f->begun = false;
}

static void inflate_begin(struct inflater *f, unsigned char first)
{
    int bits = INFLATE_GZIP_BITS;
    if (f->format == INFLATE_DEFLATE)
        bits = (first & 0x0f) == Z_DEFLATED ? INFLATE_ZLIB_BITS : INFLATE_BARE_BITS;
    INVARIANT(inflateInit2(&f->z, bits) == Z_OK); /* else out of memory */
    f->begun = true;
}

static err inflate_step(struct inflater *f, struct buf *out)
{
    Bytef room[INFLATE_STEP_BYTES];
    f->z.next_out = room;
    f->z.avail_out = sizeof room;
    int said = inflate(&f->z, Z_NO_FLUSH);
    INVARIANT(said != Z_MEM_ERROR && said != Z_STREAM_ERROR);
    if (said != Z_OK && said != Z_STREAM_END && said != Z_BUF_ERROR)
        return ERR_BAD;
    buf_put(out, (str){ .p = (const char *)room, .n = sizeof room - f->z.avail_out });
    f->ended = said == Z_STREAM_END;
    return buf_status(out);
}

err inflater_push(struct inflater *f, str in, struct buf *out)
{
    if (in.n == 0)
        return ERR_OK;
    if (in.n > UINT32_MAX)
        return ERR_LIMIT;
    if (!f->begun)
        inflate_begin(f, (unsigned char)in.p[0]);
    f->z.next_in = (z_const Bytef *)(uintptr_t)in.p; /* the library reads only */
    f->z.avail_in = (uInt)in.n;
    do {
        if (f->ended && f->format != INFLATE_GZIP)
            return ERR_BAD;
        if (f->ended)
            INVARIANT(inflateReset(&f->z) == Z_OK);
        err why = inflate_step(f, out);
        if (why != ERR_OK)
            return why;
    } while (f->z.avail_in > 0 || (!f->ended && f->z.avail_out == 0));
    return ERR_OK;
}

err inflater_end(const struct inflater *f)
{
    return !f->begun || f->ended ? ERR_OK : ERR_BAD;
}
