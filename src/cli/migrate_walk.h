/* migrate_walk.h - all renders of a bucket of a server, read over its API. Private to cli.
 *
 * Model. The walk lists titles page by page, and reads several at once: of each its history, newest
 * first, and of each render what explain says of it and all its contents. What the server does not
 * give out, as what is hidden at the wiki, is told as unfit. Thread: one; all happens inside
 * client_turn of the client whose loop it is. */
#ifndef CLI_MIGRATE_WALK_H
#define CLI_MIGRATE_WALK_H

#include "base/arena.h"
#include "cli/upload.h"

enum {
    MIGRATE_TITLES = 16,          /* at once */
    MIGRATE_BYTES_MAX = 64 << 20, /* that wait; then one more is read at most */
    MIGRATE_TITLES_PAGE = 100,    /* listed at once: so many are read again on resuming */
    MIGRATE_MARK_BYTES = 1024,
};

struct migrate_walk;
struct migrate_walk_opts {
    struct client *from;
    const char *mark;           /* of a render given before; NULL: from the beginning */
    void (*changed)(void *ctx); /* migrate_walk_next may say something else than before */
    void *ctx;
};
struct migrate_render {
    struct upload_item item; /* its mark is for migrate_walk_opts */
    const char *unfit;       /* why it cannot be had; NULL: it can */
    bool hidden;             /* of a revision that the wiki hid or deleted: item says to purge it */
};
enum migrate_next { MIGRATE_WAIT, MIGRATE_RENDER, MIGRATE_END, MIGRATE_FAILED };

/* Owner: caller. */
struct migrate_walk *migrate_walk_new(const struct migrate_walk_opts *opts);
/* MIGRATE_RENDER: *out is good until migrate_walk_drop, which comes before the next call. */
enum migrate_next migrate_walk_next(struct migrate_walk *w, const struct migrate_render **out,
                                    err *why, struct err_note *note);
void migrate_walk_drop(struct migrate_walk *w);
/* Where a walk has to begin that gives what this one has not. Borrowed until the next call. */
const char *migrate_walk_mark(const struct migrate_walk *w);
/* Renders that are damaged there, and so were not listed. */
uint64_t migrate_walk_damaged(const struct migrate_walk *w);
/* Gives up what is in the air, and waits for that. */
void migrate_walk_free(struct migrate_walk **wp);

#endif
