/* secret.h - a file that holds one secret: a line of printable ASCII, without the spaces around it.
 */
#ifndef SERVER_SECRET_H
#define SERVER_SECRET_H

#include "base/check.h"
#include "base/err.h"

enum { SECRET_BYTES_MAX = 4096 };

/* *out: to be freed. ERR_BAD with a note, which names the file and nothing of what is in it: it
 * cannot be read, is empty, longer, or no such line. */
MUST_CHECK err secret_read(const char *path, char **out, struct err_note *note);

#endif
