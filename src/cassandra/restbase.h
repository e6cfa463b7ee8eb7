/* restbase.h - renders that RESTBase left in a Cassandra, read only.
 *
 * Layout, as restbase-mod-table-cassandra makes it (test/cassandra/fixtures/restbase.cql shows it):
 * each table of RESTBase is a keyspace with two tables. meta has a row 'schema', a JSON document;
 * data has the rows, with one more key "_domain" in front. What can be read here has the attributes
 * key, rev, tid and value, partitions by key alone and orders by rev and tid: the buckets
 * key_rev_value and multi_content_bucket. The latter keeps each content of a render in a table of
 * its own, PREFIX.CONTENT: one of them, the first, says which renders there are; the others may
 * lack some.
 *
 * restbase_find looks which keyspaces there are; a restbase reads some of them as the contents of
 * one render; a walk goes over all renders of a domain, by token ranges; a look reads one render of
 * a title. Every read is at LOCAL_QUORUM. Nothing is written. Thread: the client's loop; the
 * readers of texts: any. */
#ifndef CASSANDRA_RESTBASE_H
#define CASSANDRA_RESTBASE_H

#include "base/arena.h"
#include "cql/cql.h"

enum {
    RESTBASE_NAME_BYTES = 49,        /* of a keyspace, with its NUL */
    RESTBASE_TABLE_BYTES = 256,      /* of RESTBase's name for it */
    RESTBASE_CONTENT_BYTES = 64,     /* of a content's name */
    RESTBASE_TABLES_MAX = 4,         /* contents of a render */
    RESTBASE_FOUND_MAX = 64,         /* tables that a find tells */
    RESTBASE_CANDIDATES_MAX = 65536, /* keyspaces that it looks into */
    RESTBASE_SCHEMA_BYTES_MAX = 1 << 20,
    RESTBASE_HEADERS_MAX = 64, /* of one content */
    RESTBASE_TITLE_BYTES_MAX = 1024,
};

/* How the revisions of a table are written. */
enum restbase_revs { RESTBASE_INT, RESTBASE_LONG, RESTBASE_VARINT, RESTBASE_STRING };
struct restbase_table {
    char keyspace[RESTBASE_NAME_BYTES];
    char table[RESTBASE_TABLE_BYTES];     /* "parsoid_ng.html" */
    char content[RESTBASE_CONTENT_BYTES]; /* "html": behind the first dot, or all without one */
    bool json;                            /* values are JSON */
    enum restbase_revs revs;
    bool has_headers, has_type; /* there are columns headers, content-type */
};

/* What a schema says; the keyspace is untouched. ERR_NOT_FOUND: it is of another kind, the note
 * says why; ERR_BAD: it cannot be read. Pure. */
MUST_CHECK err restbase_schema_read(str text, struct restbase_table *out, struct err_note *note);

struct restbase_header {
    str name, value; /* name in lower case; in the arena, or inside the text */
};
/* Headers as they are kept, a JSON object of texts and numbers; other values, and a name that is
 * there already, are passed over. out has RESTBASE_HEADERS_MAX places; more are passed over.
 * ERR_BAD: no such object; ERR_LIMIT: the arena is full. Pure. */
MUST_CHECK err restbase_headers_read(struct arena *a, str text, struct restbase_header *out,
                                     unsigned *count);

/* ---- which there are ---- */

struct restbase_find {
    /* in; borrowed until done */
    struct cql *client;
    struct clock *clock;
    mono deadline;
    const char *const *keyspaces;          /* these and no others */
    unsigned keyspaces_count;              /* RESTBASE_FOUND_MAX at most; 0: all */
    void (*done)(struct restbase_find *f); /* once, after restbase_find has returned */
    void *ctx;
    /* out */
    err why; /* of a keyspace that was named: ERR_NOT_FOUND, ERR_BAD */
    struct err_note note;
    struct restbase_table tables[RESTBASE_FOUND_MAX];
    unsigned count;
    bool more; /* there are more than fit in */
    /* its own */
    struct cql_request request;
    struct buf names, text; /* names: one behind the other, each with its NUL */
    size_t next;
    char page_state[1024], keyspace[RESTBASE_NAME_BYTES];
    bool has_data;
};
void restbase_find(struct restbase_find *f);

/* ---- one reader ---- */

