/* bytes.c - the bytes of an event that many items share, once.
 *
 * An event of more than CHANGE_OWN_BYTES_MAX is kept in a row of its own, with how many items are
 * of it: without that a large event for many targets would be written once for each. A smaller one
 * is kept in the row of each item: that costs no further row. The row goes with the last item.
 * Thread: the committer's. */
#include "change/items.h"

#include "base/buf.h"

/* The bound decides for all items of an event alike: they have the same bytes. */
bool change_bytes_shared(str bytes)
{
    return bytes.n > CHANGE_OWN_BYTES_MAX;
}

/* The first item brings the bytes; others are counted. */
err change_bytes_take(struct change_edit *e, uint64_t seq, str bytes)
{
    struct change_key key;
    struct engine_blob blob;
    uint64_t count;
    char value[CHANGE_BYTES_BYTES];
    change_key_bytes(&key, seq);
    err why = change_bytes_get(engine_txn_view(e->txn), seq, &count, &blob);
    if (why == ERR_NOT_FOUND)
        return engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&key),
                              change_bytes_encode(1, value), bytes);
    if (why != ERR_OK)
        return why;
    return engine_txn_put_value(e->txn, SPACE_CHANGE, change_key_str(&key),
                                change_bytes_encode(count + 1, value));
}

err change_bytes_give(struct change_edit *e, uint64_t seq)
{
    struct change_key key;
    struct engine_blob blob;
    uint64_t count;
    char value[CHANGE_BYTES_BYTES];
    change_key_bytes(&key, seq);
    err why = change_bytes_get(engine_txn_view(e->txn), seq, &count, &blob);
    if (why != ERR_OK) /* damage, that palimpsest check tells of, keeps no item from its end */
        return why == ERR_NOT_FOUND || why == ERR_CORRUPT ? ERR_OK : why;
    /* The row goes with its last item. */
    if (count <= 1)
        return engine_txn_delete(e->txn, SPACE_CHANGE, change_key_str(&key));
    return engine_txn_put_value(e->txn, SPACE_CHANGE, change_key_str(&key),
                                change_bytes_encode(count - 1, value));
}
