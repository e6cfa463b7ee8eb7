/* copy.h - copies a directory of regular files, holes as holes, synced. Private to cli. Thread:
 * one. */
#ifndef CLI_COPY_H
#define CLI_COPY_H

#include "base/err.h"

#include <stdint.h>

enum { COPY_DEPTH_MAX = 3, COPY_PATH_BYTES = 4096 };

/* What is in from goes into to, which must not exist. Links and other odd files are refused:
 * ERR_BAD. ERR_CONFLICT: to exists. ERR_FULL, ERR_IO. bytes: data copied, holes not counted. */
MUST_CHECK err copy_tree(const char *from, const char *to, uint64_t *bytes, struct err_note *note);
/* Removes what copy_tree made, also half. */
void copy_remove(const char *dir);

#endif
