/* coding.c - chooses the coding of an answer by Accept-Encoding and by what is stored, for
 * get.c. */
#include "page/coding.h"

/* Codecs are numbers on disk, codings are bits of answers: they are kept apart. */
enum http_coding page_coding_of(enum page_codec codec)
{
    switch (codec) {
    case PAGE_IDENTITY:
        return CODING_IDENTITY;
    case PAGE_GZIP:
        return CODING_GZIP;
    case PAGE_ZSTD:
        return CODING_ZSTD;
    }
    return CODING_IDENTITY;
}

/* Does the client like it as much as identity? A stored coding then saves decoding and bytes. */
static bool is_liked(const struct http_accept *accept, enum http_coding coding)
{
    return accept->weight[coding] > 0 && accept->weight[coding] >= accept->weight[CODING_IDENTITY];
}

bool page_coding_choose(str accept_encoding, enum page_codec stored, enum http_coding *out)
{
    enum http_coding coding = page_coding_of(stored);
    struct http_accept accept = http_accept_encoding(accept_encoding);
    bool coded = coding != CODING_IDENTITY && is_liked(&accept, coding);
    *out = coded ? coding : CODING_IDENTITY;
    return coded || accept.weight[CODING_IDENTITY] > 0;
}

int page_coding_variant(str accept_encoding)
{
    struct http_accept accept = http_accept_encoding(accept_encoding);
    if (accept.weight[CODING_IDENTITY] == 0)
        return -1;
    int variant = 0;
    /* Only codings that are liked count: the weights themselves make no other answer. */
    for (int coding = CODING_IDENTITY + 1; coding < CODINGS; coding++)
        if (is_liked(&accept, (enum http_coding)coding))
            variant |= 1 << coding;
    return variant;
}
