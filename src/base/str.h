/* str.h - a borrowed slice of bytes, passed by value. Not NUL-terminated; may hold NUL.
 *
 * Whoever made it says how long it lives. Print with "%.*s" and STR_ARG(s). Thread: any. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct str {
    const char *p;
    size_t n;
} str;

#define STR(literal) ((str){ .p = "" literal "", .n = sizeof("" literal "") - 1 })
/* The same where C wants a constant: in static tables. */
#define STR_INIT(literal)                                                                          \
    {                                                                                              \
        .p = "" literal "", .n = sizeof("" literal "") - 1                                         \
    }
#define STR_NONE ((str){ .p = NULL, .n = 0 })
#define STR_ARG(s) (int)(s).n, (s).p

/* Slice of a NUL-terminated string; NULL gives STR_NONE. */
str str_of(const char *cstring);
bool str_eq(str a, str b);
bool str_eq_nocase(str a, str b); /* ASCII letters only */
bool str_starts(str s, str prefix);
bool str_ends(str s, str suffix);
int str_cmp(str a, str b);     /* bytewise, shorter first: memcmp order */
str str_skip(str s, size_t n); /* without the first n bytes; n is cut to s.n */
str str_take(str s, size_t n); /* the first n bytes at most */
str str_trim(str s);           /* without spaces and tabs at both ends */
/* Index of the first c, or s.n when there is none. */
size_t str_find(str s, char c);
/* Index of the first occurrence of needle, or s.n. An empty needle is at 0. */
size_t str_find_str(str s, str needle);
/* Cuts *rest at the first sep: returns what is before, leaves what is after; at the end *rest is
 * STR_NONE. */
str str_split(str *rest, char sep);
/* Decimal digits only, whole slice, no sign. False (and *out untouched) on anything else or
 * overflow. */
bool str_to_u64(str s, uint64_t *out);
bool str_to_i64(str s, int64_t *out); /* one leading '-' allowed */
/* 0 to 15, of either case; -1: no hex digit. */
int str_hex_digit(char c);
/* Copies into dst as a C string. False when dst_size is too small or s holds NUL. */
bool str_to_cstr(str s, char *dst, size_t dst_size);

#endif
