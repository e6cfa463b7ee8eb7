/* Goal: a cache may keep a page exactly when rules purge its URL of each change, and a rule that
 * says so in vain is doubted; so is one that runs what is no job, and a timeline that stays empty.
 * Method: a table of rule sets, what they let keep of one page, and what is doubted of them. */
#include "rule/edge.h"
#include "rules.h"

#include <stdio.h>
#include <string.h>

#define PURGE(match, more) "{ match: " match ", effect: purge, targets: [\"http://a\"], " more " }"
#define ALL "{ stream: \"palimpsest.*\" }"
#define HTML "urls: [\"/{domain}/v1/page/html/{title}\"]"
#define DAY "edge_ttl: 1d"
#define JOB(match) "r1: { match: " match ", effect: job, targets: [\"http://a/run\"] }"
#define TIMELINE(match) "r1: { match: " match ", effect: timeline }"
#define NOTHING_NOTED "r1: match takes no event that says what was superseded"
#define NO_JOBS "r1: match takes events that are no jobs, such as those of "

static const struct row {
    const char *rules; /* r1, r2 .. */
    int64_t ttl_s;
    const char *doubt; /* NULL: none; else what a line of it has */
} rows[] = {
    { "r1: " PURGE(ALL, HTML ", " DAY), 86400, NULL },
    { "r1: " PURGE(ALL, HTML ", edge_ttl: 90s"), 90, NULL },
    { "r1: " PURGE(ALL, HTML), 0, NULL },
    { "r1: " PURGE(ALL, DAY), 0, "r1: edge_ttl is of no use: without urls" },
    { "", 0, NULL },
    { "r1: { match: " ALL ", effect: look }", 0, NULL },
    /* jobs */
    { JOB("{ stream: \"mediawiki.job.*\" }"), 0, NULL },
    { JOB("{ stream: [mediawiki.job.a, mediawiki.job.b], domain: en.test }"), 0, NULL },
    { JOB("{ stream: /^mediawiki\\.job\\./ }"), 0, NULL },
    { JOB("{ stream: acme.work }"), 0, NULL },
    { JOB("{ stream: \"mediawiki.*\" }"), 0, NO_JOBS "mediawiki.revision-create" },
    { JOB("{ stream: \"mediawiki.*\", kind: x }"), 0, NO_JOBS "mediawiki.revision-create" },
    { JOB("{ type: refreshLinks }"), 0, NO_JOBS "mediawiki.revision-create" },
    { JOB("{ stream: \"palimpsest.*\" }"), 0, NO_JOBS "palimpsest.render" },
    /* timelines */
    { TIMELINE("{ stream: [palimpsest.render, palimpsest.dated] }"), 0, NULL },
    { TIMELINE("{ stream: palimpsest.render }"), 0, NULL },
    { TIMELINE("{ stream: palimpsest.dated, kind: revision }"), 0, NULL },
    { TIMELINE("{ stream: \"*\", superseded.rev_id: /./ }"), 0, NULL },
    { TIMELINE("{ domain: en.test }"), 0, NULL },
    { TIMELINE("{ stream: palimpsest.gone }"), 0, NOTHING_NOTED },
    { TIMELINE("{ stream: palimpsest.dated, kind: touched }"), 0, NOTHING_NOTED },
    { TIMELINE("{ stream: \"mediawiki.*\" }"), 0, NOTHING_NOTED },
    { TIMELINE("{ stream: \"palimpsest.*\", not: [{ stream: [palimpsest.render, palimpsest.dated] "
               "}] }"),
      0, NOTHING_NOTED },
    /* streams and kinds */
    { "r1: " PURGE("{ stream: palimpsest.render }", HTML ", " DAY), 0,
      "http://a for palimpsest.gone of kind hidden" },
    { "r1: " PURGE("{ stream: [palimpsest.render, palimpsest.gone] }", HTML ", " DAY), 0,
      "http://a for palimpsest.dated of kind revision" },
    { "r1: " PURGE("{ stream: [palimpsest.gone, palimpsest.dated] }", HTML ", " DAY), 0,
      "http://a for palimpsest.render, so" },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", kind: [hidden, deleted, purged, revision, touched, "
                   "shown] }",
                   HTML ", " DAY),
      0, "http://a for palimpsest.render, so" },
    { "r1: " PURGE("{ any: [{ kind: [hidden, deleted, purged, revision, touched, shown] }, "
                   "{ kind: { absent: true } }] }",
                   HTML ", " DAY),
      86400, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ kind: culled }] }", HTML ", " DAY), 86400,
      NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ kind: shown }] }", HTML ", " DAY), 0,
      "http://a for palimpsest.dated of kind shown" },
    /* the page */
    { "r1: " PURGE("{ stream: \"palimpsest.*\", domain: en.test, bucket: page, title: \"A b/c\", "
                   "meta.domain: en.test, page_title: /b/ }",
                   HTML ", " DAY),
      86400, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", domain: de.test }", HTML ", " DAY), 0, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", bucket: other }", HTML ", " DAY), 0, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", title: /^B/ }", HTML ", " DAY), 0, NULL },
    { "r1: " PURGE(ALL, HTML ", sample: 0.000001, " DAY), 0, NULL },
    { "r1: " PURGE(ALL, HTML ", sample: 1, " DAY), 86400, NULL },
    /* what each event has otherwise */
    { "r1: " PURGE("{ stream: \"palimpsest.*\", rev: \"0\" }", HTML ", " DAY), 0, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ rev_id: \"7\" }] }", HTML ", " DAY), 0,
      NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ tid: /^a/ }] }", HTML ", " DAY), 0, NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ meta.id: /^a/ }] }", HTML ", " DAY), 0,
      NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", last_rev_id: { absent: true } }", HTML ", " DAY), 0,
      NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", uri: { absent: true } }", HTML ", " DAY), 86400,
      NULL },
    /* what some events have */
    { "r1: " PURGE("{ stream: \"palimpsest.*\", superseded: { absent: true } }", HTML ", " DAY), 0,
      NULL },
    { "r1: " PURGE("{ stream: \"palimpsest.*\", not: [{ superseded.rev_id: \"7\" }] }",
                   HTML ", " DAY),
      0, NULL },
    { "r1: " PURGE(ALL, "urls: [\"/{domain}/v1/page/html/{title}\", \"/{superseded.tid}\"], " DAY),
      0, NULL },
    /* URLs */
    { "r1: " PURGE(ALL, "urls: [\"/{domain}/v1/page/data-parsoid/{title}\"], " DAY), 0, NULL },
    { "r1: " PURGE(ALL, "urls: [/x, \"/{domain}/v1/{bucket}/html/{page_title}\"], " DAY), 86400,
      NULL },
    { "r1: " PURGE(ALL, "urls: [\"/{domain}/v1/page/html/{title}?\"], " DAY), 0, NULL },
    { "r1: " PURGE(ALL, "urls: [\"https://{domain}:81/{domain}/v1/page/html/{title}\"], " DAY),
      86400, NULL },
    { "r1: " PURGE(ALL, "urls: [\"http://else/en.test/v1/page/html/A%20b%2Fc\"], " DAY), 86400,
      NULL },
    { "r1: " PURGE(ALL, "urls: [\"http://else\", \"http://else?/en.test\"], " DAY), 0, NULL },
    { "r1: " PURGE(ALL,
                   "urls: [\"/{domain}/v1/page/html/{title}\", \"/{title}/{rev}/{tid}\"], " DAY),
      86400, NULL },
    { "r1: " PURGE(ALL, "urls: [\"/{domain}/v1/page/html/{title}\", \"/{kind}\"], " DAY), 0, NULL },
    { "r1: " PURGE("{ title: /^(?<first>.)/ }",
                   "urls: [\"/{domain}/v1/page/html/{first}%20b%2Fc\"], " DAY),
      86400, NULL },
    /* purges that come too late are not sent */
    { "r1: " PURGE(ALL, HTML ", claim_ttl: 1h, " DAY), 3600, NULL },
    { "r1: " PURGE(ALL, HTML ", claim_ttl: never, " DAY), 86400, NULL },
    { "r1: " PURGE(ALL, HTML ", edge_ttl: 7d") "\n  r2: " PURGE(ALL, HTML), 86400, NULL },
    /* several rules, several targets */
    { "r1: " PURGE("{ stream: palimpsest.render }", HTML ", " DAY) "\n  r2: " PURGE(
          "{ stream: [palimpsest.gone, palimpsest.dated] }", HTML),
      86400, NULL },
    { "r1: " PURGE("{ stream: palimpsest.render }",
                   HTML ", " DAY) "\n  r2: { match: " ALL
                                  ", effect: purge, targets: [\"http://b\"], " HTML " }",
      0, "r1: edge_ttl is of no use: no rule purges http://a for palimpsest.gone" },
    { "r1: " PURGE(ALL, HTML ", " DAY) "\n  r2: { match: { stream: palimpsest.render }, effect: "
                                       "purge, targets: [\"http://b\"], " HTML ", edge_ttl: 1h }",
      0, "r2: edge_ttl is of no use: no rule purges http://b for palimpsest.gone" },
    { "r1: " PURGE(ALL, HTML ", " DAY) "\n  r2: { match: { stream: \"*\", domain: de.test }, "
                                       "effect: purge, targets: [\"http://b\"], " HTML
                                       ", edge_ttl: 1h }",
      86400, NULL },
    { "r1: " PURGE(ALL, HTML ", " DAY) "\n  r2: { match: " ALL
                                       ", effect: purge, targets: [\"http://b\"], " HTML
                                       ", edge_ttl: 1h }",
      3600, NULL },
    /* purges that are late */
    { "r1: " PURGE(ALL, HTML ", delay: 1m, " DAY), 86400, NULL },
    { "r1: " PURGE(ALL, HTML ", delay: 61s, " DAY), 0, "r1: edge_ttl is of no use: by delay" },
    { "r1: " PURGE(ALL, HTML ", rate: 1/m, " DAY), 86400, NULL },
    { "r1: " PURGE(ALL, HTML ", rate: 59/h, " DAY), 0, "r1: edge_ttl is of no use: by delay" },
    { "r1: " PURGE(ALL, HTML ", delay: 2m, " DAY) "\n  r2: " PURGE(ALL, HTML), 86400, NULL },
    { "r1: " PURGE(ALL, HTML ", " DAY) "\n  r2: { match: " ALL
                                       ", effect: purge, delay: 2m, targets: [\"http://b\"], " HTML
                                       " }",
      0, NULL },
};