struct restbase;
struct restbase_opts {
    struct cql *client; /* outlived by the reader: its statements lie there */
    struct clock *clock;
    const struct restbase_table *tables; /* copied; the first says which renders there are */
    unsigned tables_count;
    const char *domain; /* of walks, as RESTBase knows it; copied. NULL: there are none */
    int64_t timeout_ms; /* of one request of a walk */
};
/* NULL: ERR_BAD with a note. Before or while the loop runs. Owner: caller; freed after cql_free. */
struct restbase *restbase_new(const struct restbase_opts *opts, struct err_note *note);
void restbase_free(struct restbase **rp);

/* One content of a render, as it lies in its row. */
struct restbase_part {
    bool there;  /* there is a row, and its value is not null */
    str value;   /* the bytes of a blob, or a text; JSON where the table says so */
    str headers; /* JSON, not looked at yet; STR_NONE: none */
    str type;    /* of the column content-type; STR_NONE */
};
struct restbase_render {
    str title;
    uint64_t rev;
    struct tid tid;
    const char *unfit; /* why it cannot be one of ours; the parts say nothing then. NULL: it can */
    uint64_t newest;   /* of a look: the title's greatest revision, when there is a greater render;
                          else 0 */
    int64_t from;      /* a walk from here finds all that was not given before this one */
    struct restbase_part parts[RESTBASE_TABLES_MAX]; /* in the order of the tables */
};

/* ---- one render ---- */

struct restbase_look;
enum restbase_select { RESTBASE_LATEST, RESTBASE_OF_REV, RESTBASE_EXACT };
struct restbase_look_opts {
    struct restbase *reader; /* can look (restbase_can_look) */
    str domain, title;       /* borrowed until done */
    enum restbase_select select;
    uint64_t rev;                                     /* not of LATEST */
    struct tid tid;                                   /* EXACT */
    mono deadline;                                    /* of all requests of it */
    void (*done)(struct restbase_look *l, void *ctx); /* once, on the loop, after the start */
    void *ctx;
};
/* Revisions that are texts are in the order of texts, so the greatest is not found. */
bool restbase_can_look(const struct restbase_table *tables, unsigned count);
/* Owner: caller; freed once it is done. NULL: the tables cannot have such a revision. Thread: the
 * loop's. */
struct restbase_look *restbase_look_start(const struct restbase_look_opts *opts);
/* It ends soon. Not after done. */
void restbase_look_cancel(struct restbase_look *l);
/* Once it is done. ERR_OK: *out is good until restbase_look_free, also when it is unfit;
 * ERR_NOT_FOUND: there is none; ERR_LIMIT: a row is too large for an answer, or nothing more can be
 * asked now; else as a request fails. */
MUST_CHECK err restbase_look_end(struct restbase_look *l, const struct restbase_render **out,
                                 struct err_note *note);
void restbase_look_free(struct restbase_look **lp);

/* ---- all renders of the domain ---- */

struct restbase_walk;
struct restbase_walk_opts {
    struct restbase *reader;
    int64_t from;               /* INT64_MIN: from the beginning */
    unsigned titles;            /* so many at once; 1 to RESTBASE_WALK_TITLES_MAX */
    size_t bytes_max;           /* while so much is waiting to be taken, at most one more is read */
    void (*changed)(void *ctx); /* restbase_walk_next may say something else than before */
    void *ctx;
};
enum { RESTBASE_WALK_TITLES_MAX = 32 };
enum restbase_next { RESTBASE_WAIT, RESTBASE_RENDER, RESTBASE_END, RESTBASE_FAILED };

/* Of one title the renders come newest first, of different titles in any order. Owner: caller.
 */
struct restbase_walk *restbase_walk_new(const struct restbase_walk_opts *opts);
/* RESTBASE_RENDER: *out is good until restbase_walk_drop, which must come before the next call.
 * RESTBASE_FAILED: note and *why say why; what was given is good. */
enum restbase_next restbase_walk_next(struct restbase_walk *w, const struct restbase_render **out,
                                      err *why, struct err_note *note);
void restbase_walk_drop(struct restbase_walk *w);
/* How far it is, in parts of 1000. */
unsigned restbase_walk_mille(const struct restbase_walk *w);
/* Nothing is asked for any more from now on. */
void restbase_walk_stop(struct restbase_walk *w);
/* No request is under way: it may be freed. */
bool restbase_walk_idle(const struct restbase_walk *w);
void restbase_walk_free(struct restbase_walk **wp);

#endif
