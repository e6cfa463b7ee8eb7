/* client.c - the program of client.h: its options, its lines, and one request after the other.
 *
 * Options: contact=HOST:PORT (several), dc, remote_dcs, user, password, plain_anywhere, lz4,
 * version, connections, inflight, orphans, waiting, request_bytes, answer_bytes, connect_ms,
 * heartbeat_ms, answer_ms, retry_min_ms, retry_max_ms, refresh_ms, speculate_ms, map=FROM>TO
 * (several), and tls, ca, cert, key, name, unverified. Those without a number or name are =1.
 * Settings of a request: cl, serial (consistencies by their numbers), ts (microseconds, or `now`),
 * page (rows), state (hex), ms (until the deadline), now (seconds), speculative=1, traced=1,
 * background=1. Without: LOCAL_QUORUM, no timestamp, 30 s.
 * INVARIANT: each line that was a request gives one line, also when the client ends. */
#include "client.h"

#include "base/log.h"
#include "loop/sysclock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_MS = 30000, LINE_BYTES_MAX = 64 << 20, READ_BYTES = 64 << 10, MAPPED_MAX = 16 };

/* One request of a line. The line's bytes are kept: text and names are slices of it. */
struct ask {
    struct list link;
    struct client *client;
    char id[ID_BYTES];
    char *line;
    struct cql_request request;
    struct cql_part parts[CQL_PARTS_MAX];
    struct cql_values values[CQL_PARTS_MAX];
    unsigned count;
    struct buf state;
};

/* ---- lines */

char *fields_take(struct fields *f)
{
    return f->next < f->count ? f->at[f->next++] : NULL;
}

int64_t number_of(const char *text)
{
    int64_t n = 0;
    (void)str_to_i64(str_of(text), &n);
    return n;
}

static void fields_cut(struct fields *f, char *line)
{
    *f = (struct fields){ .count = 0 };
    while (line != NULL && f->count < FIELDS_MAX) {
        char *tab = strchr(line, '\t');
        if (tab != NULL)
            *tab++ = '\0';
        f->at[f->count++] = line;
        line = tab;
    }
}

void client_flush(struct client *c)
{
    buf_put_c(&c->out, '\n');
    INVARIANT(buf_status(&c->out) == ERR_OK);
    for (size_t at = 0; at < c->out.n;) {
        ssize_t n = write(1, c->out.p + at, c->out.n - at);
        if (n < 0 && errno != EINTR)
            exit(3); /* nobody listens any more */
        at += n < 0 ? 0 : (size_t)n;
    }
    buf_clear(&c->out);
}

