/* Goal: of each kind of statement, what it is and whether it may be sent twice or given a
 * timestamp. Method: a table of statements, each once as it stands, once with a comment that holds
 * misleading words between all its words, and once in the other case; texts that are refused; and
 * random words, for which only the sanitizers judge. */
#include "base/buf.h"
#include "base/rng.h"
#include "cql/lex.h"
#include "cql/lint.h"

#include "../cmocka_all.h"

#include <string.h>

enum { GARBAGE_TEXTS = 20000, GARBAGE_WORDS_MAX = 40 };

#define SEL CQL_KIND_SELECT
#define INS CQL_KIND_INSERT
#define UPD CQL_KIND_UPDATE
#define DEL CQL_KIND_DELETE
#define BAT CQL_KIND_BATCH
#define SCH CQL_KIND_SCHEMA
#define OTH CQL_KIND_OTHER

/* flags: i conditional, s timestamp, t TTL, r repeats differ, * selects all, n named markers. */
struct row {
    const char *text;
    enum cql_kind kind;
    const char *flags;
    unsigned markers;
};
static const struct row rows[] = {
    /* reads */
    { "SELECT a, b FROM t WHERE k = ?", SEL, "", 1 },
    { "select a from t;", SEL, "", 0 },
    { "SELECT * FROM t", SEL, "*", 0 },
    { "SELECT DISTINCT k FROM t", SEL, "", 0 },
    { "SELECT JSON * FROM t", SEL, "*", 0 },
    { "SELECT count(*) FROM t", SEL, "", 0 },
    { "SELECT a * 2 FROM t", SEL, "", 0 },
    { "SELECT json * 2 FROM t", SEL, "", 0 },
    { "SELECT a, b * c FROM t", SEL, "", 0 },
    { "SELECT \"*\" FROM t", SEL, "", 0 },
    { "SELECT ttl(a), writetime(a) FROM t WHERE k = ? AND timestamp = ?", SEL, "", 2 },
    { "SELECT a FROM t WHERE k = 'what? :x * FROM; IF'", SEL, "", 0 },
    { "SELECT a FROM t WHERE k = $$it's ? :x; /* -- $$", SEL, "", 0 },
    { "SELECT a FROM t WHERE k = 'it''s ?' AND l = ?", SEL, "", 1 },
    { "SELECT \"a\"\"? :b\" FROM t", SEL, "", 0 },
    { "SELECT a FROM t WHERE k IN (?, ?, ?) LIMIT ?", SEL, "", 4 },
    { "SELECT a FROM t WHERE k = :k LIMIT :limit", SEL, "n", 2 },
    { "SELECT a FROM t WHERE k = :\"K\" AND l = : if", SEL, "n", 2 },
    { "SELECT a FROM t WHERE m = {'a': ?, ?: 'b', :x : :y}", SEL, "n", 4 },
    { "SELECT a FROM t WHERE u = {a: 1, b: c, \"d\": ?}", SEL, "", 1 },
    { "SELECT a FROM t WHERE m = {(int):x, (list<int>) :y, f(:x): 1, (?): 2, f(true):3}", SEL, "n",
      4 },
    { "SELECT a FROM t WHERE m = {(?, PT3H): 1, f(P1Y2M): 2, (p1): x}", SEL, "n", 2 },
    { "SELECT a FROM t WHERE t > maxTimeuuid(now())", SEL, "r", 0 },
    { "SELECT a FROM t WHERE id = 123e4567-e89b-12d3-a456-426614174000", SEL, "", 0 },
    { "SELECT token(k), m[?], s[1..2] FROM t WHERE token(k) > ? ALLOW FILTERING", SEL, "", 2 },
    { "/* INSERT */ SELECT a -- INSERT ?\nFROM t // ?\r WHERE k = ?", SEL, "", 1 },
    { "SELECT a FROM t -- the end\n", SEL, "", 0 },
    { "SELECT a FROM t;; ; /* nothing */ ;", SEL, "", 0 },
    /* inserts */
    { "INSERT INTO t (a, b) VALUES (?, ?)", INS, "", 2 },
    { "INSERT INTO t (a) VALUES (?) USING TIMESTAMP ?", INS, "s", 2 },
    { "INSERT INTO t (a) VALUES (?) USING TTL ?", INS, "t", 2 },
    { "INSERT INTO t (a) VALUES (?) USING TTL ? AND TIMESTAMP ?", INS, "st", 3 },
    { "INSERT INTO t (a) VALUES (?) USING TIMESTAMP 5 AND TTL 6;", INS, "st", 1 },
    { "INSERT INTO t (a) VALUES (?) USING TIMESTAMP :ttl AND TTL :and", INS, "stn", 3 },
    { "INSERT INTO t (a) VALUES (?) USING TTL :timestamp", INS, "tn", 2 },
    { "INSERT INTO t (a) VALUES (?) USING TIMESTAMP -1", INS, "s", 1 },
    { "INSERT INTO t (a) VALUES (?) IF NOT EXISTS", INS, "i", 1 },
    { "INSERT INTO t (a) VALUES (?) IF NOT EXISTS USING TTL ?", INS, "it", 2 },
    { "INSERT INTO t JSON ? DEFAULT UNSET", INS, "", 1 },
    { "INSERT INTO t JSON '{\"a\": 1}' IF NOT EXISTS", INS, "i", 0 },
    { "INSERT INTO t (timestamp, ttl) VALUES (?, ?)", INS, "", 2 },
    { "INSERT INTO t (a, \"if\", \"using\") VALUES (?, 'IF', 'USING TIMESTAMP')", INS, "", 1 },
    { "INSERT INTO t (a) VALUES (now())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (NOW ( ))", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (uuid())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (currentTimeUUID())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (currentTimestamp())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (current_timestamp())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (currentDate())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (current_time())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (totimestamp(now()))", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (system.now())", INS, "r", 0 },
    { "INSERT INTO t (a) VALUES (\"now\"())", INS, "r", 0 },
    { "INSERT INTO t (now, uuid) VALUES (?, 'now()')", INS, "", 1 },
    { "INSERT INTO t (a) VALUES ({'a': 1, 'b': 2})", INS, "", 0 },
    { "INSERT INTO t (a) VALUES ({[1, 2]: {a: :b}})", INS, "n", 1 },
    { "INSERT INTO t (a, b) VALUES (0xCAFE, 1.5e-3)", INS, "", 0 },
    { "INSERT INTO t (a) VALUES (P1Y2M) USING TTL 86400", INS, "t", 0 },
    /* updates */
    { "UPDATE t SET a = ? WHERE k = ?", UPD, "", 2 },
    { "UPDATE t USING TIMESTAMP ? SET a = ? WHERE k = ?", UPD, "s", 3 },
    { "UPDATE t USING TTL ? AND TIMESTAMP ? SET a = ?, b = ? WHERE k = ?", UPD, "st", 5 },
    { "UPDATE t USING TTL 5SET a = 1e3WHERE k = 1.5AND l = 1h30m AND m = 2if EXISTS", UPD, "it",
      0 },
    { "UPDATE t USING TTL 5 SET timestamp = ? WHERE k = ? AND timestamp = ?", UPD, "t", 3 },
    { "UPDATE t SET a = ? WHERE k = ? IF EXISTS", UPD, "i", 2 },
    { "UPDATE t SET a = ? WHERE k = ? IF a = ? AND b > ?", UPD, "i", 4 },
    { "UPDATE t SET a = ? WHERE k = ? if\n\ta = b + 1", UPD, "i", 2 },
    { "UPDATE t SET c = c + ? WHERE k = ?", UPD, "r", 2 },
    { "UPDATE t SET c = C - 1 WHERE k = ?", UPD, "r", 1 },
    { "UPDATE t SET c=c+1 WHERE k=?", UPD, "r", 1 },
    { "UPDATE t SET \"c\" = c + 1 WHERE k = ?", UPD, "r", 1 },
    { "UPDATE t SET c += ? WHERE k = ?", UPD, "r", 2 },
    { "UPDATE t SET c-=1 WHERE k = ?", UPD, "r", 1 },
    { "UPDATE t SET l = l + ? WHERE k = ?", UPD, "r", 2 },
    { "UPDATE t SET l = ? + l WHERE k = ?", UPD, "r", 2 },
    { "UPDATE t SET l = [1, 2] + l WHERE k = ?", UPD, "r", 1 },
    { "UPDATE t SET a = ?, b = {1: 2}, l = l + [?] WHERE k = ?", UPD, "r", 3 },
    { "UPDATE t SET a = -1 WHERE k = ? AND a = 2", UPD, "", 1 },
    { "UPDATE t SET a = ?, b = 1 - 2 WHERE k = ?", UPD, "", 2 },
    { "UPDATE t SET a = f(b), b = - 1 WHERE k = ?", UPD, "", 1 },
    { "UPDATE t SET aaaaaaaa = aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee WHERE k = ?", UPD, "", 1 },
    { "UPDATE t SET m[?] = ? WHERE k = ?", UPD, "", 3 },
    { "UPDATE t SET u.a = ? WHERE k = ?", UPD, "", 2 },
    { "UPDATE t SET a = now() WHERE k = ?", UPD, "r", 1 },
    { "UPDATE t SET a = 'a = a + 1' WHERE k = ?", UPD, "", 1 },
    { "UPDATE ks.t SET a = ? WHERE k = ? -- IF EXISTS\r", UPD, "", 2 },
    /* deletes */
    { "DELETE FROM t WHERE k = ?", DEL, "", 1 },
    { "DELETE a, b FROM t WHERE k = ?", DEL, "", 1 },
    { "DELETE FROM t USING TIMESTAMP ? WHERE k = ? AND r <= ?", DEL, "s", 3 },
    { "DELETE FROM t WHERE k = ? IF EXISTS", DEL, "i", 1 },
    { "DELETE a FROM t WHERE k = ? IF a = 'x'", DEL, "i", 1 },
    { "DELETE l[?] FROM t WHERE k = ?", DEL, "r", 2 },
    { "DELETE u.a FROM t WHERE k = ?", DEL, "", 1 },
    /* batches */
    { "BEGIN BATCH INSERT INTO t (a) VALUES (?); DELETE FROM t WHERE k = ?; APPLY BATCH", BAT, "",
      2 },
    { "BEGIN UNLOGGED BATCH INSERT INTO t (a) VALUES (?) UPDATE t SET a = ? WHERE k = ? "
      "APPLY BATCH;",
      BAT, "", 3 },
    { "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (a) VALUES (?); APPLY BATCH", BAT, "s", 2 },
    { "BEGIN BATCH INSERT INTO t (a) VALUES (?) USING TTL 5 AND TIMESTAMP 6; APPLY BATCH", BAT,
      "st", 1 },
    { "BEGIN BATCH INSERT INTO t (a) VALUES (?) IF NOT EXISTS; DELETE FROM t WHERE k = 1; "
      "APPLY BATCH",
      BAT, "i", 1 },
    { "BEGIN BATCH UPDATE t SET a = ? WHERE k = ? IF a = ? APPLY BATCH", BAT, "i", 3 },
    { "BEGIN COUNTER BATCH UPDATE t SET c = c + 1 WHERE k = ? APPLY BATCH", BAT, "r", 1 },
    { "BEGIN COUNTER BATCH APPLY BATCH", BAT, "r", 0 },
    { "BEGIN BATCH DELETE FROM t WHERE k = 1; UPDATE t SET l = l + ? WHERE k = ?; APPLY BATCH", BAT,
      "r", 2 },
    { "BEGIN BATCH DELETE l[0] FROM t WHERE k = 1 APPLY BATCH", BAT, "r", 0 },
    { "BEGIN BATCH INSERT INTO t (a) VALUES (now()) APPLY BATCH", BAT, "r", 0 },
    { "BEGIN BATCH INSERT INTO t (a) VALUES ('IF; APPLY BATCH') APPLY BATCH ;", BAT, "", 0 },
    /* schema and the rest */
    { "CREATE TABLE IF NOT EXISTS t (uuid uuid PRIMARY KEY, ttl int)", SCH, "", 0 },
    { "CREATE TABLE now (k int PRIMARY KEY) WITH comment = 'now()'", SCH, "", 0 },
    { "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}", SCH, "", 0 },
    { "CREATE CUSTOM INDEX i ON t (a) USING 'sai'", SCH, "", 0 },
    { "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)", SCH, "",
      0 },
    { "CREATE FUNCTION f (a int) RETURNS int LANGUAGE java AS $$ return a; $$;", SCH, "", 0 },
    { "ALTER TABLE t ADD a int", SCH, "", 0 },
    { "drop table if exists t", SCH, "", 0 },
    { "TRUNCATE t", OTH, "", 0 },
    { "USE \"Ks\"", OTH, "", 0 },
    { "GRANT SELECT ON t TO r", OTH, "", 0 },
    { "LIST ROLES", OTH, "", 0 },
    { "BEGIN TRANSACTION UPDATE t SET a = 1 WHERE k = 1; COMMIT TRANSACTION", OTH, "", 0 },
    { "\"SELECT\" * FROM t", OTH, "", 0 },
    { "(SELECT * FROM t", OTH, "", 0 },
};

