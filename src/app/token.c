#include "app/token.h"

#include "base/buf.h"
#include "codec/base64.h"

#include <string.h>

enum { TOKEN_RENDER = 'r', TOKEN_TITLE = 't', TOKEN_RENDER_BYTES = 1 + 8 + TID_KEY_BYTES };

str token_of_render(struct arena *a, uint64_t rev, struct tid tid)
{
    unsigned char key[TOKEN_RENDER_BYTES] = { TOKEN_RENDER };
    put_be64(key + 1, rev);
    tid_key(tid, key + 9);
    return base64_url(a, (str){ .p = (const char *)key, .n = sizeof key });
}

str token_of_title(struct arena *a, str title)
{
    char *bytes = arena_alloc(a, title.n + 1);
    if (bytes == NULL)
        return STR_NONE;
    bytes[0] = TOKEN_TITLE;
    if (title.n > 0)
        memcpy(bytes + 1, title.p, title.n);
    return base64_url(a, (str){ .p = bytes, .n = title.n + 1 });
}

static bool token_open(struct arena *a, str token, char kind, str *position)
{
    str bytes;
    if (token.n == 0 || token.n > TOKEN_TEXT_BYTES_MAX ||
        base64_decode(a, token, BASE64_TOKEN, &bytes) != ERR_OK)
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
