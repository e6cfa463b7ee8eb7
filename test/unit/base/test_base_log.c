/* Goal: one line is one write whatever a client sends, also from many threads. Method: a pipe, read
 * back. */
#include "base/log.h"
#include "lib/clock.h"

#include "base/check.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 20 };

static struct fake_clock still;

struct catch
{
    int ends[2];
    char *text;
};

static void catch_begin(struct catch *c)
{
    assert_int_equal(pipe(c->ends), 0);
    c->text = calloc(1, READ_BYTES);
    assert_non_null(c->text);
}

/* All that was written; the next call starts anew. */
static const char *catch_end(struct catch *c)
{
    size_t n = 0;
    close(c->ends[1]);
    for (ssize_t got = 1; got > 0; n += got > 0 ? (size_t)got : 0)
        got = read(c->ends[0], c->text + n, READ_BYTES - 1 - n);
    close(c->ends[0]);
    return c->text;
}

static void text_and_json_of_one_event(void **state)
{
    (void)state;
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        struct catch c;
        catch_begin(&c);
        struct log *l = log_new(c.ends[1], LOG_INFO, (enum log_format)format, &still.clock);
        log_event(l, LOG_INFO, "page.put", LOG_CSTR("title", "Main Page"), LOG_INT("rev", 7),
                  LOG_INT("least", INT64_MIN), LOG_CSTR("plain", "a/b?c"),
                  LOG_STR("none", STR_NONE));
        log_note(l, LOG_WARN, "server.drain");
        log_note(l, LOG_DEBUG, "not.seen");
        const char *want =
            format == LOG_TEXT
                ? "2026-01-01T00:00:00.123Z info page.put title=\"Main Page\" rev=7 "
                  "least=-9223372036854775808 "
                  "plain=a/b?c none=\"\"\n2026-01-01T00:00:00.123Z warn server.drain\n"
                : "{\"time\":\"2026-01-01T00:00:00.123Z\",\"level\":\"info\",\"event\":\"page."
                  "put\","
                  "\"title\":\"Main "
                  "Page\",\"rev\":7,\"least\":-9223372036854775808,\"plain\":\"a/"
                  "b?c\",\"none\":\"\"}\n"
                  "{\"time\":\"2026-01-01T00:00:00.123Z\",\"level\":\"warn\",\"event\":\"server."
                  "drain\"}\n";
        assert_string_equal(catch_end(&c), want);
        log_free(&l);
        assert_null(l);
        free(c.text);
    }
}

static void what_a_client_sends_stays_within_its_quotes(void **state)
{
    (void)state;
    static const struct {
        str value;
        const char *text, *json;
    } rows[] = {
        { STR_INIT("a\nb"), "\"a\\nb\"", "\"a\\nb\"" },
        { STR_INIT("a\tb"), "\"a\\tb\"", "\"a\\tb\"" },
        { STR_INIT("a\rb\0c"), "\"a\\u000db\\u0000c\"", "\"a\\u000db\\u0000c\"" },
        { STR_INIT("\x1b[31m"), "\"\\u001b[31m\"", "\"\\u001b[31m\"" },
        { STR_INIT("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"", "\"say \\\"hi\\\" \\\\\"" },
        { STR_INIT("\x7f"), "\"\\u007f\"", "\"\\u007f\"" },
        { STR_INIT("\xc2\x9b"), "\"\\u009b\"", "\"\\u009b\"" }, /* CSI in one character */
        { STR_INIT("\xe2\x80\xa8"), "\"\\u2028\"", "\"\\u2028\"" },
        { STR_INIT("\xc3\xa9"), "\"\xc3\xa9\"", "\"\xc3\xa9\"" },
        { STR_INIT("a\xff\xc3"), "\"a\\xff\\xc3\"", "\"a\\ufffd\\ufffd\"" },
        { STR_INIT("k=v"), "\"k=v\"", "\"k=v\"" },
    };
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        struct catch c;
        char want[256];
        bool json = i % 2 == 1;
        catch_begin(&c);
        struct log *l = log_new(c.ends[1], LOG_DEBUG, json ? LOG_JSON : LOG_TEXT, &still.clock);
        log_event(l, LOG_ERROR, "e", LOG_STR("v", rows[i / 2].value));
        const char *value = json ? rows[i / 2].json : rows[i / 2].text;
        (void)snprintf(want, sizeof want, json ? ",\"v\":%s}\n" : " v=%s\n", value);
        const char *got = catch_end(&c);
        assert_true(str_ends(str_of(got), str_of(want)));
        assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
        log_free(&l);
        free(c.text);
    }
}