static void flags_print(const struct cql_lint *l, char out[8])
{
    size_t n = 0;
    const struct {
        bool on;
        char letter;
    } flags[] = {
        { l->conditional, 'i' },    { l->using_timestamp, 's' }, { l->using_ttl, 't' },
        { l->repeats_differ, 'r' }, { l->selects_all, '*' },     { l->named_markers, 'n' }
    };
    for (size_t i = 0; i < COUNT_OF(flags); i++)
        if (flags[i].on)
            out[n++] = flags[i].letter;
    out[n] = '\0';
}

static void check(const struct row *row, str text)
{
    struct cql_lint got;
    struct err_note note = { "" };
    char flags[8];
    err e = cql_lint(text, &got, &note);
    if (e != ERR_OK)
        fail_msg("%.*s: %s", STR_ARG(text), note.text);
    flags_print(&got, flags);
    if (got.kind != row->kind || strcmp(flags, row->flags) != 0 || got.markers != row->markers)
        fail_msg("%.*s: kind %d, flags '%s', %u markers", STR_ARG(text), (int)got.kind, flags,
                 got.markers);
}

static void a_statement_is_told_by_its_words(void **state)
{
    (void)state;
    assert_true(COUNT_OF(rows) >= 80);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(&rows[i], str_of(rows[i].text));
}

