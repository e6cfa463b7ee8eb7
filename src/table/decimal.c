/* decimal.c - decimal numbers of tables as bytes whose order is the order of the numbers. The
 * zeros behind a number's last other digit are kept beside the ordered form. */
#include "table/decimal.h"

#include <string.h>

enum { SIGN_NEGATIVE = 0, SIGN_ZERO = 1, SIGN_POSITIVE = 2, EXPONENT_AT = 1, DIGITS_AT = 5 };

struct number {
    bool negative;
    char digits[DECIMAL_DIGITS_MAX]; /* 0..9, no zero in front or behind */
    unsigned count;
    int32_t exponent;
    uint32_t zeros;
};

static err read_exponent(str text, int64_t *exponent, struct err_note *note)
{
    bool negative = text.n > 0 && text.p[0] == '-';
    if (text.n > 0 && (text.p[0] == '-' || text.p[0] == '+'))
        text = str_skip(text, 1);
    uint64_t value;
    if (!str_to_u64(text, &value) || value > 2 * DECIMAL_EXPONENT_MAX) {
        err_note_set(note, "exponent is not a number up to %d (DECIMAL_EXPONENT_MAX)",
                     DECIMAL_EXPONENT_MAX);
        return ERR_BAD;
    }
    *exponent = negative ? -(int64_t)value : (int64_t)value;
    return ERR_OK;
}

/* Digits of mantissa without zeros in front; *fraction: how many stood behind the point. */
static err read_digits(str mantissa, bool whole, struct number *n, int64_t *fraction,
                       struct err_note *note)
{
    bool point = false, any = false;
    *fraction = 0;
    for (size_t i = 0; i < mantissa.n; i++) {
        char c = mantissa.p[i];
        if (c == '.' && !point && !whole) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9') {
            err_note_set(note, "is not a decimal number");
            return ERR_BAD;
        }
        any = true;
        *fraction += point ? 1 : 0;
        if (c == '0' && n->count == 0)
            continue;
        if (n->count == DECIMAL_DIGITS_MAX) {
            err_note_set(note, "number has more than %d digits (DECIMAL_DIGITS_MAX)",
                         DECIMAL_DIGITS_MAX);
            return ERR_BAD;
        }
        n->digits[n->count++] = (char)(c - '0');
    }
    if (!any) {
        err_note_set(note, "is not a decimal number");
        return ERR_BAD;
    }
    return ERR_OK;
}

static void strip_zeros(struct number *n)
{
    while (n->count > 0 && n->digits[n->count - 1] == 0) {
        n->count--;
        n->zeros++;
    }
}

static err number_read(str text, bool whole, struct number *n, struct err_note *note)
{
    if (text.n > 0 && (text.p[0] == '-' || text.p[0] == '+')) {
        n->negative = text.p[0] == '-';
        text = str_skip(text, 1);
    }
    size_t mark = str_find(text, 'e');
    if (mark == text.n)
        mark = str_find(text, 'E');
    int64_t exponent = 0, fraction;
    if (mark < text.n && !whole) {
        err e = read_exponent(str_skip(text, mark + 1), &exponent, note);
        if (e != ERR_OK)
            return e;
        text = str_take(text, mark);
    }
    err e = read_digits(text, whole, n, &fraction, note);
    if (e != ERR_OK)
        return e;
    int64_t scale = fraction - exponent;
    if (n->count == 0) {
        n->negative = false;
        n->zeros = scale < 0                    ? 0
                   : scale > DECIMAL_DIGITS_MAX ? DECIMAL_DIGITS_MAX
                                                : (uint32_t)scale;
        return ERR_OK;
    }
    int64_t places = (int64_t)n->count - scale;
    if (places > DECIMAL_EXPONENT_MAX || places < -DECIMAL_EXPONENT_MAX) {
        err_note_set(note, "number has an exponent of more than %d (DECIMAL_EXPONENT_MAX)",
                     DECIMAL_EXPONENT_MAX);
        return ERR_BAD;
    }
    n->exponent = (int32_t)places;
    strip_zeros(n);
    return ERR_OK;
}

static str number_write(struct arena *a, const struct number *n)
{
    unsigned char *p = arena_alloc(a, DIGITS_AT + (n->count + 1) / 2 + 1 + DECIMAL_ZEROS_BYTES);
    if (p == NULL)
        return STR_NONE;
    size_t at = 1;
    p[0] = n->count == 0 ? SIGN_ZERO : n->negative ? SIGN_NEGATIVE : SIGN_POSITIVE;
    if (n->count > 0) {
        put_be32(p + EXPONENT_AT, (uint32_t)n->exponent ^ 0x80000000u);
        at = DIGITS_AT;
        for (unsigned i = 0; i < n->count; i += 2)
            p[at++] =
                (unsigned char)(n->digits[i] * 10 + (i + 1 < n->count ? n->digits[i + 1] : 0) + 1);
        p[at++] = 0;
        for (size_t i = 1; n->negative && i < at; i++)
            p[i] = (unsigned char)~p[i];
    }
    put_be16(p + at, (uint16_t)n->zeros);
    return (str){ .p = (const char *)p, .n = at + DECIMAL_ZEROS_BYTES };
}

