/* queue_top.c - palimpsest queue top: all queues, live. On a terminal a table in place, the
 * troubled and the fullest first, as many as fit; else a line for each queue each time. */
#include "base/date.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "loop/signals.h"
#include "loop/sysclock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    QUEUES_SHOWN_MAX = 1000,
    LINES_AROUND = 5, /* head, blank, titles, how many more, the cursor's */
    LINES_OF_HEAD = 2,
    ROWS_FOR_HEAD = LINES_AROUND + 1,
};

struct top_row {
    const char *name; /* borrowed from the names */
    int64_t partitions, ready, scheduled, leased, waiting, oldest_ns;
    bool ill;
};
struct top {
    struct client c;
    const struct cli_call *call;
    bool live, began; /* a first picture was shown */
    char at[DATE_RFC3339_BYTES + 1];
    json_t *names; /* of this picture */
    struct top_row *rows;
    size_t rows_count;
    struct queue_reply reply; /* why there are none */
    enum cli_exit failed;
};

/* ---- looking ---- */

/* False: reply says why. */
static bool list_names(struct top *t, json_t *names)
{
    char pivot[QUEUE_NAME_BYTES_MAX + 1] = "";
    do {
        json_t *page =
                   queue_list_page(&t->c, pivot, QUEUES_SHOWN_MAX - (int64_t)json_array_size(names),
                                   &t->reply),
               *q;
        size_t i;
        if (page == NULL)
            return false;
        json_array_foreach(json_object_get(page, "items"), i, q)(void)
            json_array_append(names,
                              json_object_get(q, "queue_name")); /* one without a name is none */
        json_decref(page);
    } while (pivot[0] != '\0' && json_array_size(names) < QUEUES_SHOWN_MAX);
    return true;
}

static json_t *names_of(struct top *t)
{
    json_t *names = json_array();
    for (unsigned i = 0; i < t->call->operands_count; i++)
        INVARIANT(json_array_append_new(names, json_string(t->call->operands[i])) == 0);
    if (t->call->operands_count > 0 || list_names(t, names))
        return names;
    json_decref(names);
    return NULL;
}

static void add_counts(struct top_row *row, const json_t *state, const json_t *stats)
{
    json_t *p, *logical;
    size_t i;
    json_array_foreach(json_object_get(state, "partitions"), i, p)
    {
        int64_t oldest_ns = queue_age_ns(p, "oldest_age");
        row->partitions++;
        row->ready += queue_count(p, "ready");
        row->scheduled += queue_count(p, "scheduled");
        row->leased += queue_count(p, "leased");
        row->ill = row->ill || strcmp(queue_text(p, "state"), "available") != 0;
        row->oldest_ns = oldest_ns > row->oldest_ns ? oldest_ns : row->oldest_ns;
    }
    json_array_foreach(json_object_get(stats, "logicalQueues"), i, logical) row->waiting +=
        queue_count(logical, "lease_waiting");
}

/* True: there is a row more, or the queue has gone since it was listed. */
static bool queue_top_look(struct top *t, const char *name)
{
    json_t *state = queue_post(&t->c, "partitions.list", queue_named(name), NULL, &t->reply);
    json_t *stats =
        state != NULL ? queue_post(&t->c, "queue.stats", queue_named(name), NULL, &t->reply) : NULL;
    bool gone =
        stats == NULL && t->reply.status == 400 && (t->began || t->call->operands_count == 0);
    if (stats != NULL) {
        struct top_row *row = &t->rows[t->rows_count++];
        *row = (struct top_row){ .name = name };
        add_counts(row, state, stats);
    }
    json_decref(state);
    json_decref(stats);
    return stats != NULL || gone;
}

static void queue_top_forget(struct top *t)
{
    free(t->rows);
    json_decref(t->names);
    t->rows = NULL;
    t->names = NULL;
    t->rows_count = 0;
}

