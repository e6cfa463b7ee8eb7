/* Goal: an operator says where PURGE comes in, from whom, and by which names wikis are told of;
 * what makes no sense is one line. Method: configuration files, whole. */
#include "server/options.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const struct config *taken(struct options *o, const char *text)
{
    struct err_note note = { .text = "" };
    err why = options_yaml(o, str_of(text), "f.yaml", &note);
    if (why == ERR_OK)
        why = options_finish(o, &note);
    if (why != ERR_OK)
        fail_msg("%s: %s", text, note.text);
    return options_config(o);
}

static void refused(const char *text, const char *line)
{
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    err why = options_yaml(o, str_of(text), "f.yaml", &note);
    if (why == ERR_OK)
        why = options_finish(o, &note);
    assert_int_equal(why, ERR_BAD);
    assert_string_equal(note.text, line);
    options_free(&o);
}

static void the_listener_for_purge_comes_last_and_may_be_anywhere(void **state)
{
    (void)state;
    struct options *o = options_new();
    const struct config *c = taken(o, "admin_listen: 127.0.0.1:81\n"
                                      "change: { purge_listen: \"0.0.0.0:82\", "
                                      "purge_from: [192.0.2.0/24, \"::1\"] }\n");
    assert_int_equal(c->listens_count, 3);
    const struct http_listen *l = &c->listens[2];
    assert_true(l->purge);
    assert_false(l->content);
    assert_false(l->admin);
    assert_false(c->listens[0].purge);
    assert_false(c->listens[1].purge);
    assert_true(c->listens[1].admin);
    assert_false(c->exposed);
    assert_int_equal(c->change.purge_from_count, 2);
    options_free(&o);
    o = options_new();
    c = taken(o, "listen: [127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3, 127.0.0.1:4, 127.0.0.1:5, "
                 "127.0.0.1:6, 127.0.0.1:7]\n"
                 "admin_listen: 127.0.0.1:8\nchange: { purge_listen: 127.0.0.1:9 }\n");
    assert_int_equal(c->listens_count, CONFIG_LISTENS_MAX);
    assert_int_equal(c->change.purge_from_count, 3); /* loopback of both kinds, and unix */
    options_free(&o);
    refused("listen: 127.0.0.1:80\nchange: { purge_listen: 127.0.0.1:80 }\n",
            "f.yaml:2: change.purge_listen: 127.0.0.1:80 is there twice");
    refused("change: { purge_from: nobody }\n",
            "f.yaml:1: change.purge_from: \"nobody\" is no numeric address or network such as "
            "192.0.2.0/24");
}

static void databases_are_of_domains(void **state)
{
    (void)state;
    struct options *o = options_new();
    const struct config *c =
        taken(o, "domains: [en.test, de.test]\n"
                 "change: { databases: { enwiki: en.test, dewiki: de.test } }\n");
    assert_string_equal(c->change.databases_text, "enwiki=en.test,dewiki=de.test");
    assert_int_equal(c->change.databases_count, 2);
    assert_true(str_eq(c->change.databases[0].name, STR("dewiki"))); /* by name */
    assert_true(str_eq(c->change.databases[0].domain, STR("de.test")));
    options_free(&o);
    refused("domains: [en.test]\nchange:\n  databases: \"a=en.test,b=en.test,a=en.test\"\n",
            "f.yaml:3: change.databases: \"a\" is there twice");
    refused("change:\n  databases: { enwiki: en.test }\n",
            "f.yaml:2: change.databases: \"en.test\" is no domain of this server");
    refused("change:\n  databases: enwiki\n",
            "f.yaml:2: change.databases: NAME=DOMAIN is wanted for each database");
    refused("change:\n  databases: { enwiki: [en.test] }\n",
            "f.yaml:2: change.databases: NAME: DOMAIN is wanted for each database, without commas");
    refused("change:\n  databases: { \"a=b\": en.test }\n",
            "f.yaml:2: change.databases: NAME: DOMAIN is wanted for each database, without commas");
}

/* A farm: each wiki with the names that it may have. */
static void databases_of_a_thousand_wikis_have_room(void **state)
{
    enum { WIKIS = 1000 };
    (void)state;
    struct options *o = options_new();
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_printf(&text, "domains: [d0.wikis.of-a-farm.example.org");
    for (unsigned i = 1; i < WIKIS; i++)
        buf_printf(&text, ", d%u.wikis.of-a-farm.example.org", i);
    buf_printf(&text, "]\nchange:\n  databases:\n");
    for (unsigned i = 0; i < WIKIS; i++)
        buf_printf(&text, "    farm_wiki_database_%u: d%u.wikis.of-a-farm.example.org\n", i, i);
    buf_put_c(&text, 0);
    assert_int_equal(buf_status(&text), ERR_OK);
    const struct config *c = taken(o, buf_str(&text).p);
    assert_int_equal(c->change.databases_count, WIKIS);
    options_free(&o);
    buf_fini(&text);
}