static void comments_between_words_change_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        str text = str_of(rows[i].text);
        struct cql_lexer l = { .text = text };
        buf_clear(&b);
        for (struct cql_word w; cql_lex(&l, &w, NULL) == ERR_OK && w.kind != CQL_WORD_END;) {
            buf_put(&b, STR(" /* ' IF ; ? USING TIMESTAMP */--\" :x\n// $$ APPLY\r"));
            buf_put(&b, str_skip(str_take(text, l.at), w.at));
        }
        assert_int_equal(buf_status(&b), ERR_OK);
        check(&rows[i], buf_str(&b));
    }
    buf_fini(&b);
}

/* Outside of what is quoted. */
static void keywords_are_of_either_case(void **state)
{
    (void)state;
    char text[512];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = strlen(rows[i].text);
        assert_true(n < sizeof text);
        memcpy(text, rows[i].text, n);
        struct cql_lexer l = { .text = str_of(rows[i].text) };
        for (struct cql_word w; cql_lex(&l, &w, NULL) == ERR_OK && w.kind != CQL_WORD_END;)
            for (size_t k = w.at; k < l.at && w.kind == CQL_WORD_NAME; k++)
                if (text[k] != '_' && (text[k] < '0' || text[k] > '9'))
                    text[k] ^= 0x20;
        check(&rows[i], (str){ text, n });
    }
}

