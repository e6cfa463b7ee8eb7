/* folder.h - a fresh folder for a test, removed at the end with all that is in it. */
#ifndef TEST_LIB_FOLDER_H
#define TEST_LIB_FOLDER_H

enum { FOLDER_PATH_BYTES = 64 };
struct folder {
    char dir[FOLDER_PATH_BYTES];
};
/* Below $TMPDIR or /tmp. Breaks an invariant when that cannot be had. */
void folder_make(struct folder *f);
void folder_remove(const struct folder *f);

#endif
