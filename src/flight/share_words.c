/* share_words.c - the texts that go through Redis: ids, tokens, pushes, errors. Pure. */
#include "flight/share_impl.h"

#include "base/utf8.h"
#include "codec/sha256.h"

#include <stdio.h>
#include <string.h>

void flight_share_id(const str *parts, unsigned count, unsigned char out[FLIGHT_ID_BYTES])
{
    unsigned char digest[SHA256_BYTES];
    struct evp_md_ctx_st *sha = sha256_begin();
    for (unsigned i = 0; i < count; i++) {
        char length[8];
        for (unsigned b = 0; b < sizeof length; b++)
            length[b] = (char)((uint64_t)parts[i].n >> (56 - 8 * b));
        sha256_add(sha, (str){ .p = length, .n = sizeof length });
        sha256_add(sha, parts[i]);
    }
    sha256_end(sha, digest);
    memcpy(out, digest, FLIGHT_ID_BYTES);
}

static const char hex[] = "0123456789abcdef";

void share_id_text(const unsigned char *id, char out[SHARE_ID_TEXT + 1])
{
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++) {
        out[2 * i] = hex[id[i] >> 4];
        out[2 * i + 1] = hex[id[i] & 15];
    }
    out[SHARE_ID_TEXT] = 0;
}

str share_index(const struct flight_keeping *keeping, char out[SHARE_KEY_BYTES + 1])
{
    char text[SHARE_ID_TEXT + 1];
    share_id_text(keeping->index, text);
    int n = snprintf(out, SHARE_KEY_BYTES + 1, "pal:p:{%s}", text); /* fits */
    return keeping->touch_ms > 0 ? (str){ .p = out, .n = (size_t)n } : STR_NONE;
}

bool flight_token_is_fine(str token)
{
    return share_fence_of(token) != 0;
}

static int hex_value(char c)
{
    const char *at = c == 0 ? NULL : strchr(hex, c);
    return at == NULL ? -1 : (int)(at - hex);
}

bool share_id_parse(str text, unsigned char out[FLIGHT_ID_BYTES])
{
    if (text.n != SHARE_ID_TEXT)
        return false;
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++) {
        int high = hex_value(text.p[2 * i]), low = hex_value(text.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static bool is_node(str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!(name.p[i] >= 'a' && name.p[i] <= 'z') && !(name.p[i] >= '0' && name.p[i] <= '9'))
            return false;
    return name.n > 0;
}

/* A token goes into headers as a version, and its fence into instants: nothing else may be in
 * it. */
uint64_t share_fence_of(str token)
{
    uint64_t fence = 0;
    str node = token;
    bool fine = token.n <= FLIGHT_TOKEN_BYTES_MAX && str_to_u64(str_split(&node, '.'), &fence) &&
                is_node(node);
    return fine && fence <= SHARE_FENCE_MAX ? fence : 0;
}

str share_class(err why, const struct err_note *note, char out[FLIGHT_CLASS_BYTES_MAX])
{
    int n = snprintf(out, FLIGHT_CLASS_BYTES_MAX, "%s %s", err_name(why),
                     note == NULL ? "" : note->text);
    size_t kept = n < FLIGHT_CLASS_BYTES_MAX ? (size_t)n : FLIGHT_CLASS_BYTES_MAX - 1;
    return (str){ .p = out, .n = kept };
}

static bool is_sentence(str text)
{
    for (size_t i = 0; i < text.n; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
            return false;
    return text.n < ERR_NOTE_BYTES && utf8_valid(text);
}

void share_class_parse(str text, err *why, struct err_note *note)
{
    str rest = text;
    str name = str_split(&rest, ' ');
    *why = ERR_UNAVAILABLE;
    for (unsigned i = ERR_OK + 1; i < ERR_CODES; i++)
        if (str_eq(name, str_of(err_name((err)i))))
            *why = (err)i;
    if (rest.n > 0 && is_sentence(rest))
        err_note_set(note, "%.*s", STR_ARG(str_take(rest, ERR_NOTE_BYTES - 1)));
    else
        err_note_set(note, "the server that made it gave up");
}

static bool parse_value(str *rest, struct flight_arrival *v)
{
    return str_to_i64(str_split(rest, ' '), &v->fresh_ms) &&
           str_to_i64(str_split(rest, ' '), &v->stale_ms) &&
           str_to_i64(str_split(rest, ' '), &v->age_ms) && v->stale_ms > 0;
}

bool share_push_parse(str message, str *id, struct share_news *out)
{
    str rest = message;
    str name = str_split(&rest, ' ');
    str token = str_split(&rest, ' ');
    str kind = str_split(&rest, ' ');
    struct share_news n = { .fence = share_fence_of(token), .event = SHARE_GOT_RETRY };
    unsigned char bytes[FLIGHT_ID_BYTES];
    if (!share_id_parse(name, bytes) || n.fence == 0 || kind.n != 1)
        return false;
    if (kind.p[0] == 'V') {
        n.event = SHARE_GOT_VALUE;
        n.value.version = token;
        if (!parse_value(&rest, &n.value))
            return false;
        n.value.bytes = rest;
    } else if (kind.p[0] == 'E') {
        n.event = SHARE_GOT_ERROR;
        if (!str_to_i64(str_split(&rest, ' '), &n.left_ms))
            return false;
        share_class_parse(rest, &n.why, &n.note);
        if (str_starts(rest, STR(SHARE_CLASS_NOT_SHARED)))
            n.event = SHARE_NO_REDIS; /* everybody for himself */
    } else if (kind.p[0] != 'L' && kind.p[0] != 'T') {
        return false;
    }
    *id = name;
    *out = n;
    return true;
}
