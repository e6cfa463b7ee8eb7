/* Goal: every option comes from its table, later sources win, and what is wrong is one line naming
 * file, line and option. Method: options given as text; each kind of error at least once. */
#include "server/options.h"
#include "server/options_table.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

static const struct options_from from_test = { .file = "test" };

static struct options *fresh(void **state)
{
    struct options *o = options_new();
    *state = o;
    return o;
}

static int tear_down(void **state)
{
    struct options *o = *state;
    options_free(&o);
    return 0;
}

static void yaml_fine(struct options *o, const char *text)
{
    struct err_note note = { .text = "" };
    if (options_yaml(o, str_of(text), "f.yaml", &note) != ERR_OK)
        fail_msg("%s: %s", text, note.text);
}

static const struct config *finished(struct options *o)
{
    struct err_note note = { .text = "" };
    if (options_finish(o, &note) != ERR_OK)
        fail_msg("%s", note.text);
    return options_config(o);
}

/* The text is refused with exactly this line. */
#define LISTEN_WANTED "is no ADDR:PORT; ADDR is a number such as 127.0.0.1 or [::1], or localhost"

static void yaml_wrong(const char *text, const char *line)
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

static void set_wrong(const char *name, const char *value, const char *line)
{
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    assert_int_equal(options_set(o, str_of(name), str_of(value), from_test, &note), ERR_BAD);
    assert_string_equal(note.text, line);
    options_free(&o);
}

static void defaults_are_those_of_the_contract(void **state)
{
    const struct config *c = finished(fresh(state));
    assert_int_equal(c->listens_count, 1);
    assert_string_equal(c->listens[0].address, "127.0.0.1");
    assert_int_equal(c->listens[0].port, 7231);
    assert_true(c->listens[0].admin);
    assert_true(c->listens[0].content);
    assert_string_equal(c->data_dir, "data");
    assert_int_equal(c->domains_count, 1);
    assert_string_equal(c->domains[0].name, "localhost");
    assert_int_equal(c->buckets_count, 1);
    assert_string_equal(c->buckets[0].page.name, "page");
    assert_int_equal(c->buckets[0].page.policy.kind, POLICY_APP_TTL);
    assert_int_equal(c->buckets[0].page.policy.grace_ttl_ns, 86400 * NS_PER_S);
    assert_int_equal(c->buckets[0].page.policy.ledger_ttl_ns, 30 * 86400 * NS_PER_S);
    assert_int_equal(c->buckets[0].page.codec, PAGE_GZIP);
    assert_int_equal(c->drain_timeout_ms, 10000);
    assert_int_equal(c->auth, AUTH_OPEN);
    assert_false(c->test_hooks);
    assert_false(c->exposed);
}

static void a_file_fills_every_kind_of_option(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(
        o, "listen: [\"127.0.0.1:0\", \"[::1]:0\"]\n"
           "data: /srv/x\n"
           "domains:\n  en.example.test: {}\n  de.example.test:\n"
           "auth: internal\n"
           "drain_timeout: 2s\n"
           "http: { threads: 3, connections_max: 99, head_bytes_max: 8k }\n"
           "page:\n  grace_ttl: 500ms\n  historical_ttl: never\n  contents: [html, data-parsoid]\n"
           "buckets:\n  mobile: { kind: page, contents: [lead, remaining], policy: latest_hash }\n"
           "log: { level: debug, format: json, access: true }\n");
    const struct config *c = finished(o);
    assert_int_equal(c->listens_count, 2);
    assert_string_equal(c->listens[1].address, "::1");
    assert_string_equal(c->data_dir, "/srv/x");
    assert_int_equal(c->domains_count, 2);
    assert_string_equal(c->domains[1].name, "de.example.test");
    assert_int_equal(c->auth, AUTH_INTERNAL);
    assert_int_equal(c->drain_timeout_ms, 2000);
    assert_int_equal(c->http.threads, 3);
    assert_int_equal(c->http.connections_max, 99);
    assert_int_equal(c->http.head_bytes_max, 8192);
    assert_int_equal(c->buckets[0].page.policy.grace_ttl_ns, 500 * NS_PER_MS);
    assert_int_equal(c->buckets[0].page.policy.historical_ttl_ns, DURATION_NEVER);
    assert_int_equal(c->buckets[0].page.contents_count, 2);
    assert_string_equal(c->buckets[0].page.contents[1], "data-parsoid");
    assert_int_equal(c->buckets_count, 2);
    assert_string_equal(c->buckets[1].page.name, "mobile");
    assert_int_equal(c->buckets[1].page.policy.kind, POLICY_LATEST_HASH);
    assert_string_equal(c->buckets[1].page.contents[0], "lead");
    assert_int_equal(c->log_level, LOG_DEBUG);
    assert_int_equal(c->log_format, LOG_JSON);
    assert_true(c->access_log);
}

static void an_empty_file_is_fine(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(o, "");
    yaml_fine(o, "# nothing\n");
    yaml_fine(o, "---\n");
    assert_int_equal(finished(o)->listens[0].port, 7231);
}

