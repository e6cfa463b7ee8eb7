/* dump.h - an export of MediaWiki (schema 0.3 to 0.11) as a stream of revisions. Private to cli.
 *
 * On expat, fed in chunks of any size. What is not needed is passed over. Document type
 * declarations are refused, and with them all entities but XML's own five: nothing expands. Thread:
 * one. */
#ifndef CLI_DUMP_H
#define CLI_DUMP_H

#include "base/err.h"
#include "base/str.h"

enum {
    DUMP_DEPTH_MAX = 32,
    DUMP_TITLE_BYTES_MAX = 1024,
    DUMP_FIELD_BYTES_MAX = 256,     /* ids, times, models */
    DUMP_TEXT_BYTES_MAX = 8 << 20,  /* of one revision; a longer one comes with too_large */
    DUMP_TOKEN_BYTES_MAX = 1 << 20, /* a tag with its attributes, a comment */
};

/* Borrowed: inside the call. */
struct dump_revision {
    str title;               /* cut where it is too long, empty where there is none */
    uint64_t id;             /* 0: it has none */
    int64_t time_ns;         /* since 1970 */
    str text, model, format; /* model and format are empty in old schemas */
    bool no_text;            /* hidden, or the export was made without texts */
    bool too_large;          /* text is empty */
    const char *unfit;       /* why it cannot be taken: a field that is wrong; NULL: it can */
};
struct dump_opts {
    /* Anything but ERR_OK ends the parsing, and dump_feed gives it back. */
    err (*revision)(void *ctx, const struct dump_revision *r, struct err_note *note);
    void *ctx;
};

struct dump;
/* Owner: caller. */
struct dump *dump_new(const struct dump_opts *opts);
void dump_free(struct dump **dp);
/* last: the input ends with these bytes. ERR_BAD: no XML, or no export of MediaWiki; ERR_LIMIT; the
 * note has the line. A wrong field of a revision ends nothing: the revision comes with unfit. After
 * an error only dump_free. */
MUST_CHECK err dump_feed(struct dump *d, str bytes, bool last, struct err_note *note);

#endif
