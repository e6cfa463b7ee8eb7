/* migrate.c - palimpsest migrate: all renders of a bucket from one server to another, over their
 * APIs, while both are in use.
 *
 * The renders of a title come newest first: the other server has the right latest at once, and the
 * rest are late puts. What a migration that came to its end kept is thrown away: run again it looks
 * at everything again. --verify goes through all of it once more and compares. */
#include "cli/import.h"
#include "cli/migrate_walk.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "cli/verify.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE_MS = 300000,     /* without a render, once one came */
    FIRST_PATIENCE_MS = 2000, /* before */
    PAUSE_MS = 500,           /* the first; each is twice the one before */
    PAUSE_MS_MAX = 8000,
    TURN_MS = 1000,
    TELL_EVERY_S = 30,
};

struct migrate {
    struct import im;
    struct client from;
    struct migrate_walk *walk;
    char mark[MIGRATE_MARK_BYTES]; /* where a walk has to begin now */
    bool changed, taken, ended, lines, verify, any;
    int64_t pause_ms; /* 0: the walk is going on */
    mono failing_at;
    uint64_t renders, left_out, damaged;
    mono told_at;
    struct upload_counts counts;
    struct verify verified;
};

/* ---- the walk ---- */

static void on_changed(void *ctx)
{
    struct migrate *m = ctx;
    m->changed = true;
    loop_stop(m->im.client.loop);
}

static void walk_end(struct migrate *m)
{
    if (m->walk == NULL || stop_asked()) /* the process ends: nobody is waited for */
        return;
    m->damaged += migrate_walk_damaged(m->walk);
    migrate_walk_free(&m->walk);
    m->taken = false;
}

static void walk_begin(struct migrate *m)
{
    walk_end(m);
    m->walk = migrate_walk_new(&(struct migrate_walk_opts){
        .from = &m->from, .mark = m->mark, .changed = on_changed, .ctx = m });
}

/* Another walk from where this one was, after a pause. ERR_OK: it is under way. */
static err walk_again(struct migrate *m, err why, struct err_note *note)
{
    bool passing = why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_IO;
    int64_t patience_ms = m->any ? PATIENCE_MS : FIRST_PATIENCE_MS;
    mono now = clock_mono(m->im.clock);
    if (m->pause_ms == 0)
        m->failing_at = now;
    if (!passing || now.ns - m->failing_at.ns > patience_ms * NS_PER_MS)
        return why;
    m->pause_ms = m->pause_ms == 0 ? PAUSE_MS : 2 * m->pause_ms;
    if (m->pause_ms > PAUSE_MS_MAX)
        m->pause_ms = PAUSE_MS_MAX;
    mono until = mono_add_ms(now, m->pause_ms);
    while (!stop_asked() && clock_mono(m->im.clock).ns < until.ns)
        client_turn(&m->im.client, TURN_MS);
    if (stop_asked())
        return ERR_SHUTDOWN;
    walk_begin(m);
    note->text[0] = '\0';
    return ERR_OK;
}

static err walk_wait(struct migrate *m, struct err_note *note)
{
    err why = uploads_turn(m->im.uploads, note);
    if (why == ERR_OK && stop_asked())
        why = ERR_SHUTDOWN;
    if (why == ERR_OK && !m->changed)
        client_turn(&m->im.client, TURN_MS);
    return why;
}

/* ERR_NOT_FOUND, and ended: that was the last. */
static err walk_next(struct migrate *m, const struct migrate_render **out, struct err_note *note)
{
    err why = ERR_OK;
    if (m->taken)
        migrate_walk_drop(m->walk);
    m->taken = false;
    while (why == ERR_OK) {
        err failed = ERR_OK;
        m->changed = false;
        switch (migrate_walk_next(m->walk, out, &failed, note)) {
        case MIGRATE_RENDER:
            m->taken = true;
            m->pause_ms = 0;
            m->any = true;
            (void)str_to_cstr((*out)->item.mark, m->mark, sizeof m->mark); /* fits */
            return ERR_OK;
        case MIGRATE_END:
            m->ended = true;
            return ERR_NOT_FOUND;
        case MIGRATE_FAILED:
            why = walk_again(m, failed, note);
            break;
        case MIGRATE_WAIT:
            why = walk_wait(m, note);
            break;
        }
    }
    return why;
}

/* ---- what is done with each render ---- */

static void tell_progress(struct migrate *m, const char *what)
{
    mono now = clock_mono(m->im.clock);
    if (!m->lines || now.ns - m->told_at.ns < TELL_EVERY_S * NS_PER_S)
        return;
    m->told_at = now;
    fprintf(stderr, "palimpsest: %s: %" PRIu64 " renders\n", what, m->renders);
}

static err take_put(struct migrate *m, const struct migrate_render *r, struct err_note *note)
{
    if (r->unfit != NULL) {
        m->left_out++;
        import_skipped(&m->im, r->item.title, r->item.rev, r->unfit);
        return ERR_OK;
    }
    err e = uploads_put(m->im.uploads, &r->item, note);
    import_step(&m->im, m->renders, 0);
    return e;
}

static err take_verify(struct migrate *m, const struct migrate_render *r, struct err_note *note)
{
    return r->unfit != NULL || r->hidden ? ERR_OK
                                         : verify_item(&m->verified, &m->im, &r->item, note);
}

