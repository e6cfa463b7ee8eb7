/* Goal: events come out of a stream as the standard says, however it is cut into pieces; and an id
 * counts only when its event is whole. Method: each text is fed whole, byte by byte, and in all
 * pairs of pieces. */
#include "cli/sse.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_BYTES = 1 << 16 };

static bool tell(void *ctx, const struct sse_event *e)
{
    struct buf *told = ctx;
    buf_printf(told, "[%.*s|%.*s|%.*s]", STR_ARG(e->id), STR_ARG(e->name), STR_ARG(e->data));
    return true;
}

static bool note_tell(void *ctx, const struct sse_event *e)
{
    struct buf *told = ctx;
    buf_printf(told, "[%.*s|%.*s]", STR_ARG(e->note), STR_ARG(e->data));
    return true;
}

static void a_comment_inside_an_event_is_its_note(void **state)
{
    (void)state;
    struct sse s;
    struct buf told;
    sse_init(&s);
    buf_init(&told, TOLD_BYTES);
    assert_int_equal(sse_feed(&s, STR("id: 1\n: a b\ndata: x\n\ndata: y\n\n:c\n\ndata: z\n\n"),
                              note_tell, &told),
                     ERR_OK);
    buf_put_c(&told, '\0');
    assert_string_equal(told.p, "[a b|x][|y][|z]");
    buf_fini(&told);
    sse_fini(&s);
}

/* What came of it, and the id at the end. */
static void feed(str text, size_t first, size_t step, struct buf *told)
{
    struct sse s;
    sse_init(&s);
    for (size_t at = 0; at < text.n;) {
        str piece = str_take(str_skip(text, at), at == 0 && first > 0 ? first : step);
        /* At the end of memory of its own, so that a sanitizer sees a byte too far. */
        char *copy = malloc(piece.n);
        assert_non_null(copy);
        memcpy(copy, piece.p, piece.n);
        assert_int_equal(sse_feed(&s, (str){ .p = copy, .n = piece.n }, tell, told), ERR_OK);
        free(copy);
        at += piece.n;
    }
    buf_printf(told, "%s", s.id);
    sse_fini(&s);
}

static void expect(const char *text, const char *want)
{
    struct buf told;
    size_t n = strlen(text);
    for (size_t first = 1; first <= n; first++) {
        buf_init(&told, TOLD_BYTES);
        feed(str_of(text), first, n, &told);
        buf_put_c(&told, '\0');
        assert_string_equal(told.p, want);
        buf_fini(&told);
    }
    buf_init(&told, TOLD_BYTES);
    feed(str_of(text), 0, 1, &told);
    buf_put_c(&told, '\0');
    assert_string_equal(told.p, want);
    buf_fini(&told);
}

static void events_end_with_a_blank_line(void **state)
{
    (void)state;
    expect("id: 7\nevent: gap\ndata: x\n\n", "[7|gap|x]7");
    expect("data:x\ndata:\ndata: y\n\n", "[|message|x\n\ny]");
    expect("data\n\ndata: \n\n", "[|message|][|message|]");
    expect(": ok\n\n\n\ndata:  a: b\n\n", "[|message| a: b]");
    expect("data: x\n", "");
    expect("nothing: x\nDATA: y\n\n", "");
    expect("\xef\xbb\xbf"
           "data: x\n\n",
           "[|message|x]");
}

static void lines_end_in_three_ways(void **state)
{
    (void)state;
    expect("data: x\r\n\r\ndata: y\r\n\r\n", "[|message|x][|message|y]");
    expect("data: x\r\rid: 1\rdata: y\r\r", "[|message|x][1|message|y]1");
    expect("data: x\n\r\ndata: y\r\n\ndata: z\r\n\r", "[|message|x][|message|y][|message|z]");
}

static void an_id_stays_and_counts_when_its_event_is_whole(void **state)
{
    (void)state;
    expect("id: 1\ndata: x\n\ndata: y\n\n", "[1|message|x][1|message|y]1");
    expect(": ok\nid: 1\n\n", "1");
    expect("id: 1\ndata: x\n\nid: 2\ndata: y\n", "[1|message|x]1");
    expect("id: 1\n\nid\ndata: y\n\n", "[|message|y]");
    struct sse s;
    struct buf told;
    buf_init(&told, TOLD_BYTES);
    sse_init(&s);
    assert_int_equal(sse_feed(&s, STR("id: 1\n\nid: 2\ndata: half"), tell, &told), ERR_OK);
    sse_restart(&s);
    assert_string_equal(s.id, "1");
    assert_int_equal(sse_feed(&s, STR("data: x\n\n"), tell, &told), ERR_OK);
    assert_true(str_eq(buf_str(&told), STR("[1|message|x]")));
    sse_fini(&s);
    buf_fini(&told);
}

static void an_id_that_is_too_long_is_left_out(void **state)
{
    (void)state;
    char text[SSE_NAME_BYTES_MAX + 64];
    char name[SSE_NAME_BYTES_MAX + 2];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    (void)snprintf(text, sizeof text, "id: 1\n\nid: %s\ndata: y\n\n", name);
    expect(text, "[1|message|y]1");
    (void)snprintf(text, sizeof text, "event: %s\ndata: y\n\n", name);
    expect(text, "[|message|y]");
}

static bool enough(void *ctx, const struct sse_event *e)
{
    (void)e;
    return --*(int *)ctx > 0;
}

static void who_takes_may_have_enough(void **state)
{
    (void)state;
    struct sse s;
    int left = 2;
    sse_init(&s);
    str text = STR("data: 1\n\ndata: 2\n\ndata: 3\n\n");
    assert_int_equal(sse_feed(&s, text, enough, &left), ERR_IO);
    assert_int_equal(left, 0);
    sse_fini(&s);
}

static void an_event_has_a_limit(void **state)
{
    (void)state;
    struct sse s;
    struct buf told;
    char *line = malloc(1 << 20);
    assert_non_null(line);
    memset(line, 'x', 1 << 20);
    buf_init(&told, TOLD_BYTES);
    for (unsigned way = 0; way < 2; way++) {
        err why = ERR_OK;
        sse_init(&s);
        for (unsigned i = 0; i < 100 && why == ERR_OK; i++) {
            if (way == 1)
                why = sse_feed(&s, STR("\ndata: "), tell, &told);
            if (why == ERR_OK)
                why = sse_feed(&s, (str){ .p = line, .n = 1 << 20 }, tell, &told);
        }
        assert_int_equal(why, ERR_LIMIT);
        sse_fini(&s);
    }
    buf_fini(&told);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comment_inside_an_event_is_its_note),
        cmocka_unit_test(events_end_with_a_blank_line),
        cmocka_unit_test(lines_end_in_three_ways),
        cmocka_unit_test(an_id_stays_and_counts_when_its_event_is_whole),
        cmocka_unit_test(an_id_that_is_too_long_is_left_out),
        cmocka_unit_test(who_takes_may_have_enough),
        cmocka_unit_test(an_event_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
