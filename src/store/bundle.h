/* bundle.h - the bytes of a bundle: compressed frames in one blob, and the digests that tell
 * bundles apart.
 *
 * Blob: for each content its headers, then its frame, one after the other. A frame is the content
 * in the bucket's coding, or as it is where the coding would not make it smaller.
 *
 * plain_digest: SHA-256, first 16 bytes, over names, content-type values and plain bytes in order
 * of names; where there are other headers, SHA-256 over those and that hash.
 * digest: SHA-256 over all headers, what is not plain with its places, and the whole of the plain
 * hash: so that it stands for every byte, and each byte is hashed once. Plain bytes of a content
 * whose content-type says html or xml (or that has none) are its bytes without
 *   - every attribute named about with a quoted value, in a start tag, and the one space before it;
 *   - every <meta ...> tag that holds the text mw:TimeUuid;
 * comments are left as they are; of other contents, all bytes. Two renders of one revision that
 * differ in nothing else are the same render (RESTBase: sys/parsoid.js, "about" and TimeUuid).
 * Thread: any; for stores. */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

#include "codec/frame.h"
#include "store/page_write.h"
#include "title/row.h"

struct bundle_way {
    enum page_codec codec;
    struct frame_codec *frames; /* borrowed */
};

/* What is wrong with a put, without looking at what is stored: names, numbers, headers, a tid too
 * far ahead of now. ERR_BAD, ERR_LIMIT: p->note says what. Pure. */
MUST_CHECK err bundle_check(const struct page_bucket_opts *o, store_time now, struct page_put *p);

/* Compresses into the arena. Fills contents and contents_count of row, and *blob.
 * Fails: ERR_LIMIT when the arena or PAGE_BYTES_MAX is passed. Pure but for the arena;
 * slow. */
MUST_CHECK err bundle_build(const struct bundle_way *way, const struct page_put_content *contents,
                            unsigned count, struct arena *a, struct page_render *row, str *blob);
void bundle_digests(const struct page_put_content *contents, unsigned count,
                    unsigned char digest[PAGE_DIGEST_BYTES],
                    unsigned char plain_digest[PAGE_DIGEST_BYTES]);

/* Calls piece for the plain bytes of html, in order. */
void bundle_plain(str html, void (*piece)(void *ctx, str bytes), void *ctx);
/* The value of a header in "name: value\n" lines, any letter case; STR_NONE. */
str bundle_header(str headers, str name);

#endif
