/* Goal: titles become the keys the wiki has for them, or are refused as the wiki refuses them; what
 * a client may rightly write is not called changed. Method: tables; rules of MediaWiki 1.39 and of
 * mediawiki-title 0.7. */
#include "../cmocka_all.h"
#include "sites.h"

#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct siteinfo *german, *turkish;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 4 << 20);
    bool fine = siteinfo_json_parse(STR(SITE_JSON("de")), &german, NULL) == ERR_OK &&
                siteinfo_json_parse(STR(SITE_JSON("tr")), &turkish, NULL) == ERR_OK;
    return fine ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    siteinfo_unref(&german);
    siteinfo_unref(&turkish);
    arena_fini(&arena);
    return 0;
}

struct row {
    const char *wrote, *key;
    int64_t namespace_id;
    bool changed;
};

static void check(const struct siteinfo *s, const struct row *r)
{
    struct title_key k;
    struct err_note note = { .text = "" };
    if (title_normalise(s, &arena, str_of(r->wrote), &k, &note) != ERR_OK)
        fail_msg("%s is refused: %s", r->wrote, note.text);
    if (!str_eq(k.key, str_of(r->key)))
        fail_msg("%s becomes %.*s, not %s", r->wrote, STR_ARG(k.key), r->key);
    if (k.namespace_id != r->namespace_id || k.changed != r->changed)
        fail_msg("%s: namespace %lld, changed %d", r->wrote, (long long)k.namespace_id, k.changed);
    struct title_key again; /* a key is its own key */
    assert_int_equal(title_normalise(s, &arena, k.key, &again, NULL), ERR_OK);
    assert_true(str_eq(again.key, k.key));
    assert_false(again.changed);
}

