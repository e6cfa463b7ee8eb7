/* lmdb_pages.h - looks over LMDB's file before LMDB does.
 *
 * LMDB 0.9 has no page checksums and trusts what it reads: a flipped bit in a page header can send
 * it beyond the page, the file, or into a wrong page of the right shape. Before the store is used
 * every page that a tree reaches is checked here for what LMDB takes for granted: number and kind
 * of the page, slots and nodes inside it, keys in order, children in the file and in one tree only,
 * entries as counted, free pages that are really free. What the rows say is covered by their own
 * sums. Layout: lmdb.h and mdb.c of 0.9 (MDB_page, MDB_meta, MDB_node), 64 bit. */
#ifndef ENGINE_LMDB_PAGES_H
#define ENGINE_LMDB_PAGES_H

#include "vlog/file.h"

struct lmdb_pages_opts {
    const struct file_faults *faults;
    int fd;                  /* data.mdb; nobody writes to it */
    uint64_t leaf_bytes_max; /* of a larger file only branches and the free list are read */
};
/* ERR_CORRUPT, ERR_IO. A file that was never written to is fine. */
MUST_CHECK err lmdb_pages_check(const struct lmdb_pages_opts *opts, struct err_note *note);

#endif