static void long_values_are_cut_between_characters(void **state)
{
    (void)state;
    struct catch c;
    char value[3 * LOG_VALUE_BYTES_MAX];
    for (size_t i = 0; i + 1 < sizeof value; i += 2)
        memcpy(value + i, "\xc3\xa9", 2);
    value[0] = 'x'; /* puts the limit into the middle of a character; its other half is invalid */
    catch_begin(&c);
    struct log *l = log_new(c.ends[1], LOG_DEBUG, LOG_TEXT, &still.clock);
    log_event(l, LOG_INFO, "e", LOG_STR("v", ((str){ value, sizeof value })), LOG_INT("after", 1));
    const char *got = catch_end(&c);
    const char *open = strchr(got, '"');
    assert_non_null(open);
    const char *shut = strchr(open + 1, '"');
    assert_non_null(shut);
    assert_true(shut - open - 1 <= LOG_VALUE_BYTES_MAX);
    assert_true(shut - open - 1 > LOG_VALUE_BYTES_MAX - 4);
    assert_string_equal(shut, "\" after=1\n");
    assert_int_equal((unsigned char)shut[-1], 0xa9);
    log_free(&l);
    free(c.text);
}

static void a_line_over_its_limit_loses_whole_fields_and_says_so(void **state)
{
    (void)state;
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        struct catch c;
        char value[500];
        memset(value, 1, sizeof value); /* six bytes each when escaped */
        str long_one = { value, sizeof value };
        catch_begin(&c);
        struct log *l = log_new(c.ends[1], LOG_DEBUG, (enum log_format)format, &still.clock);
        log_event(l, LOG_INFO, "e", LOG_STR("a", long_one), LOG_STR("b", long_one),
                  LOG_STR("c", long_one), LOG_STR("d", long_one), LOG_STR("f", long_one),
                  LOG_INT("z", 1));
        const char *got = catch_end(&c);
        assert_true(strlen(got) <= LOG_LINE_BYTES_MAX);
        const char *want = format == LOG_TEXT ? " z=1 cut=1\n" : ",\"z\":1,\"cut\":1}\n";
        assert_true(str_ends(str_of(got), str_of(want)));
        log_free(&l);
        free(c.text);
    }
}

static void the_level_and_nobody_and_a_dead_reader(void **state)
{
    (void)state;
    struct catch c;
    log_note(NULL, LOG_ERROR, "nobody");
    assert_false(log_enabled(NULL, LOG_ERROR));
    catch_begin(&c);
    struct log *l = log_new(c.ends[1], LOG_WARN, LOG_TEXT, &still.clock);
    assert_false(log_enabled(l, LOG_INFO));
    assert_true(log_enabled(l, LOG_WARN));
    log_level_set(l, LOG_DEBUG);
    assert_true(log_enabled(l, LOG_DEBUG));
    log_level_set(l, LOG_ERROR);
    log_note(l, LOG_WARN, "no");
    assert_string_equal(catch_end(&c), "");
    log_free(&l);
    int closed = open("/dev/full", O_WRONLY);
    assert_true(closed >= 0);
    l = log_new(closed, LOG_DEBUG, LOG_TEXT, &still.clock);
    errno = ENOENT;
    log_note(l, LOG_ERROR, "dropped");
    assert_int_equal(errno, ENOENT); /* whoever logs is about to report it */
    close(closed);
    log_free(&l);
    free(c.text);
}

enum { WRITERS = 4, LINES = 400 };

struct writer {
    struct log *log;
    int id;
};

static void *writer_main(void *ctx)
{
    struct writer *w = ctx;
    for (int i = 0; i < LINES; i++)
        log_event(w->log, LOG_INFO, "e", LOG_INT("id", w->id), LOG_INT("i", i),
                  LOG_CSTR("v", "some more bytes"));
    return NULL;
}

static void lines_of_many_threads_stay_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/test_base_log_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    struct log *l = log_new(fd, LOG_INFO, LOG_TEXT, &still.clock);
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    int next[WRITERS] = { 0 };
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){ .log = l, .id = i };
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    FILE *lines = fdopen(fd, "r");
    assert_non_null(lines);
    rewind(lines);
    char line[256], want[256];
    unsigned count = 0;
    while (fgets(line, sizeof line, lines) != NULL) {
        const char *at = strstr(line, " id=");
        assert_non_null(at);
        int id = at[4] - '0';
        assert_in_range(id, 0, WRITERS - 1);
        (void)snprintf(want, sizeof want,
                       "2026-01-01T00:00:00.123Z info e id=%d i=%d v=\"some more bytes\"\n", id,
                       next[id]++);
        assert_string_equal(line, want);
        count++;
    }
    assert_int_equal(count, WRITERS * LINES);
    fclose(lines);
    log_free(&l);
}

int main(void)
{
    fake_clock_init(&still, 1767225600123456789);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_json_of_one_event),
        cmocka_unit_test(what_a_client_sends_stays_within_its_quotes),
        cmocka_unit_test(long_values_are_cut_between_characters),
        cmocka_unit_test(a_line_over_its_limit_loses_whole_fields_and_says_so),
        cmocka_unit_test(the_level_and_nobody_and_a_dead_reader),
        cmocka_unit_test(lines_of_many_threads_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
