/* decimal.h - numbers of any size as bytes that sort as the numbers do.
 *
 * A number is 0.d1 d2 .. dn x 10^E, d1 and dn not zero. Ordered form, prefix-free:
 *   zero      01
 *   positive  02, E as be32 with its sign bit turned, digits two a byte (d1 d2 + 1), 00
 *   negative  00, then all bytes of the positive form after its first, inverted
 * Idea: FoundationDB's tuple layer and SQLite4's key encoding. Pure. */
#ifndef TABLE_DECIMAL_H
#define TABLE_DECIMAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { DECIMAL_DIGITS_MAX = 2048, DECIMAL_EXPONENT_MAX = 1000000, DECIMAL_ZEROS_BYTES = 2 };

/* "[+-]digits[.digits][e[+-]digits]" to the ordered form followed by be16: how many zeros the text
 * had behind its last other digit, so that "1.50" stays "1.50". whole: digits alone are allowed.
 * ERR_BAD with a note, ERR_LIMIT of the arena without. Result in the arena. */
MUST_CHECK err decimal_parse(struct arena *a, str text, bool whole, str *out,
                             struct err_note *note);
/* Bytes of the ordered form at the start of s; 0: malformed. */
size_t decimal_size(str s);
/* Could decimal_parse have made s, with or without the zeros behind (whole: without)? */
bool decimal_valid(str s, bool whole);
/* Text of an ordered form, with or without the zeros behind it. Appends; false: malformed. */
bool decimal_format(struct buf *b, str s, bool whole);

#endif
