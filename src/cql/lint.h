/* lint.h - what kind of statement a text of CQL is, read from its words.
 *
 * The client asks for a write timestamp with every plain write, so that a retry is the same write;
 * and it refuses one for a conditional write (IF ...), where the server takes the ballot's and
 * would ignore or refuse ours. Not a parser of CQL: it knows comments, quoted words, strings and
 * brackets, and so is never misled by what a string holds. Pure. Thread: any. */
#ifndef CQL_LINT_H
#define CQL_LINT_H

#include "base/err.h"
#include "base/str.h"

enum { CQL_STATEMENT_BYTES_MAX = 64 << 10 };

enum cql_kind {
    CQL_KIND_SELECT,
    CQL_KIND_INSERT,
    CQL_KIND_UPDATE,
    CQL_KIND_DELETE,
    CQL_KIND_BATCH,  /* BEGIN ... APPLY BATCH as text */
    CQL_KIND_SCHEMA, /* CREATE, ALTER, DROP: tables, types, roles, keyspaces */
    CQL_KIND_OTHER,  /* TRUNCATE, USE, GRANT, LIST, ... */
};
struct cql_lint {
    enum cql_kind kind;
    bool conditional;     /* a write with IF */
    bool using_timestamp; /* the text sets one itself */
    bool using_ttl;
    /* A second run may have another effect: now(), uuid(), current...(); a counter or list, which
     * is any "a = a + x" or "a += x", since types are not known; DELETE a[x], which may be a
     * list's. */
    bool repeats_differ;
    bool selects_all;   /* SELECT *: its columns change with the table */
    bool named_markers; /* :name; this client binds by position only */
    unsigned markers;
};
/* ERR_BAD with a note: empty, over CQL_STATEMENT_BYTES_MAX, a quote or comment without its end,
 * more than one statement, or a conditional write (also within a batch) that sets a timestamp. */
MUST_CHECK err cql_lint(str text, struct cql_lint *out, struct err_note *note);

#endif
