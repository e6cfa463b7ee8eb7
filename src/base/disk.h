/* disk.h - what a failed write says to people: which disk is full, and how much is free on it.
 * Thread: any. */
#ifndef BASE_DISK_H
#define BASE_DISK_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { DISK_FREE_BYTES = 64 };
/* "3.1 MB free" of the disk that holds path, or the nearest folder above it that is there. */
void disk_free_text(const char *path, char out[DISK_FREE_BYTES]);
/* "cannot write PATH: No space left on device (3.1 MB free)" into note, by errno. ERR_FULL,
 * ERR_CONFLICT (it exists) or ERR_IO. doing: "write". */
err disk_fail(struct err_note *note, const char *doing, const char *path, int errno_value);

/* Says behind a note of ERR_FULL which disk it was, and how much is free; nothing behind others. */
void disk_note_full(struct err_note *note, err why, const char *dir);
/* Is path folder itself, or below it, links followed? path need not be there, the folder above it
 * must. False also when that cannot be said. */
bool disk_lies_in(const char *path, const char *folder);

#endif
