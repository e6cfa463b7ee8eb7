/* json_list.c - writes listings. */
#include "codec/json_list.h"

#include "codec/base64.h"

void json_list_init(struct json_list *l, size_t bytes_max)
{
    *l = (struct json_list){ .count = 0 };
    buf_init(&l->items, bytes_max);
    buf_init(&l->damaged, bytes_max);
    buf_put(&l->items, STR("{\"items\":["));
}

struct buf *json_list_item(struct json_list *l)
{
    if (l->count++ > 0)
        buf_put_c(&l->items, ',');
    return &l->items;
}

struct buf *json_list_damaged(struct json_list *l)
{
    buf_put(&l->damaged, l->damaged_count++ > 0 ? STR(",") : STR(",\"damaged\":["));
    return &l->damaged;
}

/* "before token after"; a token that finds no memory fails b, which then is no text. */
static void token_put(struct buf *b, struct arena *a, str next, const char *before,
                      const char *after)
{
    str token = next.n > 0 ? base64_url(a, next) : STR_NONE;
    b->failed |= token.p == NULL && next.n > 0;
    if (token.n > 0)
        buf_printf(b, "%s%.*s%s", before, STR_ARG(token), after);
}

void json_next_put(struct buf *b, struct arena *a, str next)
{
    token_put(b, a, next, ",\"next\":\"", "\"");
}

str json_list_end(struct json_list *l, struct arena *a, str next, enum json_list_shape shape)
{
    struct buf *b = &l->items;
    buf_put_c(b, ']');
    if (l->damaged_count > 0) {
        b->failed |= l->damaged.failed;
        buf_put(b, buf_str(&l->damaged));
        buf_put_c(b, ']');
    }
    json_next_put(b, a, next);
    if (shape == JSON_LIST_LINKS)
        token_put(b, a, next, ",\"_links\":{\"next\":{\"href\":\"?page=", "\"}}");
    buf_put(b, shape == JSON_LIST_LINE ? STR("}\n") : STR("}"));
    buf_fini(&l->damaged);
    return buf_take(b, a);
}

void json_list_fini(struct json_list *l)
{
    buf_fini(&l->damaged);
    buf_fini(&l->items);
}
