/* counts: each answer is counted once, by route and class, and what no route names as "none".
 * Method: answers of a table of ours, read back from the exposition. */
#include "http/counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char label[] = "page.get", early[] = "page.hot";
static const struct http_route routes[] = { { HTTP_GET, "/a", NULL, .label = label },
                                            { HTTP_PUT, "/a", NULL, .label = label },
                                            { HTTP_GET, "/b", .label = NULL },
                                            { .pattern = NULL } };
static const struct http_route *const tables[] = { routes, NULL };

static void answers_are_counted_by_route_and_class(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        int status;
    } answers[] = { { label, 200 }, { label, 204 }, { label, 404 },
                    { early, 304 }, { NULL, 400 },  { "page.get (another)", 503 },
                    { label, 0 },   { label, 999 } };
    static const char *const said[] = {
        "http_responses_2xx_total{route=\"page.get\"} 2\n",
        "http_responses_4xx_total{route=\"page.get\"} 1\n",
        "http_responses_3xx_total{route=\"page.hot\"} 1\n",
        "http_responses_4xx_total{route=\"none\"} 1\n",
        "http_responses_5xx_total{route=\"none\"} 1\n",
        "http_unanswered_total{route=\"page.get\"} 2\n",
        "http_request_duration_seconds_count{route=\"page.get\"} 5\n",
        "http_sent_bytes_total 80\n",
    };
    struct metrics *m = metrics_new("");
    struct http_counts *c = http_counts_new(m, tables, early);
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(answers); i++)
        http_counts_add(c, answers[i].label, answers[i].status, 1000, 10);
    metrics_render(m, &text);
    buf_put_c(&text, 0);
    for (size_t i = 0; i < COUNT_OF(said); i++)
        if (strstr(text.p, said[i]) == NULL)
            fail_msg("%s is not in\n%s", said[i], text.p);
    buf_fini(&text);
    http_counts_free(&c);
    assert_null(c);
    http_counts_free(&c);
    metrics_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers_are_counted_by_route_and_class) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
