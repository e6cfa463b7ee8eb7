/* import_restbase.c - palimpsest import restbase: the renders that a RESTBase left in Cassandra.
 *
 * Titles come in order of their tokens, several at once; the renders of a title newest first, so
 * that the latest is right at once, and is there also where a title may not have all of them. The
 * mark that is kept beside the last render is the token from which a walk finds what was not yet
 * answered. An import that came to its end keeps nothing: run again it looks at everything again,
 * and stores what came since.
 *
 * --verify goes through all of it once more and reads back what is stored. */
#include "cli/import.h"
#include "cli/restbase.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "cli/verify.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { ITEM_ARENA_BYTES = 8 << 20, TELL_EVERY_S = 30, MARK_BYTES = 24, TITLE_SHOWN_BYTES = 200 };

struct import_restbase {
    struct import im;
    struct source source;
    struct arena arena;
    uint64_t renders, left_out, changed, incomplete;
    mono told_at;
    bool verify, lines;
    struct upload_counts counts; /* of the import */
    struct verify verified;
};

/* For who has no terminal to draw a bar on. */
static void tell_progress(struct import_restbase *x, const char *what)
{
    mono now = clock_mono(x->im.clock);
    if (!x->lines || now.ns - x->told_at.ns < TELL_EVERY_S * NS_PER_S)
        return;
    x->told_at = now;
    unsigned mille = restbase_walk_mille(x->source.walk);
    fprintf(stderr, "palimpsest: %s: %u.%u %%, %" PRIu64 " renders\n", what, mille / 10, mille % 10,
            x->renders);
}

static err put_render(struct import_restbase *x, const struct restbase_render *r,
                      struct err_note *note)
{
    const char *why, *warned;
    char mark[MARK_BYTES];
    struct upload_item item;
    arena_reset(&x->arena);
    x->renders++;
    if (!source_item(&x->source, r, &x->arena, &item, &why, &warned)) {
        x->left_out++;
        import_skipped(&x->im, str_take(r->title, TITLE_SHOWN_BYTES), r->rev, why);
        return ERR_OK;
    }
    if (warned != NULL) {
        x->changed++;
        import_warned(&x->im, r->title, warned);
    }
    x->incomplete += item.parts_count < x->source.tables_count;
    (void)snprintf(mark, sizeof mark, "%" PRId64, r->from); /* fits */
    item.mark = str_of(mark);
    err e = uploads_put(x->im.uploads, &item, note);
    import_step(&x->im, restbase_walk_mille(x->source.walk), 1000);
    tell_progress(x, "import restbase");
    return e;
}

