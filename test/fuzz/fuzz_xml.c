/* Goal: no file, compressed or not, breaks the import of exports; what it takes for a revision
 * holds to its limits, and the pieces it is read in do not change what comes out. */
#include "base/buf.h"
#include "cli/dump.h"
#include "cli/unpack.h"

#include <stdio.h>

enum { UNPACKED_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
    uint64_t revisions, bytes;
};

static err count(void *ctx, const struct dump_revision *r, struct err_note *note)
{
    struct sum *s = ctx;
    (void)note;
    INVARIANT(r->title.n <= DUMP_TITLE_BYTES_MAX);
    INVARIANT(r->text.n <= DUMP_TEXT_BYTES_MAX);
    INVARIANT(r->id <= INT64_MAX);
    if (r->unfit == NULL)
        INVARIANT(r->title.n > 0 && r->id >= 1);
    else
        INVARIANT(r->unfit[0] != '\0');
    s->revisions++;
    s->bytes += r->title.n + r->text.n;
    return ERR_OK;
}

static err parse(str xml, size_t piece, struct sum *s)
{
    struct err_note note = { .text = "" };
    struct dump *d = dump_new(&(struct dump_opts){ .revision = count, .ctx = s });
    err e = ERR_OK;
    while (e == ERR_OK && xml.n > 0) {
        e = dump_feed(d, str_take(xml, piece), false, &note);
        xml = str_skip(xml, piece);
    }
    if (e == ERR_OK)
        e = dump_feed(d, STR(""), true, &note);
    INVARIANT(e == ERR_OK || note.text[0] != '\0');
    dump_free(&d);
    return e;
}

static void unpack_all(const uint8_t *data, size_t size, struct buf *out)
{
    FILE *f = fmemopen((void *)(uintptr_t)data, size, "rb");
    INVARIANT(f != NULL);
    struct unpack *u;
    struct err_note note;
    static char chunk[UNPACK_CHUNK_BYTES];
    size_t n = 1;
    if (unpack_new(f, &u, &note) == ERR_OK) {
        while (n > 0 && !out->failed && unpack_read(u, chunk, sizeof chunk, &n, &note) == ERR_OK)
            buf_put(out, (str){ .p = chunk, .n = n });
        unpack_free(&u);
    }
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct buf xml;
    buf_init(&xml, UNPACKED_BYTES_MAX);
    unpack_all(data, size, &xml);
    str text = buf_str(&xml);
    struct sum whole = { 0 }, pieces = { 0 };
    err a = parse(text, text.n + 1, &whole);
    err b = parse(text, 13, &pieces);
    INVARIANT(a == b);
    INVARIANT(whole.revisions == pieces.revisions);
    INVARIANT(whole.bytes == pieces.bytes);
    buf_fini(&xml);
    return 0;
}
