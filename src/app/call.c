/* call.c - requests wait for stores. */
#include "app/call.h"

#include "app/errors.h"
#include "codec/base64.h"

void app_call_go(struct http_exchange *x, enum store_start start, struct store_call *c)
{
    if (start == STORE_DONE)
        c->done(c);
    else
        http_defer(x);
}

static void read_gone(struct http_exchange *x, void *call)
{
    (void)x; /* what is canceled answers it */
    store_cancel(call);
}

void app_read_go(struct http_exchange *x, enum store_start start, struct store_call *c)
{
    app_call_go(x, start, c);
    if (start == STORE_LATER)
        http_on_gone(x, read_gone, c);
}

bool app_token_bad(struct http_exchange *x)
{
    return app_refused(x, 400, "bad_request#invalid_paging_token",
                       "page is not a token that a listing gave.");
}

bool app_token_parse(struct http_exchange *x, str *from)
{
    str text;
    *from = STR("");
    if (!http_query(x, "page", &text))
        return true;
    bool fine = text.n > 0 && text.n <= APP_TOKEN_TEXT_BYTES_MAX &&
                base64_decode(http_arena(x), text, BASE64_TOKEN, from) == ERR_OK && from->n > 0;
    return fine || app_token_bad(x);
}

bool app_listing_parse(struct http_exchange *x, unsigned *limit, str *from)
{
    uint64_t n = *limit;
    str text;
    if (http_query(x, "limit", &text) && (!str_to_u64(text, &n) || n == 0 || n > APP_LISTING_MAX))
        return app_refused(x, 400, "bad_request#invalid_limit",
                           "limit is a number from 1 to 1000.");
    *limit = (unsigned)n;
    return app_token_parse(x, from);
}
