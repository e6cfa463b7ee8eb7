/* ring_golden.h - the lines of golden_ring.txt, word by word. */
#ifndef UNIT_CQL_RING_GOLDEN_H
#define UNIT_CQL_RING_GOLDEN_H

#include "base/str.h"

/* The file's whole text, which nobody frees. Ends the program when it cannot be read. */
str golden_text(const char *path);
/* The next line of *text; false: there is none. */
bool golden_line(str *text, str *line);
/* The next word of *line; STR_NONE: there is none. */
str golden_word(str *line);
/* The word as a number. Ends the program when it is none. */
int64_t golden_number(str word);

#endif