static void later_sources_win_and_domains_add_up(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    yaml_fine(o,
              "data: file\ndomains: [a]\npage: { grace_ttl: 1s, stash_ttl: 1s }\nhot_bytes: 1k\n");
    char *const envp[] = { (char[]){ "HOME=/" }, (char[]){ "PALIMPSEST_PAGE_GRACE_TTL=2s" },
                           (char[]){ "PALIMPSEST_HOT_BYTES=2k" },
                           (char[]){ "PALIMPSEST_DOMAINS=b" }, NULL };
    assert_int_equal(options_environment(o, envp, NULL, NULL, &note), ERR_OK);
    char *argv[] = { (char[]){ "--set" },      (char[]){ "page.grace_ttl=3s" },
                     (char[]){ "--domain=c" }, (char[]){ "--domain" },
                     (char[]){ "a" },          (char[]){ "--data" },
                     (char[]){ "x" },          (char[]){ "--data" },
                     (char[]){ "flag" } };
    assert_int_equal(options_arguments(o, COUNT_OF(argv), argv, &note), ERR_OK);
    const struct config *c = finished(o);
    assert_string_equal(c->data_dir, "flag");
    assert_int_equal(c->buckets[0].page.policy.grace_ttl_ns, 3 * NS_PER_S);
    assert_int_equal(c->buckets[0].page.policy.stash_ttl_ns, NS_PER_S);
    assert_int_equal(c->hot_bytes, 2048);
    assert_int_equal(c->domains_count, 3);
}

static void origins_come_from_the_file_and_from_flags(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    yaml_fine(o, "domains:\n  en.origin.test: { origin: { kind: rest, url: \"http://h/rest.php\", "
                 "timeout: 5s } }\n"
                 "  b:\n  c: { origin: }\nflight: { makes_max: 3 }\n");
    assert_int_equal(options_set(o, STR("domains.en.origin.test.origin.retries"), STR("4"),
                                 from_test, &note),
                     ERR_OK);
    assert_int_equal(options_set(o, STR("domains.d.origin.url"), STR("http://d/rest.php"),
                                 from_test, &note),
                     ERR_OK);
    assert_int_equal(options_set(o, STR("domains.d.origin.domain"), STR("other"), from_test, &note),
                     ERR_OK);
    const struct config *c = finished(o);
    assert_int_equal(c->domains_count, 4);
    assert_string_equal(c->domains[0].name, "en.origin.test");
    assert_int_equal(c->domains[0].origin.kind, ORIGIN_REST);
    assert_string_equal(c->domains[0].origin.url, "http://h/rest.php");
    assert_string_equal(c->domains[0].origin.domain, "en.origin.test");
    assert_int_equal(c->domains[0].origin.timeout_ms, 5000);
    assert_int_equal(c->domains[0].origin.retries, 4);
    assert_int_equal(c->domains[0].origin.concurrency, 8);
    assert_null(c->domains[1].origin.url);
    assert_null(c->domains[2].origin.url);
    assert_string_equal(c->domains[3].origin.domain, "other");
    assert_int_equal(c->domains[3].origin.kind, ORIGIN_PARSOID);
    assert_int_equal(c->flight.makes_max, 3);
    assert_int_equal(c->flight.waiters_max, 10000);
}

static void rerenders_at_once_fit_the_origin(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(o, "domains: { a: { origin: { url: http://x/rest.php, concurrency: 1 } } }\n");
    assert_int_equal(finished(o)->domains[0].rerenders.concurrency, 1);
    yaml_wrong("domains:\n  a:\n    origin:\n      url: http://x/rest.php\n"
               "      rerender_concurrency: 5\n      concurrency: 4\n",
               "f.yaml:5: domains.a.origin.rerender_concurrency: "
               "5 is more than domains.a.origin.concurrency (4)");
    yaml_wrong("domains: { a: { origin: { url: http://x/rest.php, rerender_concurrency: 9 } } }\n",
               "f.yaml:1: domains.a.origin.rerender_concurrency: "
               "9 is more than domains.a.origin.concurrency (8)");
}

static void admin_listener_takes_the_admin_routes(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    assert_int_equal(options_set(o, STR("admin_listen"), STR("127.0.0.1:0"), from_test, &note),
                     ERR_OK);
    const struct config *c = finished(o);
    assert_int_equal(c->listens_count, 2);
    assert_false(c->listens[0].admin);
    assert_true(c->listens[1].admin);
    assert_false(c->listens[1].content);
}