static void a_text_that_is_no_statement_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "no statement" },
        { " \n\t", "no statement" },
        { ";", "no statement" },
        { "-- SELECT\n", "no statement" },
        { "/* SELECT */", "no statement" },
        { "SELECT 'a", "no ' ends what begins at byte 7" },
        { "SELECT 'a''", "no ' ends" },
        { "SELECT \"a", "no \" ends" },
        { "SELECT $$a$", "no $$ ends" },
        { "SELECT a -- b", "no line's end ends the comment that begins at byte 9" },
        { "SELECT a // b", "no line's end" },
        { "SELECT a /* b", "no */ ends what begins at byte 9" },
        { "SELECT a /*/ b", "no */ ends" },
        { "SELECT a FROM t; SELECT b FROM t",
          "more than one statement: there is another at byte 17" },
        { "SELECT a FROM t;DROP TABLE t;", "more than one" },
        { "; SELECT a FROM t", "more than one" },
        { "BEGIN BATCH DELETE FROM t WHERE k = 1; APPLY BATCH; DELETE FROM t WHERE k = 2",
          "more than one" },
        { "BEGIN BATCH DELETE FROM t WHERE k = 1 APPLY BATCH DELETE FROM t WHERE k = 2",
          "more than one" },
        { "INSERT INTO t (a) VALUES (?) IF NOT EXISTS USING TIMESTAMP ?", "with IF" },
        { "INSERT INTO t (a) VALUES (?) IF NOT EXISTS USING TTL ? AND TIMESTAMP ?", "with IF" },
        { "UPDATE t USING TIMESTAMP 5 SET a = 1 WHERE k = 2 IF EXISTS", "with IF" },
        { "UPDATE t USING TTL 5 AND TIMESTAMP 5 SET a = 1 WHERE k = 2 IF a = 3", "with IF" },
        { "DELETE FROM t USING TIMESTAMP 5 WHERE k = 2 IF EXISTS", "with IF" },
        { "BEGIN BATCH USING TIMESTAMP 5 DELETE FROM t WHERE k = 2 IF EXISTS APPLY BATCH",
          "with IF" },
        { "BEGIN BATCH DELETE FROM t USING TIMESTAMP 5 WHERE k = 2; "
          "INSERT INTO t (k) VALUES (3) IF NOT EXISTS; APPLY BATCH",
          "with IF" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cql_lint out = { .markers = 77 };
        struct err_note note = { "" };
        if (cql_lint(str_of(bad[i].text), &out, &note) != ERR_BAD ||
            strstr(note.text, bad[i].says) == NULL)
            fail_msg("%s: '%s'", bad[i].text, note.text);
        assert_int_equal(out.markers, 77); /* untouched */
        assert_int_equal(cql_lint(str_of(bad[i].text), &out, NULL), ERR_BAD);
    }
}

