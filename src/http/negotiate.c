/* negotiate.c - parses header fields: codings, entity tags, ranges, preferences, cache
 * directives. Invariant: no function trusts a field; what does not parse counts as not sent, or
 * as the header says. */
#include "http/negotiate.h"

#include "base/check.h"
#include "http/parameter.h"

/* Lists are read leniently where nothing hangs on it (a coding we cannot read is skipped) and
 * strictly where something does (entity tags: what is not well-formed matches nothing). */

const char *http_coding_name(enum http_coding c)
{
    static const char *const names[CODINGS] = {
        [CODING_IDENTITY] = "identity", [CODING_GZIP] = "gzip", [CODING_ZSTD] = "zstd"
    };
    INVARIANT(c < CODINGS);
    return names[c];
}

/* ---- Accept-Encoding (RFC 9110 12.5.3, weights 12.4.2) ---- */

enum {
    WEIGHT_MAX = 1000,
    WEIGHT_UNNAMED = 1 /* identity that nobody asked for: allowed, liked least */
};

/* "0", "0.5", "1.000" in thousandths; -1 when it is none of that. */
static int weight_parse(str s)
{
    if (s.n == 0 || s.n > 5 || (s.p[0] != '0' && s.p[0] != '1'))
        return -1;
    int weight = (s.p[0] - '0') * WEIGHT_MAX;
    if (s.n > 1 && s.p[1] != '.')
        return -1;
    int unit = 100;
    for (size_t i = 2; i < s.n; i++, unit /= 10) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -1;
        weight += (s.p[i] - '0') * unit;
    }
    return weight > WEIGHT_MAX ? -1 : weight;
}

/* The weight among an element's parameters; other parameters are ignored. */
static int weight_of(str params)
{
    int weight = WEIGHT_MAX;
    while (params.p != NULL) {
        str param = str_trim(str_split(&params, ';'));
        if (param.n >= 2 && (param.p[0] == 'q' || param.p[0] == 'Q') && param.p[1] == '=')
            weight = weight_parse(str_skip(param, 2));
    }
    return weight;
}

struct http_accept http_accept_encoding(str field)
{
    struct http_accept a = { .weight = { [CODING_IDENTITY] = WEIGHT_MAX } };
    if (str_trim(field).n == 0)
        return a;
    int named[CODINGS] = { -1, -1, -1 }, star = -1;
    while (field.p != NULL) {
        str params = str_split(&field, ',');
        str coding = str_trim(str_split(&params, ';'));
        int weight = weight_of(params);
        if (weight < 0)
            continue;
        if (str_eq(coding, STR("*")))
            star = weight;
        else if (str_eq_nocase(coding, STR("gzip")) || str_eq_nocase(coding, STR("x-gzip")))
            named[CODING_GZIP] = weight;
        else if (str_eq_nocase(coding, STR("zstd")))
            named[CODING_ZSTD] = weight;
        else if (str_eq_nocase(coding, STR("identity")))
            named[CODING_IDENTITY] = weight;
    }
    for (int c = 0; c < CODINGS; c++) {
        int unnamed = star >= 0 ? star : (c == CODING_IDENTITY ? WEIGHT_UNNAMED : 0);
        a.weight[c] = named[c] >= 0 ? named[c] : unnamed;
    }
    return a;
}

/* ---- entity tags (RFC 9110 8.8.3, 13.1) ---- */

static bool is_etag_byte(char c)
{
    unsigned char u = (unsigned char)c;
    return u == 0x21 || (u >= 0x23 && u != 0x7f);
}

bool http_etag_next(str *rest, struct http_etag *out)
{
    while (rest->n > 0 && (rest->p[0] == ',' || rest->p[0] == ' ' || rest->p[0] == '\t'))
        *rest = str_skip(*rest, 1);
    out->weak = str_starts(*rest, STR("W/"));
    str at = str_skip(*rest, out->weak ? 2 : 0);
    if (at.n == 0 || at.p[0] != '"')
        return false;
    at = str_skip(at, 1);
    size_t n = 0;
    while (n < at.n && is_etag_byte(at.p[n]))
        n++;
    if (n == at.n || at.p[n] != '"')
        return false;
    out->opaque = str_take(at, n);
    *rest = str_skip(at, n + 1);
    return rest->n == 0 || rest->p[0] == ',' || rest->p[0] == ' ' || rest->p[0] == '\t';
}

bool http_etag_matches(str field, str tag, bool weak)
{
    if (str_eq(str_trim(field), STR("*")))
        return true;
    struct http_etag e;
    while (http_etag_next(&field, &e))
        if ((weak || !e.weak) && str_eq(e.opaque, tag))
            return true;
    return false;
}

str http_etag_bare(str tag, bool *weak)
{
    *weak = str_starts(tag, STR("W/"));
    tag = str_skip(tag, *weak ? 2 : 0);
    bool quoted = tag.n >= 2 && tag.p[0] == '"' && tag.p[tag.n - 1] == '"';
    return quoted ? str_skip(str_take(tag, tag.n - 1), 1) : tag;
}

