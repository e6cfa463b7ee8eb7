/* store_file.h - the store's folder: its lock, its identity, its sub-folders. */
#ifndef ENGINE_STORE_FILE_H
#define ENGINE_STORE_FILE_H

#include "engine/parts.h"

/* 2: due rows that stand for several traces of a title; the owner of a PostgreSQL store among the
 * queues. 3: several traces in a row. 4: the wiki's words, and renders that keep the one they were
 * made under. A store of an older format is read as it is, and marked as
 * one of ours when opened to be written: a program that does not know the rows must refuse it, not
 * stumble over them. */
enum { STORE_FORMAT = 4, STORE_FORMAT_OLDEST = 1 };

/* Makes (unless read_only) and opens the folder, takes the lock, reads or writes STORE, opens the
 * sub-folders. ERR_NOT_FOUND (read_only and no store), ERR_CONFLICT (in use), ERR_CORRUPT (also:
 * another format), ERR_IO, ERR_FULL. */
MUST_CHECK err store_open(struct engine *e, struct err_note *note);
bool store_has_segments(const struct engine *e);
/* Says that the making of the store was cut off by a kill, before anything was kept. Always
 * ERR_NOT_FOUND. */
MUST_CHECK err store_never_finished(const struct engine *e, struct err_note *note);
/* The id of the store in a folder. ERR_NOT_FOUND: there is none. */
MUST_CHECK err store_read_id(const struct file_faults *ff, int dir_fd,
                             unsigned char id[RECORD_ID_BYTES], struct err_note *note);
/* Writes STORE, complete or not at all. */
MUST_CHECK err store_write_id(const struct file_faults *ff, int dir_fd,
                              const unsigned char id[RECORD_ID_BYTES]);
/* Removes what a backup that was cut off left in this store when it was its target (backup.c), and
 * what a crash left of a segment in the making (vlog/segment.h). */
void backup_sweep(const struct engine *e);

#endif
