/* map_guard.h - the end of a process that cannot read its mapped index.
 *
 * LMDB reads the index through a mapping. Where the file was cut off under it, or the disk fails
 * under it, the kernel answers a load with SIGBUS: there is no error to return, and nothing behind
 * it can be trusted. The guard writes one line naming the file and the place to stderr and ends the
 * process with MAP_GUARD_EXIT; what was acknowledged is in the value log, which is read by pread
 * and knows errors. A SIGBUS elsewhere keeps its default end. The one signal handler that does more
 * than set a flag, and the one mutable global: a handler is handed no object. Private to this
 * folder. */
#ifndef ENGINE_MAP_GUARD_H
#define ENGINE_MAP_GUARD_H

#include <stddef.h>

enum {
    MAP_GUARD_EXIT = 3, /* of the program: the store is damaged */
    /* stores open at once that are guarded; one more ends without the line */
    MAP_GUARD_MAPS_MAX = 256,
};

/* path is copied (cut off at PATH_MAX). Thread: any. */
void map_guard_add(const void *base, size_t bytes, const char *path);
/* Before the mapping goes. Nothing when base was not added. */
void map_guard_remove(const void *base);

#endif