/* False: reply says why. */
static bool look_all(struct top *t)
{
    json_t *name;
    size_t i;
    bool fine;
    queue_top_forget(t);
    t->names = names_of(t);
    fine = t->names != NULL;
    t->rows = calloc(json_array_size(t->names) + 1, sizeof *t->rows);
    INVARIANT(t->rows != NULL);
    json_array_foreach(t->names, i, name) fine = fine && queue_top_look(t, json_string_value(name));
    return fine;
}

/* ---- showing ---- */

static int by_urgency(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    int64_t held_x = x->ready + x->leased + x->scheduled,
            held_y = y->ready + y->leased + y->scheduled;
    if (x->ill != y->ill)
        return x->ill ? -1 : 1;
    if (held_x != held_y)
        return held_x > held_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The name has half the terminal at most: the numbers are what is watched. */
static void add_row(struct out_table *table, const struct top_row *row, size_t name_columns)
{
    const int64_t numbers[] = { row->partitions, row->ready, row->scheduled, row->leased,
                                row->waiting };
    char cells[COUNT_OF(numbers)][QUEUE_CELL_BYTES], oldest[QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        queue_number_cell(numbers[i], cells[i]);
    queue_age_cell(row->oldest_ns, oldest);
    str name = out_fit(str_of(row->name), name_columns);
    out_table_row(table,
                  (const str[]){ name, str_of(cells[0]), str_of(cells[1]), str_of(cells[2]),
                                 str_of(cells[3]), str_of(cells[4]), str_of(oldest) },
                  row->ill                              ? "33"
                  : row->ready == 0 && row->leased == 0 ? "2"
                                                        : NULL);
}

/* The terminal's size as it is now. */
static struct winsize window(void)
{
    struct winsize size = { .ws_row = 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){ .ws_row = QUEUES_SHOWN_MAX, .ws_col = 80 };
    return size;
}

static void print_table(const struct top *t, FILE *to, struct winsize size, size_t around)
{
    static const struct out_column columns[] = {
        { "QUEUE", false }, { "PARTITIONS", true }, { "READY", true },  { "SCHEDULED", true },
        { "LEASED", true }, { "WAITING", true },    { "OLDEST", true },
    };
    struct out_table *table = out_table_new(to, columns, COUNT_OF(columns));
    size_t fit = size.ws_row > around ? size.ws_row - around : 1;
    size_t shown = t->rows_count < fit ? t->rows_count : fit;
    out_table_colours(table, out_colours(stdout));
    for (size_t i = 0; i < shown; i++)
        add_row(table, &t->rows[i], size.ws_col / 2u);
    out_table_end(&table);
    if (shown < t->rows_count)
        fprintf(to, "and %zu more\n", t->rows_count - shown);
}

/* The lines of a picture, cut at both edges: a line or a column more would write over what is
 * there. */
static void print_cut(str picture, struct winsize size)
{
    fputs("\033[?7l\033[H\033[2J", stdout);
    for (unsigned i = 0; picture.n > 0 && i + 1 < size.ws_row; i++) {
        out_line(stdout, str_split(&picture, '\n'), size.ws_col);
        putchar('\n');
    }
    fputs("\033[?7h", stdout);
}

/* Over the picture before. */
static void show_live(const struct top *t, bool fine)
{
    struct winsize size = window();
    bool headed = size.ws_row >= ROWS_FOR_HEAD;
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    INVARIANT(to != NULL);
    if (headed)
        fprintf(to, "%s  %s\n\n", t->at, t->c.server);
    if (fine)
        print_table(t, to, size, headed ? LINES_AROUND : LINES_AROUND - LINES_OF_HEAD);
    else
        out_text(to, str_of(t->reply.note.text));
    INVARIANT(fclose(to) == 0);
    print_cut((str){ .p = text, .n = n }, size);
    free(text);
}

static void print_line(const struct top *t, const struct top_row *row)
{
    if (t->c.json) {
        json_t *doc =
            json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "at", t->at, "queue_name", row->name,
                      "partitions", (json_int_t)row->partitions, "ready", (json_int_t)row->ready,
                      "scheduled", (json_int_t)row->scheduled, "leased", (json_int_t)row->leased,
                      "lease_waiting", (json_int_t)row->waiting);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    char oldest[QUEUE_CELL_BYTES];
    queue_age_cell(row->oldest_ns, oldest);
    printf("%s ", t->at);
    out_text(stdout, str_of(row->name));
    printf(" ready=%lld scheduled=%lld leased=%lld waiting=%lld oldest=%s\n", (long long)row->ready,
           (long long)row->scheduled, (long long)row->leased, (long long)row->waiting, oldest);
}

/* False: it was said. A live view goes on when the server was there before: it may come back. */
static bool queue_top_show(struct top *t)
{
    bool fine = look_all(t);
    if (t->live && (fine || t->began)) {
        qsort(t->rows, t->rows_count, sizeof *t->rows, by_urgency);
        show_live(t, fine);
    } else if (!t->live) {
        for (size_t i = 0; i < t->rows_count; i++)
            print_line(t, &t->rows[i]);
    }
    (void)fflush(stdout); /* cli_run looks at the stream */
    bool ends = !fine && !(t->live && t->began);
    if (ends)
        t->failed = queue_fail(t->call, "queue top: ", &t->reply);
    t->began = true;
    return !ends;
}

/* ---- keys ---- */

/* Keys as they are pressed, where we are in front of a terminal. False: there are none. */
static bool keys_begin(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) != 0 || tcgetpgrp(STDIN_FILENO) != getpgrp())
        return false;
    struct termios now = *before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* Waits for the next picture. True: q was pressed. */
static bool wait_or_q(int64_t interval_ms, bool *keys)
{
    if (!stop_wait(*keys ? STDIN_FILENO : -1, (int)interval_ms))
        return false;
    char pressed[64];
    ssize_t n = read(STDIN_FILENO, pressed, sizeof pressed);
    *keys = n > 0;
    return n > 0 &&
           (memchr(pressed, 'q', (size_t)n) != NULL || memchr(pressed, 'Q', (size_t)n) != NULL);
}

static bool watch(struct top *t, int64_t interval_ms, int64_t count, bool keys)
{
    struct sysclock *sysclock = sysclock_new();
    bool fine = true, ends = false;
    for (int64_t i = 0; i < count && fine && !ends && !ferror(stdout); i++) {
        if (i > 0)
            ends = wait_or_q(interval_ms, &keys);
        ends = ends || stop_asked();
        date_format_ms(clock_wall(sysclock_clock(sysclock)).ns, t->at);
        fine = ends || queue_top_show(t);
    }
    sysclock_free(&sysclock);
    return fine;
}

enum cli_exit verb_queue_top(struct cli_call *call)
{
    int64_t interval_ms = 1000, count = INT64_MAX;
    if (!queue_number(call, "interval", 100, 3600000, &interval_ms) ||
        !queue_number(call, "count", 1, INT32_MAX, &count))
        return CLI_USAGE;
    struct top t = { .call = call };
    enum cli_exit code = client_open(&t.c, call);
    if (code != CLI_OK)
        return code;
    struct termios before;
    t.live = out_is_terminal(stdout) && !t.c.json;
    bool keys = t.live && keys_begin(&before);
    if (t.live)
        (void)setvbuf(stdout, NULL, _IOFBF,
                      BUFSIZ * 8); /* a picture at once; without it, it flickers */
    if (keys)
        stop_watch(); /* the terminal is put back first */
    code = watch(&t, interval_ms, count, keys) ? CLI_OK : t.failed;
    if (keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before); /* there is nothing else to do for it */
    queue_top_forget(&t);
    client_close(&t.c);
    signals_end();
    return code;
}
