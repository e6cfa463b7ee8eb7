/* unpack.c - reads a compressed file as a stream, by its first bytes. Invariant: where the
 * format has a checksum, bytes of a part are given out only after the sum was compared, as far
 * as the part can be held. */
#include "cli/unpack.h"

#include "base/buf.h"

#include <bzlib.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { UNPACK_MAGIC = 0x0badc0de };

/* One step of a decoder: takes from in, gives to out, moves both. between: a stream has ended and
 * no other has begun, so the file may end here. */
struct unpack {
    uint32_t magic;
    FILE *from;
    enum unpack_kind kind;
    char chunk[UNPACK_CHUNK_BYTES];
    str in; /* what is left of chunk */
    uint64_t consumed;
    bool file_ended, between, over;
    union {
        bz_stream bz;
        lzma_stream xz;
        z_stream gz;
    } s; /* by kind */
    ZSTD_DStream *zstd;
    struct buf held; /* decoded, up to ready to be given; of that, given is out */
    size_t given, ready;
    bool checked;
};

const char *unpack_kind_name(enum unpack_kind k)
{
    static const char *const names[UNPACK_KINDS] = { "plain", "bzip2", "xz", "zstd", "gzip" };
    return names[k];
}

enum unpack_kind unpack_sniff(str first)
{
    if (str_starts(first, STR("BZh")))
        return UNPACK_BZIP2;
    if (str_starts(first, STR("\xfd"
                              "7zXZ\0")))
        return UNPACK_XZ;
    if (str_starts(first, STR("\x28\xb5\x2f\xfd")))
        return UNPACK_ZSTD;
    if (first.n >= 4 && (first.p[0] & 0xf0) == 0x50 && memcmp(first.p + 1, "\x2a\x4d\x18", 3) == 0)
        return UNPACK_ZSTD; /* begins with a frame to be skipped, as those of pzstd do */
    if (str_starts(first, STR("\x1f\x8b")))
        return UNPACK_GZIP;
    return UNPACK_PLAIN;
}

static err unpack_refill(struct unpack *u, struct err_note *note)
{
    if (u->in.n > 0 || u->file_ended)
        return ERR_OK;
    size_t n = fread(u->chunk, 1, sizeof u->chunk, u->from);
    if (n < sizeof u->chunk && ferror(u->from)) {
        err_note_set(note, "cannot read: %s", strerror(errno));
        return ERR_IO;
    }
    u->file_ended = n < sizeof u->chunk;
    u->consumed += n;
    u->in = (str){ .p = u->chunk, .n = n };
    return ERR_OK;
}

static bool start_stream(struct unpack *u)
{
    switch (u->kind) {
    case UNPACK_PLAIN:
    case UNPACK_KINDS:
        return true;
    case UNPACK_BZIP2:
        u->s.bz = (bz_stream){ 0 };
        return BZ2_bzDecompressInit(&u->s.bz, 0, 0) == BZ_OK;
    case UNPACK_XZ:
        u->s.xz = (lzma_stream)LZMA_STREAM_INIT;
        return lzma_stream_decoder(&u->s.xz, UNPACK_MEMORY_MAX, LZMA_CONCATENATED) == LZMA_OK;
    case UNPACK_ZSTD:
        u->zstd = ZSTD_createDStream();
        return u->zstd != NULL && !ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax,
                                                                       UNPACK_ZSTD_WINDOW_LOG_MAX));
    case UNPACK_GZIP:
        u->s.gz = (z_stream){ 0 };
        return inflateInit2(&u->s.gz, 15 + 16) == Z_OK;
    }
    return false;
}

static void end_stream(struct unpack *u)
{
    switch (u->kind) {
    case UNPACK_PLAIN:
    case UNPACK_KINDS:
        break;
    case UNPACK_BZIP2:
        BZ2_bzDecompressEnd(&u->s.bz);
        break;
    case UNPACK_XZ:
        lzma_end(&u->s.xz);
        break;
    case UNPACK_ZSTD:
        ZSTD_freeDStream(u->zstd);
        break;
    case UNPACK_GZIP:
        inflateEnd(&u->s.gz);
        break;
    }
}

