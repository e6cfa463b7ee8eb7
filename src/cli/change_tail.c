/* change_tail.c - palimpsest change tail: follows the events of a server, a line each.
 *
 * Model. One request at a time, whose answer has no end. When it is cut, the next one goes on
 * behind the last event that was printed: none is printed twice, and what the server does not have
 * any more it tells as a gap. The first request may fail, and the verb with it. After that the
 * server has been there: it is asked again, less and less often, until it refuses. What is printed
 * is flushed at once. A pipe that nobody reads any more ends the verb as a write to it would, also
 * while there are no events. */
#include "cli/change_event.h"
#include "cli/client.h"
#include "cli/out.h"
#include "cli/sse.h"
#include "cli/stop.h"
#include "cli/verbs.h"

#include "base/units.h"
#include "codec/json.h"
#include "event/position.h"
#include "loop/signals.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TAIL_STALL_S = 60,  /* the server says something every 15 s */
    TAIL_LOOK_MS = 500, /* at the pipe that is written to */
    TAIL_BACKOFF_MS_MIN = 250,
    TAIL_BACKOFF_MS_MAX = 15000,
    TAIL_RETRY_S_MAX = 60, /* of what a server wants to be waited for */
    TAIL_PATH_BYTES_MAX = 12 << 10,
    TAIL_EVENT_BYTES_MAX = 64 << 20, /* of an event's fields */
};

struct tail {
    struct client c;
    struct sse sse;
    struct buf path;
    char resume[sizeof "Last-Event-ID: " + SSE_NAME_BYTES_MAX];
    struct change_columns columns;
    struct arena arena;
    struct client_call call;
    err why; /* of the call */
    bool done;
    bool is_stream;  /* this answer is one */
    bool is_foreign; /* it is another page */
    bool was_there;  /* some answer was one */
    bool is_large;   /* an event is larger than any that a server takes */
    bool pipe;       /* stdout is one */
    bool told;       /* that it was cut, and not yet that it goes on */
    int64_t backoff_ms;
};

/* ---- what arrives ---- */

static void tail_gap(const struct tail *t, const struct sse_event *e)
{
    json_t *gap = json_body_read(e->data);
    const char *from = json_body_word(json_object_get(gap, "from"));
    const char *until = json_body_word(json_object_get(gap, "until"));
    if (t->c.json) {
        struct event_position p;
        size_t n = event_position_parse(e->id, &p) ? e->id.n : 0; /* else it may be anything */
        json_t *doc = json_pack("{s:s%, s:O?}", "position", e->id.p, n, "gap", gap);
        out_json(stdout, doc);
        json_decref(doc);
    } else {
        cli_warn(t->c.call, "the server has removed events that it took from %s to %s",
                 from != NULL ? from : "?", until != NULL ? until : "?");
    }
    json_decref(gap);
}

/* The event as it came. */
static void tail_json(const struct sse_event *e, const struct change_event *shown)
{
    if (shown->at[0] == '\0')
        printf("{\"position\":null,\"at\":null,\"event\":");
    else
        printf("{\"position\":\"%.*s\",\"at\":\"%s\",\"event\":", STR_ARG(e->id), shown->at);
    change_json_print(stdout, e->data);
    fputs("}\n", stdout);
}

static bool tail_event(void *ctx, const struct sse_event *e)
{
    struct tail *t = ctx;
    struct change_event shown;
    t->backoff_ms = TAIL_BACKOFF_MS_MIN;
    if (str_eq(e->name, STR("gap"))) {
        tail_gap(t, e);
    } else if (change_event_read(&t->arena, e->id, e->data, &shown) != ERR_OK) {
        cli_warn(t->c.call, "what came at %.*s is no event", STR_ARG(e->id));
    } else if (t->c.json) {
        tail_json(e, &shown);
    } else {
        if (str_starts(e->note, STR("domain "))) /* as rules see it */
            shown.domain = str_skip(e->note, sizeof "domain");
        change_event_print(stdout, &t->columns, &shown);
    }
    arena_reset(&t->arena);
    return !ferror(stdout);
}

static bool tail_take(struct client_call *call, str piece)
{
    struct tail *t = call->ctx;
    str type = str_of(call->answer.content_type);
    t->is_stream = str_eq(str_trim(str_split(&type, ';')), STR("text/event-stream"));
    t->is_foreign = !t->is_stream;
    if (t->is_foreign)
        return false;
    if (t->told)
        cli_warn(t->c.call, "the stream goes on");
    t->told = false;
    t->was_there = true;
    err why = sse_feed(&t->sse, piece, tail_event, t);
    t->is_large = why == ERR_LIMIT;
    return why == ERR_OK && fflush(stdout) == 0;
}

static void tail_done(struct client_call *call, err why)
{
    struct tail *t = call->ctx;
    t->why = why;
    t->done = true;
}

/* ---- asking ---- */