/* ---- Range (RFC 9110 14.1, 14.2) ---- */

/* Digits, saturating; false when there are none or something else is among them. */
static bool position_parse(str s, uint64_t *out)
{
    uint64_t v = 0;
    bool past = false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        past = past || __builtin_mul_overflow(v, (uint64_t)10, &v) ||
               __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v);
    }
    *out = past ? UINT64_MAX : v;
    return s.n > 0;
}

static struct http_range range_suffix(uint64_t count, uint64_t size)
{
    if (count == 0)
        return (struct http_range){ .kind = RANGE_UNSATISFIABLE };
    if (size == 0) /* satisfiable, but no Content-Range can say it */
        return (struct http_range){ .kind = RANGE_NONE };
    uint64_t first = count >= size ? 0 : size - count;
    return (struct http_range){ .kind = RANGE_ONE, .first = first, .last = size - 1 };
}

static struct http_range range_one(str spec, uint64_t size)
{
    const struct http_range none = { .kind = RANGE_NONE };
    size_t dash = str_find(spec, '-');
    uint64_t first = 0, last = UINT64_MAX;
    str last_text = str_skip(spec, dash + 1);
    if (dash == spec.n)
        return none;
    if (dash == 0)
        return position_parse(last_text, &last) ? range_suffix(last, size) : none;
    if (!position_parse(str_take(spec, dash), &first))
        return none;
    if (last_text.n > 0 && (!position_parse(last_text, &last) || last < first))
        return none;
    if (first >= size)
        return (struct http_range){ .kind = RANGE_UNSATISFIABLE };
    return (struct http_range){ .kind = RANGE_ONE,
                                .first = first,
                                .last = last < size ? last : size - 1 };
}

struct http_range http_range(str field, uint64_t size)
{
    const struct http_range none = { .kind = RANGE_NONE };
    size_t equals = str_find(field, '=');
    if (equals == field.n || !str_eq_nocase(str_trim(str_take(field, equals)), STR("bytes")))
        return none;
    str rest = str_skip(field, equals + 1), spec = STR_NONE;
    while (rest.p != NULL) {
        str piece = str_trim(str_split(&rest, ','));
        if (piece.n == 0)
            continue;
        if (spec.p != NULL)
            return none;
        spec = piece;
    }
    return spec.p == NULL ? none : range_one(spec, size);
}

/* ---- Cache-Control (RFC 9111 5.2) ---- */

static const unsigned char tchars[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
    ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1,  ['~'] = 1, ['0'] = 1,
    ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1, ['8'] = 1,
    ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1,  ['f'] = 1, ['g'] = 1,
    ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1, ['l'] = 1, ['m'] = 1,  ['n'] = 1, ['o'] = 1,
    ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1, ['t'] = 1, ['u'] = 1,  ['v'] = 1, ['w'] = 1,
    ['x'] = 1, ['y'] = 1, ['z'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1,  ['D'] = 1, ['E'] = 1,
    ['F'] = 1, ['G'] = 1, ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1,  ['L'] = 1, ['M'] = 1,
    ['N'] = 1, ['O'] = 1, ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1,  ['T'] = 1, ['U'] = 1,
    ['V'] = 1, ['W'] = 1, ['X'] = 1, ['Y'] = 1, ['Z'] = 1,
};

str http_token_take(str *s)
{
    size_t n = 0;
    while (n < s->n && tchars[(unsigned char)s->p[n]])
        n++;
    str token = str_take(*s, n);
    *s = str_skip(*s, n);
    return token;
}

bool http_is_token(str s)
{
    return http_token_take(&s).n > 0 && s.n == 0;
}

bool http_prefer_wait(str field, uint64_t *seconds)
{
    while (field.n > 0) {
        str one = str_split(&field, ',');
        str value = str_trim(str_take(one, str_find(one, ';')));
        str name = str_trim(str_split(&value, '='));
        if (str_eq_nocase(name, STR("wait")) && str_to_u64(str_trim(value), seconds))
            return true;
    }
    return false;
}

uint64_t http_cache_life_s(str field)
{
    uint64_t life_s = 0;
    while (field.n > 0) {
        str one = str_trim(http_part_next(&field, ','));
        size_t n = str_find(one, '=');
        uint64_t s;
        bool lives = str_eq_nocase(str_take(one, n), STR("max-age")) ||
                     str_eq_nocase(str_take(one, n), STR("s-maxage"));
        if (lives && n < one.n && str_to_u64(str_skip(one, n + 1), &s) && s > 0)
            life_s = life_s == 0 || s < life_s ? s : life_s;
    }
    return life_s;
}

bool http_cache_control_has(str field, str directive)
{
    while (field.n > 0) {
        str one = http_part_next(&field, ',');
        if (str_eq_nocase(str_trim(str_take(one, str_find(one, '='))), directive))
            return true;
    }
    return false;
}