err unpack_new(FILE *from, struct unpack **out, struct err_note *note)
{
    struct unpack *u = calloc(1, sizeof *u);
    INVARIANT(u != NULL);
    u->magic = UNPACK_MAGIC;
    u->from = from;
    u->checked = true;
    buf_init(&u->held, UNPACK_HELD_MAX);
    err e = unpack_refill(u, note);
    if (e != ERR_OK) {
        free(u);
        return e;
    }
    u->kind = unpack_sniff(u->in);
    bool started = start_stream(u);
    INVARIANT(started);
    *out = u;
    return ERR_OK;
}

void unpack_free(struct unpack **up)
{
    if (*up == NULL)
        return;
    MAGIC_CHECK(*up, UNPACK_MAGIC);
    end_stream(*up);
    buf_fini(&(*up)->held);
    (*up)->magic = 0;
    free(*up);
    *up = NULL;
}

bool unpack_checked(const struct unpack *u)
{
    return u->checked;
}

uint64_t unpack_consumed(const struct unpack *u)
{
    return u->consumed;
}

/* Libraries want unsigned int counts and pointers without const; none writes to its input. */
static char *unconst(const char *p)
{
    return (char *)(uintptr_t)p;
}

static err step_bzip2(struct unpack *u, char *dst, size_t size, size_t *n)
{
    bz_stream *s = &u->s.bz;
    if (u->between && BZ2_bzDecompressEnd(s) == BZ_OK && !start_stream(u))
        return ERR_CORRUPT;
    u->between = false;
    s->next_in = unconst(u->in.p);
    s->avail_in = (unsigned)u->in.n;
    s->next_out = dst;
    s->avail_out = (unsigned)size;
    int code = BZ2_bzDecompress(s);
    *n = size - s->avail_out;
    u->in = str_skip(u->in, u->in.n - s->avail_in);
    if (code == BZ_MEM_ERROR)
        return ERR_LIMIT;
    u->between = code == BZ_STREAM_END;
    return code == BZ_OK || code == BZ_STREAM_END ? ERR_OK : ERR_CORRUPT;
}

static err step_xz(struct unpack *u, char *dst, size_t size, size_t *n)
{
    lzma_stream *s = &u->s.xz;
    s->next_in = (const uint8_t *)u->in.p;
    s->avail_in = u->in.n;
    s->next_out = (uint8_t *)dst;
    s->avail_out = size;
    lzma_ret code = lzma_code(s, u->file_ended ? LZMA_FINISH : LZMA_RUN);
    *n = size - s->avail_out;
    u->in = str_skip(u->in, u->in.n - s->avail_in);
    if (code == LZMA_MEMLIMIT_ERROR || code == LZMA_MEM_ERROR)
        return ERR_LIMIT;
    u->over = code == LZMA_STREAM_END;
    return code == LZMA_OK || code == LZMA_STREAM_END ? ERR_OK : ERR_CORRUPT;
}

static err step_zstd(struct unpack *u, char *dst, size_t size, size_t *n)
{
    ZSTD_inBuffer in = { .src = u->in.p, .size = u->in.n };
    ZSTD_outBuffer out = { .dst = dst, .size = size };
    size_t code = ZSTD_decompressStream(u->zstd, &out, &in);
    *n = out.pos;
    u->in = str_skip(u->in, in.pos);
    if (ZSTD_isError(code))
        return ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge ? ERR_LIMIT
                                                                                   : ERR_CORRUPT;
    u->between = code == 0;
    return ERR_OK;
}

static err step_gzip(struct unpack *u, char *dst, size_t size, size_t *n)
{
    z_stream *s = &u->s.gz;
    if (u->between && inflateReset(s) != Z_OK)
        return ERR_CORRUPT;
    u->between = false;
    s->next_in = (unsigned char *)unconst(u->in.p);
    s->avail_in = (unsigned)u->in.n;
    s->next_out = (unsigned char *)dst;
    s->avail_out = (unsigned)size;
    int code = inflate(s, Z_NO_FLUSH);
    *n = size - s->avail_out;
    u->in = str_skip(u->in, u->in.n - s->avail_in);
    if (code == Z_MEM_ERROR)
        return ERR_LIMIT;
    u->between = code == Z_STREAM_END;
    return code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR ? ERR_OK : ERR_CORRUPT;
}

