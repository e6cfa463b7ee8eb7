/* Goal: no text breaks the look at a statement, its words are the text in its order, and a comment
 * between two words, whatever it holds, changes nothing of what is told. */
#include "base/buf.h"
#include "cql/lex.h"
#include "cql/lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Puts the words of text into out, a comment before each. False: not all of it is words. */
static bool with_comments(str text, struct buf *out)
{
    struct cql_lexer l = { .text = text };
    struct cql_word w;
    do {
        size_t before = l.at;
        if (cql_lex(&l, &w, NULL) != ERR_OK)
            return false;
        INVARIANT(w.at >= before);
        INVARIANT(l.at <= text.n);
        INVARIANT((w.kind == CQL_WORD_END) == (l.at == w.at));
        buf_put(out, STR(" /* ' IF ; ? USING TIMESTAMP \" $$ */--: APPLY\n"));
        buf_put(out, str_take(str_skip(text, w.at), l.at - w.at));
    } while (w.kind != CQL_WORD_END);
    return !out->failed;
}

static void check_same(const struct cql_lint *a, const struct cql_lint *b)
{
    INVARIANT(a->kind == b->kind);
    INVARIANT(a->conditional == b->conditional);
    INVARIANT(a->using_timestamp == b->using_timestamp);
    INVARIANT(a->using_ttl == b->using_ttl);
    INVARIANT(a->repeats_differ == b->repeats_differ);
    INVARIANT(a->selects_all == b->selects_all);
    INVARIANT(a->named_markers == b->named_markers);
    INVARIANT(a->markers == b->markers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = { (const char *)data, size };
    struct cql_lint once, again;
    struct err_note note = { "" };
    err e = cql_lint(text, &once, &note);
    INVARIANT(e == ERR_OK || e == ERR_BAD);
    INVARIANT(e == ERR_OK || note.text[0] != '\0');
    struct buf b;
    buf_init(&b, CQL_STATEMENT_BYTES_MAX);
    bool words = with_comments(text, &b);
    INVARIANT(words || b.failed || e == ERR_BAD);
    if (words) {
        INVARIANT(cql_lint(buf_str(&b), &again, &note) == e);
        if (e == ERR_OK)
            check_same(&once, &again);
    }
    if (e == ERR_OK) {
        INVARIANT(once.markers <= size);
        INVARIANT(!(once.conditional && once.using_timestamp));
    }
    buf_fini(&b);
    return 0;
}
