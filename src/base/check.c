/* check.c - the end of a process whose belief about itself is broken: prints where and what,
 * then aborts. A note of the caller (check_note_set) is printed, too. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local struct check_note note_here;

struct check_note check_note_set(struct check_note note)
{
    struct check_note before = note_here;
    note_here = note;
    return before;
}

void check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, what);
    struct check_note note = check_note_set((struct check_note){ .print = NULL }); /* once alone */
    if (note.print != NULL)
        note.print(note.ctx);
    abort();
}
