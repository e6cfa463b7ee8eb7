/* git.h - the history of a repository through git's plumbing: rev-list, diff-tree, cat-file.
 * Private to cli.
 *
 * Commits come oldest first in git's --date-order (no parent after its child, else by commit time),
 * numbered from 1: the same history gives the same numbers. Each gives the files it changed against
 * any of its parents. Renames come as a deletion and a new file. Paths are bytes. Thread: one. */
#ifndef CLI_GIT_H
#define CLI_GIT_H

#include "base/buf.h"
#include "cli/child.h"

enum {
    GIT_OID_BYTES_MAX = 64, /* hexadecimal digits: SHA-1 has 40, SHA-256 64 */
    GIT_COMMITS_MAX = 8 << 20,
    GIT_PATH_BYTES_MAX = 4096,
    GIT_BLOB_BYTES_MAX = 2 << 20, /* a larger document is not imported */
};

struct git_commit {
    char oid[GIT_OID_BYTES_MAX + 1];
    bool merge;
    int64_t time_s;
};
struct git_history {
    struct git_commit *commits;
    size_t count, size;
};

/* Once, before the others: nothing that a repository's own configuration names is run. Sets
 * environment variables. */
void git_guard(void);
/* All commits reachable from ref, oldest first. Owner: git_history_fini, also after an error.
 * ERR_BAD: no repository, no such ref (git has said so on stderr); ERR_LIMIT, ERR_UNAVAILABLE (no
 * git), ERR_IO. */
MUST_CHECK err git_history_read(const char *repository, const char *ref, struct git_history *out,
                                struct err_note *note);
void git_history_fini(struct git_history *h);

/* Was the history cut when it was cloned? ERR_IO, ERR_UNAVAILABLE. */
MUST_CHECK err git_is_shallow(const char *repository, bool *out, struct err_note *note);

struct git_change {
    size_t commit_index;
    str path;                        /* borrowed until the next call */
    char oid[GIT_OID_BYTES_MAX + 1]; /* of the blob */
    bool deleted;                    /* or no regular file any more: link, submodule */
    bool merge; /* the commit has several parents; a path may come once for each */
};
struct git_changes;
/* Owner: caller, git_changes_end. h is borrowed until then. */
MUST_CHECK err git_changes_begin(const char *repository, const struct git_history *h,
                                 struct git_changes **out, struct err_note *note);
/* ERR_NOT_FOUND at the end; ERR_BAD with a note when git's output is not understood; ERR_IO. */
MUST_CHECK err git_changes_next(struct git_changes *g, struct git_change *out,
                                struct err_note *note);
void git_changes_end(struct git_changes **gp);

struct git_blobs {
    struct child child;
};
MUST_CHECK err git_blobs_begin(const char *repository, struct git_blobs *out,
                               struct err_note *note);
/* Reads a blob into out (cleared first). ERR_LIMIT, larger than GIT_BLOB_BYTES_MAX, and
 * ERR_NOT_FOUND, git has none: out is empty, go on. ERR_IO: git ended. */
MUST_CHECK err git_blob_read(struct git_blobs *b, const char *oid, struct buf *out,
                             struct err_note *note);
void git_blobs_end(struct git_blobs *b);

/* One ":mode mode oid oid S" record of diff-tree --raw; sets oid and deleted. False: not
 * understood. */
bool git_raw_parse(str record, struct git_change *out);

#endif
