/* url.c - parses redis:// URLs. Invariant: no NUL and no control byte gets into a name or a
 * password. */
#include "redis/redis.h"

#include <string.h>

enum { PORT_DEFAULT = 6379, DB_MAX = 1 << 20 };

/* Undoes percent-encoding into dst, which holds REDIS_NAME_BYTES_MAX + 1. No NUL, no control
 * bytes. */
static bool url_decode(str s, char *dst)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int c = (unsigned char)s.p[i];
        if (c == '%') {
            int high = i + 2 < s.n ? str_hex_digit(s.p[i + 1]) : -1;
            int low = i + 2 < s.n ? str_hex_digit(s.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = high * 16 + low;
            i += 2;
        }
        if (c < ' ' || c == 0x7f || n == REDIS_NAME_BYTES_MAX)
            return false;
        dst[n++] = (char)c;
    }
    dst[n] = 0;
    return true;
}

static bool parse_login(str login, struct redis_address *a)
{
    size_t colon = str_find(login, ':');
    if (colon == login.n) /* a password alone, as older URLs have it, would be a user without one */
        return false;
    return url_decode(str_take(login, colon), a->user) &&
           url_decode(str_skip(login, colon + 1), a->password);
}

/* host, host:port, [v6], [v6]:port */
static bool parse_host(str s, struct redis_address *a)
{
    str host = s, port = STR_NONE;
    if (s.n > 0 && s.p[0] == '[') {
        size_t end = str_find(s, ']');
        if (end == s.n)
            return false;
        host = str_skip(str_take(s, end), 1);
        port = str_skip(s, end + 1);
        if (port.n > 0 && port.p[0] != ':')
            return false;
        port = str_skip(port, 1);
    } else if (str_find(s, ':') < s.n) {
        host = str_take(s, str_find(s, ':'));
        port = str_skip(s, host.n + 1);
        if (port.n == 0)
            return false;
    }
    uint64_t number = PORT_DEFAULT;
    if (port.n > 0 && (!str_to_u64(port, &number) || number == 0 || number > UINT16_MAX))
        return false;
    for (size_t i = 0; i < host.n; i++)
        if ((unsigned char)host.p[i] <= ' ' || (unsigned char)host.p[i] >= 0x7f)
            return false;
    a->port = (uint16_t)number;
    return host.n > 0 && str_to_cstr(host, a->host, sizeof a->host);
}

static bool parse_db(str path, uint32_t *db)
{
    uint64_t number = 0;
    if (path.n > 0 && (!str_to_u64(path, &number) || number > DB_MAX))
        return false;
    *db = (uint32_t)number;
    return true;
}

err redis_url_parse(str url, struct redis_address *out, struct err_note *note)
{
    if (str_starts(url, STR("rediss://")))
        return err_bad(note,
                       "rediss:// is not spoken: run stunnel4 as a client of the server and give "
                       "redis://127.0.0.1:PORT of it");
    struct redis_address a = { .port = 0 };
    bool fine = str_starts(url, STR("redis://"));
    str rest = fine ? str_skip(url, STR("redis://").n) : url;
    size_t at = rest.n;
    for (size_t i = 0; i < rest.n; i++)
        if (rest.p[i] == '@')
            at = i;
    if (fine && at < rest.n) {
        fine = parse_login(str_take(rest, at), &a);
        rest = str_skip(rest, at + 1);
    }
    size_t slash = str_find(rest, '/');
    fine =
        fine && parse_host(str_take(rest, slash), &a) && parse_db(str_skip(rest, slash + 1), &a.db);
    if (!fine) {
        /* Without a word of it: it may hold a password. */
        return err_bad(note, "not a URL of Redis: redis://[[user]:password@]host[:port][/db]");
    }
    *out = a;
    return ERR_OK;
}
