/* restbase.c - where `import restbase` reads from: options, connection, tables, walk.
 *
 * Everything runs on the loop of the client of HTTP: waiting for a node is waiting for answers too.
 */
#include "cli/restbase.h"

#include "cli/stop.h"
#include "loop/loop.h"
#include "page/content.h"

#include <stdlib.h>
#include <string.h>

enum { READY_MS = 15000, STOP_MS = 1000, TURN_MS = 1000 };

/* ---- options ---- */

/* The parts of a list with commas, in place; empty ones are passed over. False: there are more. */
static bool list_split(char *text, char **out, unsigned max, unsigned *count)
{
    char *rest = text, *word;
    *count = 0;
    while ((word = strsep(&rest, ",")) != NULL) {
        word += strspn(word, " ");
        word[strcspn(word, " ")] = '\0';
        if (word[0] == '\0')
            continue;
        if (*count == max)
            return false;
        out[(*count)++] = word;
    }
    return true;
}

static enum cli_exit points_read(struct source *s)
{
    const char *given = cli_value(s->call, "contact-points");
    char *words[CQL_CONTACT_POINTS_MAX];
    unsigned count = 0;
    if (given == NULL)
        return cli_fail(s->call, CLI_USAGE, "import restbase wants --contact-points HOST:PORT,...");
    s->points = strdup(given);
    INVARIANT(s->points != NULL);
    if (!list_split(s->points, words, CQL_CONTACT_POINTS_MAX, &count) || count == 0)
        return cli_fail(s->call, CLI_USAGE, "--contact-points wants 1 to %d nodes, as in HOST:PORT",
                        CQL_CONTACT_POINTS_MAX);
    for (unsigned i = 0; i < count; i++)
        s->opts.contact_points[i] = words[i];
    s->opts.contact_points_count = count;
    return CLI_OK;
}

/* CONTENT=KEYSPACE, or KEYSPACE. */
static bool given_read(const char *word, struct source_given *out)
{
    const char *equals = strchr(word, '=');
    str content = equals == NULL ? STR_NONE : (str){ .p = word, .n = (size_t)(equals - word) };
    str keyspace = str_of(equals == NULL ? word : equals + 1);
    *out = (struct source_given){ .content = "" };
    return str_to_cstr(content, out->content, sizeof out->content) &&
           (equals == NULL || page_content_is_fine(content)) && keyspace.n > 0 &&
           str_to_cstr(keyspace, out->keyspace, sizeof out->keyspace);
}

static enum cli_exit keyspaces_read(struct source *s)
{
    const char *given = cli_value(s->call, "keyspace");
    char *words[RESTBASE_TABLES_MAX];
    if (given == NULL)
        return CLI_OK;
    s->keyspaces = strdup(given);
    INVARIANT(s->keyspaces != NULL);
    if (!list_split(s->keyspaces, words, RESTBASE_TABLES_MAX, &s->given_count) ||
        s->given_count == 0)
        return cli_fail(s->call, CLI_USAGE,
                        "--keyspace wants 1 to %d keyspaces, with commas between",
                        RESTBASE_TABLES_MAX);
    for (unsigned i = 0; i < s->given_count; i++)
        if (!given_read(words[i], &s->given[i]))
            return cli_fail(s->call, CLI_USAGE,
                            "--keyspace wants KEYSPACE or CONTENT=KEYSPACE, not \"%s\"", words[i]);
    return CLI_OK;
}

static enum cli_exit security_read(struct source *s)
{
    const char *ca = cli_value(s->call, "cassandra-ca");
    s->opts.user = cli_value(s->call, "cassandra-user");
    s->opts.password = s->opts.user == NULL ? NULL : getenv("PALIMPSEST_CASSANDRA_PASSWORD");
    if (s->opts.user != NULL && s->opts.password == NULL)
        return cli_fail(s->call, CLI_USAGE,
                        "--cassandra-user wants its password in $PALIMPSEST_CASSANDRA_PASSWORD");
    struct err_note note;
    s->tls = ca == NULL ? NULL : cql_tls_new(&(struct cql_tls_opts){ .ca_path = ca }, &note);
    if (ca != NULL && s->tls == NULL)
        return cli_fail(s->call, CLI_USAGE, "--cassandra-ca: %s", note.text);
    s->opts.tls = s->tls;
    return CLI_OK;
}

enum cli_exit source_options(struct source *s, const struct cli_call *call)
{
    *s = (struct source){ .call = call };
    s->domain = cli_value(call, "source-domain");
    s->opts.local_dc = cli_value(call, "local-dc");
    enum cli_exit code = points_read(s);
    if (code == CLI_OK && s->opts.local_dc == NULL)
        code = cli_fail(call, CLI_USAGE,
                        "import restbase wants --local-dc, the data centre whose nodes are asked");
    if (code == CLI_OK)
        code = keyspaces_read(s);
    return code == CLI_OK ? security_read(s) : code;
}

