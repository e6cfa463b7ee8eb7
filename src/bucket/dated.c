/* dated.c - finds the latest renders that a new word of the wiki leaves dated, for hear.c and
 * put.c. One word holds for all buckets; each bucket has a latest render of its own. */
#include "bucket/dated.h"

#include "bucket/look.h"

/* Without a shown render in this bucket nothing is dated there. */
static err note_in(struct page_bucket *bucket, struct engine_txn *txn, struct feed_batch *b,
                   const struct feed_title *of, const struct title_word *w)
{
    const struct feed_title here = { .bucket = bucket->number,
                                     .domain = of->domain,
                                     .title = of->title };
    struct page_row row;
    struct look k;
    look_init(&k, bucket, engine_txn_view(txn), of->domain, of->title);
    /* look_init takes the clock's time; a decision goes by the instant of its update. */
    k.title.now = engine_txn_now(txn);
    err e = title_newest_shown(&k.title, page_name_first, page_name_last, &row);
    if (e == ERR_OK)
        feed_note_word(b, &here, w, &row.r);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err dated_note(struct pages *p, struct engine_txn *txn, struct feed_batch *b,
               const struct feed_title *of, const struct title_word *w)
{
    err e = ERR_OK;
    for (unsigned i = 0; b != NULL && i < p->count && e == ERR_OK; i++)
        if (bucket_hears(&p->buckets[i]))
            e = note_in(&p->buckets[i], txn, b, of, w);
    return e;
}
