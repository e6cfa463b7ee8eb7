/* json_list.h - listings as JSON, one writer for all: {"items":[...],"damaged":[...],"next":"..."},
 * the last two when there is something to say. Thread: one at a time. */
#ifndef CODEC_JSON_LIST_H
#define CODEC_JSON_LIST_H

#include "base/arena.h"
#include "base/buf.h"

enum json_list_shape {
    JSON_LIST_PLAIN,
    JSON_LIST_LINKS, /* says next in RESTBase's shape, too */
    JSON_LIST_LINE,  /* a newline behind it */
};
struct json_list {
    struct buf items, damaged;
    unsigned count, damaged_count;
};
/* bytes_max: of each of both; a longer listing fails at its end. */
void json_list_init(struct json_list *l, size_t bytes_max);
/* Where the next item is to be written, its comma before it. */
struct buf *json_list_item(struct json_list *l);
/* The same of a row that is there and cannot be read. */
struct buf *json_list_damaged(struct json_list *l);
/* The text, in the arena; l ends. next: bytes of a token, shown in base64url; n 0: that was all.
 * STR_NONE: it is too long, or the arena is full. */
str json_list_end(struct json_list *l, struct arena *a, str next, enum json_list_shape shape);
/* The listing is not wanted; also behind json_list_end. */
void json_list_fini(struct json_list *l);

/* ,"next":"..." for a text that ends with it; nothing for n 0. */
void json_next_put(struct buf *b, struct arena *a, str next);

#endif
