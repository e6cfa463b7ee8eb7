/* err.h - errors are values: one code per action the caller may take, text for the human beside it.
 *
 * Codes say what to do, the note says what happened. Only src/app/errors.c turns a code into an
 * HTTP status. A note is the caller's; it is written only when a call fails. Thread: any. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/check.h"

typedef enum err {
    ERR_OK = 0,
    ERR_BAD,          /* the input is wrong; saying it again will not help */
    ERR_NOT_FOUND,    /* never was, or so long ago that its trace is gone */
    ERR_GONE,         /* was here; culled, purged or suppressed */
    ERR_CONFLICT,     /* contradicts what is stored */
    ERR_PRECONDITION, /* the caller's own condition does not hold */
    ERR_DENIED,       /* not allowed to this caller */
    ERR_LIMIT,        /* a named limit would be passed */
    ERR_AGAIN,        /* would block here; do it on the pool */
    ERR_TIMEOUT,      /* the deadline passed first */
    ERR_FULL,         /* no room on the disk; nothing was written */
    ERR_SHUTDOWN,     /* the server is draining */
    ERR_UNAVAILABLE,  /* a part we need does not answer; try later */
    ERR_CORRUPT,      /* stored bytes fail their check */
    ERR_IO,           /* the kernel refused a read or a write */
    ERR_CODES
} err;

/* Short name of a code, as logs print it: "not_found". Borrowed, static. */
const char *err_name(err code);

enum { ERR_NOTE_BYTES = 256 };
struct err_note {
    char text[ERR_NOTE_BYTES]; /* always NUL-terminated; cut when longer */
};

/* Formats into note; does nothing when note is NULL. */
void err_note_set(struct err_note *note, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same, and is ERR_BAD. No function, so that a compiler sees that it is not ERR_OK. */
#define err_bad(note, ...) (err_note_set((note), __VA_ARGS__), (err)ERR_BAD)

#endif
