/* titles.h - facts and bytes of titles on Cassandra: what a page store of many servers stands on.
 *
 * Model. A title of a domain and bucket is one partition. The table `title` holds its facts
 * (title/fact.h), a row for each; `body` holds the bytes of its renders, in chunks. Facts are only
 * added. What a title is, title/derive.h works out of them; nothing here judges a fact.
 *   A render is there when its fact is. So bytes are written first, and the facts last, in one
 *   batch: a write that fails in between leaves bytes that nobody finds, and never half a render.
 *   Every write carries the time of its fact as its write timestamp. The same write again is the
 *   same write. A deletion carries the instant that title_cull or title_forget said, and so spares
 *   what came later.
 *   The name of a fact's row is its time and its server: two servers never write one row. The bytes
 *   of a render stand under its digest: two servers that put other bytes under one name mix none.
 * Consistency: LOCAL_QUORUM for all that writes (titles_append.everywhere: more), and for facts;
 * bytes are read at LOCAL_ONE by their exact name, and once more at LOCAL_QUORUM when they are not
 * all there.
 * Schema: schema.h. Why so: docs/adr/0046. Requests embed a store_call (store/store.h): each is
 * STORE_LATER, and done runs at its home. Results lie in the request's arena. Errors: those of
 * src/cql, ERR_LIMIT (the arena is full, or the title has more facts than wanted), ERR_CORRUPT.
 * Thread: any. */
#ifndef CASSANDRA_TITLES_H
#define CASSANDRA_TITLES_H

#include "base/arena.h"
#include "store/store.h"
#include "title/derive.h"

enum {
    TITLES_KEYSPACE_BYTES_MAX = 48,
    TITLES_NAME_BYTES_MAX = 255,    /* of a bucket, of a domain */
    TITLES_CHUNK_BYTES = 512 << 10, /* of a body */
    TITLES_BATCH_BYTES = 4 << 20,   /* of one batch; more goes out as several */
    /* Facts of one title: that can be read; with which it takes only what
     * upkeep writes; with which it takes what hides or ends something, and no puts and pins. Each
     * leaves room for what others write at that moment. */
    TITLES_FACTS_MAX = 20000,
    TITLES_FACTS_FULL = 19000,
    TITLES_FACTS_CROWDED = 9000,
    /* Upkeep leaves so many traces of a title; it comes when there are so many more. */
    TITLES_TRACES_MAX = 2000,
    TITLES_TRACES_SPARED = 200,
    TITLES_PAGE_ROWS = 500,  /* facts read at a time */
    TITLES_LATEST_ROWS = 50, /* and when the newest put is enough */
    TITLES_RANGES_MAX = 64,  /* of one cull */
    TITLES_APPEND_MAX = 64,  /* facts of one append */
    TITLES_DELETE_MAX = 256, /* ranges by contents of one cull, facts of one forget */
};

struct cql;
/* Is it a name that goes into statements as it is? False with a note. */
bool titles_keyspace_is_fine(const char *keyspace, struct err_note *note);

struct titles;
/* Registers its statements with the client, which outlives it. keyspace: a word of letters, digits
 * and '_'. NULL: ERR_BAD with a note. Thread: the client's loop, or before it runs. */
struct titles *titles_new(struct cql *client, const char *keyspace, struct clock *clock,
                          struct err_note *note);
void titles_free(struct titles **tp); /* no request is under way */

struct titles_key {
    str bucket, domain, title; /* borrowed until done */
};

/* All facts of a title: first those that are no put, then puts from the greatest name down, of one
 * name the earliest first. A title that is not there has none. */
struct titles_load {
    struct store_call call;
    /* in */
    struct titles_key key;
    struct arena *arena;
    unsigned facts_max; /* more: ERR_LIMIT; 0: TITLES_FACTS_MAX */
    bool latest;        /* all that are no put, and the newest put, are enough */
    /* out */
    struct fact *facts;
    size_t facts_count;
    bool more; /* with latest: there are more, all of them puts */
    struct err_note note;
};
enum store_start titles_load(struct titles *t, struct titles_load *l);

/* Bytes of one render, as bundle_build (store/bundle.h) makes them: contents say where in the blob
 * each lies. */
struct titles_bytes {
    struct page_name name;
    const unsigned char *digest; /* PAGE_DIGEST_BYTES */
    const struct page_content *contents;
    unsigned contents_count;
    str blob;
};
/* Facts of one decision, and bytes of the render that they put, if any. ERR_OK: all of it is on a
 * quorum. Else `unknown` says whether facts may be there or come yet; the same append again, with
 * the same times, ends it well. */
struct titles_append {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    const struct fact *facts; /* 1 to TITLES_APPEND_MAX, their times set */
    unsigned facts_count;
    const struct titles_bytes *bytes; /* NULL: none */
    /* ZERO: a write is as of the facts' arrival. Else as of then: facts that are there already are
     * written anew, as those whose bytes are gone */
    store_time write_at;
    /* On a quorum of each data centre. Where one cannot be had it is an error; the facts are
     * written to the local one all the same */
    bool everywhere;
    struct arena *arena;
    /* out */
    bool unknown;
    struct err_note note;
};
enum store_start titles_append(struct titles *t, struct titles_append *a);

/* The bytes of one content of a render: headers, then the frame, as they were written.
 * ERR_NOT_FOUND: they are not there. ERR_CORRUPT: they are not what the content's sum says. */
struct titles_body {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    struct page_name name;
    const unsigned char *digest;
    const struct page_content *content;
    bool settled; /* a quorum is asked at once. What it gives, a quorum has then */
    struct arena *arena;
    /* out */
    str bytes; /* headers_bytes and stored_bytes of them */
    struct err_note note;
};
enum store_start titles_body(struct titles *t, struct titles_body *b);

/* Deletes the bytes of the ranges that title_cull gave: of these contents, written up to cull.at.
 */
struct titles_cull {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    /* TITLES_RANGES_MAX ranges at most, and ranges times contents TITLES_DELETE_MAX at most */
    const struct title_cull *cull;
    const str *contents;
    unsigned contents_count;
    /* out */
    struct err_note note;
};
enum store_start titles_cull(struct titles *t, struct titles_cull *c);

/* Deletes facts that title_forget allows, as of its horizon. The FORGOTTEN that it asks for was
 * appended before. */
struct titles_forget {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    const struct fact *const *facts;
    unsigned facts_count; /* TITLES_DELETE_MAX at most */
    store_time horizon;
    /* out */
    struct err_note note;
};
enum store_start titles_forget(struct titles *t, struct titles_forget *f);

#endif
