/* coded.c - bodies in a content coding (RFC 9110 8.4): for the handlers of PUT. */
#include "app/coded.h"

#include "app/errors.h"

bool coded_same(str one, str other)
{
    enum frame_coding a, b;
    return frame_coding_find(str_trim(one), &a) && frame_coding_find(str_trim(other), &b)
               ? a == b
               : str_eq_nocase(one, other);
}

static bool coded_refuse(struct http_exchange *x, err why, size_t raw_max)
{
    if (why == ERR_LIMIT)
        app_problem(x, 413, "content_too_large", NULL,
                    arena_printf(http_arena(x),
                                 "A body has at most %zu bytes once its coding is undone.",
                                 raw_max),
                    STR_NONE);
    else if (why == ERR_BAD || why == ERR_CORRUPT)
        app_problem(x, 400, "bad_request#invalid_coding", NULL,
                    STR("The body is not one whole member of the coding that it names: one frame, "
                        "nothing behind it, "
                        "with the right checksum, of zstd with a window of at most 8 MiB."),
                    STR_NONE);
    else
        app_fail(x, why, NULL);
    return false;
}

bool coded_body_read(struct http_exchange *x, const struct app *app, str coding, size_t raw_max,
                     struct coded_body *out)
{
    struct coded_body b = { .raw = http_body(x) };
    size_t raw_bytes = 0;
    if (!frame_coding_find(str_trim(coding), &b.coding)) {
        http_reply_header(x, STR("accept-encoding"), STR("gzip, zstd"));
        app_problem(x, 415, "unsupported_coding", NULL,
                    STR("Send the body as it is, in gzip or in zstd."), STR_NONE);
        return false;
    }
    if (b.coding == FRAME_IDENTITY) {
        *out = b;
        return true;
    }
    str frame = b.raw;
    err why = frame_measure(b.coding, frame, raw_max, &raw_bytes);
    if (why != ERR_OK)
        return coded_refuse(x, why, raw_max);
    struct frame_codec *codec = frame_pool_take(app->frames);
    why = frame_unpack(codec, b.coding, frame, raw_bytes, http_arena(x), &b.raw);
    frame_pool_give(app->frames, &codec);
    if (why == ERR_LIMIT && !arena_is_starved(http_arena(x)))
        return coded_refuse(x, ERR_LIMIT, raw_max);
    if (why != ERR_OK)
        return why == ERR_LIMIT ? (app_fail(x, why, NULL), false) : coded_refuse(x, why, raw_max);
    if (frame_is_plain(b.coding, frame))
        b.frame = frame;
    *out = b;
    return true;
}
