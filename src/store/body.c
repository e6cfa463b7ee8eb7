/* body.c - gives the bytes of a content as readers want them: in one piece, decoded. */
#include "codec/frame.h"
#include "store/page_store.h"

#include <string.h>

/* Pieces are joined by a copy only when there are several. */
str page_body_whole(const struct page_body *b, struct arena *a)
{
    /* The usual case: the embedded store reads one piece. */
    if (b->pieces_count == 1)
        return b->pieces[0];
    size_t n = 0;
    for (unsigned i = 0; i < b->pieces_count; i++)
        n += b->pieces[i].n;
    char *bytes = arena_alloc(a, n), *at = bytes;
    if (bytes == NULL)
        return STR_NONE;
    for (unsigned i = 0; i < b->pieces_count; i++) {
        if (b->pieces[i].n > 0)
            memcpy(at, b->pieces[i].p, b->pieces[i].n);
        at += b->pieces[i].n;
    }
    return (str){ .p = bytes, .n = n };
}

/* Codecs of pages and codings of frames are numbered apart. */
static enum frame_coding coding_of(enum page_codec codec)
{
    switch (codec) {
    case PAGE_IDENTITY:
        return FRAME_IDENTITY;
    case PAGE_GZIP:
        return FRAME_GZIP;
    case PAGE_ZSTD:
        return FRAME_ZSTD;
    }
    return FRAME_IDENTITY;
}

err page_body_raw(const struct page_body *b, struct arena *a, str *raw)
{
    str frame = page_body_whole(b, a);
    if (frame.p == NULL)
        return ERR_LIMIT;
    /* raw_bytes bounds what the frame may become. */
    struct frame_codec *f = frame_codec_new();
    err why = frame_decompress(f, coding_of(b->codec), frame, b->raw_bytes, a, raw);
    frame_codec_free(&f);
    return why;
}
