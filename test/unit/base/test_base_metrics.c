/* Goal: the exposition to the byte, bounded series, exact sums from many threads. Method: render
 * and compare. */
#include "base/metrics.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *rendered(struct metrics *m)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    metrics_render(m, &b);
    buf_put_c(&b, 0);
    assert_int_equal(buf_status(&b), ERR_OK);
    return b.p; /* the caller frees it */
}

static void counters_and_gauges(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    struct metric_family *single =
        metrics_family(m, METRIC_GAUGE, "open_connections", "Now open.", NULL);
    struct metric_family *routes =
        metrics_family(m, METRIC_COUNTER, "requests_total", "A \\ and\na line.", "route");
    metric_set(metric_of(single, NULL), 5);
    metric_add(metric_of(single, NULL), -7);
    metric_add(metric_of(routes, "GET \"/\"\n\\"), 2);
    metric_add(metric_of(routes, "\xff\xc3\xa9"), 1);
    assert_int_equal(metric_value(metric_of(single, NULL)), -2);
    assert_ptr_equal(metric_of(routes, "a"), metric_of(routes, "a"));
    char *text = rendered(m);
    assert_string_equal(text, "# HELP open_connections Now open.\n"
                              "# TYPE open_connections gauge\n"
                              "open_connections -2\n"
                              "# HELP requests_total A \\\\ and\\na line.\n"
                              "# TYPE requests_total counter\n"
                              "requests_total{route=\"GET \\\"/\\\"\\n\\\\\"} 2\n"
                              "requests_total{route=\"?\xc3\xa9\"} 1\n"
                              "requests_total{route=\"a\"} 0\n");
    free(text);
    metrics_free(&m);
    assert_null(m);
    metrics_free(&m);
}

static void several_labels_stand_in_one_value(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    struct metric_family *asks =
        metrics_family(m, METRIC_COUNTER, "asks_total", "A.", "kind,outcome,domain");
    metric_add(metric_of(asks, "render\x1f"
                               "fine\x1f"
                               "a\"b"),
               2);
    metric_add(metric_of(asks, "other"), 3);
    char *text = rendered(m);
    assert_string_equal(text, "# HELP asks_total A.\n"
                              "# TYPE asks_total counter\n"
                              "asks_total{kind=\"render\",outcome=\"fine\",domain=\"a\\\"b\"} 2\n"
                              "asks_total{kind=\"other\",outcome=\"other\",domain=\"other\"} 3\n");
    free(text);
    metrics_free(&m);
}

/* Who writes his lines himself gets the same text. */
static void lines_of_a_row_are_those_of_its_family(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("x_");
    struct metric_family *f = metrics_row(m, METRIC_QUEUE_ITEMS);
    metric_set(metric_of(f, "a\"\\\n\x1f"
                            "0\x1f"
                            "ready"),
               -7);
    metric_set(metrics_one(m, METRIC_QUEUE_LEFT_OUT), 1);
    char *text = rendered(m);
    struct buf b;
    buf_init(&b, 4096);
    metrics_head(m, METRIC_QUEUE_ITEMS, &b);
    metrics_line(m, METRIC_QUEUE_ITEMS, (const str[]){ STR("a\"\\\n"), STR("0"), STR("ready") }, -7,
                 &b);
    metrics_head(m, METRIC_QUEUE_LEFT_OUT, &b);
    metrics_line(m, METRIC_QUEUE_LEFT_OUT, NULL, 1, &b);
    buf_put_c(&b, '\0');
    assert_string_equal(buf_str(&b).p, text);
    buf_fini(&b);
    free(text);
    metrics_free(&m);
}

static void has_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    if (at == NULL || (at > text && at[-1] != '\n'))
        fail_msg("no line %s in\n%s", line, text);
}