static err put_all(struct import_restbase *x, struct err_note *note)
{
    const struct restbase_render *r;
    int64_t from = INT64_MIN;
    if (x->im.resume.done > 0 && !str_to_i64(str_of(x->im.resume.mark), &from))
        from = INT64_MIN;
    source_walk(&x->source, from);
    err e;
    do {
        e = source_next(&x->source, x->im.uploads, &r, note);
        if (e == ERR_OK)
            e = put_render(x, r, note);
    } while (e == ERR_OK);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err verify_render(struct import_restbase *x, const struct restbase_render *r,
                         struct err_note *note)
{
    const char *why, *warned;
    struct upload_item item;
    arena_reset(&x->arena);
    x->renders++;
    tell_progress(x, "verifying");
    if (!source_item(&x->source, r, &x->arena, &item, &why, &warned))
        return ERR_OK;
    return verify_item(&x->verified, &x->im, &item, note);
}

static err verify_all(struct import_restbase *x, struct err_note *note)
{
    const struct restbase_render *r;
    x->renders = 0;
    x->im.unchecked = true; /* nothing is kept of how far it came */
    source_walk(&x->source, INT64_MIN);
    err e;
    do {
        e = source_next(&x->source, x->im.uploads, &r, note);
        if (e == ERR_OK)
            e = verify_render(x, r, note);
        if (e == ERR_OK && stop_asked())
            e = ERR_SHUTDOWN;
    } while (e == ERR_OK);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err run_import(struct import_restbase *x, struct err_note *note)
{
    err e = source_open(&x->source, &x->im.client, x->im.clock, note);
    if (e == ERR_OK)
        e = import_resume(&x->im, note);
    if (e != ERR_OK)
        return e;
    import_begin(&x->im, "importing", "parts");
    x->lines = !x->im.quiet && !x->im.client.json && !out_is_terminal(stderr);
    x->told_at = clock_mono(x->im.clock);
    e = put_all(x, note);
    e = import_finish(&x->im, e, note);
    x->counts = uploads_counts(x->im.uploads);
    if (e == ERR_OK)
        resume_end(&x->im.resume);
    return e == ERR_OK && x->verify ? verify_all(x, note) : e;
}

/* ---- what is told ---- */

static void print_json(const struct import_restbase *x)
{
    const struct upload_counts n = x->counts;
    json_t *doc =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "renders",
                  (json_int_t)x->renders, "stored", (json_int_t)n.stored, "already",
                  (json_int_t)n.already, "refused", (json_int_t)(n.refused - n.gone - n.differ),
                  "gone", (json_int_t)n.gone, "differ", (json_int_t)n.differ, "left_out",
                  (json_int_t)x->left_out, "incomplete", (json_int_t)x->incomplete, "headers_lost",
                  (json_int_t)x->changed);
    if (x->verify)
        (void)json_object_set_new(doc, "verified", verify_json(&x->verified));
    out_json(stdout, doc);
    json_decref(doc);
}

static void print_more(uint64_t n, const char *what)
{
    if (n > 0)
        printf(", %" PRIu64 " %s", n, what);
}

static void print_result(const struct import_restbase *x)
{
    const struct upload_counts n = x->counts;
    if (x->im.client.json) {
        print_json(x);
        return;
    }
    printf("%" PRIu64 " renders: %" PRIu64 " stored, %" PRIu64 " already there", x->renders,
           n.stored, n.already);
    print_more(n.gone, "refused as purged, hidden or too old to keep");
    print_more(n.differ, "stored with other bytes");
    print_more(n.refused - n.gone - n.differ, "refused");
    print_more(x->left_out, "left out");
    print_more(x->incomplete, "without all contents");
    print_more(x->changed, "without their headers");
    fputc('\n', stdout);
    if (x->verify)
        verify_print(&x->verified);
}

/* What names this import among all: the tables, and the domain there. */
static void input_of(const struct import_restbase *x, const struct cli_call *call, struct buf *out)
{
    const char *keyspaces = cli_value(call, "keyspace");
    buf_printf(out, "restbase\n%s\n%s\n%s", cli_value(call, "contact-points"),
               keyspaces != NULL ? keyspaces : "",
               x->source.domain != NULL ? x->source.domain : "");
}

static enum cli_exit open_import(struct import_restbase *x, const struct cli_call *call)
{
    struct buf input, selection;
    buf_init(&input, IMPORT_SELECTION_BYTES_MAX);
    buf_init(&selection, IMPORT_SELECTION_BYTES_MAX);
    input_of(x, call, &input);
    if (cli_value(call, "keyspace") != NULL)
        buf_printf(&selection, "--keyspace %s ", cli_value(call, "keyspace"));
    if (x->source.domain != NULL)
        buf_printf(&selection, "--source-domain %s ", x->source.domain);
    enum cli_exit code = import_open(&x->im, call, buf_str(&input), str_trim(buf_str(&selection)));
    buf_fini(&input);
    buf_fini(&selection);
    return code;
}

enum cli_exit verb_import_restbase(struct cli_call *call)
{
    struct import_restbase x = { .verify = cli_flag(call, "verify") };
    enum cli_exit code = source_options(&x.source, call);
    if (code == CLI_OK)
        code = open_import(&x, call);
    if (code != CLI_OK) {
        source_close(&x.source);
        return code;
    }
    arena_init(&x.arena, ITEM_ARENA_BYTES);
    struct err_note note = { .text = "" };
    err e = run_import(&x, &note);
    if (e == ERR_OK)
        print_result(&x);
    else
        code = import_fail(&x.im, e, &note);
    if (e == ERR_OK && verify_failed(&x.verified))
        code = CLI_FAILED;
    source_close(&x.source);
    arena_fini(&x.arena);
    import_close(&x.im);
    return code;
}
