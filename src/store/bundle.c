/* bundle.c - builds the blob of a bundle and the digests by which two bundles are compared.
 * Invariant: the digest does not depend on the coding in which a content came or is stored. */
#include "store/bundle.h"

#include "base/buf.h"
#include "codec/sha256.h"

#include <string.h>
#include <xxhash.h>

/* ---- frames ---- */

static enum frame_coding coding_of(enum page_codec codec)
{
    static const enum frame_coding codings[] = {
        [PAGE_IDENTITY] = FRAME_IDENTITY, [PAGE_GZIP] = FRAME_GZIP, [PAGE_ZSTD] = FRAME_ZSTD
    };
    INVARIANT(codec < COUNT_OF(codings));
    return codings[codec];
}

/* Takes the frame as it came, where the bucket stores that coding: nothing is compressed twice.
 * out: room for raw.n bytes. False: compress. */
static bool packed_take(const struct bundle_way *way, const struct page_put_content *in, char *out,
                        size_t *n)
{
    if (in->packed.n == 0 || in->packed.n >= in->raw.n || in->packed_codec != way->codec)
        return false;
    memcpy(out, in->packed.p, in->packed.n);
    frame_clean(coding_of(way->codec), out, in->packed.n);
    *n = in->packed.n;
    return true;
}

/* One content: headers, then its frame, at *n of the blob; moves *n behind it. */
static void content_build(const struct bundle_way *way, const struct page_put_content *in,
                          char *blob, size_t *n, struct page_content *out)
{
    char *at = blob + *n;
    *out = (struct page_content){ .offset = (uint32_t)*n,
                                  .headers_bytes = (uint32_t)in->headers.n,
                                  .raw_bytes = (uint32_t)in->raw.n };
    INVARIANT(str_to_cstr(in->name, out->name, sizeof(out->name)));
    if (in->headers.n > 0)
        memcpy(at, in->headers.p, in->headers.n);
    size_t stored = 0;
    bool smaller =
        packed_take(way, in, at + in->headers.n, &stored) ||
        frame_squeeze(way->frames, coding_of(way->codec), in->raw, at + in->headers.n, &stored);
    /* Where compressing saves nothing the content is stored as it is. */
    out->codec = smaller ? way->codec : PAGE_IDENTITY;
    if (stored == 0 && in->raw.n > 0)
        memcpy(at + in->headers.n, in->raw.p, in->raw.n);
    out->stored_bytes = stored > 0 ? (uint32_t)stored : (uint32_t)in->raw.n;
    out->sum = XXH3_64bits(at, in->headers.n + out->stored_bytes);
    *n += in->headers.n + out->stored_bytes;
}

/* No frame is larger than its content, so the blob fits what is allocated. */
err bundle_build(const struct bundle_way *way, const struct page_put_content *contents,
                 unsigned count, struct arena *a, struct page_render *row, str *blob)
{
    size_t total = 0, n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (contents[i].raw.n > PAGE_BYTES_MAX || contents[i].headers.n > PAGE_HEADERS_BYTES_MAX)
            return ERR_LIMIT;
        total += contents[i].headers.n + contents[i].raw.n;
    }
    if (total > PAGE_BYTES_MAX)
        return ERR_LIMIT;
    char *bytes = arena_alloc(a, total);
    if (bytes == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < count; i++)
        content_build(way, &contents[i], bytes, &n, &row->contents[i]);
    row->contents_count = count;
    *blob = (str){ .p = bytes, .n = n };
    return ERR_OK;
}

/* ---- digests ---- */

/* Lengths are part of what is hashed: two texts never run into one another. */
static void hash_number(struct evp_md_ctx_st *h, uint64_t v)
{
    char be[8];
    put_be64(be, v);
    sha256_add(h, (str){ .p = be, .n = sizeof(be) });
}

/* A text with its length before it. */
static void hash_text(struct evp_md_ctx_st *h, str text)
{
    hash_number(h, text.n);
    sha256_add(h, text);
}

/* Sorts places by name (insertion sort, 16 at most): the order in which contents came must not
 * matter. */