static void histograms_are_cumulative_with_le_inclusive(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    struct metric *h = metric_of(metrics_family(m, METRIC_HISTOGRAM, "t_seconds", "T.", "r"), "x");
    static const int64_t ns[] = {
        -5, 0, 50000, 50001, 1000000, 9999999999, 10000000000, 10000000001
    };
    for (size_t i = 0; i < COUNT_OF(ns); i++)
        metric_observe_ns(h, ns[i]);
    assert_int_equal(metric_value(h), COUNT_OF(ns));
    char *text = rendered(m);
    has_line(text, "# TYPE t_seconds histogram\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"0.00005\"} 3\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"0.0001\"} 4\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"0.0005\"} 4\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"0.001\"} 5\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"5\"} 5\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"10\"} 7\n");
    has_line(text, "t_seconds_bucket{r=\"x\",le=\"+Inf\"} 8\n");
    has_line(text, "t_seconds_sum{r=\"x\"} 30.001100001\n");
    has_line(text, "t_seconds_count{r=\"x\"} 8\n");
    free(text);
    metrics_free(&m);
}

static void a_histogram_without_a_label_has_only_le(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    (void)metrics_family(m, METRIC_HISTOGRAM, "t_seconds", "T.", NULL);
    char *text = rendered(m);
    has_line(text, "t_seconds_bucket{le=\"0.00005\"} 0\n");
    has_line(text, "t_seconds_sum 0.000000000\n");
    has_line(text, "t_seconds_count 0\n");
    free(text);
    metrics_free(&m);
}

static void series_past_the_limit_are_counted_as_other(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    struct metric_family *f = metrics_family(m, METRIC_COUNTER, "c_total", "C.", "l");
    for (unsigned i = 0; i < METRICS_SERIES_MAX + 100; i++) {
        char label[16];
        (void)snprintf(label, sizeof label, "v%u", i);
        metric_add(metric_of(f, label), 1);
    }
    assert_int_equal(metric_value(metric_of(f, "other")), 101);
    assert_int_equal(metric_value(metric_of(f, "v0")), 1);
    assert_ptr_equal(metric_of(f, "never seen"), metric_of(f, "other"));
    char *text = rendered(m);
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 2 + METRICS_SERIES_MAX);
    free(text);
    metrics_free(&m);
}

static void long_labels_are_cut_between_characters(void **state)
{
    (void)state;
    struct metrics *m = metrics_new("");
    struct metric_family *f = metrics_family(m, METRIC_COUNTER, "c_total", "C.", "l");
    char label[2 * METRICS_LABEL_BYTES_MAX + 2] = "x";
    for (size_t i = 1; i + 2 < sizeof label; i += 2)
        memcpy(label + i, "\xc3\xa9", 2);
    metric_add(metric_of(f, label), 1);
    label[METRICS_LABEL_BYTES_MAX - 1] = 0; /* the last whole character ends here */
    assert_int_equal(metric_value(metric_of(f, label)), 1);
    metrics_free(&m);
}

struct worker {
    struct metric_family *counter, *histogram;
};

static void *worker_main(void *ctx)
{
    struct worker *w = ctx;
    for (unsigned i = 0; i < 20000; i++) {
        static const char *const labels[] = { "a", "b", "c", "d" };
        metric_add(metric_of(w->counter, labels[i % 4]), 1);
        metric_observe_ns(metric_of(w->histogram, labels[i % 4]), 1000);
    }
    return NULL;
}

static void threads_lose_nothing_while_somebody_renders(void **state)
{
    (void)state;
    enum { WORKERS = 3 };
    struct metrics *m = metrics_new("");
    struct worker w = { .counter = metrics_family(m, METRIC_COUNTER, "c_total", "C.", "l"),
                        .histogram = metrics_family(m, METRIC_HISTOGRAM, "h_seconds", "H.", "l") };
    pthread_t threads[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &w), 0);
    for (unsigned i = 0; i < 20; i++)
        free(rendered(m));
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(metric_value(metric_of(w.counter, "a")), WORKERS * 5000);
    assert_int_equal(metric_value(metric_of(w.histogram, "d")), WORKERS * 5000);
    metrics_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges),
        cmocka_unit_test(several_labels_stand_in_one_value),
        cmocka_unit_test(lines_of_a_row_are_those_of_its_family),
        cmocka_unit_test(histograms_are_cumulative_with_le_inclusive),
        cmocka_unit_test(a_histogram_without_a_label_has_only_le),
        cmocka_unit_test(series_past_the_limit_are_counted_as_other),
        cmocka_unit_test(long_labels_are_cut_between_characters),
        cmocka_unit_test(threads_lose_nothing_while_somebody_renders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
