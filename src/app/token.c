#include "app/token.h"

#include "base/buf.h"

#include <string.h>

enum { TOKEN_RENDER = 'r', TOKEN_TITLE = 't', TOKEN_RENDER_BYTES = 1 + 8 + TID_KEY_BYTES };

static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

err token_unbase64(struct arena *a, str text, str *out)
{
    bool padded = text.n % 4 == 0;
    for (unsigned pad = 0; padded && pad < 2 && text.n > 0 && text.p[text.n - 1] == '='; pad++)
        text.n--;
    if (text.n % 4 == 1)
        return ERR_BAD;
    char *at = arena_alloc(a, text.n / 4 * 3 + 3), *end = at;
    if (at == NULL)
        return ERR_LIMIT;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < text.n; i++) {
        int v = sextet(text.p[i]);
        if (v < 0)
            return ERR_BAD;
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *end++ = (char)(bits >> have);
        }
    }
    if ((bits & (BIT(have) - 1)) != 0)
        return ERR_BAD; /* two texts for one value */
    *out = (str){ .p = at, .n = (size_t)(end - at) };
    return ERR_OK;
}

str token_base64url(struct arena *a, str bytes)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if (bytes.n > SIZE_MAX / 2)
        return STR_NONE;
    char *at = arena_alloc(a, bytes.n / 3 * 4 + 4), *end = at;
    if (at == NULL)
        return STR_NONE;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        bits = bits << 8 | (unsigned char)bytes.p[i];
        for (have += 8; have >= 6; have -= 6)
            *end++ = alphabet[bits >> (have - 6) & 63];
    }
    if (have > 0)
        *end++ = alphabet[bits << (6 - have) & 63];
    return (str){ .p = at, .n = (size_t)(end - at) };
}

str token_of_render(struct arena *a, uint64_t rev, struct tid tid)
{
    unsigned char key[TOKEN_RENDER_BYTES] = { TOKEN_RENDER };
    put_be64(key + 1, rev);
    tid_key(tid, key + 9);
    return token_base64url(a, (str){ .p = (const char *)key, .n = sizeof key });
}

str token_of_title(struct arena *a, str title)
{
    char *bytes = arena_alloc(a, title.n + 1);
    if (bytes == NULL)
        return STR_NONE;
    bytes[0] = TOKEN_TITLE;
    if (title.n > 0)
        memcpy(bytes + 1, title.p, title.n);
    return token_base64url(a, (str){ .p = bytes, .n = title.n + 1 });
}

static bool token_open(struct arena *a, str token, char kind, str *position)
{
    str bytes;
    if (token.n == 0 || token.n > TOKEN_TEXT_BYTES_MAX ||
        token_unbase64(a, token, &bytes) != ERR_OK)
        return false;
    if (bytes.n == 0 || bytes.p[0] != kind)
        return false;
    *position = str_skip(bytes, 1);
    return true;
}

bool token_to_render(struct arena *a, str token, uint64_t *rev, struct tid *tid)
{
    str at;
    if (!token_open(a, token, TOKEN_RENDER, &at) || at.n != TOKEN_RENDER_BYTES - 1)
        return false;
    struct tid t = tid_from_key((const unsigned char *)at.p + 8);
    uint64_t r = get_be64(at.p);
    char text[TID_TEXT_BYTES + 1];
    if (r == 0 || r > INT64_MAX || t.ticks >> 60 != 0)
        return false;
    tid_format(t, text); /* only what a tid can be */
    if (!tid_parse(str_of(text), &t))
        return false;
    *rev = r;
    *tid = t;
    return true;
}

bool token_to_title(struct arena *a, str token, str *title)
{
    return token_open(a, token, TOKEN_TITLE, title) && title->n > 0;
}
