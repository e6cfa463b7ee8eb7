/* err.c - names of error codes for logs, and the text of a note. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const err_names[ERR_CODES] = {
    [ERR_OK] = "ok",
    [ERR_BAD] = "bad",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_GONE] = "gone",
    [ERR_CONFLICT] = "conflict",
    [ERR_PRECONDITION] = "precondition",
    [ERR_DENIED] = "denied",
    [ERR_LIMIT] = "limit",
    [ERR_AGAIN] = "again",
    [ERR_TIMEOUT] = "timeout",
    [ERR_FULL] = "full",
    [ERR_SHUTDOWN] = "shutdown",
    [ERR_UNAVAILABLE] = "unavailable",
    [ERR_CORRUPT] = "corrupt",
    [ERR_IO] = "io",
};

const char *err_name(err code)
{
    INVARIANT(code < ERR_CODES);
    return err_names[code];
}

void err_note_set(struct err_note *note, const char *format, ...)
{
    if (note == NULL)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note->text, sizeof note->text, format, args); /* cutting is the contract */
    va_end(args);
}
