/* unpack.h - a file as it was before it was compressed: by its first bytes, whatever its name.
 * Private to cli.
 *
 * bzip2 (several streams in one file too, as dumps.wikimedia.org has them), xz, zstd, gzip, or
 * plain. What is read comes out when the sum over it has been compared: a stream, frame or member
 * waits for its end, but no more than UNPACK_HELD_MAX bytes of it; a longer one comes out before,
 * and unpack_checked says so. bzip2 has a sum for each block, so it is always compared; plain files
 * have none. Besides, memory is bounded by the formats' windows and UNPACK_MEMORY_MAX. Thread:
 * one. */
#ifndef CLI_UNPACK_H
#define CLI_UNPACK_H

#include "base/err.h"
#include "base/str.h"

#include <stdio.h>

#define UNPACK_MEMORY_MAX ((uint64_t)1 << 30)
enum {
    UNPACK_CHUNK_BYTES = 1 << 16,
    UNPACK_ZSTD_WINDOW_LOG_MAX = 30,
    UNPACK_HELD_MAX = 64 << 20,
    UNPACK_BZIP2_BLOCK_MAX = 900000 / 5 * 259, /* four equal bytes and a count are up to 259 */
};

enum unpack_kind { UNPACK_PLAIN, UNPACK_BZIP2, UNPACK_XZ, UNPACK_ZSTD, UNPACK_GZIP, UNPACK_KINDS };
const char *unpack_kind_name(enum unpack_kind k);
/* By the first bytes of a file; six are enough. */
enum unpack_kind unpack_sniff(str first);

struct unpack;
/* from is borrowed. Owner: caller. ERR_IO with a note: it cannot be read. */
MUST_CHECK err unpack_new(FILE *from, struct unpack **out, struct err_note *note);
void unpack_free(struct unpack **up);
/* Fills dst; *n is 0 only at the end. ERR_CORRUPT: damaged or cut off; ERR_LIMIT: wants too much
 * memory; ERR_IO. What of a damaged part had not come out never does. */
MUST_CHECK err unpack_read(struct unpack *u, char *dst, size_t size, size_t *n,
                           struct err_note *note);
/* Has all that came out been compared with its sum, where there is one? */
bool unpack_checked(const struct unpack *u);
/* Bytes of the file read so far. */
uint64_t unpack_consumed(const struct unpack *u);

#endif