static const struct row normal[] = {
    { "Main_Page", "Main_Page", 0, false },
    { "Main Page", "Main_Page", 0, true },
    { "main_Page", "Main_Page", 0, true },
    { "_Main__ Page_ ", "Main_Page", 0, true },
    { ":Main_Page", "Main_Page", 0, true },
    { ": Main_Page", "Main_Page", 0, true },
    { "Test 123  456   789", "Test_123_456_789", 0, true },
    { "A/B/C", "A/B/C", 0, false },
    { "A#b", "A", 0, true },
    { "A_#b", "A", 0, true },
    { "A_ _#b_c", "A", 0, true },
    { "Foo:bar", "Foo:bar", 0, false },
    { "int:eger", "Int:eger", 0, true },
    { ".com", ".com", 0, false },
    { "Foo/.../Bar", "Foo/.../Bar", 0, false },
    { "A~~", "A~~", 0, false },
    { "A%zz", "A%zz", 0, false },
    { "AT&T", "AT&T", 0, false },
    { "A&;", "A&;", 0, false },
    { "A&amp;B", "A&B", 0, true },
    { "A&amp;amp", "A&amp", 0, true },
    { "A&amp;&amp;", "A&&", 0, true },
    { "\"A\"_'b'", "\"A\"_'b'", 0, false },
    { "Foo\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa"
      "bar",
      "Foobar", 0, true },
    { "Foo\xc2\xa0\xe1\x9a\x80\xe2\x80\x83\xe3\x80\x80"
      "bar",
      "Foo_bar", 0, true },
    { "\xf0\x9f\x92\xa9", "\xf0\x9f\x92\xa9", 0, false },
    { "Cafe\xcc\x81", "Caf\xc3\xa9", 0, true }, /* NFC */
    { "\xc3\xa9t\xc3\xa9", "\xc3\x89t\xc3\xa9", 0, true },
    /* letters that wikis do not agree on stay as they are */
    { "\xc3\x9f", "\xc3\x9f", 0, false },           /* sharp s has no capital of one letter */
    { "\xef\xac\x81x", "\xef\xac\x81x", 0, false }, /* nor has fi */
    { "\xc5\x89x", "\xc5\x89x", 0, false },         /* nor has 'n */
    { "\xe1\x83\x90", "\xe1\x83\x90", 0, false },   /* Georgian has capitals since Unicode 11 */
    { "\xc7\x86x", "\xc7\x86x", 0,
      false }, /* dz with caron, small; and with a capital D; and capital */
    { "\xc7\x85x", "\xc7\x85x", 0, false },
    { "\xc7\x84x", "\xc7\x84x", 0, false },
    { "\xe1\xbe\xb3x", "\xe1\xbe\xb3x", 0, false }, /* alpha with iota below, small and capital */
    { "\xe1\xbe\xbcx", "\xe1\xbe\xbcx", 0, false },
    { "\xce\xb1x", "\xce\x91x", 0, true }, /* alpha alone */
    /* namespaces: local name in the key; any of its names, letter for letter, is as good */
    { "Benutzer:Anna", "Benutzer:Anna", 2, false },
    { "User:Anna", "Benutzer:Anna", 2, false },
    { "Benutzerin:Anna", "Benutzer:Anna", 2, false },
    { "benutzer:Anna", "Benutzer:Anna", 2, true },
    { "User:anna", "Benutzer:Anna", 2, true },
    { "User: Anna", "Benutzer:Anna", 2, true },
    { "User_:Anna", "Benutzer:Anna", 2, true },
    { "USER TALK:Anna", "Benutzer_Diskussion:Anna", 3, true },
    { "User_talk:Anna", "Benutzer_Diskussion:Anna", 3, false },
    { "User talk:Anna", "Benutzer_Diskussion:Anna", 3, true },
    { "Image:A.png", "Datei:A.png", 6, false },
    { "WP:x", "Wiki:X", 4, true },
    { "\xc3\x84hre:anna", "\xc3\x84hre:anna", 100, false }, /* its letters keep their case */
    { "\xc3\xa4hre:anna", "\xc3\x84hre:anna", 100, true },
    { "Ear:anna", "\xc3\x84hre:anna", 100, false },
    { "Nowhere:X", "Nowhere:X", 0, false },
    { "Special:Version", "Spezial:Version", -1, false },
    { "Media:A", "Medium:A", -2, false },
    { "Talk:Foo:Bar", "Diskussion:Foo:Bar", 1, false },
    /* addresses */
    { "User:127.000.000.001", "Benutzer:127.0.0.1", 2, true },
    { "User:1.2.3.4/024", "Benutzer:1.2.3.4/024", 2, false },
    { "User:010.0.000.1/8", "Benutzer:10.0.0.1/8", 2, true },
    { "User:Foo.1000.00", "Benutzer:Foo.1000.00", 2, false },
    { "User:1.2.3.256", "Benutzer:1.2.3.256", 2, false },
    { "User:::1", "Benutzer:0:0:0:0:0:0:0:1", 2, true },
    { "User:::", "Benutzer:0:0:0:0:0:0:0:0", 2, true },
    { "User:cebc:2004:f::", "Benutzer:CEBC:2004:F:0:0:0:0:0", 2, true },
    { "User:3f:535::e:fbb", "Benutzer:3F:535:0:0:0:0:E:FBB", 2, true },
    { "User_talk:::1/24", "Benutzer_Diskussion:0:0:0:0:0:0:0:1/24", 3, true },
    { "User:0:0:0:0:0:0:0:1", "Benutzer:0:0:0:0:0:0:0:1", 2, false },
    { "User:1:2:3:4:5:6:7:8:9", "Benutzer:1:2:3:4:5:6:7:8:9", 2, false },
    { "010.0.0.1", "010.0.0.1", 0, false }, /* only of users */
    { "i\xcc\x87x", "\xc4\xb0x", 0, true }, /* the capital and its dot are one letter */
};

static void titles_become_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(normal); i++)
        check(german, &normal[i]);
    check(turkish, &(struct row){ "iTest", "\xc4\xb0Test", 0, true });
    check(german, &(struct row){ "iTest", "ITest", 0, true });
}

static const char *const wrong[] = {
    "A&amp;eacute;B",
    "A&amp;amp;B",
    "",
    " ",
    "_",
    ":",
    "::",
    "__  __",
    "#",
    "#a",
    "User:",
    "User:#",
    "User: #bar",
    "Talk:_",
    ":User:",
    "A[b",
    "A]b",
    "A{b",
    "A}b",
    "A<b",
    "A>b",
    "A|b",
    "A\nb",
    "A\tb",
    "A\x7f"
    "b",
    "A%20B",
    "A%23B",
    "A%2523B",
    "A&eacute;B",
    "A&\xc3\xa9;",
    ".",
    "..",
    "./A",
    "../A",
    "A/./B",
    "A/../B",
    "A/.",
    "A/..",
    "User:.",
    "User:..",
    "A ~~~ B",
    "~~~~",
    "\xef\xbf\xbd",
    "foo\xef\xbf\xbd"
    "bar",
    "\xff",
    "A\xc3",
    "\xed\xa0\x80",
    "en:Foo",
    "EN:Foo",
    "mw:",
    ":en:Foo",
    "Talk:en:Foo",
    "Talk:File:A",
    "Diskussion:WP:A",
    "::A",
    "User:: :A",
    ":_:A",
};