void client_refuse(struct client *c, const char *id, const char *format, ...)
{
    char text[ERR_NOTE_BYTES + 200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_put(&c->out, STR("{\"id\":"));
    say_text(&c->out, str_of(id));
    buf_put(&c->out, STR(",\"refused\":"));
    say_text(&c->out, str_of(text));
    buf_put_c(&c->out, '}');
    client_flush(c);
}

static void client_say_plain(struct client *c, const char *id, const char *rest)
{
    buf_put(&c->out, STR("{\"id\":"));
    say_text(&c->out, str_of(id));
    buf_printf(&c->out, ",%s}", rest);
    client_flush(c);
}

const struct cql_statement *client_statement(struct client *c, const char *name)
{
    for (unsigned i = 0; name != NULL && i < c->statements_count; i++) {
        if (strcmp(c->statements[i].name, name) == 0)
            return c->statements[i].statement;
    }
    return NULL;
}

static const char *or_null(const char *text)
{
    return text == NULL || strcmp(text, "-") == 0 ? NULL : strdup(text);
}

static void client_register(struct client *c, const char *id, struct fields *f)
{
    const char *name = fields_take(f), *flags = fields_take(f);
    const char *takes = fields_take(f), *gives = fields_take(f), *text = fields_take(f);
    if (text == NULL || c->statements_count == STATEMENTS) {
        client_refuse(c, id, "statement NAME FLAGS TAKES GIVES TEXT");
        return;
    }
    struct named *n = &c->statements[c->statements_count];
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    struct err_note note = { .text = "" };
    /* What is registered lives as long as the program. */
    const struct cql_statement_opts opts = { .name = strdup(name),
                                             .text = strdup(text),
                                             .takes = or_null(takes),
                                             .gives = or_null(gives),
                                             .idempotent = strcmp(flags, "idempotent") == 0 };
    n->statement = cql_statement_new(c->cql, &opts, &note);
    if (n->statement == NULL) {
        client_refuse(c, id, "%s", note.text);
        return;
    }
    c->statements_count++;
    client_say_plain(c, id, "\"registered\":true");
}

/* ---- values */

static bool put_hex(struct buf *out, const char *text)
{
    for (; text[0] != '\0'; text += 2) {
        int high = str_hex_digit(text[0]), low = high < 0 ? -1 : str_hex_digit(text[1]);
        if (low < 0)
            return false;
        buf_put_c(out, (char)(high << 4 | low));
    }
    return true;
}

static bool value_put_hex(struct cql_values *v, const char *text, const char *type)
{
    struct buf bytes;
    buf_init(&bytes, LINE_BYTES_MAX);
    bool good = put_hex(&bytes, text) && buf_status(&bytes) == ERR_OK;
    if (good && strcmp(type, "uuid") == 0) {
        good = bytes.n == CQL_UUID_BYTES;
        if (good)
            cql_put_uuid(v, (const unsigned char *)bytes.p);
    } else if (good)
        cql_put_bytes(v, (str){ .p = bytes.n == 0 ? "" : bytes.p, .n = bytes.n });
    buf_fini(&bytes);
    return good;
}

static bool value_put_typed(struct cql_values *v, const char *type, const char *text)
{
    int64_t n = number_of(text);
    struct tid t;
    if (strcmp(type, "text") == 0)
        cql_put_bytes(v, str_of(text));
    else if (strcmp(type, "blob") == 0 || strcmp(type, "uuid") == 0)
        return value_put_hex(v, text, type);
    else if (strcmp(type, "i64") == 0)
        cql_put_i64(v, n);
    else if (strcmp(type, "i32") == 0)
        cql_put_i32(v, (int32_t)n);
    else if (strcmp(type, "i16") == 0)
        cql_put_i16(v, (int16_t)n);
    else if (strcmp(type, "i8") == 0)
        cql_put_i8(v, (int8_t)n);
    else if (strcmp(type, "bool") == 0)
        cql_put_bool(v, n != 0);
    else if (strcmp(type, "double") == 0)
        cql_put_double(v, strtod(text, NULL));
    else if (strcmp(type, "date") == 0)
        cql_put_date(v, (int32_t)n);
    else if (strcmp(type, "tid") == 0 && tid_parse(str_of(text), &t))
        cql_put_tid(v, t);
    else
        return false;
    return true;
}

/* One value, with all that stands in its brackets. close: NULL outside of brackets. */
static bool values_put(struct cql_values *v, struct fields *f, const char *close)
{
    for (char *text = fields_take(f); text != NULL; text = fields_take(f)) {
        if (close == NULL ? strcmp(text, ";") == 0 : strcmp(text, close) == 0)
            return true;
        const char *open = strchr("[{<", text[0]);
        if (text[0] != '\0' && text[1] == '\0' && open != NULL) {
            const char *ends[] = { "]", "}", ">" };
            struct cql_open opened = cql_put_open(v, text[0] != '<');
            if (!values_put(v, f, ends[open - "[{<"]))
                return false;
            cql_put_close(v, opened, text[0] == '{');
            continue;
        }
        char *colon = strchr(text, ':');
        if (strcmp(text, "null") == 0)
            cql_put_null(v);
        else if (strcmp(text, "unset") == 0)
            cql_put_unset(v);
        else if (colon == NULL)
            return false;
        else {
            *colon = '\0';
            if (!value_put_typed(v, text, colon + 1))
                return false;
        }
    }
    return close == NULL;
}

/* ---- requests */

static void ask_free(struct ask *a)
{
    list_remove(&a->link);
    for (unsigned i = 0; i < a->count; i++)
        cql_values_fini(&a->values[i]);
    buf_fini(&a->state);
    free(a->line);
    free(a);
}

static void ask_done(struct cql_request *q)
{
    struct ask *a = CONTAINER_OF(q, struct ask, request);
    struct client *c = a->client;
    say_outcome(&c->out, a->id, q);
    client_flush(c);
    cql_outcome_fini(&q->out);
    ask_free(a);
}

static bool ask_set(struct ask *a, const char *key, const char *text)
{
    struct cql_request *q = &a->request;
    struct clock *clock = a->client->clock;
    int64_t n = number_of(text);
    if (strcmp(key, "cl") == 0)
        q->params.consistency = (enum cql_consistency)n;
    else if (strcmp(key, "serial") == 0)
        q->params.serial = (enum cql_consistency)n;
    else if (strcmp(key, "ts") == 0)
        q->params.timestamp_us = strcmp(text, "now") == 0 ? clock_wall(clock).ns / NS_PER_US : n;
    else if (strcmp(key, "page") == 0)
        q->params.page_rows = (int32_t)n;
    else if (strcmp(key, "now") == 0)
        q->params.now_s = (int32_t)n;
    else if (strcmp(key, "ms") == 0)
        q->deadline = mono_add_ms(clock_mono(clock), n);
    else if (strcmp(key, "speculative") == 0)
        q->speculative = n != 0;
    else if (strcmp(key, "traced") == 0)
        q->traced = n != 0;
    else if (strcmp(key, "background") == 0)
        q->class = n != 0 ? CQL_BACKGROUND : CQL_FOREGROUND;
    else if (strcmp(key, "state") == 0)
        return put_hex(&a->state, text);
    else
        return false;
    return true;
}

static bool ask_settings(struct ask *a, char *settings)
{
    struct cql_request *q = &a->request;
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    q->deadline = mono_add_ms(clock_mono(a->client->clock), DEADLINE_MS);
    while (settings != NULL && strcmp(settings, "-") != 0) {
        char *next = strchr(settings, ','), *value = strchr(settings, '=');
        if (next != NULL)
            *next++ = '\0';
        if (value == NULL)
            return false;
        *value = '\0';
        if (!ask_set(a, settings, value + 1))
            return false;
        settings = next;
    }
    q->params.page_state = buf_str(&a->state);
    return settings != NULL || a->state.n > 0 || true;
}

static bool ask_parts(struct ask *a, struct fields *f, unsigned parts_max)
{
    while (f->next < f->count && a->count < parts_max) {
        struct cql_values *v = &a->values[a->count];
        struct cql_part *part = &a->parts[a->count++];
        cql_values_init(v, LINE_BYTES_MAX);
        part->statement = client_statement(a->client, fields_take(f));
        part->values = v;
        if (part->statement == NULL || !values_put(v, f, NULL))
            return false;
    }
    a->request.parts = a->parts;
    a->request.parts_count = a->count;
    return f->next == f->count;
}

static bool ask_read(struct ask *a, const char *verb, struct fields *f)
{
    struct cql_request *q = &a->request;
    if (!ask_settings(a, fields_take(f)))
        return false;
    if (strcmp(verb, "run") == 0) {
        q->way = CQL_WAY_EXECUTE;
        return ask_parts(a, f, 1);
    }
    char *word = fields_take(f);
    if (word == NULL)
        return false;
    if (strcmp(verb, "text") == 0) {
        q->way = CQL_WAY_TEXT;
        q->text = str_of(word);
        cql_values_init(&a->values[0], LINE_BYTES_MAX);
        a->count = 1;
        bool any = f->next < f->count;
        q->values = any ? &a->values[0] : NULL;
        return values_put(&a->values[0], f, NULL);
    }
    q->way = CQL_WAY_BATCH;
    q->batch = strcmp(word, "logged") == 0     ? CQL_LOGGED
               : strcmp(word, "counters") == 0 ? CQL_COUNTERS
                                               : CQL_UNLOGGED;
    return ask_parts(a, f, CQL_PARTS_MAX);
}

static void client_ask(struct client *c, const char *id, const char *verb, struct fields *f,
                       char *line)
{
    struct ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    list_init(&a->link);
    a->client = c;
    a->line = line;
    (void)snprintf(a->id, sizeof a->id, "%s", id);
    buf_init(&a->state, 4096);
    if (!ask_read(a, verb, f)) {
        client_refuse(c, id, "%s: field %u makes no sense", verb, f->next);
        ask_free(a);
        return;
    }
    a->request.done = ask_done;
    list_append(&c->asked, &a->link);
    cql_start(c->cql, &a->request);
}

static void client_cancel(struct client *c, const char *id)
{
    for (struct list *l = c->asked.next; l != &c->asked; l = l->next) {
        struct ask *a = CONTAINER_OF(l, struct ask, link);
        if (strcmp(a->id, id) == 0)
            cql_cancel(&a->request);
    }
}

struct agree {
    struct client *client;
    char id[ID_BYTES];
};
static void agreed(void *ctx, err why)
{
    struct agree *a = ctx;
    char text[64];
    (void)snprintf(text, sizeof text, "\"why\":\"%s\"", err_name(why));
    client_say_plain(a->client, a->id, text);
    free(a);
}

/* ---- the program */

static void client_stopped(void *ctx)
{
    struct client *c = ctx;
    client_say_plain(c, "", "\"stopped\":true");
    cql_free(&c->cql);
    loop_watch_free(&c->input);
    loop_stop(c->loop);
}

static void client_end(struct client *c, int64_t ms)
{
    if (c->ending)
        return;
    c->ending = true;
    loop_watch_stop(c->input);
    cql_stop(c->cql, mono_add_ms(clock_mono(c->clock), ms), client_stopped, c);
}

/* Takes the line: it is freed here, or by the request. */
static void client_line(struct client *c, char *line)
{
    static struct fields f;
    fields_cut(&f, line);
    const char *id = fields_take(&f), *verb = fields_take(&f);
    if (verb == NULL) {
        client_refuse(c, id, "no verb");
    } else if (strcmp(verb, "run") == 0 || strcmp(verb, "batch") == 0 ||
               strcmp(verb, "text") == 0) {
        client_ask(c, id, verb, &f, line);
        return;
    } else if (strcmp(verb, "statement") == 0) {
        client_register(c, id, &f);
    } else if (strcmp(verb, "cancel") == 0 && f.count == 3) {
        client_cancel(c, f.at[2]);
    } else if (strcmp(verb, "agree") == 0 && f.count == 3) {
        struct agree *a = calloc(1, sizeof *a);
        INVARIANT(a != NULL);
        a->client = c;
        (void)snprintf(a->id, sizeof a->id, "%s", id);
        cql_agree(c->cql, mono_add_ms(clock_mono(c->clock), number_of(f.at[2])), agreed, a);
    } else if (strcmp(verb, "stats") == 0) {
        say_stats(&c->out, id, c->cql);
        client_flush(c);
    } else if (strcmp(verb, "nodes") == 0) {
        say_nodes(&c->out, id, c->cql);
        client_flush(c);
    } else if (strcmp(verb, "load") == 0) {
        load_begin(c, id, &f);
    } else if (strcmp(verb, "look") == 0) {
        load_look(c, id);
    } else if (strcmp(verb, "finish") == 0) {
        load_finish(c);
    } else if (strcmp(verb, "stop") == 0 && f.count == 3) {
        client_end(c, number_of(f.at[2]));
    } else {
        client_refuse(c, id, "%s: no such verb, or another number of fields", verb);
    }
    free(line);
}

static void client_readable(void *ctx, unsigned events)
{
    struct client *c = ctx;
    (void)events; /* gone: read says it */
    char *at = buf_extend(&c->in, READ_BYTES);
    INVARIANT(at != NULL);
    ssize_t n = read(0, at, READ_BYTES);
    c->in.n -= READ_BYTES - (n > 0 ? (size_t)n : 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        client_end(c, 0);
        return;
    }
    size_t begun = 0;
    for (char *end; (end = memchr(c->in.p + begun, '\n', c->in.n - begun)) != NULL;) {
        size_t size = (size_t)(end - c->in.p) - begun;
        char *line = strndup(c->in.p + begun, size);
        begun += size + 1;
        client_line(c, line);
        if (c->ending)
            break;
    }
    memmove(c->in.p, c->in.p + begun, c->in.n - begun);
    c->in.n -= begun;
}

static void client_ready(void *ctx, bool ready)
{
    client_say_plain(ctx, "", ready ? "\"ready\":true" : "\"ready\":false");
}

static void client_schema(void *ctx, str target, str keyspace, str name)
{
    struct client *c = ctx;
    buf_put(&c->out, STR("{\"id\":\"\",\"schema\":["));
    say_text(&c->out, target);
    buf_put_c(&c->out, ',');
    say_text(&c->out, keyspace);
    buf_put_c(&c->out, ',');
    say_text(&c->out, name);
    buf_put(&c->out, STR("]}"));
    client_flush(c);
}

static struct cql_mapped mapped[MAPPED_MAX];

struct option {
    const char *name;
    unsigned *count;
    int64_t *ms;
    size_t *bytes;
    bool *on;
    const char **text;
};

static bool option_set(struct cql_opts *o, struct cql_tls_opts *tls, bool *with_tls,
                       const char *key, char *value)
{
    const struct option options[] = {
        { "dc", .text = &o->local_dc },
        { "user", .text = &o->user },
        { "password", .text = &o->password },
        { "ca", .text = &tls->ca_path },
        { "cert", .text = &tls->cert_path },
        { "key", .text = &tls->key_path },
        { "name", .text = &tls->name },
        { "tls", .on = with_tls },
        { "unverified", .on = &tls->unverified },
        { "remote_dcs", .on = &o->remote_dcs },
        { "plain_anywhere", .on = &o->plain_anywhere },
        { "lz4", .on = &o->lz4 },
        { "version", .count = &o->version_max },
        { "connections", .count = &o->connections },
        { "inflight", .count = &o->inflight_max },
        { "orphans", .count = &o->orphans_max },
        { "waiting", .count = &o->waiting_max },
        { "request_bytes", .bytes = &o->request_bytes_max },
        { "answer_bytes", .bytes = &o->answer_bytes_max },
        { "connect_ms", .ms = &o->connect_timeout_ms },
        { "heartbeat_ms", .ms = &o->heartbeat_ms },
        { "answer_ms", .ms = &o->answer_timeout_ms },
        { "retry_min_ms", .ms = &o->retry_min_ms },
        { "retry_max_ms", .ms = &o->retry_max_ms },
        { "refresh_ms", .ms = &o->refresh_ms },
        { "speculate_ms", .ms = &o->speculate_min_ms },
    };
    char *to = strchr(value, '>');
    if (strcmp(key, "contact") == 0 && o->contact_points_count < CQL_CONTACT_POINTS_MAX) {
        o->contact_points[o->contact_points_count++] = value;
        return true;
    }
    if (strcmp(key, "map") == 0 && to != NULL && o->mapped_count < MAPPED_MAX) {
        *to = '\0';
        mapped[o->mapped_count++] = (struct cql_mapped){ .from = value, .to = to + 1 };
        o->mapped = mapped;
        return true;
    }
    for (const struct option *p = options; p < options + COUNT_OF(options); p++) {
        if (strcmp(key, p->name) != 0)
            continue;
        if (p->text != NULL)
            *p->text = value;
        if (p->on != NULL)
            *p->on = strcmp(value, "0") != 0;
        if (p->count != NULL)
            *p->count = (unsigned)number_of(value);
        if (p->bytes != NULL)
            *p->bytes = (size_t)number_of(value);
        if (p->ms != NULL)
            *p->ms = number_of(value);
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static struct client c;
    struct err_note note = { .text = "" };
    struct sysclock *time = sysclock_new();
    c.loop = loop_new(2);
    c.clock = sysclock_clock(time);
    list_init(&c.asked);
    buf_init(&c.in, LINE_BYTES_MAX);
    buf_init(&c.out, (size_t)LINE_BYTES_MAX * 4);
    struct log *log = log_new(2, LOG_INFO, LOG_TEXT, c.clock);
    struct cql_opts opts = { .loop = c.loop,
                             .clock = c.clock,
                             .log = log,
                             .seed = (uint64_t)getpid(),
                             .ready = client_ready,
                             .schema = client_schema,
                             .ctx = &c };
    struct cql_tls_opts tls = { .ca_path = NULL };
    bool with_tls = false;
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value == NULL)
            return 2;
        *value++ = '\0';
        if (!option_set(&opts, &tls, &with_tls, argv[i], value)) {
            fprintf(stderr, "client: no option %s\n", argv[i]);
            return 2;
        }
    }
    if (with_tls && (opts.tls = cql_tls_new(&tls, &note)) == NULL) {
        client_refuse(&c, "", "%s", note.text);
        return 1;
    }
    c.cql = cql_new(&opts, &note);
    if (c.cql == NULL) {
        client_refuse(&c, "", "%s", note.text);
        return 1;
    }
    INVARIANT(fcntl(0, F_SETFL, O_NONBLOCK) == 0);
    c.input = loop_watch_new(c.loop, 0, client_readable, &c);
    loop_watch_start(c.input, LOOP_READABLE);
    loop_run(c.loop);
    loop_free(&c.loop);
    INVARIANT(list_empty(&c.asked));
    cql_tls_free(&opts.tls);
    buf_fini(&c.in);
    buf_fini(&c.out);
    log_free(&log);
    sysclock_free(&time);
    return 0;
}