static void a_wrong_file_is_one_line_with_file_line_and_option(void **state)
{
    (void)fresh(state);
    yaml_wrong("page:\n  grace_ttl: soon\n",
               "f.yaml:2: page.grace_ttl: \"soon\" is no duration (500ms, 2s, 5m, 1h, 7d, never)");
    yaml_wrong("data: x\nno_such: 1\n",
               "f.yaml:2: no_such: there is no such option; palimpsest options lists them");
    yaml_wrong("page: { no_such: 1 }\n", "f.yaml:1: page.no_such: there is no such option");
    yaml_wrong("nothing: { x: 1 }\n",
               "f.yaml:1: nothing.x: there is no such option; palimpsest options lists them");
    yaml_wrong("data: { x: 1 }\n", "f.yaml:1: data: is a value, not a section");
    yaml_wrong("\n\ndrain_timeout: 2h\n", "f.yaml:3: drain_timeout: \"2h\" is not within 0 to 1h");
    yaml_wrong("http: { connections_max: 15 }\n",
               "f.yaml:1: http.connections_max: \"15\" is not within 16 to 1000000");
    yaml_wrong("http: { connections_max: -1 }\n",
               "f.yaml:1: http.connections_max: \"-1\" is no whole number");
    yaml_wrong("client: { connections_max: 4097 }\n",
               "f.yaml:1: client.connections_max: \"4097\" is not within 1 to 4096");
    yaml_wrong("hot_bytes: 1x\n", "f.yaml:1: hot_bytes: \"1x\" is no size (4096, 64k, 8M, 1G)");
    yaml_wrong("auth: maybe\n", "f.yaml:1: auth: \"maybe\" is none of: open, internal");
    yaml_wrong("log: { access: 1 }\n", "f.yaml:1: log.access: \"1\" is neither true nor false");
    yaml_wrong("data: \"\"\n", "f.yaml:1: data: is empty");
    yaml_wrong("data:\n", "f.yaml:1: data: has no value");
    yaml_wrong("data: a\ndata: b\n", "f.yaml:2: data: is there twice, first on line 1");
    yaml_wrong("- a\n", "f.yaml:1: expected NAME: VALUE");
    yaml_wrong("data: [a\n", "f.yaml:2: not YAML: a list that begins with [ does not end with ]");
    char deep[200001] = "", in_line[200001] = ""; /* too deep is said at once, however deep */
    memset(deep, '[', sizeof(deep) - 1);
    yaml_wrong(deep, "f.yaml:1: nested deeper than 32");
    for (size_t i = 0; i + 2 < sizeof(in_line); i += 2)
        memcpy(in_line + i, "- ", 2);
    yaml_wrong(in_line, "f.yaml:1: nested deeper than 32");
    yaml_wrong("a: 1\n---\nb: 1\n", "f.yaml: more than one document");
    yaml_wrong("data: 1\n---\ndata: 1\n", "f.yaml: more than one document");
    yaml_wrong("listen: localhost\n", "f.yaml:1: listen: \"localhost\" " LISTEN_WANTED);
    yaml_wrong("listen: 127.0.0.1:65536\n", "f.yaml:1: listen: \"127.0.0.1:65536\" " LISTEN_WANTED);
    yaml_wrong("test_hooks: true\n", "f.yaml:1: test_hooks: only as a flag");
}

static void wrong_domains_and_buckets_are_named(void **state)
{
    (void)fresh(state);
    yaml_wrong("domains: [a/b]\n", "f.yaml:1: domains: \"a/b\" is no name of a domain");
    yaml_wrong("domains:\n  ok: {}\n  v1: {}\n", "f.yaml:3: domains: \"v1\" is a reserved name");
    yaml_wrong("domains:\n  a: { orgin: x }\n",
               "f.yaml:2: orgin: there is no such option of a domain");
    yaml_wrong("domains:\n  a: { origin: x }\n", "f.yaml:2: origin: is a section, not a value");
    yaml_wrong("domains:\n  a: { origin: { no: 1 } }\n",
               "f.yaml:2: domains.a.origin.no: there is no such option");
    yaml_wrong("domains:\n  a:\n    origin: { kind: soap }\n",
               "f.yaml:3: domains.a.origin.kind: \"soap\" is none of: parsoid, rest, template");
    yaml_wrong("domains:\n  a:\n    origin: { kind: rest }\n",
               "f.yaml:3: domains.a.origin: has no url");
    yaml_wrong(
        "domains:\n  a:\n    origin:\n      kind: rest\n      url: wiki.test/w/rest.php\n      "
        "retries: 1\n",
        "f.yaml:5: domains.a.origin.url: wanted is a URL that begins with http:// or https://");
    yaml_wrong(
        "domains:\n  a:\n    origin:\n      api: w/api.php\n      url: http://h/w/rest.php\n",
        "f.yaml:4: domains.a.origin.api: wanted is a URL that begins with http:// or https://");
    yaml_wrong("domains:\n  a:\n    origin: { url: http://h/w }\n",
               "f.yaml:3: domains.a.origin.url: the URL does not end in rest.php, so api must say "
               "where api.php is");
    yaml_wrong("http: { trusted_proxies: [10.0.0.7, proxy.test] }\n",
               "f.yaml:1: http.trusted_proxies: \"proxy.test\" is no numeric address or network "
               "such as 192.0.2.0/24");
    yaml_wrong("http:\n  trusted_proxies: 10.0.0.7/8\n",
               "f.yaml:2: http.trusted_proxies: \"10.0.0.7/8\" is no numeric address or network "
               "such as 192.0.2.0/24");
    yaml_wrong(
        "flight:\n  error_base: 2s\n  error_max: 1s\n",
        "f.yaml:2: flight.error_base: flight.error_base (2s) is longer than flight.error_max (1s)");
    yaml_wrong("flight: { error_max: 100ms }\n", "f.yaml:1: flight.error_max: flight.error_base "
                                                 "(500ms) is longer than flight.error_max (100ms)");
    yaml_wrong("flight: { error_base: 0 }\n",
               "f.yaml:1: flight.error_base: \"0\" is not within 1ms to 1h");
    yaml_wrong("buckets: { b: { kind: page, policy: ttl, ttl: 0 } }\n",
               "f.yaml:1: buckets.b.ttl: \"0\" is not within 1ms to never");
    yaml_wrong("domains:\n  a:\n    origin: { url: x, concurrency: 0 }\n",
               "f.yaml:3: domains.a.origin.concurrency: \"0\" is not within 1 to 10000");
    set_wrong("domains.v1.origin.url", "x", "test: domains: \"v1\" is a reserved name");
    set_wrong("domains.a.b.url", "x",
              "test: domains.a.b.url: there is no such option; palimpsest options lists them");
    yaml_wrong("domains:\n  a: 1\n", "f.yaml:2: a: a domain is a section, not a value");
    yaml_wrong("buckets: { page: {} }\n", "f.yaml:1: buckets: \"page\" is a reserved name");
    yaml_wrong("buckets: { \"a b\": {} }\n", "f.yaml:1: buckets: \"a b\" is no name of a bucket");
    yaml_wrong("buckets: { m: 1 }\n", "f.yaml:1: m: a bucket is a section, not a value");
    yaml_wrong("buckets: { m: { kind: lists } }\n",
               "f.yaml:1: buckets.m.kind: \"lists\" is none of: page, "
               "key_value, key_rev_value");
    yaml_wrong("buckets: { m: { no: 1 } }\n", "f.yaml:1: buckets.m.no: there is no such option");
    yaml_wrong("page: { contents: [html, history] }\n",
               "f.yaml:1: page.contents: \"history\" is a reserved name");
    yaml_wrong("page: { contents: [HTML] }\n",
               "f.yaml:1: page.contents: \"HTML\" is no name of a content");
    yaml_wrong("page: { contents: [.x] }\n",
               "f.yaml:1: page.contents: \".x\" is no name of a content");
    yaml_wrong("page: { contents: [html, html] }\n",
               "f.yaml:1: page.contents: \"html\" is there twice");
    set_wrong("buckets.m", "1",
              "test: buckets.m: there is no such option; palimpsest options lists them");
    set_wrong("domains", "", "test: domains: \"\" is no name of a domain");
}