static err walk_all(struct migrate *m, const char *what,
                    err (*take)(struct migrate *m, const struct migrate_render *r,
                                struct err_note *note),
                    struct err_note *note)
{
    const struct migrate_render *r;
    err e;
    m->renders = 0;
    m->ended = false;
    walk_begin(m);
    do {
        e = walk_next(m, &r, note);
        if (e != ERR_OK)
            break;
        m->renders++;
        tell_progress(m, what);
        e = take(m, r, note);
        if (e == ERR_OK && stop_asked())
            e = ERR_SHUTDOWN;
    } while (e == ERR_OK);
    walk_end(m);
    return m->ended ? ERR_OK : e;
}

static err run_migrate(struct migrate *m, struct err_note *note)
{
    err e = import_resume(&m->im, note);
    if (e != ERR_OK)
        return e;
    if (m->im.resume.done > 0)
        (void)str_to_cstr(str_of(m->im.resume.mark), m->mark, sizeof m->mark);
    import_begin(&m->im, "migrating", "renders");
    m->lines = !m->im.quiet && !m->im.client.json && !out_is_terminal(stderr);
    m->told_at = clock_mono(m->im.clock);
    e = walk_all(m, "migrate", take_put, note);
    e = import_finish(&m->im, e, note);
    m->counts = uploads_counts(m->im.uploads);
    if (e != ERR_OK)
        return e;
    resume_end(&m->im.resume);
    m->mark[0] = '\0';
    uint64_t damaged = m->damaged;
    m->im.unchecked = true; /* nothing is kept of how far it came */
    if (m->verify)
        e = walk_all(m, "verifying", take_verify, note);
    m->damaged = damaged;
    return e;
}

/* ---- what is told ---- */

static void print_more(uint64_t n, const char *what)
{
    if (n > 0)
        printf(", %" PRIu64 " %s", n, what);
}

static void print_result(const struct migrate *m)
{
    const struct upload_counts n = m->counts;
    uint64_t refused = n.refused - n.gone - n.differ;
    if (m->im.client.json) {
        json_t *doc = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "renders",
                                (json_int_t)m->renders, "stored", (json_int_t)n.stored, "already",
                                (json_int_t)n.already, "refused", (json_int_t)refused, "gone",
                                (json_int_t)n.gone, "differ", (json_int_t)n.differ, "left_out",
                                (json_int_t)m->left_out, "damaged", (json_int_t)m->damaged);
        (void)json_object_set_new(doc, "hidden", json_integer((json_int_t)n.purged));
        if (m->verify)
            (void)json_object_set_new(doc, "verified", verify_json(&m->verified));
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    printf("%" PRIu64 " renders: %" PRIu64 " stored, %" PRIu64 " already there", m->renders,
           n.stored, n.already);
    print_more(n.gone, "refused as purged, hidden or too old to keep");
    print_more(n.differ, "stored with other bytes");
    print_more(refused, "refused");
    print_more(n.purged, "hidden or deleted at the wiki, so purged here");
    print_more(m->left_out, "left out");
    print_more(m->damaged, "damaged there");
    fputc('\n', stdout);
    if (m->verify)
        verify_print(&m->verified);
}

/* What is not in any answer of the other server's API. */
static void warn_not_taken(const struct migrate *m)
{
    if (m->im.quiet)
        return;
    (void)fputs(
        "palimpsest: migrate: purges of that server, its policies, keys, values, tables and "
        "queues were NOT taken along.\n"
        "palimpsest: migrate: purge here again what was purged there after an earlier run: "
        "it is still readable here.\n",
        stderr);
}

static enum cli_exit open_both(struct migrate *m, const struct cli_call *call)
{
    const char *from = cli_value(call, "from"), *token = cli_value(call, "from-token");
    if (from == NULL)
        return cli_fail(call, CLI_USAGE, "migrate wants --from, the server whose renders are read");
    struct buf what, selection;
    buf_init(&what, IMPORT_SELECTION_BYTES_MAX);
    buf_init(&selection, IMPORT_SELECTION_BYTES_MAX);
    buf_printf(&what, "migrate\n%s", from);
    buf_printf(&selection, "--from %s", from);
    enum cli_exit code = import_open(&m->im, call, buf_str(&what), buf_str(&selection));
    buf_fini(&what);
    buf_fini(&selection);
    if (code != CLI_OK)
        return code;
    if (token == NULL)
        token = getenv("PALIMPSEST_FROM_TOKEN");
    code = client_beside(&m->from, &m->im.client, from,
                         token != NULL && token[0] != '\0' ? token : NULL);
    if (code != CLI_OK) {
        client_beside_close(&m->from);
        import_close(&m->im);
    }
    return code;
}

enum cli_exit verb_migrate(struct cli_call *call)
{
    struct migrate m = { .verify = cli_flag(call, "verify") };
    enum cli_exit code = open_both(&m, call);
    if (code != CLI_OK)
        return code;
    struct err_note note = { .text = "" };
    err e = run_migrate(&m, &note);
    if (e == ERR_OK) {
        print_result(&m);
        warn_not_taken(&m);
    } else {
        code = import_fail(&m.im, e, &note);
    }
    if (e == ERR_OK && (verify_failed(&m.verified) || m.damaged > 0))
        code = CLI_FAILED;
    walk_end(&m);
    client_beside_close(&m.from);
    import_close(&m.im);
    return code;
}