/* ---- waiting ---- */

static void wake(struct source *s)
{
    s->changed = true;
    loop_stop(s->client->loop);
}

static void on_ready(void *ctx, bool ready)
{
    struct source *s = ctx;
    s->ready = ready;
    wake(s);
}

static void on_found(struct restbase_find *f)
{
    struct source *s = f->ctx;
    s->found = true;
    wake(s);
}

static void on_stopped(void *ctx)
{
    struct source *s = ctx;
    s->stopped = true;
    wake(s);
}

static void on_changed(void *ctx)
{
    wake(ctx);
}

/* Until *done, or the deadline, or stop_asked. */
static void await(struct source *s, const bool *done, int64_t timeout_ms)
{
    mono until = mono_add_ms(clock_mono(s->clock), timeout_ms);
    while (!*done && !stop_asked() && clock_mono(s->clock).ns < until.ns)
        client_turn(s->client, TURN_MS);
}

static void pause_ms(struct source *s, int64_t ms)
{
    const bool never = false;
    await(s, &never, ms);
}

/* ---- tables ---- */

/* What stands before the dot of the names of a bucket's tables, and the keyspaces' group. */
static str bucket_of(const struct restbase_table *t)
{
    return str_take(str_of(t->table), str_find(str_of(t->table), '.'));
}

static str group_of(const struct restbase_table *t)
{
    str name = str_of(t->keyspace);
    return str_take(name, str_find_str(name, STR("_T_")));
}

static err tables_unclear(struct source *s, struct err_note *note)
{
    struct buf list;
    buf_init(&list, ERR_NOTE_BYTES);
    for (unsigned i = 0; i < s->find.count; i++)
        buf_printf(&list, "%s%s", i == 0 ? "" : ", ", s->find.tables[i].keyspace);
    err_note_set(note, "say which by --keyspace; there are %.*s%s", STR_ARG(buf_str(&list)),
                 s->find.more || buf_status(&list) != ERR_OK ? " and more" : "");
    buf_fini(&list);
    return ERR_CONFLICT;
}

/* All that were found, when they are of one bucket; html first. */
static err tables_guess(struct source *s, struct err_note *note)
{
    const struct restbase_table *found = s->find.tables;
    if (s->find.count == 0) {
        err_note_set(note, "no keyspace there has renders of RESTBase's: none has a row of meta "
                           "whose schema has key, rev, tid and value");
        return ERR_NOT_FOUND;
    }
    if (s->find.count > RESTBASE_TABLES_MAX || s->find.more)
        return tables_unclear(s, note);
    for (unsigned i = 0; i < s->find.count; i++) {
        if (!str_eq(bucket_of(&found[i]), bucket_of(&found[0])) ||
            !str_eq(group_of(&found[i]), group_of(&found[0])))
            return tables_unclear(s, note);
        unsigned at = s->tables_count++;
        for (; at > 0 && strcmp(found[i].content, "html") == 0; at--)
            s->tables[at] = s->tables[at - 1];
        s->tables[at] = found[i];
    }
    return ERR_OK;
}

static err tables_choose(struct source *s, struct err_note *note)
{
    err why = ERR_OK;
    if (s->given_count == 0)
        why = tables_guess(s, note);
    for (unsigned i = 0; i < s->given_count; i++) { /* the find gave them in this order */
        s->tables[s->tables_count] = s->find.tables[i];
        if (s->given[i].content[0] != '\0')
            memcpy(s->tables[s->tables_count].content, s->given[i].content,
                   sizeof s->given[i].content);
        s->tables_count++;
    }
    for (unsigned i = 0; why == ERR_OK && i < s->tables_count; i++) {
        bool fine = page_content_is_fine(str_of(s->tables[i].content));
        for (unsigned k = 0; k < i; k++)
            fine = fine && strcmp(s->tables[k].content, s->tables[i].content) != 0;
        if (fine)
            continue;
        err_note_set(note,
                     "\"%s\" of keyspace %s is no name for a content, or another's: name it "
                     "by --keyspace CONTENT=%s",
                     s->tables[i].content, s->tables[i].keyspace, s->tables[i].keyspace);
        why = ERR_CONFLICT;
    }
    return why;
}

static err tables_find(struct source *s, struct err_note *note)
{
    const char *names[RESTBASE_TABLES_MAX];
    for (unsigned i = 0; i < s->given_count; i++)
        names[i] = s->given[i].keyspace;
    s->find =
        (struct restbase_find){ .client = s->cql,
                                .clock = s->clock,
                                .deadline = mono_add_ms(clock_mono(s->clock), SOURCE_TIMEOUT_MS),
                                .keyspaces = names,
                                .keyspaces_count = s->given_count,
                                .done = on_found,
                                .ctx = s };
    restbase_find(&s->find);
    await(s, &s->found, 2 * (int64_t)SOURCE_TIMEOUT_MS);
    if (stop_asked())
        return ERR_SHUTDOWN;
    INVARIANT(s->found); /* it has a deadline */
    if (s->find.why != ERR_OK) {
        *note = s->find.note;
        return s->find.why;
    }
    return tables_choose(s, note);
}