static void wrong_stores_and_lists_are_named(void **state)
{
    (void)fresh(state);
    yaml_wrong("queue:\n  stores: [ { name: b, kind: postgres, url: "
               "\"postgresql://u:secret@localhost/q\" } ]\n",
               "f.yaml:2: queue.stores: b: the PostgreSQL URL names a host: only numeric addresses "
               "can be used, such as"
               " 127.0.0.1");
    yaml_wrong("queue: { stores: \"b=postgresql://\" }\n",
               "f.yaml:1: queue.stores: b: the PostgreSQL URL names no address");
    yaml_wrong("queue: { stores: \"b=postgresql://u:secret@127.0.0.1:notaport/q\" }\n",
               "f.yaml:1: queue.stores: b: the PostgreSQL URL has a port that is none");
    yaml_wrong("queue: { stores: \"b=postgresql://127.0.0.1:65536/q\" }\n",
               "f.yaml:1: queue.stores: b: the PostgreSQL URL has a port that is none");
    yaml_wrong("queue: { stores: \"b=postgresql://127.0.0.1/q?sslmode=bogus\" }\n",
               "f.yaml:1: queue.stores: b: the PostgreSQL URL has a value of sslmode that is none");
    yaml_fine(*state, "queue: { stores: \"b=postgresql://127.0.0.1:5433/q?sslmode=disable\" }\n");
    (void)finished(*state);
    yaml_wrong("lists:\n  r: { size: 3 }\n", "f.yaml:2: lists.r.generator: the list wants a "
                                             "generator: an http or https URL without a query");
    yaml_wrong("lists:\n  r: { generator: \"http://h/x\", params: \"a, a\" }\n",
               "f.yaml:2: lists.r.params: has a name twice");
}

/* Wherever a mistake in writing it puts the password, which is "secret" or has it inside. */
static void no_message_shows_a_password(void **state)
{
    static const char *const stores[] = {
        "b=postgresql://u:se%zzsecret@127.0.0.1/q",
        "b=postgresql://u:secret@[::1/q",
        "b=postgresql://u:p@secret@127.0.0.1/q",
        "b=postgresql://u:p@secret,x@127.0.0.1/q",
        "b=postgresql://u:secret/x@127.0.0.1/q",
        "b=postgresql://u:p/secret@127.0.0.1/q",
        "b=postgresql://u:p/secret@h/q?hostaddr=127.0.0.1",
        "b=postgresql://u:1/secret@h/q?hostaddr=127.0.0.1",
        "b=postgresql://u:secret/x@h/q?hostaddr=127.0.0.1",
        "b=postgresql://u:p@secret@127.0.0.1/q?hostaddr=127.0.0.1",
        "b=postgresql://u:p?w@secret@h?hostaddr=127.0.0.1",
        "b=postgresql://u:secret@localhost/q",
        "b=postgresql://u:p?a/secret@127.0.0.1/q",
        "b=postgresql://secret:1:2@127.0.0.1:secret/q",
        "b=postgresql://127.0.0.1/q?sslmode=secret",
        "b=postgresql://127.0.0.1/q?secret",
        "postgresql://u:secret@127.0.0.1/q",
        "b=postgresql://127.0.0.1/q?password=p&secret=x&y",
        "B=postgresql://u:secret@127.0.0.1/q",
        "b*x=postgresql://u:secret@127.0.0.1/q",
        "b=postgresql:/u:secret@127.0.0.1/../q",
        "b=http://u:secret@127.0.0.1/q",
        "postgresql://u:secret@127.0.0.1/q?sslmode=disable",
        "u:secret@127.0.0.1",
        "b=postgresql://u:p,secret@127.0.0.1/q",
        "b=postgresql://127.0.0.1/q?password=p,secret",
        "b=postgresql://127.0.0.1/q?password=p,a secret=x",
    };
    (void)fresh(state);
    for (size_t i = 0; i < COUNT_OF(stores); i++) {
        struct options *o = options_new();
        struct err_note note = { .text = "" };
        err why = options_set(o, STR("queue.stores"), str_of(stores[i]), from_test, &note);
        if (why == ERR_OK)
            why = options_finish(o, &note);
        if (why != ERR_OK && strstr(note.text, "secret") != NULL)
            fail_msg("%s: %s", stores[i], note.text);
        if (why == ERR_OK &&
            strstr(stores[i], "postgresql:/u") == NULL) /* one slash: it is a path */
            fail_msg("%s is taken", stores[i]);
        options_free(&o);
    }
    static const char *const arguments[] = { "queue.stores:b:postgresql://u:secret@127.0.0.1/q",
                                             "postgresql://u:secret@127.0.0.1/q?sslmode=disable",
                                             "postgresql://u:secret=x@127.0.0.1/q",
                                             "listen=postgresql://u:secret@127.0.0.1/q",
                                             "queue.affinity=b=postgresql://u:secret@127.0.0.1/q" };
    struct err_note note = { .text = "" };
    for (size_t i = 0; i < COUNT_OF(arguments); i++) {
        struct options *o = options_new();
        char text[128];
        assert_true(str_to_cstr(str_of(arguments[i]), text, sizeof text));
        char *argv[] = { (char[]){ "--set" }, text };
        assert_int_equal(options_arguments(o, COUNT_OF(argv), argv, &note), ERR_BAD);
        if (strstr(note.text, "secret") != NULL)
            fail_msg("%s: %s", arguments[i], note.text);
        options_free(&o);
    }
    struct options *o = options_new();
    yaml_fine(o, "queue: { stores: [ { name: b, kind: postgres, url: "
                 "\"postgresql://u:p@secret@127.0.0.1/q\" } ] }\n");
    assert_int_equal(options_finish(o, &note), ERR_BAD);
    assert_null(strstr(note.text, "secret"));
    options_free(&o);
}

