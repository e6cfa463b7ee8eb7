/* folder.h - a fresh folder for a test, removed at the end with all that is in it. */
#ifndef TEST_LIB_FOLDER_H
#define TEST_LIB_FOLDER_H

enum { FOLDER_PATH_BYTES = 64 };

/* Below $TMPDIR or /tmp; dir is its path. Breaks an invariant when that cannot be had. */
void folder_make(char dir[FOLDER_PATH_BYTES]);
void folder_remove(const char *dir);

#endif