err source_open(struct source *s, struct client *client, struct clock *clock, struct err_note *note)
{
    s->client = client;
    s->clock = clock;
    if (s->domain == NULL)
        s->domain = client->domain;
    s->opts.loop = client->loop;
    s->opts.clock = clock;
    s->opts.seed = (uint64_t)clock_mono(clock).ns;
    s->opts.lz4 = true;
    s->opts.answer_bytes_max = SOURCE_ANSWER_BYTES_MAX;
    s->opts.ready = on_ready;
    s->opts.ctx = s;
    s->cql = cql_new(&s->opts, note);
    if (s->cql == NULL)
        return ERR_BAD;
    await(s, &s->ready, READY_MS);
    err why = stop_asked() ? ERR_SHUTDOWN : tables_find(s, note);
    if (why != ERR_OK)
        return why;
    s->reader = restbase_new(&(struct restbase_opts){ .client = s->cql,
                                                      .clock = clock,
                                                      .tables = s->tables,
                                                      .tables_count = s->tables_count,
                                                      .domain = s->domain,
                                                      .timeout_ms = SOURCE_TIMEOUT_MS },
                             note);
    return s->reader == NULL ? ERR_BAD : ERR_OK;
}

void source_close(struct source *s)
{
    free(s->points);
    free(s->keyspaces);
    if (s->cql != NULL && !stop_asked()) { /* else the process ends: nobody is waited for */
        cql_stop(s->cql, mono_add_ms(clock_mono(s->clock), 0), on_stopped, s);
        while (!s->stopped)
            client_turn(s->client, TURN_MS);
        restbase_walk_free(&s->walk);
        cql_free(&s->cql);
        restbase_free(&s->reader);
    }
    cql_tls_free(&s->tls);
}

/* ---- the walk ---- */

static void walk_end(struct source *s)
{
    if (s->walk == NULL)
        return;
    if (s->taken)
        restbase_walk_drop(s->walk);
    s->taken = false;
    restbase_walk_stop(s->walk);
    while (!restbase_walk_idle(s->walk))
        client_turn(s->client, TURN_MS);
    restbase_walk_free(&s->walk);
}

void source_walk(struct source *s, int64_t from)
{
    walk_end(s);
    s->from = from;
    s->walk = restbase_walk_new(&(struct restbase_walk_opts){ .reader = s->reader,
                                                              .from = from,
                                                              .titles = SOURCE_TITLES,
                                                              .bytes_max = SOURCE_BYTES_MAX,
                                                              .changed = on_changed,
                                                              .ctx = s });
}

/* Another walk from where this one was, after a pause. ERR_OK: it is under way. */
static err walk_again(struct source *s, err why, struct err_note *note)
{
    bool passing = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_IO;
    mono now = clock_mono(s->clock);
    if (s->pause_ms == 0)
        s->failing_at = now;
    if (!passing || now.ns - s->failing_at.ns > SOURCE_PATIENCE_MS * NS_PER_MS)
        return why;
    s->pause_ms = s->pause_ms == 0 ? SOURCE_PAUSE_MS : 2 * s->pause_ms;
    if (s->pause_ms > SOURCE_PAUSE_MS_MAX)
        s->pause_ms = SOURCE_PAUSE_MS_MAX;
    pause_ms(s, s->pause_ms);
    if (stop_asked())
        return ERR_SHUTDOWN;
    source_walk(s, s->from);
    note->text[0] = '\0';
    return ERR_OK;
}

static err walk_wait(struct source *s, struct uploads *uploads, struct err_note *note)
{
    err why = uploads == NULL ? ERR_OK : uploads_turn(uploads, note);
    if (why == ERR_OK && stop_asked())
        why = ERR_SHUTDOWN;
    if (why == ERR_OK && !s->changed)
        client_turn(s->client, TURN_MS);
    return why;
}

err source_next(struct source *s, struct uploads *uploads, const struct restbase_render **out,
                struct err_note *note)
{
    err why = ERR_OK;
    if (s->taken)
        restbase_walk_drop(s->walk);
    s->taken = false;
    while (why == ERR_OK) {
        err failed = ERR_OK;
        s->changed = false;
        switch (restbase_walk_next(s->walk, out, &failed, note)) {
        case RESTBASE_RENDER:
            s->taken = true;
            s->pause_ms = 0;
            s->from = (*out)->from;
            return ERR_OK;
        case RESTBASE_END:
            return ERR_NOT_FOUND;
        case RESTBASE_FAILED:
            why = walk_again(s, failed, note);
            break;
        case RESTBASE_WAIT:
            why = walk_wait(s, uploads, note);
            break;
        }
    }
    return why;
}
