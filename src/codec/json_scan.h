/* json_scan.h - the tokens of JSON (RFC 8259), where json_slice.c and wire_json_read.c read them.
 * Private to codec; codec/json.h is the front.
 *
 * A scan stands before a token and steps over it. What is no such token leaves it there, or where
 * the fault is. Nothing is copied. Texts are checked but for halves of surrogate pairs, which
 * json_text_unescape finds. Pure. Thread: any. */
#ifndef CODEC_JSON_SCAN_H
#define CODEC_JSON_SCAN_H

#include "base/str.h"

enum { JSON_SCAN_DEPTH_MAX = 256 };

struct json_scan {
    const char *p, *end;
};
struct json_scan json_scan_of(str text);
/* The byte of the next token, blanks passed; NUL: the end. */
char json_scan_peek(struct json_scan *s);
/* Steps over this token, if it is the next. c is no NUL. */
bool json_scan_take(struct json_scan *s, char c);
bool json_scan_word(struct json_scan *s, str word);
/* *quoted: what is between the quotes. NULL: fine; else what is wrong, a static phrase. */
const char *json_scan_text(struct json_scan *s, str *quoted);
bool json_scan_number(struct json_scan *s, str *number);
/* Any value, as it is written. False: not JSON, or nested deeper than JSON_SCAN_DEPTH_MAX. */
bool json_scan_value(struct json_scan *s, str *value);

/* What a text asks of a parser, seen without its grammar. */
struct json_shape {
    size_t depth;  /* of brackets outside texts; depth_max + 1 when it is more */
    size_t values; /* at most so many; a member's name counts with its value */
};
struct json_shape json_scan_shape(str text, size_t depth_max);

#endif
