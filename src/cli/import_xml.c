/* import_xml.c - palimpsest import mediawiki-xml: the revisions of a wiki's export. */
#include "cli/dump.h"
#include "cli/import.h"
#include "cli/render.h"
#include "cli/stop.h"
#include "cli/unpack.h"
#include "cli/verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct import_xml {
    struct import im;
    const char *path;
    FILE *file;
    uint64_t file_bytes; /* 0: unknown */
    struct unpack *unpack;
    struct dump *dump;
    struct buf html;
    uint64_t item, pages, no_text, too_large, unfit;
    char page[DUMP_TITLE_BYTES_MAX + 1];
    uint64_t doubt; /* the first revision that no sum has covered yet; 0: all are */
    char doubt_page[DUMP_TITLE_BYTES_MAX + 1];
};

/* The same revision of the same page gives the same tid again. */
static struct tid revision_tid(const struct dump_revision *r)
{
    uint64_t random = XXH3_64bits_withSeed(r->title.p, r->title.n, r->id);
    return tid_make(tid_ticks((store_time){ .ns = r->time_ns }), random);
}

static void count_page(struct import_xml *x, str title)
{
    if (str_eq(title, str_of(x->page)))
        return;
    x->pages++;
    if (!str_to_cstr(title, x->page, sizeof x->page))
        x->page[0] = '\0';
}

static err other_file(const struct import_xml *x, struct err_note *note)
{
    err_note_set(note, "%s is not the file of the last import any more; start over with --restart",
                 x->path);
    return ERR_BAD;
}

/* Where the last import stopped there must be the same revision now. */
static err check_resumed(const struct import_xml *x, const struct dump_revision *r,
                         struct err_note *note)
{
    const struct resume *from = &x->im.resume;
    char mark[24];
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)x->item);
    if (strcmp(mark, from->mark) != 0)
        return ERR_OK;
    return r->id == from->rev && str_eq(r->title, str_of(from->title)) ? ERR_OK
                                                                       : other_file(x, note);
}

static void render_revision(struct import_xml *x, const struct dump_revision *r,
                            struct upload_item *item)
{
    if (r->unfit != NULL) {
        import_skipped(&x->im, r->title.n > 0 ? r->title : STR("a page without a title"), r->id,
                       r->unfit);
        x->unfit++;
        return;
    }
    if (r->no_text) {
        x->no_text++;
        return;
    }
    buf_clear(&x->html);
    err e = r->too_large ? ERR_LIMIT : render_html(RENDER_TEXT, r->title, r->text, &x->html);
    if (e != ERR_OK) {
        import_skipped(&x->im, r->title, r->id, "its text is too large");
        x->too_large++;
        return;
    }
    bool wiki = r->model.n == 0 || str_eq(r->model, STR("wikitext"));
    item->parts[item->parts_count++] = (struct upload_part){ .content = "html",
                                                             .type = "text/html; charset=utf-8",
                                                             .bytes = buf_str(&x->html) };
    item->parts[item->parts_count++] =
        (struct upload_part){ .content = "source",
                              .type =
                                  wiki ? "text/x-wiki; charset=utf-8" : "text/plain; charset=utf-8",
                              .bytes = r->text };
}

static err take_revision(void *ctx, const struct dump_revision *r, struct err_note *note)
{
    struct import_xml *x = ctx;
    count_page(x, r->title);
    x->item++;
    if (x->item <= x->im.resume.done)
        return check_resumed(x, r, note);
    char mark[24];
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)x->item);
    struct upload_item item = { .title = r->title, .rev = r->id, .mark = str_of(mark) };
    if (r->unfit == NULL)
        item.tid = revision_tid(r);
    render_revision(x, r, &item);
    if (x->im.unchecked && x->doubt == 0) {
        x->doubt = r->id;
        memcpy(x->doubt_page, x->page, sizeof x->page);
    }
    err e = uploads_put(x->im.uploads, &item, note);
    import_step(&x->im, unpack_consumed(x->unpack), x->file_bytes);
    return e;
}

