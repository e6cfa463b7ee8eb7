/* lex.h - a text of CQL, word by word.
 *
 * Source: Cassandra's src/antlr/Lexer.g. Blanks, and comments of all three kinds, stand between
 * words and are passed over. Private to cql. Pure. Thread: any. */
#ifndef CQL_LEX_H
#define CQL_LEX_H

#include "base/err.h"
#include "base/str.h"

enum cql_word_kind {
    CQL_WORD_END,
    CQL_WORD_NAME,   /* a name or keyword, of either case */
    CQL_WORD_QUOTED, /* "a name" */
    CQL_WORD_VALUE,  /* 'a string', $$one$$, a number, a duration, a UUID */
    CQL_WORD_SIGN,   /* one character, or += or -= */
};
struct cql_word {
    enum cql_word_kind kind;
    str text;  /* borrowed; a quoted name's without its quotes */
    size_t at; /* where the word begins, its quotes included */
};
struct cql_lexer {
    str text;
    size_t at; /* the next byte to look at; 0 at first */
};
/* The next word. At the end of the text END, again and again. ERR_BAD: a quote, $$ or comment
 * without its end; of a comment of one line, that is the line's. */
MUST_CHECK err cql_lex(struct cql_lexer *l, struct cql_word *out, struct err_note *note);

#endif
