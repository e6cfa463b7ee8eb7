/* path.c - finds where the keys begin in paths of buckets of values, for the log and for filters: a
 * key may be secret. */
#include "value/path.h"

#include "http/percent.h"

enum { PARTS_LOGGED = 5 }; /* "", domain, v1, kind, bucket */

bool value_path(str path)
{
    str rest = str_skip(path, str_find(str_skip(path, 1), '/') + 1); /* behind the domain */
    return str_starts(rest, STR("/v1/key_value/")) || str_starts(rest, STR("/v1/key_rev_value/"));
}

/* Cuts the first character off s, encoded or not, and gives it in lower case. A broken escape is a
 * '%'. */
static char take_char(str *s)
{
    char c = s->p[0];
    bool escape = c == '%' && s->n > 2 && percent_valid(str_take(*s, 3));
    if (escape)
        c = (char)(str_hex_digit(s->p[1]) * 16 + str_hex_digit(s->p[2]));
    *s = str_skip(*s, escape ? 3 : 1);
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Does s begin with word, encoded or not? *rest: what follows. */
static bool reads(str s, str word, str *rest)
{
    for (size_t i = 0; i < word.n; i++)
        if (s.n == 0 || take_char(&s) != word.p[i])
            return false;
    *rest = s;
    return true;
}

/* What may be logged of a path that no route of values took: whatever stands behind a kind and a
 * name may be a key that was meant for a bucket. */
static str odd_path_logged(str path)
{
    for (str at = path, rest; at.n > 0; at = str_skip(at, 1)) {
        if (!reads(at, STR("key_value"), &rest) && !reads(at, STR("key_rev_value"), &rest))
            continue;
        for (unsigned slashes = 0; rest.n > 0 && slashes < 2;)
            slashes += take_char(&rest) == '/';
        return str_take(path, path.n - rest.n);
    }
    return path;
}

str value_path_logged(str path, const char *pattern)
{
    str rest = path;
    /* Routes of buckets by any name: of none, or of pages. */
    if (pattern == NULL || str_starts(str_of(pattern), STR("/{domain}/v1/{")))
        return odd_path_logged(path);
    if (!value_path(str_of(pattern)))
        return path;
    for (unsigned i = 0; i < PARTS_LOGGED; i++)
        (void)str_split(&rest, '/'); /* not logged is what is left */
    return str_take(path, path.n - rest.n);
}

/* False: the path is of no bucket, or its name cannot be decoded. */
bool value_path_bucket(struct arena *a, str path, enum value_kind *kind, str *name)
{
    str rest = str_skip(path, 1);
    (void)str_split(&rest, '/'); /* the domain */
    if (!value_path(path))
        return false;
    (void)str_split(&rest, '/'); /* v1 */
    *kind = str_eq(str_split(&rest, '/'), STR("key_value")) ? VALUE_PLAIN : VALUE_REVS;
    return http_decode(a, str_split(&rest, '/'), false, name) == ERR_OK;
}
