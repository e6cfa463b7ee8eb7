/* titles_impl.h - what the files of titles.h share. Private to this folder. */
#ifndef CASSANDRA_TITLES_IMPL_H
#define CASSANDRA_TITLES_IMPL_H

#include "cassandra/titles.h"
#include "cql/cql.h"

#include <stdatomic.h>

enum titles_statement {
    TITLES_FACTS,
    TITLES_FACT_PUT,
    TITLES_FACT_DELETE,
    TITLES_BODY,
    TITLES_BODY_PUT,
    TITLES_NEWEST,
    TITLES_BODY_CULL,
    TITLES_WORDS,
    TITLES_WORD_PUT,
    TITLES_WORDS_DROP,
    TITLES_NOTE,
    TITLES_NOTE_PUT,
    TITLES_LISTED,
    TITLES_LISTED_PUT,
    TITLES_LISTED_GET,
    TITLES_LISTED_DELETE,
    TITLES_STASHED,
    TITLES_STASHED_PUT,
    TITLES_DUE,
    TITLES_DUE_PUT,
    TITLES_SWEPT,
    TITLES_LEASES,
    TITLES_LEASE_SET,
    TITLES_STATEMENTS
};
enum { TITLES_KEY_BYTES_MAX = 2048, TITLES_WAIT_MS = 10000 };

struct titles {
    uint32_t magic;
    struct cql *client;
    struct clock *clock;
    char *texts[TITLES_STATEMENTS];
    const struct cql_statement *statements[TITLES_STATEMENTS];
    atomic_uint filing; /* rows of `due` under way, which nobody waits for */
    _Atomic uint64_t filed, unfiled;
};
#define TITLES_MAGIC 0xca557171u

/* Puts bucket, domain, title: the partition key, with which every statement begins or ends. */
void titles_put_key(struct cql_values *v, const struct titles_key *k);
/* kind, rev, tid, at, n, srv: the name of a fact's row. */
void titles_put_fact_name(struct cql_values *v, const struct fact *f);
void titles_put_tid(struct cql_values *v, struct tid tid);
/* Of writes: the microsecond of an instant; of deletions: the last one that ended by then. */
int64_t titles_write_us(store_time at);
int64_t titles_delete_us(store_time at);
/* A request of these parts, which done ends. deadline: the call's, or TITLES_WAIT_MS from now. */
struct cql_request titles_request(const struct titles *t, const struct store_call *call,
                                  void (*done)(struct cql_request *q));

/* newest.c: the first chunk of the newest bytes of a content, from any replica. call.why:
 * ERR_NOT_FOUND: there are none; as of titles_body. */
struct titles_newest {
    struct store_call call;
    /* in; borrowed until done */
    struct titles_key key;
    str content;
    /* out, until titles_newest_fini */
    struct page_name name;
    unsigned char digest[PAGE_DIGEST_BYTES];
    str bytes;
    /* own */
    bool started;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
};
enum store_start titles_newest(struct titles *t, struct titles_newest *n);
/* Are they all of the bytes of that content? */
bool titles_newest_is(const struct titles_newest *n, const struct page_name *name,
                      const unsigned char *digest, const struct page_content *c);
void titles_newest_fini(struct titles_newest *n); /* also of one that was never started */

#endif
