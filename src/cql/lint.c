/* lint.c - a statement's kind and what a client must know of it, from one pass over its words.
 *
 * The pass relies on the reserved words of CQL: IF, USING, SET, INSERT, UPDATE, DELETE, APPLY, FROM
 * and WHERE. Outside quotes they name nothing, so each means itself everywhere. TTL, TIMESTAMP,
 * JSON and DISTINCT may be names; they count only where the grammar has them.
 *
 * Where the answer depends on types, the careful answer is given: "a = a + ?" adds to a set, a
 * counter or a list. Only a set takes it twice unharmed.
 * Invariant: words of strings, comments and quoted names decide nothing (lex.c). */
#include "cql/lint.h"

#include "base/check.h"
#include "cql/lex.h"

/* The place in a statement: it says what the words there mean. */
enum clause {
    CLAUSE_ANY,
    CLAUSE_BATCH,   /* between BEGIN and BATCH */
    CLAUSE_OPTION,  /* a name of an option of USING comes */
    CLAUSE_OPTIONS, /* its value, or AND */
    CLAUSE_COLUMN,  /* SET: the name of a column comes */
    CLAUSE_EQUALS,  /* its = is still to come */
    CLAUSE_TERM,    /* what is assigned */
    CLAUSE_DELETED, /* DELETE: names of columns */
};
/* The state of the pass. */
struct lint {
    struct cql_lint out;
    enum cql_kind inner; /* of the statement within a batch */
    enum clause clause;
    struct cql_word last, second_last;
    unsigned depth, braces;      /* brackets that are open, and those of them that are { */
    str column;                  /* CLAUSE_TERM: assigned to */
    bool adds, has_column;       /* CLAUSE_TERM: a + or - was met, the column was met */
    bool is_block;               /* BEGIN: statements within */
    bool is_closing;             /* the word that ends the block was met, BATCH comes */
    bool is_over;                /* there may be only ; */
    bool is_begun, names_marker; /* a word was met; the last one was the : of a named marker */
};

static bool is_word(const struct cql_word *w, const char *name)
{
    return w->kind == CQL_WORD_NAME && str_eq_nocase(w->text, str_of(name));
}

static bool is_sign(const struct cql_word *w, const char *sign)
{
    return w->kind == CQL_WORD_SIGN && str_eq(w->text, str_of(sign));
}

static bool is_any(const struct cql_word *w, const char *const *names)
{
    for (; *names != NULL; names++)
        if (is_word(w, *names))
            return true;
    return false;
}

static bool is_name(const struct cql_word *w)
{
    return w->kind == CQL_WORD_NAME || w->kind == CQL_WORD_QUOTED;
}

static bool is_write(enum cql_kind kind)
{
    return kind == CQL_KIND_INSERT || kind == CQL_KIND_UPDATE || kind == CQL_KIND_DELETE;
}

