/* lex.c - words of a CQL text, for lint.c.
 *
 * A comment behind -- or // ends with its line, and the line's end has to be there. Like the
 * server, the lexer looks for a UUID wherever a word begins. A UUID may begin like a name or like a
 * number, and its dashes are no signs.
 * Invariant: each word takes at least one byte, so the text comes to its end. */
#include "cql/lex.h"

#include "base/check.h"

enum { UUID_TEXT_BYTES = 36 };

static str rest_of(const struct cql_lexer *l)
{
    return str_skip(l->text, l->at);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes above ASCII are in no name that the server takes; here they stay in one word. */
static bool is_of_name(char c)
{
    unsigned char u = (unsigned char)c;
    return is_digit(c) || (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u == '_' || u >= 0x80;
}

static bool is_uuid(str s)
{
    if (s.n < UUID_TEXT_BYTES || (s.n > UUID_TEXT_BYTES && is_of_name(s.p[UUID_TEXT_BYTES])))
        return false;
    for (size_t i = 0; i < UUID_TEXT_BYTES; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s.p[i] != '-' : str_hex_digit(s.p[i]) < 0)
            return false;
    }
    return true;
}

/* Passes over what begins at the lexer's place and is open bytes long, up to behind close. */
static err skip_past(struct cql_lexer *l, size_t open, str close, struct err_note *note)
{
    str inside = str_skip(rest_of(l), open);
    size_t found = str_find_str(inside, close);
    if (found == inside.n)
        return err_bad(note, "no %.*s ends what begins at byte %zu", STR_ARG(close), l->at);
    l->at += open + found + close.n;
    return ERR_OK;
}

static err skip_line(struct cql_lexer *l, struct err_note *note)
{
    size_t begin = l->at;
    while (l->at < l->text.n && l->text.p[l->at] != '\n' && l->text.p[l->at] != '\r')
        l->at++;
    if (l->at == l->text.n)
        return err_bad(note, "no line's end ends the comment that begins at byte %zu", begin);
    return ERR_OK;
}

/* Blanks and comments, as many as there are. */
static err skip_between(struct cql_lexer *l, struct err_note *note)
{
    for (str rest; (rest = rest_of(l)).n > 0;) {
        err e = ERR_OK;
        if (is_blank(rest.p[0]))
            l->at++;
        else if (str_starts(rest, STR("--")) || str_starts(rest, STR("//")))
            e = skip_line(l, note);
        else if (str_starts(rest, STR("/*")))
            e = skip_past(l, 2, STR("*/"), note);
        else
            return ERR_OK;
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/* Passes over a quoted text. Within it, two quotes stand for one, and do not end the text. */
static err skip_quoted(struct cql_lexer *l, str quote, struct err_note *note)
{
    do {
        if (skip_past(l, quote.n, quote, note) != ERR_OK)
            return ERR_BAD;
    } while (str_starts(rest_of(l), quote));
    return ERR_OK;
}

static void skip_name(struct cql_lexer *l)
{
    while (l->at < l->text.n && is_of_name(l->text.p[l->at]))
        l->at++;
}

static void skip_digits(struct cql_lexer *l)
{
    while (l->at < l->text.n && is_digit(l->text.p[l->at]))
        l->at++;
}

/* Bytes of the unit of time that s begins with; 0: none. */
static size_t unit_bytes(str s)
{
    static const str units[] = { STR_INIT("mo"), STR_INIT("ms"),        STR_INIT("us"),
                                 STR_INIT("ns"), STR_INIT("\xc2\xb5s"), STR_INIT("y"),
                                 STR_INIT("w"),  STR_INIT("d"),         STR_INIT("h"),
                                 STR_INIT("m"),  STR_INIT("s") };
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (str_eq_nocase(str_take(s, units[i].n), units[i]))
            return units[i].n;
    return 0;
}

/* Is s, behind the digits it begins with, a duration such as 1h30m and nothing else? */
static bool is_duration(str s)
{
    size_t at = 0;
    while (at < s.n && is_digit(s.p[at])) {
        while (at < s.n && is_digit(s.p[at]))
            at++;
        size_t unit = unit_bytes(str_skip(s, at));
        if (unit == 0)
            return false;
        at += unit;
    }
    return at == s.n;
}

/* Only with digits behind it; else the e begins a word of its own. */
static void skip_exponent(struct cql_lexer *l)
{
    str rest = rest_of(l);
    if (rest.n < 2 || (rest.p[0] != 'e' && rest.p[0] != 'E'))
        return;
    size_t sign = rest.p[1] == '+' || rest.p[1] == '-';
    if (rest.n > 1 + sign && is_digit(rest.p[1 + sign])) {
        l->at += 1 + sign;
        skip_digits(l);
    }
}

/* Passes over a number with its fraction, but not over the two dots of a range. A keyword may
 * follow without a blank, as in "5SET". */
static void skip_number(struct cql_lexer *l)
{
    struct cql_lexer end = *l;
    skip_name(&end);
    str run = str_take(rest_of(l), end.at - l->at);
    /* Durations and blobs go on with letters. */
    if (is_duration(run) || str_starts(run, STR("0x")) || str_starts(run, STR("0X"))) {
        l->at = end.at;
        return;
    }
    skip_digits(l);
    str rest = rest_of(l);
    if (rest.n > 1 && rest.p[0] == '.' && is_digit(rest.p[1])) {
        l->at++;
        skip_digits(l);
    }
    skip_exponent(l);
}

static void skip_sign(struct cql_lexer *l)
{
    str rest = rest_of(l);
    bool two = str_starts(rest, STR("+=")) || str_starts(rest, STR("-="));
    l->at += two ? 2 : 1;
}

/* Passes over the word that begins here, and says of what kind it is. */
static err skip_word(struct cql_lexer *l, enum cql_word_kind *kind, struct err_note *note)
{
    str rest = rest_of(l);
    *kind = CQL_WORD_VALUE;
    if (rest.p[0] == '\'')
        return skip_quoted(l, STR("'"), note);
    if (str_starts(rest, STR("$$")))
        return skip_past(l, 2, STR("$$"), note);
    /* Before numbers and names: a UUID looks like the beginning of either. */
    if (is_uuid(rest)) {
        l->at += UUID_TEXT_BYTES;
    } else if (is_digit(rest.p[0])) {
        skip_number(l);
    } else if (rest.p[0] == '"') {
        *kind = CQL_WORD_QUOTED;
        return skip_quoted(l, STR("\""), note);
    } else if (is_of_name(rest.p[0])) {
        *kind = CQL_WORD_NAME;
        skip_name(l);
    } else {
        *kind = CQL_WORD_SIGN;
        skip_sign(l);
    }
    return ERR_OK;
}

err cql_lex(struct cql_lexer *l, struct cql_word *out, struct err_note *note)
{
    if (skip_between(l, note) != ERR_OK)
        return ERR_BAD;
    struct cql_word w = { .kind = CQL_WORD_END, .at = l->at };
    if (l->at < l->text.n) {
        if (skip_word(l, &w.kind, note) != ERR_OK)
            return ERR_BAD;
        w.text = str_take(str_skip(l->text, w.at), l->at - w.at);
        if (w.kind == CQL_WORD_QUOTED)
            w.text = str_take(str_skip(w.text, 1), w.text.n - 2);
    }
    *out = w;
    return ERR_OK;
}