static err run_file(struct import_xml *x, struct err_note *note)
{
    char chunk[UNPACK_CHUNK_BYTES];
    size_t n;
    do {
        err e = unpack_read(x->unpack, chunk, sizeof chunk, &n, note);
        x->im.unchecked = !unpack_checked(x->unpack);
        if (!x->im.unchecked)
            x->doubt = 0;
        if (e == ERR_OK)
            e = dump_feed(x->dump, (str){ .p = chunk, .n = n }, n == 0, note);
        if (e != ERR_OK)
            return e;
    } while (n > 0);
    return ERR_OK;
}

static err run_import(struct import_xml *x, struct err_note *note)
{
    err e = unpack_new(x->file, &x->unpack, note);
    if (e == ERR_OK)
        e = import_resume(&x->im, note);
    if (e != ERR_OK)
        return e;
    import_begin(&x->im, "importing", NULL);
    x->dump = dump_new(&(struct dump_opts){ .revision = take_revision, .ctx = x });
    e = run_file(x, note);
    if (e == ERR_OK && x->item < x->im.resume.done)
        e = other_file(x, note); /* it ends before the last one's end */
    if (e != ERR_OK && x->doubt > 0)
        cli_warn(
            x->im.call,
            "import mediawiki-xml: no checksum covers what was stored from revision %llu of \"%s\" "
            "on: it may be damaged. Import the whole file: it tells which revisions differ",
            (unsigned long long)x->doubt, x->doubt_page);
    return import_finish(&x->im, e, note);
}

static void print_result(const struct import_xml *x)
{
    struct upload_counts n = uploads_counts(x->im.uploads);
    uint64_t before = x->im.resume.done;
    if (x->im.client.json) {
        json_t *doc =
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pages",
                      (json_int_t)x->pages, "revisions", (json_int_t)x->item, "stored",
                      (json_int_t)n.stored, "already", (json_int_t)n.already, "imported_before",
                      (json_int_t)before, "refused", (json_int_t)n.refused, "no_text",
                      (json_int_t)x->no_text, "too_large", (json_int_t)x->too_large, "unfit",
                      (json_int_t)x->unfit);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    printf("%llu pages: %llu revisions stored, %llu already there", (unsigned long long)x->pages,
           (unsigned long long)n.stored, (unsigned long long)n.already);
    if (before > 0)
        printf(", %llu passed over: stored or refused before", (unsigned long long)before);
    if (n.refused > 0)
        printf(", %llu refused", (unsigned long long)n.refused);
    if (x->no_text > 0)
        printf(", %llu without text left out", (unsigned long long)x->no_text);
    if (x->too_large > 0)
        printf(", %llu too large left out", (unsigned long long)x->too_large);
    if (x->unfit > 0)
        printf(", %llu with wrong fields left out", (unsigned long long)x->unfit);
    fputc('\n', stdout);
}

static err open_file(struct import_xml *x, struct err_note *note)
{
    struct stat st;
    int failed = strcmp(x->path, "-") == 0 ? fstat(STDIN_FILENO, &st) : stat(x->path, &st);
    x->file = failed == 0 ? stop_open(x->path) : NULL;
    if (x->file == NULL) {
        err_note_set(note, "cannot read: %s", strerror(errno));
        return ERR_IO;
    }
    x->file_bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    return ERR_OK;
}

static void import_xml_fini(struct import_xml *x)
{
    if (x->file != NULL)
        fclose(x->file);
    unpack_free(&x->unpack);
    dump_free(&x->dump);
    buf_fini(&x->html);
    import_close(&x->im);
}

enum cli_exit verb_import_xml(struct cli_call *call)
{
    struct import_xml x = { .path = call->operands[0] };
    struct buf what;
    buf_init(&what, 16384);
    if (strcmp(x.path, "-") != 0) {
        buf_put(&what, STR("mediawiki-xml\n"));
        import_absolute(x.path, &what);
    }
    enum cli_exit code = import_open(&x.im, call, buf_str(&what), STR_NONE);
    buf_fini(&what);
    if (code != CLI_OK)
        return code;
    buf_init(&x.html, IMPORT_HTML_BYTES_MAX);
    struct err_note note, first;
    err e = open_file(&x, &first);
    if (e == ERR_OK)
        e = run_import(&x, &first);
    err_note_set(&note, "%.100s: %.140s", x.path, e == ERR_OK ? "" : first.text);
    if (e == ERR_OK)
        print_result(&x);
    else
        code = import_fail(&x.im, e, &note);
    import_xml_fini(&x);
    return code;
}