static void contradictions_are_refused(void **state)
{
    (void)fresh(state);
    yaml_wrong("page:\n  policy: all\n  ttl: 3d\n",
               "f.yaml:3: page.ttl: contradicts policy all, which has none");
    yaml_wrong("buckets:\n  m:\n    ttl: 1500ms\n    kind: key_value\n",
               "f.yaml:3: buckets.m.ttl: is never, or whole seconds up to 20 years");
    yaml_wrong("buckets:\n  m: { kind: key_value, policy: latest_hash }\n",
               "f.yaml:2: buckets.m.policy: is of no bucket of this kind");
    yaml_wrong("buckets:\n  m: { kind: key_rev_value, contents: [html] }\n",
               "f.yaml:2: buckets.m.contents: is of no bucket of this kind");
    yaml_wrong("buckets:\n  m: { kind: key_rev_value, count: 3 }\n",
               "f.yaml:2: buckets.m.count: contradicts policy all, which has none");
    yaml_wrong("buckets:\n  m: { kind: page, listing: true }\n",
               "f.yaml:2: buckets.m.listing: is of buckets of values only (kind: key_value)");
    yaml_wrong("page: { cors: true }\n", "f.yaml:1: page.cors: there is no such option");
    yaml_wrong("buckets:\n  m:\n    count: 3\n",
               "f.yaml:3: buckets.m.count: contradicts policy app_ttl, which has none");
    yaml_wrong("page:\n  policy: latest\n  count: 1001\n",
               "f.yaml:3: page.count: \"1001\" is not within 1 to 1000");
    static const char *const urls[] = { "x.test/api",        "https://",
                                        "https:///api",      "https://x.test/",
                                        "https://{title}/x", "https://x.test/a b",
                                        "https://x.test/?",  "ftp://x.test" };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char yaml[64];
        (void)snprintf(yaml, sizeof yaml, "public_url: \"%s\"\n", urls[i]);
        yaml_wrong(yaml, "f.yaml:1: public_url: is no URL such as https://{domain}/api/rest_v1, "
                         "without a slash at the "
                         "end");
    }
    yaml_wrong("compat: { hidden: 404 }\n",
               "f.yaml:1: compat.hidden: \"404\" is none of: 410, 403");
    yaml_wrong("page: { body_bytes_max: 22M }\n",
               "f.yaml:1: page.body_bytes_max: http.arena_bytes_max must be at least 3 times "
               "page.body_bytes_max");
    yaml_wrong("http: { arena_bytes_max: 23M }\n",
               "f.yaml:1: http.arena_bytes_max: http.arena_bytes_max must be at least 3 times "
               "page.body_bytes_max");
    yaml_wrong("queue: { reply_bytes_max: 22M }\n",
               "f.yaml:1: queue.reply_bytes_max: http.arena_bytes_max must be at least 3 times "
               "queue.reply_bytes_max");
    yaml_wrong("listen: 127.0.0.1:80\nadmin_listen: 127.0.0.1:80\n",
               "f.yaml:2: admin_listen: 127.0.0.1:80 is there twice");
    struct options *o = options_new();
    struct err_note note;
    yaml_fine(o, "page: { policy: interval, count: 3, interval: 1h }\n");
    assert_int_equal(options_finish(o, &note), ERR_OK);
    options_free(&o);
}

static void a_reply_that_nobody_sized_fits_the_memory_of_a_request(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(o, "http: { arena_bytes_max: 3M }\npage: { body_bytes_max: 1M }\n");
    assert_int_equal(finished(o)->queue.reply_bytes_max, 1 << 20);
}

