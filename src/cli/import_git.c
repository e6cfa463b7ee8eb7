/* import_git.c - palimpsest import git: each commit that touches a text document is a revision of
 * its page. */
#include "base/map.h"
#include "base/utf8.h"
#include "cli/git.h"
#include "cli/import.h"
#include "cli/render.h"
#include "cli/stop.h"
#include "cli/verbs.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* Nanoseconds of a later one pass 63 bits. The server refuses what is more than seconds ahead of
 * its clock. */
#define COMMIT_TIME_S_MAX (INT64_MAX / NS_PER_S)

struct import_git {
    struct import im;
    const char *repository, *ref, *match;
    struct git_history history;
    struct git_changes *changes;
    struct git_blobs blobs;
    struct map *tree;   /* path -> oid of the blob last seen there, in the order of commits */
    struct map *titles; /* title in NFC, where it is not ASCII -> struct titled */
    bool shallow;
    struct buf source, html;
    uint64_t item; /* number of the last one seen */
    uint64_t binary, too_large, odd_name, same_title, deleted, unreadable;
};

/* The file that was last a revision of a title: names that differ in their normal form alone are
 * one title. */
struct titled {
    size_t commit_index;
    bool told;
    char path[];
};

/* What the random part of a tid is made of: the same commit gives the same tid again. */
static uint64_t oid_number(const char *oid)
{
    uint64_t n = 0;
    for (int i = 0; i < 16; i++) {
        char c = oid[i];
        n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return n;
}

static struct tid commit_tid(const struct git_commit *c)
{
    int64_t s = c->time_s < -COMMIT_TIME_S_MAX ? -COMMIT_TIME_S_MAX : c->time_s;
    store_time at = { .ns = (s > COMMIT_TIME_S_MAX ? COMMIT_TIME_S_MAX : s) * NS_PER_S };
    return tid_make(tid_ticks(at), oid_number(c->oid));
}

/* Keeps the tree as of this change. True: the document is new or another than the one last
 * imported. */
static bool note_change(struct import_git *g, const struct git_change *change)
{
    char *old =
        change->deleted ? map_remove(g->tree, change->path) : map_get(g->tree, change->path);
    bool news =
        !change->deleted && (!change->merge || old == NULL || strcmp(old, change->oid) != 0);
    if (change->deleted) {
        g->deleted += old != NULL;
    } else {
        char *oid = strdup(change->oid);
        INVARIANT(oid != NULL);
        old = map_put(g->tree, change->path, oid);
    }
    free(old);
    return news;
}

static bool import_git_wanted(const struct import_git *g, str path)
{
    char name[GIT_PATH_BYTES_MAX];
    if (g->match == NULL)
        return true;
    return str_to_cstr(path, name, sizeof name) && fnmatch(g->match, name, 0) == 0;
}

/* Takes the title for this file; true: another one of the same commit has it. new: the change is
 * not an old one. */
static bool title_is_taken(struct import_git *g, const struct git_change *change, bool new)
{
    struct arena a;
    str title;
    arena_init(&a, (size_t)GIT_PATH_BYTES_MAX * 8);
    bool odd = utf8_nfc(&a, change->path, &title) != ERR_OK; /* is told, or refused by the server */
    struct titled *had = odd ? NULL : map_get(g->titles, title);
    bool other = had != NULL && !str_eq(str_of(had->path), change->path);
    bool taken = other && had->commit_index == change->commit_index;
    bool mixes = other && !taken && map_get(g->tree, str_of(had->path)) != NULL;
    if (mixes && new && !had->told)
        import_warned(&g->im, change->path,
                      "is one title with a file whose name differs in Unicode normalisation "
                      "alone, so their revisions mix");
    if (!odd && !taken) {
        struct titled *t = calloc(1, sizeof *t + change->path.n + 1);
        INVARIANT(t != NULL);
        t->commit_index = change->commit_index;
        t->told = mixes || (had != NULL && had->told);
        memcpy(t->path, change->path.p, change->path.n);
        free(map_put(g->titles, title, t));
    }
    arena_fini(&a);
    return taken;
}

static bool is_ascii(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return true;
}

/* git ends over an object that is damaged: the next ones are asked of another. */
static err blobs_again(struct import_git *g, struct err_note *note)
{
    git_blobs_end(&g->blobs);
    return git_blobs_begin(g->repository, &g->blobs, note);
}

/* Reads and renders; parts_count stays 0 when there is nothing to store. */
static err render_item(struct import_git *g, const struct git_change *change,
                       struct upload_item *item, struct err_note *note)
{
    err e = git_blob_read(&g->blobs, change->oid, &g->source, note);
    if (e == ERR_LIMIT) {
        import_skipped(&g->im, item->title, item->rev, note->text);
        g->too_large++;
        return ERR_OK;
    }
    if (stop_asked()) /* git was, too: what it says means nothing */
        return ERR_SHUTDOWN;
    if (e == ERR_NOT_FOUND || e == ERR_IO) {
        import_skipped(&g->im, item->title, item->rev, note->text);
        g->unreadable++;
        return e == ERR_IO ? blobs_again(g, note) : ERR_OK;
    }
    if (e != ERR_OK)
        return e;
    str source = buf_str(&g->source);
    enum render_kind kind = render_kind_of(change->path, source);
    if (kind == RENDER_BINARY) {
        g->binary++;
        return ERR_OK;
    }
    buf_clear(&g->html);
    if (render_html(kind, change->path, source, &g->html) != ERR_OK) {
        import_skipped(&g->im, item->title, item->rev, "its HTML is too large");
        g->too_large++;
        return ERR_OK;
    }
    item->parts[item->parts_count++] = (struct upload_part){ .content = "html",
                                                             .type = "text/html; charset=utf-8",
                                                             .bytes = buf_str(&g->html) };
    item->parts[item->parts_count++] = (struct upload_part){
        .content = "source", .type = render_source_type(change->path, kind), .bytes = source
    };
    return ERR_OK;
}

static err take_change(struct import_git *g, const struct git_change *change, struct err_note *note)
{
    const struct git_commit *commit = &g->history.commits[change->commit_index];
    bool news = note_change(g, change);
    if (!news || !import_git_wanted(g, change->path))
        return ERR_OK;
    bool old = ++g->item <= g->im.resume.done;
    bool taken = !is_ascii(change->path) && title_is_taken(g, change, !old);
    g->same_title += taken;
    if (old)
        return ERR_OK;
    struct upload_item item = { .title = change->path,
                                .rev = change->commit_index + 1,
                                .tid = commit_tid(commit),
                                .mark = str_of(commit->oid) };
    if (u8_check((const uint8_t *)change->path.p, change->path.n) != NULL) {
        import_skipped(&g->im, item.title, item.rev, "its name is not UTF-8");
        g->odd_name++;
    } else if (taken) {
        import_skipped(&g->im, item.title, item.rev,
                       "its name is the same title as another file of this commit: "
                       "they differ in Unicode normalisation alone");
    } else {
        err e = render_item(g, change, &item, note);
        if (e != ERR_OK)
            return e;
    }
    err e = uploads_put(g->im.uploads, &item, note);
    import_step(&g->im, change->commit_index + 1, g->history.count);
    return e;
}

static err run_changes(struct import_git *g, struct err_note *note)
{
    struct git_change change;
    err e;
    while ((e = git_changes_next(g->changes, &change, note)) == ERR_OK) {
        e = take_change(g, &change, note);
        if (e != ERR_OK)
            return e;
    }
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* What the state file says must be of this history; else everything is sent again, which does no
 * harm. */
static void match_resume(struct import_git *g)
{
    struct resume *r = &g->im.resume;
    if (r->done == 0)
        return;
    if (r->rev <= g->history.count && strcmp(g->history.commits[r->rev - 1].oid, r->mark) == 0)
        return;
    cli_warn(g->im.call, "import git: commits before the last import's are others now (rewritten, "
                         "or of a branch merged "
                         "since). Revisions are numbered by their place, so all of it is sent "
                         "again; what was imported "
                         "under other numbers stays until it is culled or removed (palimpsest rm), "
                         "and the greatest number "
                         "stays the latest");
    resume_forget(r);
}

static err run_import(struct import_git *g, struct err_note *note)
{
    git_guard();
    err e = git_history_read(g->repository, g->ref, &g->history, note);
    if (e != ERR_OK)
        return e;
    e = git_is_shallow(g->repository, &g->shallow, note);
    if (e == ERR_OK)
        e = import_resume(&g->im, note);
    if (e != ERR_OK)
        return e;
    if (g->shallow)
        cli_warn(g->im.call, "import git: this is a shallow clone: the history before its cut is "
                             "missing, and revisions are "
                             "numbered from there, so a whole one does not go on from this; git "
                             "fetch --unshallow makes it "
                             "whole");
    match_resume(g);
    import_begin(&g->im, "importing", "commits");
    e = git_changes_begin(g->repository, &g->history, &g->changes, note);
    if (e != ERR_OK)
        return e;
    e = git_blobs_begin(g->repository, &g->blobs, note);
    if (e != ERR_OK)
        return e;
    e = run_changes(g, note);
    git_blobs_end(&g->blobs);
    return import_finish(&g->im, e, note);
}

static void print_result(const struct import_git *g)
{
    struct upload_counts n = uploads_counts(g->im.uploads);
    uint64_t before = g->im.resume.done;
    if (g->im.client.json) {
        json_t *doc =
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
                      "commits", (json_int_t)g->history.count, "documents",
                      (json_int_t)map_count(g->tree), "stored", (json_int_t)n.stored, "already",
                      (json_int_t)n.already, "imported_before", (json_int_t)before, "refused",
                      (json_int_t)n.refused, "binary", (json_int_t)g->binary, "too_large",
                      (json_int_t)g->too_large, "odd_name", (json_int_t)g->odd_name, "same_title",
                      (json_int_t)g->same_title, "deleted", (json_int_t)g->deleted, "unreadable",
                      (json_int_t)g->unreadable, "shallow", (int)g->shallow);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    printf("%zu commits: %llu revisions stored, %llu already there", g->history.count,
           (unsigned long long)n.stored, (unsigned long long)n.already);
    if (before > 0)
        printf(", %llu passed over: stored or refused before", (unsigned long long)before);
    if (n.refused > 0)
        printf(", %llu refused", (unsigned long long)n.refused);
    if (g->binary > 0)
        printf(", %llu binary left out", (unsigned long long)g->binary);
    if (g->too_large > 0)
        printf(", %llu too large left out", (unsigned long long)g->too_large);
    if (g->odd_name > 0)
        printf(", %llu with names that are not UTF-8 left out", (unsigned long long)g->odd_name);
    if (g->same_title > 0)
        printf(", %llu of the same title as another left out", (unsigned long long)g->same_title);
    if (g->unreadable > 0)
        printf(", %llu unreadable left out", (unsigned long long)g->unreadable);
    if (g->shallow)
        printf(", of a history that was cut");
    fputc('\n', stdout);
}

static void free_value(void *ctx, str key, void *value)
{
    (void)ctx;
    (void)key;
    free(value);
}

static void import_git_fini(struct import_git *g)
{
    git_changes_end(&g->changes);
    git_history_fini(&g->history);
    map_each(g->tree, free_value, NULL);
    map_free(&g->tree);
    map_each(g->titles, free_value, NULL);
    map_free(&g->titles);
    buf_fini(&g->source);
    buf_fini(&g->html);
    import_close(&g->im);
}

enum cli_exit verb_import_git(struct cli_call *call)
{
    const char *ref = cli_value(call, "ref");
    struct import_git g = { .repository = call->operands_count > 0 ? call->operands[0] : ".",
                            .ref = ref != NULL ? ref : "HEAD",
                            .match = cli_value(call, "match") };
    struct buf what;
    buf_init(&what, IMPORT_SELECTION_BYTES_MAX);
    buf_put(&what, STR("git\n"));
    import_absolute(g.repository, &what);
    buf_printf(&what, "\n%s\n%s", g.ref, g.match != NULL ? g.match : "");
    struct buf selection;
    buf_init(&selection, IMPORT_SELECTION_BYTES_MAX);
    buf_printf(&selection, "--ref %s%s%s", g.ref, g.match != NULL ? " --match " : "",
               g.match != NULL ? g.match : "");
    enum cli_exit code = import_open(&g.im, call, buf_str(&what), buf_str(&selection));
    buf_fini(&selection);
    buf_fini(&what);
    if (code != CLI_OK)
        return code;
    g.tree = map_new(0);
    g.titles = map_new(0);
    buf_init(&g.source, GIT_BLOB_BYTES_MAX);
    buf_init(&g.html, IMPORT_HTML_BYTES_MAX);
    struct err_note note;
    err e = run_import(&g, &note);
    if (e == ERR_OK)
        print_result(&g);
    if (e == ERR_OK && g.unreadable > 0)
        code = cli_fail(call, CLI_FAILED,
                        "import git: %llu documents cannot be read from the repository (git fsck "
                        "tells why); once "
                        "they can, --restart sends them",
                        (unsigned long long)g.unreadable);
    else if (e != ERR_OK)
        code = import_fail(&g.im, e, &note);
    import_git_fini(&g);
    return code;
}