err decimal_parse(struct arena *a, str text, bool whole, str *out, struct err_note *note)
{
    struct number n = { .negative = false };
    err e = number_read(text, whole, &n, note);
    if (e != ERR_OK)
        return e;
    str s = number_write(a, &n);
    if (s.p == NULL)
        return ERR_LIMIT;
    *out = s;
    return ERR_OK;
}

size_t decimal_size(str s)
{
    if (s.n == 0)
        return 0;
    if (s.p[0] == SIGN_ZERO)
        return 1;
    if (s.n <= DIGITS_AT || (s.p[0] != SIGN_NEGATIVE && s.p[0] != SIGN_POSITIVE))
        return 0;
    str digits = str_skip(s, DIGITS_AT);
    size_t end = str_find(digits, s.p[0] == SIGN_NEGATIVE ? '\xff' : '\0');
    if (end == 0 || end == digits.n || end > (DECIMAL_DIGITS_MAX + 1) / 2)
        return 0;
    return DIGITS_AT + end + 1;
}

static bool number_decode(str s, struct number *n)
{
    size_t size = decimal_size(s);
    if (size == 0 || (s.n != size && s.n != size + DECIMAL_ZEROS_BYTES))
        return false;
    n->negative = s.p[0] == SIGN_NEGATIVE;
    unsigned char turn = n->negative ? 0xff : 0;
    for (size_t i = DIGITS_AT; i + 1 < size; i++) {
        unsigned pair = (unsigned)((unsigned char)s.p[i] ^ turn) - 1u;
        if (pair > 99)
            return false;
        n->digits[n->count++] = (char)(pair / 10);
        n->digits[n->count++] = (char)(pair % 10);
    }
    if (size > 1) {
        uint32_t e = get_be32(s.p + EXPONENT_AT) ^ (n->negative ? 0xffffffffu : 0) ^ 0x80000000u;
        n->exponent = (int32_t)e;
        if (n->exponent > DECIMAL_EXPONENT_MAX || n->exponent < -DECIMAL_EXPONENT_MAX)
            return false;
        strip_zeros(n);
        if (n->digits[0] == 0 || n->zeros > 1) /* one zero fills the last pair, no more */
            return false;
    }
    n->zeros = 0;
    if (s.n == size + DECIMAL_ZEROS_BYTES)
        n->zeros = get_be16(s.p + size);
    else if (n->count > 0 && n->exponent > (int32_t)n->count)
        n->zeros = (uint32_t)(n->exponent - (int32_t)n->count);
    bool fits = n->count + n->zeros <= DECIMAL_DIGITS_MAX;
    if (!fits && s.n == size)
        n->zeros = 0; /* of a key, which does not say them: then in scientific form */
    return fits || s.n == size;
}

static char digit_at(const struct number *n, int64_t i)
{
    return i >= 0 && i < (int64_t)n->count ? (char)('0' + n->digits[i]) : '0';
}

/* Unscaled digits with a point: BigDecimal's plain form. */
static void put_plain(struct buf *b, const struct number *n, int64_t scale)
{
    int64_t first = n->exponent < 1 || n->count == 0 ? 0 : n->exponent;
    if (first == 0)
        buf_put_c(b, '0');
    for (int64_t i = 0; i < first; i++)
        buf_put_c(b, digit_at(n, i));
    if (scale > 0)
        buf_put_c(b, '.');
    int64_t offset = n->count == 0 ? 0 : n->exponent;
    for (int64_t i = 0; i < scale; i++)
        buf_put_c(b, digit_at(n, offset + i));
}

static void put_scientific(struct buf *b, const struct number *n)
{
    buf_put_c(b, digit_at(n, 0));
    if (n->count + n->zeros > 1)
        buf_put_c(b, '.');
    for (int64_t i = 1; i < (int64_t)n->count + n->zeros; i++)
        buf_put_c(b, digit_at(n, i));
    buf_printf(b, "E%+d", n->exponent - 1);
}

static bool fits(const struct number *n, bool whole)
{
    return !whole || n->count == 0 ||
           (n->exponent >= (int32_t)n->count && n->exponent <= DECIMAL_DIGITS_MAX);
}

bool decimal_valid(str s, bool whole)
{
    struct number n = { .negative = false };
    return number_decode(s, &n) && fits(&n, whole) && (!whole || s.n == decimal_size(s));
}

bool decimal_format(struct buf *b, str s, bool whole)
{
    struct number n = { .negative = false };
    if (!number_decode(s, &n) || !fits(&n, whole))
        return false;
    if (n.negative)
        buf_put_c(b, '-');
    int64_t scale = n.count == 0 ? n.zeros : (int64_t)n.count + n.zeros - n.exponent;
    if (whole)
        put_plain(b, &n, 0);
    else if (scale >= 0 && (n.count == 0 || n.exponent > -6))
        put_plain(b, &n, scale);
    else
        put_scientific(b, &n);
    return true;
}
