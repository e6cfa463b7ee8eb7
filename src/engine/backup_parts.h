/* backup_parts.h - a backup while it is made. Private to backup*.c. */
#ifndef ENGINE_BACKUP_PARTS_H
#define ENGINE_BACKUP_PARTS_H

#include "engine/parts.h"
#include "engine/store.h"

enum { BACKUP_SUSPECTS_MAX = 256 }; /* with more, all segments are copied anew */

struct backup {
    struct engine *engine;
    const char *dir;
    int dir_fd, log_fd, index_fd, lock_fd;
    bool had_store;         /* a whole backup was there */
    bool opened, switching; /* how far it came */
    struct vlog_tail tail;
    char *buffer;
    struct engine_backup_result result;
    uint32_t suspects[BACKUP_SUSPECTS_MAX];
    size_t suspect_count;
    uint64_t bytes_replaced;
    struct err_note note;
};

/* A note that ends with what the system says of errno_value. ERR_FULL, else ERR_IO. */
err backup_refuse(struct backup *b, const char *what, int errno_value);
/* Makes and opens the folder and what is in it, and locks it. Half files of a backup that was cut
 * off go. With a note: ERR_CONFLICT: it is in use, or of somebody else; ERR_BAD: it can be no
 * backup's; ERR_FULL; ERR_IO. */
MUST_CHECK err backup_target_open(struct backup *b);
void backup_sweep_halves(const struct backup *b);
/* Removes the files of a folder that end so; what cannot be removed is in the way of nobody. */
void backup_sweep_folder(int folder_fd, const char *ending);

#endif
