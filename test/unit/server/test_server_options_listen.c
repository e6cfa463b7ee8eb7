/* Goal: an operator says which listener shows what; a word that nothing is called is one line that
 * names option, word and what there is. Method: configuration files, whole, and inherited sockets
 * as they are handed on. */
#include "server/options_impl.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static err finish(struct options *o, const char *text, struct err_note *note)
{
    err why = options_yaml(o, str_of(text), "f.yaml", note);
    return why == ERR_OK ? options_finish(o, note) : why;
}

static const struct config *taken(struct options *o, const char *text)
{
    struct err_note note = { .text = "" };
    if (finish(o, text, &note) != ERR_OK)
        fail_msg("%s: %s", text, note.text);
    return options_config(o);
}

static void refused(const char *text, const char *line)
{
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    assert_int_equal(finish(o, text, &note), ERR_BAD);
    assert_string_equal(note.text, line);
    options_free(&o);
}

static void fields_become_a_filter(void **state)
{
    (void)state;
    struct options *o = options_new();
    const struct config *c =
        taken(o, "domains: [b.test, a.test]\nbuckets: { mobile: { contents: [html] } }\n"
                 "lists: { top: { generator: http://x/ } }\n"
                 "listeners:\n"
                 "  public: { listen: [\"127.0.0.1:81\", \"unix:/run/p\"],\n"
                 "    routes: [page.get, health], domains: [b.test, a.test],\n"
                 "    buckets: [page/html, mobile/html, multi_content/page/history, table/x,\n"
                 "      key_value/any, lists/top, transform/html/to/wikitext, batch] }\n"
                 "  all: { listen: 127.0.0.1:82 }\n"
                 "admin_listen: 127.0.0.1:83\n");
    assert_int_equal(c->listens_count, 5);
    const struct http_listen *l = c->listens;
    assert_null(l[0].name);
    assert_null(l[0].filter);
    assert_string_equal(l[1].name, "public");
    assert_int_equal(l[1].port, 81);
    assert_string_equal(l[2].address, "unix:/run/p");
    assert_ptr_equal(l[1].filter, l[2].filter);
    assert_true(l[1].content);
    assert_string_equal(l[3].name, "all");
    assert_null(l[3].filter); /* nothing is hidden: it costs nothing */
    assert_false(l[3].admin);
    assert_true(l[4].admin);
    assert_null(l[4].name);
    const struct http_filter *v = l[1].filter;
    assert_int_equal(v->routes_count, 2);
    assert_int_equal(v->domains_count, 2);
    assert_true(str_eq(v->domains[0], STR("a.test"))); /* in order */
    assert_int_equal(v->paths_count, 8);
    assert_int_equal(v->paths[6].count, 4);
    assert_true(str_eq(v->paths[6].parts[3], STR("wikitext")));
    options_free(&o);
}

static void set_reaches_them(void **state)
{
    (void)state;
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    const struct options_from from = { .file = "test" };
    assert_int_equal(options_set(o, STR("listeners.q.routes"), STR("queue.produce, health"), from,
                                 &note),
                     ERR_OK);
    assert_int_equal(options_set(o, STR("listeners.q.listen"), STR("127.0.0.1:0"), from, &note),
                     ERR_OK);
    assert_int_equal(options_finish(o, &note), ERR_OK);
    assert_int_equal(options_config(o)->listens[1].filter->routes_count, 2);
    options_free(&o);
}