static void wikis_have_the_names_of_their_url_and_domain(void **state)
{
    (void)state;
    struct options *o = options_new();
    const struct config *c =
        taken(o,
              "domains:\n"
              "  a.test: { origin: { url: \"http://127.0.0.1:8080/w/rest.php\" } }\n"
              "  b.test: { origin: { url: \"https://[::1]:8080/w/rest.php\" } }\n"
              "  c.test: { origin: { url: \"http://w/rest.php\", hosts: [x.test, \"y.test:81\"], "
              "article_path: \"/$1\" } }\n"
              "  d.test:\n");
    assert_string_equal(c->domains[0].hosts, "127.0.0.1,a.test");
    assert_string_equal(c->domains[0].article_path, "/wiki/$1");
    assert_string_equal(c->domains[1].hosts, "[::1],b.test");
    assert_string_equal(c->domains[2].hosts, "x.test,y.test:81");
    assert_string_equal(c->domains[2].article_path, "/$1");
    assert_string_equal(c->domains[3].hosts, "d.test");
    options_free(&o);
    refused("domains:\n  a.test:\n    origin:\n      url: \"http://w/rest.php\"\n"
            "      article_path: /wiki/\n",
            "f.yaml:5: domains.a.test.origin.article_path: is no path with one $1 for the title");
}

static void unix_sockets_are_listeners_on_loopback(void **state)
{
    (void)state;
    struct options *o = options_new();
    const struct config *c = taken(o, "listen: [\"unix:/run/a b.sock\", 127.0.0.1:0]\n");
    assert_int_equal(c->listens_count, 2);
    assert_string_equal(c->listens[0].address, "unix:/run/a b.sock");
    assert_int_equal(c->listens[0].mode, 0660);
    assert_true(c->listens[0].content && c->listens[0].admin);
    assert_false(c->exposed);
    options_free(&o);
    o = options_new();
    c = taken(o, "listen: unix:/run/a.sock\nadmin_listen: unix:/run/b.sock\nlisten_mode: 0600\n"
                 "http: { trusted_proxies: [unix, 10.0.0.1] }\n"
                 "change: { purge_listen: \"unix:/run/c.sock\" }\n");
    assert_int_equal(c->listens_count, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(c->listens[i].mode, 0600);
    assert_false(c->listens[0].admin);
    assert_true(c->listens[1].admin);
    assert_true(c->listens[2].purge);
    assert_true(c->proxies[0].local);
    assert_false(c->proxies[1].local);
    options_free(&o);
    refused("listen: unix:/run/a\nadmin_listen: unix:/run/a\n",
            "f.yaml:2: admin_listen: unix:/run/a is there twice");
    refused(
        "listen: unix:run/a\n",
        "f.yaml:1: listen: \"unix:run/a\" is no unix:/PATH with a path from the root of at most "
        "107 bytes, without control bytes");
    refused(
        "admin_listen: \"unix:\"\n",
        "f.yaml:1: admin_listen: \"unix:\" is no unix:/PATH with a path from the root of at most "
        "107 bytes, without control bytes");
    static const char *const modes[] = { "0778", "01000", "rw", "00660" };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct err_note text, line;
        err_note_set(&text, "listen_mode: \"%s\"\n", modes[i]);
        err_note_set(&line, "f.yaml:1: listen_mode: \"%s\" is no mode in octal such as 0660",
                     modes[i]);
        refused(text.text, line.text);
    }
}

/* 107 bytes are the kernel's limit. */
static void paths_of_unix_sockets_are_bounded(void **state)
{
    (void)state;
    char text[] = "listen: unix:/", line[256];
    for (int n = 106; n <= 107; n++) { /* behind the first slash */
        struct options *o = options_new();
        struct err_note note = { .text = "" };
        (void)snprintf(line, sizeof line, "%s%0*d\n", text, n, 0);
        assert_int_equal(options_yaml(o, str_of(line), "f.yaml", &note),
                         n == 106 ? ERR_OK : ERR_BAD);
        if (n > 106)
            assert_non_null(strstr(note.text, "of at most 107 bytes"));
        options_free(&o);
    }
}

/* The address is printed in lines that scripts read. */
static void a_unix_path_has_no_control_bytes(void **state)
{
    (void)state;
    static const char *const texts[] = { "listen: \"unix:/a\\nb\"\n",
                                         "listen: \"unix:/a\\x7f\"\n" };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct options *o = options_new();
        struct err_note note = { .text = "" };
        assert_int_equal(options_yaml(o, str_of(texts[i]), "f.yaml", &note), ERR_BAD);
        assert_non_null(strstr(note.text, "without control bytes"));
        options_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_listener_for_purge_comes_last_and_may_be_anywhere),
        cmocka_unit_test(unix_sockets_are_listeners_on_loopback),
        cmocka_unit_test(a_unix_path_has_no_control_bytes),
        cmocka_unit_test(paths_of_unix_sockets_are_bounded),
        cmocka_unit_test(databases_are_of_domains),
        cmocka_unit_test(databases_of_a_thousand_wikis_have_room),
        cmocka_unit_test(wikis_have_the_names_of_their_url_and_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