/* Nobody reads what is printed. */
static bool is_unread(const struct tail *t)
{
    struct pollfd out = { .fd = STDOUT_FILENO };
    return t->pipe && poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

static bool tail_ends(const struct tail *t)
{
    return stop_asked() || ferror(stdout) || is_unread(t);
}

/* One request, until it is over. */
static void tail_ask(struct tail *t)
{
    bool canceled = false;
    (void)snprintf(t->resume, sizeof t->resume, "Last-Event-ID: %s", t->sse.id); /* fits */
    t->call = (struct client_call){ .request = { .method = "GET",
                                                 .path = client_path(&t->path),
                                                 .header = "Accept: text/event-stream",
                                                 .header_more = t->sse.id[0] ? t->resume : NULL,
                                                 .take = tail_take,
                                                 .stall_timeout_s = TAIL_STALL_S },
                                    .done = tail_done,
                                    .ctx = t };
    t->done = t->is_stream = t->is_foreign = false;
    sse_restart(&t->sse);
    t->why = client_call_start(&t->c, &t->call);
    t->done = t->why != ERR_OK;
    while (!t->done) {
        client_turn(&t->c, TAIL_LOOK_MS);
        if (!t->done && !canceled && tail_ends(t)) {
            client_call_cancel(&t->call);
            canceled = true;
        }
    }
}

/* What may be over soon: nobody answers, or says so. */
static bool is_passing(const struct tail *t)
{
    int status = t->call.answer.status;
    if (t->why == ERR_LIMIT || t->is_large || t->is_foreign)
        return false;
    if (t->why != ERR_OK || t->is_stream)
        return true;
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static enum cli_exit tail_fail(const struct tail *t)
{
    const struct client_answer *a = &t->call.answer;
    struct err_note note = t->call.note;
    if (t->is_large)
        return cli_fail(t->c.call, CLI_FAILED, "change tail: an event of more than %d bytes",
                        SSE_BYTES_MAX);
    bool answered = t->why == ERR_OK || t->is_foreign;
    enum cli_exit code = answered ? client_explain(&t->c, a, &note) : cli_exit_of(t->why);
    return cli_fail_status(t->c.call, code, answered ? a->status : 0, note.text);
}

/* Waits before the server is asked again. */
static void tail_rest(struct tail *t)
{
    uint64_t retry_s = 0;
    if (str_to_u64(str_of(t->call.answer.retry_after), &retry_s) && retry_s > TAIL_RETRY_S_MAX)
        retry_s = TAIL_RETRY_S_MAX;
    int64_t wait_ms = (int64_t)retry_s * 1000;
    if (wait_ms < t->backoff_ms)
        wait_ms = t->backoff_ms;
    if (!t->told)
        cli_warn(t->c.call, "the stream was cut: %s",
                 t->call.note.text[0] ? t->call.note.text : "the server ended it");
    t->told = true;
    t->backoff_ms =
        2 * t->backoff_ms < TAIL_BACKOFF_MS_MAX ? 2 * t->backoff_ms : TAIL_BACKOFF_MS_MAX;
    (void)stop_wait(t->pipe ? STDOUT_FILENO : -1, (int)wait_ms);
}

static enum cli_exit tail_follow(struct tail *t)
{
    while (true) {
        tail_ask(t);
        bool ends = tail_ends(t), goes_on = !ends && t->was_there && is_passing(t);
        enum cli_exit code = ends || goes_on ? CLI_OK : tail_fail(t);
        if (goes_on)
            tail_rest(t);
        client_answer_fini(&t->call.answer);
        if (!goes_on || tail_ends(t))
            return code;
    }
}

/* ---- the verb ---- */

static bool tail_path(struct buf *b, const struct cli_call *call)
{
    const char *domain = cli_value(call, "domain"), *since = cli_value(call, "since");
    char before = '?';
    buf_put(b, STR("/v1/stream"));
    for (unsigned i = 0, n = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].option->name, "stream") != 0)
            continue;
        buf_put(b, n++ == 0 ? STR("?stream=") : STR(","));
        client_path_text(b, str_of(call->given[i].value));
        before = '&';
    }
    if (domain != NULL) {
        buf_printf(b, "%cdomain=", before);
        client_path_text(b, str_of(domain));
        before = '&';
    }
    if (since != NULL) {
        buf_printf(b, "%csince=", before);
        client_path_text(b, str_of(since));
    }
    return buf_status(b) == ERR_OK;
}

static enum cli_exit check_since(const struct cli_call *call)
{
    const char *since = cli_value(call, "since");
    int64_t ns;
    if (since == NULL || date_parse_any(str_of(since), &ns) ||
        units_parse_duration(str_of(since), &ns))
        return CLI_OK;
    return cli_fail(call, CLI_USAGE,
                    "change tail: --since is " DATE_WANTED ", or a duration such as 2h, not \"%s\"",
                    since);
}

enum cli_exit verb_change_tail(struct cli_call *call)
{
    struct stat out;
    struct tail t = { .backoff_ms = TAIL_BACKOFF_MS_MIN };
    enum cli_exit code = check_since(call);
    if (code == CLI_OK)
        code = client_open(&t.c, call);
    if (code != CLI_OK)
        return code;
    t.pipe = fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode);
    t.columns.aligned = out_is_terminal(stdout);
    arena_init(&t.arena, TAIL_EVENT_BYTES_MAX);
    buf_init(&t.path, TAIL_PATH_BYTES_MAX);
    sse_init(&t.sse);
    stop_watch();
    if (tail_path(&t.path, call))
        code = tail_follow(&t);
    else
        code =
            cli_fail(call, CLI_USAGE, "change tail: --stream, --domain and --since are too long");
    client_close(&t.c);
    sse_fini(&t.sse);
    buf_fini(&t.path);
    arena_fini(&t.arena);
    signals_end();
    if (is_unread(&t))
        (void)raise(SIGPIPE); /* as a write would */
    return code;
}