#define PART(fields) "listeners: { part: { listen: \"127.0.0.1:0\", " fields " } }\n"
static void words_that_nothing_is_called_are_told(void **state)
{
    (void)state;
    refused(PART("domains: [en]"), "f.yaml:1: listeners.part.domains: \"en\" is no domain of this "
                                   "server; there are: localhost");
    refused(PART("routes: [health.x]"),
            "f.yaml:1: listeners.part.routes: \"health.x\" is no route; there are: health");
    refused(PART("routes: [change.purge]"), "f.yaml:1: listeners.part.routes: \"change.purge\" is "
                                            "shown by change.purge_listen alone");
    refused(PART("routes: [change, test.clock]"),
            "f.yaml:1: listeners.part.routes: \"test.clock\" is no route; first words of routes "
            "are: page, transform, entry, servers, table, key_value, key_rev_value, multi_content, "
            "list, admin, health, metrics, ...");
    refused(PART("buckets: [mobile]"),
            "f.yaml:1: listeners.part.buckets: \"mobile\" is in no bucket; there are: page, batch, "
            "table, key_value, key_rev_value, multi_content, lists, transform");
    refused("page: { contents: [html, b] }\n" PART("buckets: [page/c]"),
            "f.yaml:2: listeners.part.buckets: \"page/c\" is no content of its bucket; there are: "
            "html, b");
    refused(PART("buckets: [page/HTML]"), "f.yaml:1: listeners.part.buckets: \"page/HTML\" ends in "
                                          "what no content can be called");
    refused(PART("buckets: [multi_content/m]"),
            "f.yaml:1: listeners.part.buckets: \"multi_content/m\" has no bucket of pages; there "
            "are: page");
    refused(PART("buckets: [lists/top]"), "f.yaml:1: listeners.part.buckets: \"lists/top\" is no "
                                          "list: there is none");
    refused(PART("buckets: [/page/html]"), "f.yaml:1: listeners.part.buckets: \"/page/html\" has "
                                           "an empty part; page/html is right");
    refused(PART("buckets: [table/%41]"), "f.yaml:1: listeners.part.buckets: \"table/%41\" has a "
                                          "%: names stand here as they are");
    refused(PART("buckets: [table/a/b/c/d]"),
            "f.yaml:1: listeners.part.buckets: \"table/a/b/c/d\" has more than 4 parts");
    refused(PART("routes: [page, \" \"]"),
            "f.yaml:1: listeners.part.routes: \"\" is an empty name");
    refused(PART("bucket: [page]"), "f.yaml:1: listeners.part.bucket: there is no such option");
}

static void a_listener_has_a_name_and_an_address(void **state)
{
    (void)state;
    refused("listeners:\n  admin: { listen: \"127.0.0.1:0\" }\n",
            "f.yaml:2: listeners: \"admin\" is a reserved name");
    refused("listeners:\n  a b: {}\n", "f.yaml:2: listeners: \"a b\" is no name of a listener");
    refused("listeners: { part: 127.0.0.1:80 }\n",
            "f.yaml:1: part: a listener is a section, not a value");
    refused("listeners: 127.0.0.1:80\n",
            "f.yaml:1: listeners: is a section, not a value: listeners.NAME.listen is an option "
            "of it");
    refused("listeners:\n  part: { routes: [page] }\n",
            "f.yaml:2: listeners.part: has no address: it wants listen, or an inherited socket of "
            "its name");
    refused(
        "listeners:\n  part: { listen: everywhere }\n",
        "f.yaml:2: listeners.part.listen: \"everywhere\" is no ADDR:PORT; ADDR is a number such "
        "as 127.0.0.1 or [::1], or localhost");
    refused("listen: 127.0.0.1:80\nlisteners:\n  part: { listen: \"127.0.0.1:80\" }\n",
            "f.yaml:3: listeners.part.listen: 127.0.0.1:80 is there twice");
    refused("listeners:\n  part: { listen: \"0.0.0.0:80\", routes: [health] }\n",
            "f.yaml:2: listeners.part.listen: auth: open lets everybody do everything, so it is "
            "refused on 0.0.0.0; set auth: internal and make a key: palimpsest token create --role "
            "Admin --data DIR --new; palimpsest token lock --data DIR");
    refused("listen: [127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3, 127.0.0.1:4, 127.0.0.1:5]\n"
            "listeners:\n"
            "  part: { listen: [\"127.0.0.1:6\", \"127.0.0.1:7\", \"127.0.0.1:8\"] }\n",
            "f.yaml:3: listeners.part.listen: more than 9 listeners; two are kept for admin_listen "
            "and change.purge_listen");
}

