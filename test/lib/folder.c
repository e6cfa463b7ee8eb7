/* folder.c - see folder.h. */
#include "lib/folder.h"

#include "base/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { FDS_MAX = 16 };

void folder_make(char dir[FOLDER_PATH_BYTES])
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(dir, FOLDER_PATH_BYTES, "%s/test-XXXXXX", base == NULL ? "/tmp" : base);
    INVARIANT(n < FOLDER_PATH_BYTES);
    INVARIANT(mkdtemp(dir) != NULL);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void folder_remove(const char *dir)
{
    (void)nftw(dir, remove_one, FDS_MAX, FTW_DEPTH | FTW_PHYS); /* what stays is temporary */
}