static struct rule_set *set_of(const struct row *row)
{
    char text[4096];
    int n = snprintf(text, sizeof text, "rules:\n  %s\n", row->rules);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return rules_of(text);
}

static void what_is_purged_of_each_change_may_be_kept(void **state)
{
    (void)state;
    const struct rule_page page = { STR("en.test"), STR("page"), STR("A b/c"),
                                    STR("/en.test/v1/page/html/A%20b%2Fc") };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rule_set *s = set_of(&rows[i]);
        struct rule_event *e = rule_event_new(s);
        for (unsigned n = 0; n < 2; n++) {
            int64_t ttl_ns = rule_edge_ttl_ns(e, &page, NULL);
            if (ttl_ns != rows[i].ttl_s * NS_PER_S)
                fail_msg("%s: %lld s", rows[i].rules, (long long)(ttl_ns / NS_PER_S));
        }
        rule_event_free(&e);
        rule_set_unref(&s);
    }
}

/* As an operator holds rules back. */
static void what_is_held_back_purges_nothing(void **state)
{
    (void)state;
    static const struct row two = { "r1: " PURGE(ALL, HTML ", " DAY) "\n  r2: " PURGE(ALL, HTML),
                                    86400, NULL };
    const struct rule_page page = { STR("en.test"), STR("page"), STR("A"),
                                    STR("/en.test/v1/page/html/A") };
    struct rule_set *s = set_of(&two);
    struct rule_event *e = rule_event_new(s);
    for (unsigned held = 0; held < 4; held++) {
        const struct rule_held h = { .of = { (held & 1) != 0, (held & 2) != 0 } };
        assert_int_equal(rule_edge_ttl_ns(e, &page, &h), held == 3 ? 0 : 86400 * NS_PER_S);
    }
    rule_event_free(&e);
    rule_set_unref(&s);
}