static void inherited_sockets_find_theirs_by_name(void **state)
{
    (void)state;
    static const struct inherited handed = { .items = { { .fd = 3,
                                                          .what = INHERITED_CONTENT,
                                                          .address = "127.0.0.1",
                                                          .port = 1,
                                                          .name = "part" },
                                                        { .fd = 4,
                                                          .what = INHERITED_CONTENT,
                                                          .address = "127.0.0.1",
                                                          .port = 2,
                                                          .name = "palimpsest.socket" },
                                                        { .fd = 5,
                                                          .what = INHERITED_ADMIN,
                                                          .address = "127.0.0.1",
                                                          .port = 3,
                                                          .name = "admin" } },
                                             .count = 3 };
    struct options *o = options_new();
    o->inherited = &handed;
    const struct config *c = taken(o, "listeners: { part: { routes: [health] } }\n");
    assert_int_equal(c->listens_count, 3);
    assert_int_equal(c->listens[0].inherited, 4);
    assert_null(c->listens[0].filter);
    assert_false(c->listens[0].admin);
    assert_int_equal(c->listens[1].inherited, 3);
    assert_string_equal(c->listens[1].name, "part");
    assert_non_null(c->listens[1].filter);
    assert_int_equal(c->listens[2].inherited, 5);
    assert_true(c->listens[2].admin);
    options_free(&o);
    o = options_new(); /* what only a part is shown on is no place for all the rest */
    struct inherited one = handed;
    one.count = 1;
    o->inherited = &one;
    c = taken(o, "listeners: { part: { routes: [health] } }\n");
    assert_int_equal(c->listens_count, 2);
    assert_int_equal(c->listens[0].port, 7231);
    assert_int_equal(c->listens[1].inherited, 3);
    options_free(&o);
}

static void note_change(void *ctx, const char *name, const char *how, bool was_taken)
{
    assert_null(how);
    char *said = ctx;
    assert_false(was_taken);
    (void)snprintf(said + strlen(said), 256 - strlen(said), "%s ", name);
}

static void changes_wait_for_a_restart(void **state)
{
    (void)state;
    struct options *running = options_new(), *fresh = options_new();
    char said[256] = "";
    (void)taken(running, "listeners: { a: { listen: \"127.0.0.1:1\" }, "
                         "b: { listen: \"127.0.0.1:2\", routes: [health] } }\n");
    (void)taken(fresh, "listeners: { b: { listen: \"127.0.0.1:3\", routes: [page] } }\n");
    options_take_over(running, fresh, note_change, said);
    assert_string_equal(said, "listeners listeners.b.listen listeners.b.routes ");
    options_free(&running);
    options_free(&fresh);
}

/* Each of the three has its name, whichever of them changed. */
static void a_listener_that_changed_is_named(void **state)
{
    static const struct {
        const char *before, *after, *said;
    } rows[] = {
        { "change: { purge_listen: \"127.0.0.1:1\" }", "change: { purge_listen: \"127.0.0.1:2\" }",
          "change.purge_listen " },
        { "", "change: { purge_listen: \"127.0.0.1:1\" }", "change.purge_listen " },
        { "admin_listen: \"127.0.0.1:1\"", "admin_listen: \"127.0.0.1:2\"", "admin_listen " },
        { "admin_listen: \"127.0.0.1:1\"", "", "admin_listen " },
        { "listen: \"127.0.0.1:1\"", "listen: \"127.0.0.1:2\"", "listen " },
        { "listen: \"127.0.0.1:1\"", "listen: [\"127.0.0.1:1\", \"127.0.0.1:2\"]", "listen " },
        { "admin_listen: \"127.0.0.1:1\"\nchange: { purge_listen: \"127.0.0.1:2\" }",
          "listen: \"127.0.0.1:4\"\nadmin_listen: \"127.0.0.1:2\"\n"
          "change: { purge_listen: \"127.0.0.1:1\" }",
          "listen admin_listen change.purge_listen " },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct options *running = options_new(), *fresh = options_new();
        char said[256] = "";
        (void)taken(running, rows[i].before);
        (void)taken(fresh, rows[i].after);
        options_take_over(running, fresh, note_change, said);
        assert_string_equal(said, rows[i].said);
        options_free(&running);
        options_free(&fresh);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_become_a_filter),
        cmocka_unit_test(set_reaches_them),
        cmocka_unit_test(words_that_nothing_is_called_are_told),
        cmocka_unit_test(a_listener_has_a_name_and_an_address),
        cmocka_unit_test(inherited_sockets_find_theirs_by_name),
        cmocka_unit_test(changes_wait_for_a_restart),
        cmocka_unit_test(a_listener_that_changed_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