static void a_statement_has_a_size_at_most(void **state)
{
    (void)state;
    static char text[CQL_STATEMENT_BYTES_MAX + 1];
    struct cql_lint out;
    struct err_note note;
    memset(text, ' ', sizeof text);
    memcpy(text, "USE k", 5);
    assert_int_equal(cql_lint((str){ text, CQL_STATEMENT_BYTES_MAX }, &out, &note), ERR_OK);
    assert_int_equal(cql_lint((str){ text, sizeof text }, &out, &note), ERR_BAD);
}

static void words_are_cut_as_the_server_cuts_them(void **state)
{
    (void)state;
    static const char text[] =
        "a_1\"b\"\"c\"12 1.5e3\t1..2\n123e4567-e89b-12d3-a456-426614174000'x''y'$$z'$$+=-=- ="
        "k\xc3\xa4se$\x01 1h30m\r2\xc2\xb5s1NS 0xCAFE 5SET 1e3if 1.5E-3AND 1e- 7dec";
    static const char *const words[] = {
        "a_1",
        "\"b\"\"c\"",
        "12",
        "1.5e3",
        "1",
        ".",
        ".",
        "2",
        "123e4567-e89b-12d3-a456-426614174000",
        "'x''y'",
        "$$z'$$",
        "+=",
        "-=",
        "-",
        "=",
        "k\xc3\xa4se",
        "$",
        "\x01",
        "1h30m",
        "2\xc2\xb5s1NS",
        "0xCAFE",
        "5",
        "SET",
        "1e3",
        "if",
        "1.5E-3",
        "AND",
        "1",
        "e",
        "-",
        "7",
        "dec",
    };
    struct cql_lexer l = { .text = str_of(text) };
    struct cql_word w;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        assert_int_equal(cql_lex(&l, &w, NULL), ERR_OK);
        str whole = str_skip(str_take(l.text, l.at), w.at);
        if (!str_eq(whole, str_of(words[i])))
            fail_msg("'%.*s' instead of '%s'", STR_ARG(whole), words[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(cql_lex(&l, &w, NULL), ERR_OK);
        assert_int_equal(w.kind, CQL_WORD_END);
    }
}

static void garbage_breaks_nothing(void **state)
{
    (void)state;
    static const char *const words[] = {
        "SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN", "BATCH",     "APPLY", "SET", "WHERE",
        "USING",  "IF",     "AND",    "TTL",    "FROM",  "TIMESTAMP", "now",   "a",   "b",
        "'",      "\"",     "$$",     "/*",     "*/",    "--",        "\n",    "(",   ")",
        "{",      "}",      "[",      "]",      ";",     ":",         "?",     "*",   "+",
        "-",      "=",      ",",      ".",      "1",     "\xff",      "\0",    " ",   "+=",
    };
    struct rng rng;
    struct buf b;
    rng_init(&rng, 7);
    buf_init(&b, 4096);
    unsigned fine = 0;
    for (unsigned i = 0; i < GARBAGE_TEXTS; i++) {
        buf_clear(&b);
        for (uint64_t n = rng_below(&rng, GARBAGE_WORDS_MAX); n > 0; n--) {
            buf_put(&b, str_of(words[rng_below(&rng, COUNT_OF(words))]));
            buf_put(&b, rng_below(&rng, 2) == 0 ? STR(" ") : STR_NONE);
        }
        struct cql_lint out;
        struct err_note note;
        fine += cql_lint(buf_str(&b), &out, &note) == ERR_OK;
    }
    assert_true(fine > 100);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_statement_is_told_by_its_words),
        cmocka_unit_test(comments_between_words_change_nothing),
        cmocka_unit_test(keywords_are_of_either_case),
        cmocka_unit_test(a_text_that_is_no_statement_is_refused),
        cmocka_unit_test(a_statement_has_a_size_at_most),
        cmocka_unit_test(words_are_cut_as_the_server_cuts_them),
        cmocka_unit_test(garbage_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