static void what_is_no_title_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct title_key k;
        struct err_note note = { .text = "" };
        err e = title_normalise(german, &arena, str_of(wrong[i]), &k, &note);
        bool address =
            strcmp(wrong[i], "User:: :A") == 0; /* as a user it may begin so, were it an address */
        if (e != ERR_BAD)
            fail_msg("%s is taken as %.*s", wrong[i], STR_ARG(k.key));
        assert_true(note.text[0] != 0 || address);
    }
    struct title_key k;
    assert_int_equal(title_normalise(german, &arena, (str){ .p = "A\0b", .n = 3 }, &k, NULL),
                     ERR_BAD);
}

static err with_length(const char *prefix, size_t n)
{
    static char text[4096];
    struct title_key k;
    size_t at = strlen(prefix);
    memcpy(text, prefix, at);
    memset(text + at, 'X', n);
    return title_normalise(german, &arena, (str){ .p = text, .n = at + n }, &k, NULL);
}

static void length_is_of_the_key_without_namespace(void **state)
{
    (void)state;
    assert_int_equal(with_length("", 255), ERR_OK);
    assert_int_equal(with_length("", 256), ERR_BAD);
    assert_int_equal(with_length("Benutzer:", 255), ERR_OK);
    assert_int_equal(with_length("Benutzer:", 256), ERR_BAD);
    assert_int_equal(with_length("Special:", 512), ERR_OK);
    assert_int_equal(with_length("Special:", 513), ERR_BAD);
    assert_int_equal(with_length("", 3000), ERR_BAD);
    assert_int_equal(with_length("A#", 300), ERR_OK);
}

static void a_full_arena_is_told(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 64; bytes++) {
        struct arena tiny;
        struct title_key k;
        arena_init(&tiny, bytes);
        err e = title_normalise(german, &tiny,
                                STR("user:anna_of_a_name_that_is_long_enough_for_it"), &k, NULL);
        assert_true(e == ERR_LIMIT || e == ERR_OK);
        assert_true(bytes > 0 || e == ERR_LIMIT);
        arena_fini(&tiny);
    }
}

static const char *const no_siteinfo[] = {
    "",
    "{}",
    "[]",
    "null",
    "{\"query\":{}}",
    "{\"query\":[]}",
    "{\"query\":{" SITE_GENERAL("de") "\"namespaces\":[]}}",
    "{\"query\":{" SITE_GENERAL("de") "\"namespaces\":{}}}",
    "{\"query\":{" SITE_NAMESPACES "\"x\":1}}",
    "{\"query\":{" SITE_GENERAL("de") "\"namespaces\":{\"0\":{\"id\":\"0\",\"name\":\"\"}}}}",
    "{\"query\":{" SITE_GENERAL("de") "\"namespaces\":{\"0\":{\"id\":0}}}}",
    "{\"query\":{" SITE_GENERAL("de") SITE_NAMESPACES "\"namespacealiases\":[{\"id\":1}]}}",
    "{\"query\":{" SITE_GENERAL("de") SITE_NAMESPACES "\"interwikimap\":[{}]}}",
    "{\"error\":{\"code\":\"readapidenied\"}}",
};

static void what_is_no_siteinfo_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(no_siteinfo); i++) {
        struct siteinfo *s = NULL;
        struct err_note note = { .text = "" };
        assert_int_equal(siteinfo_json_parse(str_of(no_siteinfo[i]), &s, &note), ERR_BAD);
        assert_null(s);
        assert_true(note.text[0] != 0);
    }
    assert_true(str_eq(siteinfo_server(german), STR("https://wiki.example")));
    assert_true(str_eq(siteinfo_language(turkish), STR("tr")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(titles_become_keys),
        cmocka_unit_test(what_is_no_title_is_refused),
        cmocka_unit_test(length_is_of_the_key_without_namespace),
        cmocka_unit_test(a_full_arena_is_told),
        cmocka_unit_test(what_is_no_siteinfo_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