static enum cql_kind kind_of(const struct cql_word *w)
{
    static const struct {
        const char *word;
        enum cql_kind kind;
    } rows[] = {
        { "SELECT", CQL_KIND_SELECT }, { "INSERT", CQL_KIND_INSERT }, { "UPDATE", CQL_KIND_UPDATE },
        { "DELETE", CQL_KIND_DELETE }, { "BEGIN", CQL_KIND_BATCH },   { "CREATE", CQL_KIND_SCHEMA },
        { "ALTER", CQL_KIND_SCHEMA },  { "DROP", CQL_KIND_SCHEMA },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (is_word(w, rows[i].word))
            return rows[i].kind;
    return CQL_KIND_OTHER;
}

/* Does a call of it give another value each time? */
static bool is_call_that_differs(const struct cql_word *name)
{
    static const char *const names[] = {
        "now",
        "uuid",
        "currenttimeuuid",
        "currenttimestamp",
        "currentdate",
        "currenttime",
        "current_timeuuid",
        "current_timestamp",
        "current_date",
        "current_time",
        NULL,
    };
    for (size_t i = 0; names[i] != NULL; i++)
        if (is_name(name) && str_eq_nocase(name->text, str_of(names[i])))
            return true;
    return false;
}

/* A call of now() within a schema runs when it is made, once. */
static void lint_brackets(struct lint *l, const struct cql_word *w)
{
    if (is_sign(w, "(") && is_call_that_differs(&l->last) && l->out.kind != CQL_KIND_SCHEMA)
        l->out.repeats_differ = true;
    if (is_sign(w, "(") || is_sign(w, "[") || is_sign(w, "{"))
        l->depth++;
    if ((is_sign(w, ")") || is_sign(w, "]") || is_sign(w, "}")) && l->depth > 0)
        l->depth--;
    if (is_sign(w, "{"))
        l->braces++;
    if (is_sign(w, "}") && l->braces > 0)
        l->braces--;
}

/* A duration such as P1Y or PT3H, which looks like a name. */
static bool is_iso_duration(str s)
{
    if (s.n < 3 || (s.p[0] != 'P' && s.p[0] != 'p'))
        return false;
    size_t first = s.p[1] == 'T' || s.p[1] == 't' ? 2 : 1;
    bool digit = s.p[first] >= '0' && s.p[first] <= '9';
    return digit && str_find(STR("YMWDHSymwdhs"), s.p[s.n - 1]) < 12;
}

/* Behind "(int)" or "(list<int>)" comes what is cast, behind "(1, 2)" or "f(true)" does not. */
static bool is_after_cast(const struct lint *l)
{
    static const char *const values[] = { "true", "false", "null", "nan", "infinity", NULL };
    if (!is_sign(&l->last, ")"))
        return false;
    return is_sign(&l->second_last, ">") ||
           (l->second_last.kind == CQL_WORD_NAME && !is_any(&l->second_last, values) &&
            !is_iso_duration(l->second_last.text));
}

/* Is this colon a named marker? Within braces a colon behind a key is none; a colon where a value
 * is expected is one. */
static bool is_named_marker(const struct lint *l, const struct cql_word *w)
{
    static const char before[] = "{([,:=+-*/%<>";
    if (!is_sign(w, ":"))
        return false;
    if (l->braces == 0 || is_after_cast(l))
        return true;
    return l->last.kind == CQL_WORD_SIGN &&
           str_find(str_of(before), l->last.text.p[0]) < sizeof before - 1;
}

static void lint_markers(struct lint *l, const struct cql_word *w)
{
    bool named = is_named_marker(l, w);
    l->out.markers += named || is_sign(w, "?");
    l->out.named_markers = l->out.named_markers || named;
    l->names_marker = named;
}

/* USING option value AND option value: a name behind a value that is not AND ends the clause. */
static void lint_using(struct lint *l, const struct cql_word *w)
{
    if (is_word(w, "USING")) {
        l->clause = CLAUSE_OPTION;
    } else if (l->clause == CLAUSE_OPTION) {
        l->out.using_timestamp = l->out.using_timestamp || is_word(w, "TIMESTAMP");
        l->out.using_ttl = l->out.using_ttl || is_word(w, "TTL");
        l->clause = CLAUSE_OPTIONS;
    } else if (l->clause == CLAUSE_OPTIONS && w->kind == CQL_WORD_NAME) {
        l->clause = is_word(w, "AND") ? CLAUSE_OPTION : CLAUSE_ANY;
    }
}

/* UPDATE ... SET column = term, column = term WHERE. A term that adds to its own column is not
 * idempotent. */
static void lint_assignment(struct lint *l, const struct cql_word *w)
{
    if (is_word(w, "SET") || (l->clause == CLAUSE_TERM && l->depth == 0 && is_sign(w, ","))) {
        l->clause = CLAUSE_COLUMN;
    } else if (is_sign(w, "+=") || is_sign(w, "-=")) {
        l->out.repeats_differ = true;
    } else if (is_word(w, "WHERE")) {
        l->clause = CLAUSE_ANY;
    } else if (l->clause == CLAUSE_COLUMN) {
        l->column = w->text;
        l->clause = CLAUSE_EQUALS;
    } else if (l->clause == CLAUSE_EQUALS && l->depth == 0 && is_sign(w, "=")) {
        l->clause = CLAUSE_TERM;
        l->adds = l->has_column = false;
        /* Within brackets the column's name means something else. */
    } else if (l->clause == CLAUSE_TERM && l->depth == 0) {
        l->adds = l->adds || is_sign(w, "+") || is_sign(w, "-");
        l->has_column = l->has_column || (is_name(w) && str_eq_nocase(w->text, l->column));
        l->out.repeats_differ = l->out.repeats_differ || (l->adds && l->has_column);
    }
}

/* DELETE column[index] FROM: of a list, the next item would be at that index. */
static void lint_deleted(struct lint *l, const struct cql_word *w)
{
    if (l->clause != CLAUSE_DELETED)
        return;
    if (is_sign(w, "["))
        l->out.repeats_differ = true;
    if (is_word(w, "FROM"))
        l->clause = CLAUSE_ANY;
}

static void lint_write(struct lint *l, const struct cql_word *w)
{
    if (is_word(w, "IF"))
        l->out.conditional = true;
    lint_using(l, w);
    if (l->inner == CQL_KIND_UPDATE)
        lint_assignment(l, w);
    if (l->inner == CQL_KIND_DELETE)
        lint_deleted(l, w);
}

static void lint_select(struct lint *l, const struct cql_word *w)
{
    static const char *const before[] = { "SELECT", "DISTINCT", "JSON", NULL };
    if (is_word(w, "FROM") && is_sign(&l->last, "*") && is_any(&l->second_last, before))
        l->out.selects_all = true;
}

/* A statement begins: brackets of the one before do not count. */
static void lint_begin(struct lint *l, enum cql_kind inner)
{
    l->inner = inner;
    l->depth = l->braces = 0;
    l->clause = inner == CQL_KIND_DELETE ? CLAUSE_DELETED : CLAUSE_ANY;
}

/* BEGIN [kind] BATCH [USING ...] statements APPLY BATCH, and BEGIN TRANSACTION ... COMMIT
 * TRANSACTION, which takes its timestamps from nobody: of a kind of its own. */
static void lint_block(struct lint *l, const struct cql_word *w)
{
    static const char *const ends[] = { "APPLY", "COMMIT", NULL };
    if (l->clause == CLAUSE_BATCH) {
        l->out.repeats_differ = l->out.repeats_differ || is_word(w, "COUNTER");
        if (is_word(w, "TRANSACTION"))
            l->out.kind = CQL_KIND_OTHER;
        if (is_word(w, "TRANSACTION") || is_word(w, "BATCH"))
            l->clause = CLAUSE_ANY;
    } else if (is_write(kind_of(w))) {
        lint_begin(l, kind_of(w));
    } else if (is_any(w, ends)) {
        l->is_closing = true;
    } else if (is_write(l->inner)) {
        lint_write(l, w);
    } else {
        lint_using(l, w);
    }
}

static void lint_first(struct lint *l, const struct cql_word *w)
{
    l->is_begun = true;
    l->out.kind = kind_of(w);
    l->is_block = l->out.kind == CQL_KIND_BATCH;
    lint_begin(l, is_write(l->out.kind) ? l->out.kind : CQL_KIND_OTHER);
    if (l->is_block)
        l->clause = CLAUSE_BATCH;
}

/* A word of the statement that is not its first. */
static void lint_word(struct lint *l, const struct cql_word *w)
{
    lint_markers(l, w);
    lint_brackets(l, w);
    if (l->is_closing)
        l->is_over = true;
    else if (l->is_block)
        lint_block(l, w);
    else if (is_write(l->inner))
        lint_write(l, w);
    else if (l->out.kind == CQL_KIND_SELECT)
        lint_select(l, w);
}

static err lint_step(struct lint *l, const struct cql_word *w, struct err_note *note)
{
    if (l->names_marker && is_name(w)) {
        l->names_marker = false;
        l->last.kind = CQL_WORD_VALUE; /* the marker is one word, whatever its name */
        return ERR_OK;
    }
    /* Within a block a semicolon ends one statement of it; behind it the whole text. */
    if (is_sign(w, ";")) {
        l->is_over = l->is_over || !l->is_block || l->is_closing;
        lint_begin(l, CQL_KIND_OTHER);
    } else if (l->is_over) {
        return err_bad(note, "more than one statement: there is another at byte %zu", w->at);
    } else if (l->is_begun) {
        lint_word(l, w);
    } else {
        lint_first(l, w);
    }
    l->second_last = l->last;
    l->last = *w;
    return ERR_OK;
}

err cql_lint(str text, struct cql_lint *out, struct err_note *note)
{
    if (text.n > CQL_STATEMENT_BYTES_MAX)
        return err_bad(note, "a statement of %zu bytes, %d are the most", text.n,
                       CQL_STATEMENT_BYTES_MAX);
    struct lint l = { .out = { .kind = CQL_KIND_OTHER } };
    struct cql_lexer lexer = { .text = text };
    for (;;) {
        struct cql_word w;
        if (cql_lex(&lexer, &w, note) != ERR_OK)
            return ERR_BAD;
        if (w.kind == CQL_WORD_END)
            break;
        if (lint_step(&l, &w, note) != ERR_OK)
            return ERR_BAD;
    }
    if (!l.is_begun)
        return err_bad(note, "no statement in the text");
    /* Also within a batch: a condition anywhere makes the batch conditional. */
    if (l.out.conditional && l.out.using_timestamp)
        return err_bad(note, "a write with IF cannot set a timestamp");
    *out = l.out;
    return ERR_OK;
}