static void by_name(const struct page_put_content *contents, unsigned count,
                    unsigned order[PAGE_CONTENTS_MAX])
{
    for (unsigned i = 0; i < count; i++) {
        unsigned at = i;
        for (; at > 0 && str_cmp(contents[order[at - 1]].name, contents[i].name) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Lines are sane (page/headers.h): the first colon ends the name. */
str bundle_header(str headers, str name)
{
    while (headers.n > 0) {
        str line = str_split(&headers, '\n');
        size_t colon = str_find(line, ':');
        if (colon < line.n && str_eq_nocase(str_take(line, colon), name))
            return str_trim(str_skip(line, colon + 1));
    }
    return STR_NONE;
}

/* lower is in lower case. */
static bool contains_nocase(str text, str lower)
{
    for (size_t i = 0; i + lower.n <= text.n; i++)
        if (str_eq_nocase(str_take(str_skip(text, i), lower.n), lower))
            return true;
    return false;
}

/* Both digests of a bundle in one pass. What is cut out of the plain bytes, and where, goes to the
 * second hash. On the stack of bundle_digests. */
struct both {
    struct evp_md_ctx_st *plain, *rest;
    struct evp_md_ctx_st *headers; /* but content-type; NULL: there are none */
    str raw;
    uint64_t plain_n;
    size_t seen; /* bytes of raw before it are in one of the two */
};

/* The bytes between `seen` and `until` were cut out of the plain hash. */
static void cut_piece(struct both *b, size_t until)
{
    if (until == b->seen)
        return;
    hash_number(b->rest, b->seen);
    hash_text(b->rest, (str){ .p = b->raw.p + b->seen, .n = until - b->seen });
}

/* Called for plain bytes in order; what lies between two calls was cut out. */
static void plain_piece(void *ctx, str bytes)
{
    struct both *b = ctx;
    size_t at = (size_t)(bytes.p - b->raw.p);
    cut_piece(b, at);
    sha256_add(b->plain, bytes);
    b->plain_n += bytes.n;
    b->seen = at + bytes.n;
}

/* A header that is not content-type makes bundles differ, too. */
static void hash_headers(struct both *b, const struct page_put_content *c)
{
    str lines = c->headers;
    while (lines.n > 0) {
        str line = str_split(&lines, '\n');
        if (line.n == 0 || str_eq_nocase(str_take(line, str_find(line, ':')), STR("content-type")))
            continue;
        if (b->headers == NULL)
            b->headers = sha256_begin();
        hash_text(b->headers, c->name);
        hash_text(b->headers, line);
    }
}

/* The text of names and types, then the bytes. Only HTML and XML have parts to be cut out. */
static void hash_content(struct both *b, const struct page_put_content *c)
{
    str type = bundle_header(c->headers, STR("content-type"));
    b->raw = c->raw;
    b->plain_n = b->seen = 0;
    hash_text(b->plain, c->name);
    hash_text(b->plain, type);
    hash_text(b->rest, c->headers);
    hash_headers(b, c);
    if (type.n == 0 || contains_nocase(type, STR("html")) || contains_nocase(type, STR("xml")))
        bundle_plain(c->raw, plain_piece, b);
    else if (c->raw.n > 0)
        plain_piece(b, c->raw);
    cut_piece(b, c->raw.n);
    hash_number(b->rest, c->raw.n);
    hash_number(b->plain, b->plain_n); /* behind the bytes: their number is known only then */
}

void bundle_digests(const struct page_put_content *contents, unsigned count,
                    unsigned char digest[PAGE_DIGEST_BYTES],
                    unsigned char plain_digest[PAGE_DIGEST_BYTES])
{
    unsigned order[PAGE_CONTENTS_MAX] = { 0 };
    struct both b = { .plain = sha256_begin() };
    b.rest = sha256_begin();
    unsigned char plain[SHA256_BYTES];
    by_name(contents, count, order);
    for (unsigned i = 0; i < count; i++)
        hash_content(&b, &contents[order[i]]);
    sha256_end(b.plain, plain);
    sha256_add(b.rest, (str){ .p = (const char *)plain, .n = SHA256_BYTES });
    if (b.headers != NULL) { /* beside the plain hash: so digest, and what is stored without them,
                                stay as they were */
        sha256_add(b.headers, (str){ .p = (const char *)plain, .n = SHA256_BYTES });
        sha256_end(b.headers, plain);
    }
    memcpy(plain_digest, plain, PAGE_DIGEST_BYTES);
    unsigned char whole[SHA256_BYTES];
    sha256_end(b.rest, whole);
    memcpy(digest, whole, PAGE_DIGEST_BYTES);
}