static void an_open_server_stays_on_loopback(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    yaml_fine(o, "listen: 0.0.0.0:80\n");
    assert_int_equal(options_finish(o, &note), ERR_BAD);
    assert_string_equal(
        note.text, "f.yaml:1: listen: auth: open lets everybody do everything, so it is refused on "
                   "0.0.0.0; set auth: internal and make a key: palimpsest token create --role "
                   "Admin --data DIR "
                   "--new; palimpsest token lock --data DIR");
    yaml_fine(o, "# two\nauth: open\n");
    assert_int_equal(options_finish(o, &note), ERR_BAD);
    assert_true(str_starts(str_of(note.text), STR("f.yaml:2: auth: open lets everybody")));
    assert_int_equal(options_set(o, STR("auth"), STR("internal"), from_test, &note), ERR_OK);
    assert_true(finished(o)->exposed);
    assert_false(options_config(o)->listens[0].admin);
}

static void test_hooks_are_a_flag_on_loopback(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    char *argv[] = { (char[]){ "--test-hooks=2026-01-01T00:00:00.5Z" } };
    assert_int_equal(options_arguments(o, 1, argv, &note), ERR_OK);
    assert_true(finished(o)->test_hooks);
    assert_true(options_config(o)->test_frozen);
    assert_int_equal(options_config(o)->test_instant.ns, 1767225600500000000);
    struct options *out = options_new();
    char *plain[] = { (char[]){ "--test-hooks" }, (char[]){ "--listen" }, (char[]){ "[::]:0" },
                      (char[]){ "--set" }, (char[]){ "auth=internal" } };
    assert_int_equal(options_arguments(out, COUNT_OF(plain), plain, &note), ERR_OK);
    assert_int_equal(options_finish(out, &note), ERR_BAD);
    assert_string_equal(note.text,
                        "command line: --test-hooks: only with listeners on loopback, not with ::");
    options_free(&out);
}

static void wrong_arguments_are_named(void **state)
{
    static const struct {
        const char *args[2];
        const char *line;
    } cases[] = {
        { { "--nope", "1" }, "command line: --nope: there is no such option" },
        { { "nope", "1" }, "command line: nope: there is no such option" },
        { { "--data", NULL }, "command line: --data: wants a value" },
        { { "--set", "x" }, "command line: x: --set wants NAME=VALUE" },
        { { "--set", "x=1" },
          "command line: x: there is no such option; palimpsest options lists them" },
        { { "--set", "test_hooks=true" }, "command line: test_hooks: only as --test-hooks" },
        { { "--test-hooks=noon", NULL },
          "command line: test_hooks: \"noon\" is not an instant such as "
          "2026-01-01T00:00:00Z, of the years 1678 to 2261" },
    };
    (void)fresh(state);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct options *o = options_new();
        struct err_note note;
        char one[64], two[64] = "";
        assert_true(str_to_cstr(str_of(cases[i].args[0]), one, sizeof one));
        assert_true(str_to_cstr(str_of(cases[i].args[1]), two, sizeof two));
        char *argv[] = { one, two };
        assert_int_equal(options_arguments(o, cases[i].args[1] != NULL ? 2 : 1, argv, &note),
                         ERR_BAD);
        assert_string_equal(note.text, cases[i].line);
        options_free(&o);
    }
}

static void count_unknown(void *ctx, const char *variable)
{
#define NAMED " (what has a name of its own is set in the file or with --set)"
    static const char *const expected[] = { "PALIMPSEST_NO_SUCH=1",
                                            "PALIMPSEST_BUCKETS_MOBILE_POLICY" NAMED,
                                            "PALIMPSEST_LISTS_R_SIZE" NAMED,
                                            "PALIMPSEST_DOMAINS_X_ORIGIN_URL" NAMED };
    unsigned *count = ctx;
    assert_in_range(*count, 0, COUNT_OF(expected) - 1);
    assert_string_equal(variable, expected[*count]);
    ++*count;
}

static void unknown_variables_are_only_told(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    unsigned count = 0;
    char *const envp[] = { (char[]){ "PALIMPSEST_NO_SUCH=1" },
                           (char[]){ "PALIMPSEST_TOKEN=x" },
                           (char[]){ "PALIMPSEST_CONFIG=f" },
                           (char[]){ "PATH=/" },
                           (char[]){ "PALIMPSEST_BUCKETS_MOBILE_POLICY=all" },
                           (char[]){ "PALIMPSEST_LISTS_R_SIZE=3" },
                           (char[]){ "PALIMPSEST_DOMAINS_X_ORIGIN_URL=http://127.0.0.1:1/?a=b" },
                           (char[]){ "PALIMPSEST_DOMAINS=a" },
                           NULL };
    assert_int_equal(options_environment(o, envp, count_unknown, &count, &note), ERR_OK);
    assert_int_equal(count, 4);
    char *const wrong[] = { (char[]){ "PALIMPSEST_PAGE_GRACE_TTL=x" }, NULL };
    assert_int_equal(options_environment(o, wrong, NULL, NULL, &note), ERR_BAD);
    assert_string_equal(
        note.text,
        "environment: page.grace_ttl: \"x\" is no duration (500ms, 2s, 5m, 1h, 7d, never)");
}