static err step_plain(struct unpack *u, char *dst, size_t size, size_t *n)
{
    *n = u->in.n < size ? u->in.n : size;
    if (*n > 0)
        memcpy(dst, u->in.p, *n);
    u->in = str_skip(u->in, *n);
    u->between = true;
    return ERR_OK;
}

static err unpack_step(struct unpack *u, char *dst, size_t size, size_t *n)
{
    switch (u->kind) {
    case UNPACK_BZIP2:
        return step_bzip2(u, dst, size, n);
    case UNPACK_XZ:
        return step_xz(u, dst, size, n);
    case UNPACK_ZSTD:
        return step_zstd(u, dst, size, n);
    case UNPACK_GZIP:
        return step_gzip(u, dst, size, n);
    case UNPACK_PLAIN:
    case UNPACK_KINDS:
        break;
    }
    return step_plain(u, dst, size, n);
}

/* At the end of the file: is this a place where it may end? The decoder gave nothing more. */
static err at_end(struct unpack *u, struct err_note *note)
{
    u->over = u->over || u->between;
    if (u->over)
        return ERR_OK;
    err_note_set(note, "the %s data is cut off", unpack_kind_name(u->kind));
    return ERR_CORRUPT;
}

static err explain(const struct unpack *u, err e, struct err_note *note)
{
    if (e == ERR_CORRUPT)
        err_note_set(note, "the %s data is damaged near byte %llu", unpack_kind_name(u->kind),
                     (unsigned long long)(u->consumed - u->in.n));
    if (e == ERR_LIMIT)
        err_note_set(note, "the %s data wants more memory than %llu bytes",
                     unpack_kind_name(u->kind), (unsigned long long)UNPACK_MEMORY_MAX);
    return e;
}

/* As it is decoded; *n is 0 only at the end. */
static err unpack_decode(struct unpack *u, char *dst, size_t size, size_t *n, struct err_note *note)
{
    *n = 0;
    while (*n == 0 && !u->over) {
        err e = unpack_refill(u, note);
        if (e != ERR_OK)
            return e;
        bool drained = u->in.n == 0 && u->file_ended;
        if (drained && u->between)
            break;
        size_t left = u->in.n;
        e = unpack_step(u, dst, size, n);
        if (e != ERR_OK)
            return explain(u, e, note);
        if (*n == 0 && u->between)
            break;
        if (*n == 0 && drained && u->in.n == left)
            return at_end(u, note);
    }
    return ERR_OK;
}

/* Decodes until there is something to give: at the end of a part, or when no more of it can be
 * held. */
static err unpack_hold(struct unpack *u, struct err_note *note)
{
    char chunk[UNPACK_CHUNK_BYTES];
    if (u->given > 0)
        memmove(u->held.p, u->held.p + u->given, u->held.n - u->given);
    u->held.n -= u->given;
    u->given = u->ready = 0;
    while (u->ready == 0) {
        size_t n;
        err e = unpack_decode(u, chunk, sizeof chunk, &n, note);
        if (e != ERR_OK)
            return e;
        buf_put(&u->held, (str){ .p = chunk, .n = n });
        if (buf_status(&u->held) != ERR_OK)
            return explain(u, ERR_LIMIT, note);
        bool ended = u->between || u->over;
        if (ended || u->held.n + sizeof chunk > UNPACK_HELD_MAX) {
            bool blocks = u->kind == UNPACK_BZIP2;
            u->checked = ended || blocks;
            u->ready = ended || !blocks ? u->held.n : u->held.n - UNPACK_BZIP2_BLOCK_MAX;
        }
        if (u->ready == 0 && n == 0 && (u->over || (u->in.n == 0 && u->file_ended)))
            break;
    }
    return ERR_OK;
}

err unpack_read(struct unpack *u, char *dst, size_t size, size_t *n, struct err_note *note)
{
    MAGIC_CHECK(u, UNPACK_MAGIC);
    INVARIANT(size > 0 && size <= UNPACK_CHUNK_BYTES);
    *n = 0;
    if (u->kind == UNPACK_PLAIN)
        return unpack_decode(u, dst, size, n, note);
    err e = u->given < u->ready ? ERR_OK : unpack_hold(u, note);
    if (e != ERR_OK)
        return e;
    *n = u->ready - u->given < size ? u->ready - u->given : size;
    if (*n > 0)
        memcpy(dst, u->held.p + u->given, *n);
    u->given += *n;
    return ERR_OK;
}
