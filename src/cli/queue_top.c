/* queue_top.c - palimpsest queue top: all queues, live. On a terminal a table in place, the troubled and the fullest
 * first, as many as fit; else a line for each queue each time. */
#include "base/date.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"
#include "loop/sysclock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { QUEUES_SHOWN_MAX = 1000, LINES_AROUND = 5 /* head, blank, titles, how many more, the cursor's */ };

struct top_row {
    const char *name;          /* borrowed from the names */
    int64_t partitions, ready, scheduled, leased, waiting, oldest_ns;
    bool ill;
};
struct top {
    struct client c;
    const struct cli_call *call;
    bool live, began;          /* a first picture was shown */
    char at[DATE_RFC3339_BYTES + 1];
    json_t *names;             /* of this picture */
    struct top_row *rows;
    size_t rows_count;
    struct queue_reply reply;  /* why there are none */
    enum cli_exit failed;
};

/* ---- looking ---- */

static json_t *names_of(struct top *t)
{
    json_t *names = json_array(), *body = json_object(), *page, *q;
    for (unsigned i = 0; i < t->call->operands_count; i++)
        (void)json_array_append_new(names, json_string(t->call->operands[i])); /* dies with its document */
    if (t->call->operands_count > 0) {
        json_decref(body);
        return names;
    }
    INVARIANT(json_object_set_new(body, "limit", json_integer(QUEUES_SHOWN_MAX)) == 0);
    queue_set(body, "namespace", cli_value(t->call, "namespace"));
    page = queue_post(&t->c, "queues.list", body, NULL, &t->reply);
    size_t i;
    json_array_foreach(json_object_get(page, "items"), i, q)
        (void)json_array_append(names, json_object_get(q, "queue_name")); /* as above */
    if (page == NULL)
        json_decref(names);
    json_decref(page);
    return page != NULL ? names : NULL;
}

static void add_counts(struct top_row *row, const json_t *state, const json_t *stats)
{
    json_t *p, *logical;
    size_t i;
    json_array_foreach(json_object_get(state, "partitions"), i, p) {
        int64_t oldest_ns = queue_age_ns(p, "oldest_age");
        row->partitions++;
        row->ready += queue_count(p, "ready");
        row->scheduled += queue_count(p, "scheduled");
        row->leased += queue_count(p, "leased");
        row->ill = row->ill || strcmp(queue_text(p, "state"), "available") != 0;
        row->oldest_ns = oldest_ns > row->oldest_ns ? oldest_ns : row->oldest_ns;
    }
    json_array_foreach(json_object_get(stats, "logicalQueues"), i, logical)
        row->waiting += queue_count(logical, "lease_waiting");
}

/* True: there is a row more, or the queue has gone since it was listed. */
static bool look(struct top *t, const char *name)
{
    json_t *state = queue_post(&t->c, "partitions.list", queue_named(name), NULL, &t->reply);
    json_t *stats = state != NULL ? queue_post(&t->c, "queue.stats", queue_named(name), NULL, &t->reply) : NULL;
    bool gone = stats == NULL && t->reply.status == 400 && (t->began || t->call->operands_count == 0);
    if (stats != NULL) {
        struct top_row *row = &t->rows[t->rows_count++];
        *row = (struct top_row){ .name = name };
        add_counts(row, state, stats);
    }
    json_decref(state);
    json_decref(stats);
    return stats != NULL || gone;
}

static void forget(struct top *t)
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
    forget(t);
    t->names = names_of(t);
    fine = t->names != NULL;
    t->rows = calloc(json_array_size(t->names) + 1, sizeof *t->rows);
    INVARIANT(t->rows != NULL);
    json_array_foreach(t->names, i, name)
        fine = fine && look(t, json_string_value(name));
    return fine;
}

/* ---- showing ---- */

static int by_urgency(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    int64_t held_x = x->ready + x->leased + x->scheduled, held_y = y->ready + y->leased + y->scheduled;
    if (x->ill != y->ill)
        return x->ill ? -1 : 1;
    if (held_x != held_y)
        return held_x > held_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_row(struct out_table *table, const struct top_row *row)
{
    const int64_t numbers[] = { row->partitions, row->ready, row->scheduled, row->leased, row->waiting };
    char cells[COUNT_OF(numbers)][QUEUE_CELL_BYTES], oldest[QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        queue_number_cell(numbers[i], cells[i]);
    queue_age_cell(row->oldest_ns, oldest);
    out_table_row(table, (const str[]){ str_of(row->name), str_of(cells[0]), str_of(cells[1]), str_of(cells[2]),
                                        str_of(cells[3]), str_of(cells[4]), str_of(oldest) },
                  row->ill ? "33" : row->ready == 0 && row->leased == 0 ? "2" : NULL);
}

/* Rows of a picture that fit on the terminal. */
static size_t room(void)
{
    struct winsize size = { .ws_row = 0 };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
        return QUEUES_SHOWN_MAX;
    return size.ws_row > LINES_AROUND ? (size_t)(size.ws_row - LINES_AROUND) : 1;
}

static void print_table(const struct top *t)
{
    static const struct out_column columns[] = {
        { "QUEUE", false }, { "PARTITIONS", true }, { "READY", true }, { "SCHEDULED", true }, { "LEASED", true },
        { "WAITING", true }, { "OLDEST", true },
    };
    struct out_table *table = out_table_new(stdout, columns, COUNT_OF(columns));
    size_t fit = room(), shown = t->rows_count < fit ? t->rows_count : fit;
    for (size_t i = 0; i < shown; i++)
        add_row(table, &t->rows[i]);
    out_table_end(&table);
    if (shown < t->rows_count)
        printf("and %zu more\n", t->rows_count - shown);
}

/* Over the picture before; lines longer than the terminal are cut. */
static void show_live(const struct top *t, bool fine)
{
    fputs("\033[?7l\033[H\033[2J", stdout);
    printf("%s  ", t->at);
    out_text(stdout, str_of(t->c.server));
    fputs("\n\n", stdout);
    if (fine) {
        print_table(t);
    } else {
        out_text(stdout, str_of(t->reply.note.text));
        putchar('\n');
    }
    fputs("\033[?7h", stdout);
}

static void print_line(const struct top *t, const struct top_row *row)
{
    if (t->c.json) {
        json_t *doc = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "at", t->at, "queue_name", row->name,
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
static bool show(struct top *t)
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
    struct sysclock *sysclock = sysclock_new();
    bool fine = true;
    t.live = out_is_terminal(stdout) && !t.c.json;
    if (t.live)
        (void)setvbuf(stdout, NULL, _IOFBF, BUFSIZ * 8); /* a picture at once; without it, it flickers */
    for (int64_t i = 0; i < count && fine && !ferror(stdout); i++) {
        if (i > 0)
            (void)poll(NULL, 0, (int)interval_ms); /* cut short by a signal: no harm */
        date_format_ms(clock_wall(sysclock_clock(sysclock)).ns, t.at);
        fine = show(&t);
    }
    forget(&t);
    sysclock_free(&sysclock);
    client_close(&t.c);
    return fine ? CLI_OK : t.failed;
}