static void note_doubt(void *ctx, const struct rule_fault *fault)
{
    buf_printf(ctx, "%u: %.*s: %s\n", fault->line, STR_ARG(fault->rule), fault->text);
}

static void a_rule_that_lets_keep_nothing_is_doubted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rule_set *s = set_of(&rows[i]);
        struct buf lines;
        buf_init(&lines, 4096);
        rule_set_doubt(s, note_doubt, &lines);
        str text = buf_str(&lines);
        bool right = rows[i].doubt == NULL ? text.n == 0
                                           : str_find_str(text, str_of(rows[i].doubt)) < text.n;
        if (!right)
            fail_msg("%s: %.*s", rows[i].rules, STR_ARG(text));
        buf_fini(&lines);
        rule_set_unref(&s);
    }
    rule_set_doubt(NULL, note_doubt, NULL);
}

/* Titles come from clients; a page has one all the same. */
static void a_title_is_never_more_than_a_title(void **state)
{
    (void)state;
    static const struct {
        const char *title, *path;
        bool kept;
    } titles[] = {
        { "A\",\"kind\":\"x", "/en.test/v1/page/html/A%22%2C%22kind%22%3A%22x", true },
        { "\\", "/en.test/v1/page/html/%5C", true },
        { "\xc3\xa9", "/en.test/v1/page/html/%C3%A9", true },
        { "\xc3\xa9", "/en.test/v1/page/html/%c3%a9", false },
        { "A(b)", "/en.test/v1/page/html/A(b)", false },
        { "..", "/en.test/v1/page/html/..", false },
        { "\xff", "/en.test/v1/page/html/%FF", false },
        { "a\nb", "/en.test/v1/page/html/a%0Ab", false },
        { "A", "", false },
    };
    struct rule_set *s = set_of(&rows[0]);
    struct rule_event *e = rule_event_new(s);
    for (size_t i = 0; i < COUNT_OF(titles); i++) {
        const struct rule_page page = { STR("en.test"), STR("page"), str_of(titles[i].title),
                                        str_of(titles[i].path) };
        if ((rule_edge_ttl_ns(e, &page, NULL) > 0) != titles[i].kept)
            fail_msg("%s", titles[i].path);
    }
    rule_event_free(&e);
    rule_set_unref(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_purged_of_each_change_may_be_kept),
        cmocka_unit_test(what_is_held_back_purges_nothing),
        cmocka_unit_test(a_rule_that_lets_keep_nothing_is_doubted),
        cmocka_unit_test(a_title_is_never_more_than_a_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
