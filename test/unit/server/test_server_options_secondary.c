/* Goal: an operator says where RESTBase left its renders; what makes no sense is one line. Method:
 * configuration files, whole. */
#include "server/options.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void taken(const char *text, struct options *o)
{
    struct err_note note = { .text = "" };
    err why = options_yaml(o, str_of(text), "f.yaml", &note);
    if (why == ERR_OK)
        why = options_finish(o, &note);
    if (why != ERR_OK)
        fail_msg("%s: %s", text, note.text);
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

static void all_of_it_may_be_said(void **state)
{
    (void)state;
    struct options *o = options_new();
    taken("domains: [en.test, de.test]\n"
          "page:\n"
          "  secondary:\n"
          "    contact_points: [10.0.0.1, \"10.0.0.2:9043\"]\n"
          "    local_dc: dc1\n"
          "    keyspaces: [html=Spelled_T_html, Spelled_T_data]\n"
          "    domains: { en.test: en.example.org }\n"
          "    timeout: 200ms\n"
          "    auth: { user: reader, password_file: /etc/secret }\n"
          "    tls: { mode: on, ca_file: /etc/ca.pem }\n",
          o);
    const struct config_secondary *c = &options_config(o)->secondary;
    assert_int_equal(c->cluster.contact_points_count, 2);
    assert_string_equal(c->cluster.contact_points[1], "10.0.0.2:9043");
    assert_string_equal(c->cluster.local_dc, "dc1");
    assert_int_equal(c->tables_count, 2);
    assert_string_equal(c->tables[0].content, "html");
    assert_string_equal(c->tables[0].keyspace, "Spelled_T_html");
    assert_string_equal(c->tables[1].content, "");
    assert_string_equal(c->tables[1].keyspace, "Spelled_T_data");
    assert_int_equal(c->domains_count, 1);
    assert_string_equal(c->domains[0].name, "en.test");
    assert_string_equal(c->domains[0].there, "en.example.org");
    assert_int_equal(c->timeout_ms, 200);
    assert_string_equal(c->cluster.user, "reader");
    assert_int_equal(c->cluster.tls, TLS_ON);
    options_free(&o);
    o = options_new();
    taken("page:\n"
          "  grace_ttl: 2d\n"
          "  secondary:\n"
          "    contact_points: a\n"
          "    local_dc: b\n"
          "    keyspaces: { html: c, data-parsoid: d }\n",
          o);
    c = &options_config(o)->secondary;
    assert_int_equal(c->tables_count, 2);
    assert_string_equal(c->tables[1].content, "data-parsoid");
    assert_string_equal(c->tables[1].keyspace, "d");
    assert_int_equal(c->timeout_ms, 1000);
    options_free(&o);
}

static void without_nodes_there_is_none(void **state)
{
    (void)state;
    struct options *o = options_new();
    taken("page: { policy: all }\n", o);
    assert_int_equal(options_config(o)->secondary.cluster.contact_points_count, 0);
    options_free(&o);
    refused("page:\n  secondary:\n    keyspaces: a\n",
            "f.yaml:3: page.secondary.keyspaces: does nothing without "
            "page.secondary.contact_points");
    refused("page: { secondary: { timeout: 1s } }\n",
            "f.yaml:1: page.secondary.timeout: does nothing without "
            "page.secondary.contact_points");
}

#define SECONDARY "page:\n  secondary:\n    contact_points: a\n"

static void what_makes_no_sense_is_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } cases[] = {
        { SECONDARY "    keyspaces: a\n",
          "page.secondary.local_dc: is wanted: the name of the data centre whose nodes are asked" },
        { SECONDARY "    local_dc: b\n",
          "page.secondary.keyspaces: is wanted: the keyspace of each content, such as "
          "html=KEYSPACE" },
        { SECONDARY "    local_dc: b\n    keyspaces: history=a\n",
          "f.yaml:5: page.secondary.keyspaces: \"history\" is no name of a content" },
        { SECONDARY "    local_dc: b\n    keyspaces: html=a=b\n",
          "f.yaml:5: page.secondary.keyspaces: \"a=b\" is no name of a keyspace" },
        { SECONDARY "    local_dc: b\n    keyspaces: [a, b, c, d, e]\n",
          "f.yaml:5: page.secondary.keyspaces: more than 4 of them" },
        { SECONDARY "    local_dc: b\n    keyspaces: a\n    domains: { x.test: y.test }\n",
          "f.yaml:6: page.secondary.domains: \"x.test\" is no domain of this server" },
        { SECONDARY "    local_dc: b\n    keyspaces: a\n    domains: localhost\n",
          "f.yaml:6: page.secondary.domains: NAME=THERE is wanted for each domain" },
        { SECONDARY "    local_dc: b\n    keyspaces: a\n    auth: { user: c }\n",
          "f.yaml:6: page.secondary.auth.user: wants page.secondary.auth.password_file, too" },
        { SECONDARY "    local_dc: b\n    keyspaces: a\n    tls: { name: c }\n",
          "f.yaml:6: page.secondary.tls.name: does nothing without page.secondary.tls.mode: on" },
        { SECONDARY "    local_dc: b\n    keyspaces: a\n    timeout: 1ms\n",
          "f.yaml:6: page.secondary.timeout: \"1ms\" is not within 10ms to 1m" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char line[512];
        bool placed = strncmp(cases[i].line, "f.yaml", 6) == 0;
        (void)snprintf(line, sizeof line, "%s%s", placed ? "" : "default: ", cases[i].line);
        refused(cases[i].text, line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_may_be_said),
        cmocka_unit_test(without_nodes_there_is_none),
        cmocka_unit_test(what_makes_no_sense_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
