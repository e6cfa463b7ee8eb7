/* chunk.c - chunks are read by a machine that looks at each byte of their framing once.
 *
 * Invariants: size is what is left of a chunk while DATA is next; line_bytes counts what came of
 * the present chunk line, or of the whole trailer section. */
#include "http/chunk.h"

#include "base/check.h"
#include "http/negotiate.h"

enum {
    AT_SIZE, /* a digit must come first */
    AT_SIZE_MORE,
    AT_EXTENSION,
    AT_SIZE_LF,
    AT_DATA,
    AT_DATA_CR,
    AT_DATA_LF,
    AT_FIELD, /* of the trailer section; its empty line is the end */
    AT_FIELD_LF,
    AT_OVER
};

enum { SIZE_DIGITS_MAX = 16 };

static enum chunk_got size_digit(struct chunk_reader *r, int digit)
{
    r->at = AT_SIZE_MORE;
    if (++r->digits > SIZE_DIGITS_MAX || r->size > (uint64_t)INT64_MAX >> 4)
        return CHUNK_TOO_LARGE;
    r->size = r->size << 4 | (unsigned)digit;
    return CHUNK_MORE;
}

static enum chunk_got size_byte(struct chunk_reader *r, char c)
{
    int digit = str_hex_digit(c);
    if (digit >= 0)
        return size_digit(r, digit);
    if (r->at == AT_SIZE)
        return CHUNK_BAD;
    if (c == '\r')
        r->at = AT_SIZE_LF;
    else if (c != ';')
        return CHUNK_BAD;
    else
        r->at = AT_EXTENSION, r->odd = true;
    return CHUNK_MORE;
}

static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

static enum chunk_got extension_byte(struct chunk_reader *r, char c)
{
    if (c == '\r')
        r->at = AT_SIZE_LF;
    else if (!is_text(c))
        return CHUNK_BAD;
    return CHUNK_MORE;
}

static enum chunk_got size_end(struct chunk_reader *r, char c)
{
    if (c != '\n')
        return CHUNK_BAD;
    r->at = r->size > 0 ? AT_DATA : AT_FIELD;
    r->digits = r->line_bytes = r->field_bytes = 0;
    r->has_colon = false;
    return CHUNK_MORE;
}

/* A field has a name, which is a token: no blank stands before the colon. */
static enum chunk_got field_byte(struct chunk_reader *r, char c)
{
    if (c == '\r') {
        r->at = AT_FIELD_LF;
        return r->field_bytes > 0 && !r->has_colon ? CHUNK_BAD : CHUNK_MORE;
    }
    bool first = r->field_bytes++ == 0;
    r->odd = true;
    if (r->has_colon)
        return is_text(c) ? CHUNK_MORE : CHUNK_BAD;
    r->has_colon = c == ':' && !first;
    return r->has_colon || http_is_token((str){ .p = &c, .n = 1 }) ? CHUNK_MORE : CHUNK_BAD;
}

static enum chunk_got field_end(struct chunk_reader *r, char c)
{
    if (c != '\n')
        return CHUNK_BAD;
    bool empty = r->field_bytes == 0;
    r->at = empty ? AT_OVER : AT_FIELD;
    r->field_bytes = 0;
    r->has_colon = false;
    return empty ? CHUNK_END : CHUNK_MORE;
}

static enum chunk_got data_end(struct chunk_reader *r, char c)
{
    if (c != (r->at == AT_DATA_CR ? '\r' : '\n'))
        return CHUNK_BAD;
    r->at = r->at == AT_DATA_CR ? AT_DATA_LF : AT_SIZE;
    return CHUNK_MORE;
}

static enum chunk_got framing_byte(struct chunk_reader *r, char c)
{
    bool trailer = r->at == AT_FIELD || r->at == AT_FIELD_LF;
    if (++r->line_bytes > (trailer ? CHUNK_TRAILER_BYTES_MAX : CHUNK_LINE_BYTES_MAX))
        return CHUNK_BAD;
    switch (r->at) {
    case AT_SIZE:
    case AT_SIZE_MORE:
        return size_byte(r, c);
    case AT_EXTENSION:
        return extension_byte(r, c);
    case AT_SIZE_LF:
        return size_end(r, c);
    case AT_DATA_CR:
    case AT_DATA_LF:
        return data_end(r, c);
    case AT_FIELD:
        return field_byte(r, c);
    case AT_FIELD_LF:
        return field_end(r, c);
    default:
        check_failed(__FILE__, __LINE__, "no byte of framing comes here");
    }
}

static void data_take(struct chunk_reader *r, str *in, str *data)
{
    size_t n = r->size < in->n ? (size_t)r->size : in->n;
    *data = str_take(*in, n);
    *in = str_skip(*in, n);
    r->size -= n;
    if (r->size > 0)
        return;
    r->at = AT_DATA_CR;
    r->line_bytes = 0;
}

enum chunk_got chunk_next(struct chunk_reader *r, str *in, str *data)
{
    INVARIANT(r->at != AT_OVER);
    while (in->n > 0) {
        if (r->at == AT_DATA) {
            data_take(r, in, data);
            return CHUNK_DATA;
        }
        enum chunk_got got = framing_byte(r, in->p[0]);
        *in = str_skip(*in, 1);
        if (got != CHUNK_MORE)
            return got;
    }
    return CHUNK_MORE;
}