static void the_config_file_comes_from_flag_or_environment(void **state)
{
    (void)fresh(state);
    struct err_note note;
    const char *path = NULL;
    char *const envp[] = { (char[]){ "PALIMPSEST_CONFIG=env.yaml" }, NULL };
    char *argv[] = { (char[]){ "--data" }, (char[]){ "--config" }, (char[]){ "--config" },
                     (char[]){ "a.yaml" } };
    assert_int_equal(options_config_path(COUNT_OF(argv), argv, envp, &path, &note), ERR_OK);
    assert_string_equal(path, "a.yaml");
    assert_int_equal(options_config_path(0, argv, envp, &path, &note), ERR_OK);
    assert_string_equal(path, "env.yaml");
    char *twice[] = { (char[]){ "--config=a" }, (char[]){ "--config=b" } };
    assert_int_equal(options_config_path(2, twice, envp, &path, &note), ERR_BAD);
}

static void a_file_that_is_not_there_is_named(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    assert_int_equal(options_read_file(o, "/nonexistent/x.yaml", &note), ERR_BAD);
    assert_string_equal(note.text,
                        "/nonexistent/x.yaml: cannot be opened: No such file or directory");
    assert_int_equal(options_read_file(o, "/", &note), ERR_BAD);
}

static void a_line_stays_one_line_whatever_the_file_holds(void **state)
{
    struct options *o = fresh(state);
    struct err_note note;
    assert_int_equal(options_yaml(o, STR("auth: \"a\\nb\\x1b[1m\"\n"), "f.yaml", &note), ERR_BAD);
    assert_null(strchr(note.text, '\n'));
    assert_null(strchr(note.text, 0x1b));
    char name[3000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(options_set(o, str_of(name), STR("1"), from_test, &note), ERR_BAD);
    assert_non_null(strstr(note.text, "there is no such option"));
}

static void buckets_of_values_stand_apart_and_are_closed_by_default(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(
        o, "buckets:\n  sessions: { ttl: 1h, kind: key_value }\n  mobile: { policy: latest_hash }\n"
           "  revs: { kind: key_rev_value, policy: latest_hash, grace_ttl: 5s, listing: true, "
           "cors: true,\n"
           "          cache_control: private }\nvalue: { listing: true }\n");
    const struct config *c = finished(o);
    assert_int_equal(c->buckets_count, 2);
    assert_string_equal(c->buckets[1].page.name, "mobile");
    assert_int_equal(c->values_count, 2);
    const struct config_bucket *sessions = &c->values[0], *revs = &c->values[1];
    assert_int_equal(sessions->kind, KIND_KEY_VALUE);
    assert_int_equal(sessions->value_ttl_ns, 3600 * NS_PER_S);
    assert_false(sessions->access.cors || sessions->access.listing || c->value_access.cors);
    assert_string_equal(sessions->access.cache_control, "no-store");
    assert_int_equal(sessions->page.policy.kind, POLICY_ALL);
    assert_int_equal(revs->page.policy.kind, POLICY_LATEST_HASH);
    assert_int_equal(revs->page.policy.grace_ttl_ns, 5 * NS_PER_S);
    assert_true(revs->access.cors && revs->access.listing && c->value_access.listing);
    assert_string_equal(revs->access.cache_control, "private");
    assert_int_equal(revs->value_ttl_ns, DURATION_NEVER);
}

static void every_row_is_described_in_every_form(void **state)
{
    (void)fresh(state);
    for (int form = OPTIONS_TEXT; form <= OPTIONS_ROFF; form++) {
        struct buf text;
        buf_init(&text, 1u << 20);
        options_describe((enum options_form)form, &text);
        assert_int_equal(buf_status(&text), ERR_OK);
        for (const struct option *r = option_rows; r->name != NULL; r++)
            assert_true(str_find_str(buf_str(&text), str_of(r->name)) < text.n);
        for (const struct option *r = option_bucket_rows; r->name != NULL; r++)
            assert_true(str_find_str(buf_str(&text), str_of(r->prose)) < text.n);
        for (const struct option *r = option_value_rows; r->name != NULL; r++)
            assert_true(str_find_str(buf_str(&text), str_of(r->prose)) < text.n);
        for (const struct option *r = option_origin_rows; r->name != NULL; r++)
            assert_true(str_find_str(buf_str(&text), str_of(r->prose)) < text.n);
        buf_fini(&text);
    }
}

static void note_name(void *ctx, const char *name)
{
    struct buf *names = ctx;
    buf_printf(names, "%s ", name);
}

static void an_option_that_does_nothing_any_more_is_taken_and_named(void **state)
{
    struct options *o = fresh(state);
    struct buf names;
    buf_init(&names, 1024);
    options_gone(o, note_name, &names);
    assert_int_equal(names.n, 0);
    yaml_fine(o, "store: { index_bytes_max: 64G }\n");
    (void)finished(o);
    options_gone(o, note_name, &names);
    assert_true(str_eq(buf_str(&names), STR("store.index_bytes_max ")));
    buf_fini(&names);
}

static void note_change(void *ctx, const char *name, const char *how, bool taken)
{
    struct buf *names = ctx;
    assert_null(how);
    buf_printf(names, "%s%s ", name, taken ? "!" : "");
}

/* What a running server says and does of options read anew. */
static void takes_over(struct options *running, const char *yaml, const char *expected)
{
    struct options *anew = options_new();
    struct buf names;
    yaml_fine(anew, yaml);
    (void)finished(anew);
    buf_init(&names, 1024);
    options_take_over(running, anew, note_change, &names);
    buf_put_c(&names, '\0');
    assert_string_equal(names.p, expected);
    buf_clear(&names);
    options_take_over(running, anew, note_change, &names); /* what was taken differs no more */
    assert_null(memchr(names.p, '!', names.n));
    buf_fini(&names);
    options_free(&anew);
}

static void a_reload_takes_over_what_its_row_says_and_names_the_rest(void **state)
{
    struct options *o = fresh(state);
    yaml_fine(o, "domains: { a: { origin: { url: http://x/rest.php } }, b: {} }\n"
                 "buckets: { m: { policy: all }, v: { kind: key_value } }\n");
    const struct config *c = finished(o);
    takes_over(o,
               "domains: { a: { origin: { url: http://x/rest.php } }, b: {} }\n"
               "buckets: { m: { policy: all }, v: { kind: key_value } }\n",
               "");
    takes_over(
        o,
        "domains: { a: { origin: { url: http://y/rest.php, concurrency: 3 } }, b: {} }\n"
        "buckets: { m: { policy: all, grace_ttl: 1s, contents: [x] },\n"
        "  v: { kind: key_value, ttl: 1d } }\n"
        "page: { grace_ttl: 2s }\nhot_bytes: 1\nlisten: 127.0.0.1:1\ndrain_timeout: 3s\n"
        "flight: { makes_max: 5, makes_source_max: 2 }\nlog: { level: debug, access: true }\n",
        "listen drain_timeout! flight.makes_max! flight.makes_source_max! hot_bytes "
        "log.level! log.access! domains.a.origin.url "
        "domains.a.origin.concurrency! page.grace_ttl! buckets.m.grace_ttl! "
        "buckets.m.contents buckets.v.ttl ");
    assert_int_equal(c->drain_timeout_ms, 3000);
    assert_int_equal(c->flight.makes_max, 5);
    assert_int_equal(c->flight.makes_source_max, 2);
    assert_int_equal(c->log_level, LOG_DEBUG);
    assert_true(c->access_log);
    assert_int_equal(c->domains[0].origin.concurrency, 3);
    assert_string_equal(c->domains[0].origin.url, "http://x/rest.php");
    assert_int_not_equal(c->hot_bytes, 1);
    takes_over(o, "domains: [a]\n",
               "drain_timeout! flight.makes_max! flight.makes_source_max! log.level! log.access! "
               "domains domains.a.origin.url domains.a.origin.concurrency! "
               "buckets page.grace_ttl! buckets ");
}

/* Of a text there is a copy that lives as long as the running options. */
static void what_a_reload_takes_over_is_a_value(void **state)
{
    (void)state;
    const struct option *const tables[] = { option_rows, option_bucket_rows, option_value_rows,
                                            option_origin_rows, option_list_rows };
    unsigned taken = 0;
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct option *r = tables[t]; r->name != NULL; r++) {
            if (r->reload != OPTION_ON_RELOAD)
                continue;
            taken++;
            assert_true(r->type == OPTION_CHOICE || r->type == OPTION_FLAG ||
                        r->type == OPTION_COUNT || r->type == OPTION_MS || r->type == OPTION_NS ||
                        r->type == OPTION_SIZE || r->type == OPTION_RULES ||
                        r->type == OPTION_TEXT);
        }
    assert_int_equal(taken, 53);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(defaults_are_those_of_the_contract, tear_down),
        cmocka_unit_test_teardown(a_file_fills_every_kind_of_option, tear_down),
        cmocka_unit_test_teardown(an_empty_file_is_fine, tear_down),
        cmocka_unit_test_teardown(later_sources_win_and_domains_add_up, tear_down),
        cmocka_unit_test_teardown(origins_come_from_the_file_and_from_flags, tear_down),
        cmocka_unit_test_teardown(rerenders_at_once_fit_the_origin, tear_down),
        cmocka_unit_test_teardown(admin_listener_takes_the_admin_routes, tear_down),
        cmocka_unit_test_teardown(a_wrong_file_is_one_line_with_file_line_and_option, tear_down),
        cmocka_unit_test_teardown(wrong_domains_and_buckets_are_named, tear_down),
        cmocka_unit_test_teardown(buckets_of_values_stand_apart_and_are_closed_by_default,
                                  tear_down),
        cmocka_unit_test_teardown(wrong_stores_and_lists_are_named, tear_down),
        cmocka_unit_test_teardown(no_message_shows_a_password, tear_down),
        cmocka_unit_test_teardown(contradictions_are_refused, tear_down),
        cmocka_unit_test_teardown(a_reply_that_nobody_sized_fits_the_memory_of_a_request,
                                  tear_down),
        cmocka_unit_test_teardown(an_open_server_stays_on_loopback, tear_down),
        cmocka_unit_test_teardown(test_hooks_are_a_flag_on_loopback, tear_down),
        cmocka_unit_test_teardown(wrong_arguments_are_named, tear_down),
        cmocka_unit_test_teardown(unknown_variables_are_only_told, tear_down),
        cmocka_unit_test_teardown(the_config_file_comes_from_flag_or_environment, tear_down),
        cmocka_unit_test_teardown(a_file_that_is_not_there_is_named, tear_down),
        cmocka_unit_test_teardown(a_line_stays_one_line_whatever_the_file_holds, tear_down),
        cmocka_unit_test_teardown(every_row_is_described_in_every_form, tear_down),
        cmocka_unit_test_teardown(an_option_that_does_nothing_any_more_is_taken_and_named,
                                  tear_down),
        cmocka_unit_test_teardown(a_reload_takes_over_what_its_row_says_and_names_the_rest,
                                  tear_down),
        cmocka_unit_test(what_a_reload_takes_over_is_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
