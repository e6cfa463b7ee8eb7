/* prewarm.c - palimpsest prewarm: has the server render what it does not hold yet, title by
 * title. */
#include "cli/prewarm.h"
#include "cli/import.h"
#include "cli/stop.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 4 * PREWARM_TITLE_BYTES_MAX };

struct prewarm {
    struct import im;
    const char *list, *wiki;
    int64_t namespace_only;
    FILE *file;
    uint64_t item, total; /* total 0: unknown */
    uint64_t left_out;    /* of the wiki, which cannot be asked for */
    char from_title[PREWARM_TITLE_BYTES_MAX + 1], from_mark[PREWARM_TITLE_BYTES_MAX + 1];
};

static err put_title(struct prewarm *p, str title, str mark, struct err_note *note)
{
    err e = uploads_put(p->im.uploads,
                        &(struct upload_item){ .title = title, .mark = mark, .ask = true }, note);
    if (e == ERR_OK)
        import_step(&p->im, p->item, p->total);
    return e;
}

/* ---- titles of a list ---- */

/* Where the last run stopped there must be the same title now. */
static err check_resumed(const struct prewarm *p, str title, const char *mark,
                         struct err_note *note)
{
    if (strcmp(mark, p->from_mark) != 0 || str_eq(title, str_of(p->from_title)))
        return ERR_OK;
    err_note_set(note, "%s is not the list of the last run any more; start over with --restart",
                 p->list);
    return ERR_BAD;
}

static err take_line(struct prewarm *p, str line, struct err_note *note)
{
    str title = str_trim(line);
    if (title.n == 0)
        return ERR_OK;
    char mark[24];
    snprintf(mark, sizeof mark, "%llu", (unsigned long long)++p->item);
    if (p->item <= p->im.resume.done)
        return check_resumed(p, title, mark, note);
    return put_title(p, title, str_of(mark), note);
}

/* A line without its end, "\n" or "\r\n", cut behind LINE_BYTES_MAX bytes: too long for a title
 * then, and told as such. False: there is none. */
static bool read_line(FILE *from, struct buf *line)
{
    buf_clear(line);
    int c;
    while ((c = fgetc(from)) != EOF && c != '\n')
        if (line->n < LINE_BYTES_MAX)
            buf_put_c(line, (char)c);
    while (line->n > 0 && line->p[line->n - 1] == '\r')
        line->n--;
    return c != EOF || (line->n > 0 && !ferror(from));
}

static err list_file(struct prewarm *p, struct err_note *note)
{
    struct buf line;
    buf_init(&line, LINE_BYTES_MAX);
    err e = ERR_OK;
    while (e == ERR_OK && read_line(p->file, &line))
        e = take_line(p, buf_str(&line), note);
    buf_fini(&line);
    if (e == ERR_OK && ferror(p->file)) {
        err_note_set(note, "cannot read: %s", strerror(errno));
        return ERR_IO;
    }
    return e;
}

/* Lines that are titles; 0: the file cannot be read twice. */
static uint64_t count_lines(FILE *file)
{
    if (fseek(file, 0, SEEK_END) != 0 || fseek(file, 0, SEEK_SET) != 0)
        return 0;
    uint64_t lines = 0;
    bool filled = false;
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) {
        if (c == '\n') {
            lines += filled;
            filled = false;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            filled = true;
        }
    }
    (void)fseek(file, 0, SEEK_SET); /* it could before */
    return lines + filled;
}

/* ---- titles of a wiki ---- */

static err on_wiki_title(void *ctx, str title, str mark, struct err_note *note)
{
    struct prewarm *p = ctx;
    p->item++;
    return put_title(p, title, mark, note);
}

static void on_wiki_left_out(void *ctx, str title, const char *why)
{
    struct prewarm *p = ctx;
    p->left_out++;
    import_skipped(&p->im, title, 0, why);
}

static void on_wiki_counted(void *ctx, uint64_t pages)
{
    struct prewarm *p = ctx;
    p->total = pages;
}

static err list_wiki(struct prewarm *p, struct err_note *note)
{
    p->item = p->im.resume.done;
    return prewarm_wiki_list(&(struct prewarm_wiki){ .api = p->wiki,
                                                     .namespace_only = p->namespace_only,
                                                     .from_mark = str_of(p->from_mark),
                                                     .from_title = str_of(p->from_title),
                                                     .each = on_wiki_title,
                                                     .left_out = on_wiki_left_out,
                                                     .counted = on_wiki_counted,
                                                     .ctx = p },
                             note);
}

/* ---- the verb ---- */

static err err_of(enum cli_exit code)
{
    return code == CLI_NO_SERVER ? ERR_UNAVAILABLE
           : code == CLI_REFUSED ? ERR_DENIED
                                 : ERR_NOT_FOUND;
}

/* A domain that is not served would be told for each title. */
static err ask_domain(struct prewarm *p, struct err_note *note)
{
    struct buf path;
    buf_init(&path, 4096);
    client_path_bucket(&p->im.client, &path);
    buf_put(&path, STR("/title/?limit=1"));
    struct client_answer a;
    err e = client_send(&p->im.client,
                        &(struct client_request){ .method = "GET", .path = client_path(&path) }, &a,
                        note);
    if (e == ERR_OK && a.status != 200)
        e = err_of(client_explain(&p->im.client, &a, note));
    client_answer_fini(&a);
    buf_fini(&path);
    return e;
}

static err run_prewarm(struct prewarm *p, struct err_note *note)
{
    err e = ask_domain(p, note);
    if (e == ERR_OK)
        e = import_resume(&p->im, note);
    if (e != ERR_OK)
        return e;
    if (p->im.resume.done > 0) {
        (void)str_to_cstr(str_of(p->im.resume.title), p->from_title,
                          sizeof p->from_title); /* they are of one size */
        (void)str_to_cstr(str_of(p->im.resume.mark), p->from_mark, sizeof p->from_mark);
    }
    import_begin(&p->im, "rendering", "pages");
    e = p->wiki != NULL ? list_wiki(p, note) : list_file(p, note);
    return import_finish(&p->im, e, note);
}

static void print_result(const struct prewarm *p)
{
    struct upload_counts n = uploads_counts(p->im.uploads);
    uint64_t before = p->im.resume.done;
    if (p->im.client.json) {
        json_t *doc =
            json_pack("{s:I, s:I, s:I, s:I, s:I}", "titles", (json_int_t)p->item, "rendered",
                      (json_int_t)n.stored, "already", (json_int_t)n.already, "asked_before",
                      (json_int_t)before, "refused", (json_int_t)(n.refused + p->left_out));
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    printf("%llu titles: %llu rendered, %llu already there", (unsigned long long)p->item,
           (unsigned long long)n.stored, (unsigned long long)n.already);
    if (before > 0)
        printf(", %llu passed over as asked for before", (unsigned long long)before);
    if (n.refused + p->left_out > 0)
        printf(", %llu refused", (unsigned long long)(n.refused + p->left_out));
    fputc('\n', stdout);
}

static enum cli_exit read_call(struct prewarm *p, const struct cli_call *call, struct buf *what)
{
    const char *namespace_only = cli_value(call, "namespace");
    p->wiki = cli_value(call, "wiki");
    p->list = call->operands_count > 0 ? call->operands[0] : NULL;
    if ((p->wiki == NULL) == (p->list == NULL)) {
        return cli_fail(call, CLI_USAGE,
                        "prewarm wants a FILE of titles or --wiki URL, one of the two");
    }
    if (namespace_only != NULL &&
        (p->wiki == NULL || !str_to_i64(str_of(namespace_only), &p->namespace_only) ||
         p->namespace_only < 0)) {
        return cli_fail(call, CLI_USAGE,
                        "prewarm: --namespace wants a number from 0 on, and goes with --wiki");
    }
    if (p->wiki != NULL && !str_starts(str_of(p->wiki), STR("http://")) &&
        !str_starts(str_of(p->wiki), STR("https://"))) {
        return cli_fail(call, CLI_USAGE, "--wiki wants the URL of an api.php, not \"%s\"", p->wiki);
    }
    if (p->wiki != NULL) {
        buf_printf(what, "prewarm wiki\n%s\n%lld", p->wiki, (long long)p->namespace_only);
    } else if (strcmp(p->list, "-") != 0) {
        buf_put(what, STR("prewarm list\n"));
        import_absolute(p->list, what);
    }
    return CLI_OK;
}

static err open_list(struct prewarm *p, struct err_note *note)
{
    if (p->wiki != NULL)
        return ERR_OK;
    p->file = stop_open(p->list);
    if (p->file == NULL) {
        err_note_set(note, "cannot read %s: %s", p->list, strerror(errno));
        return ERR_IO;
    }
    if (strcmp(p->list, "-") != 0)
        p->total = count_lines(p->file);
    return ERR_OK;
}

static enum cli_exit open_import(struct prewarm *p, const struct cli_call *call, str input)
{
    struct buf selection;
    buf_init(&selection, IMPORT_SELECTION_BYTES_MAX);
    if (p->wiki != NULL)
        buf_printf(&selection, "--wiki %s", p->wiki);
    if (p->namespace_only >= 0)
        buf_printf(&selection, " --namespace %lld", (long long)p->namespace_only);
    enum cli_exit code = import_open(&p->im, call, input, buf_str(&selection));
    buf_fini(&selection);
    return code;
}

enum cli_exit verb_prewarm(struct cli_call *call)
{
    struct prewarm p = { .namespace_only = -1 };
    struct buf what;
    buf_init(&what, IMPORT_SELECTION_BYTES_MAX);
    enum cli_exit code = read_call(&p, call, &what);
    if (code == CLI_OK)
        code = open_import(&p, call, buf_str(&what));
    buf_fini(&what);
    if (code != CLI_OK)
        return code;
    p.im.fresh = cli_flag(call, "fresh");
    struct err_note note = { .text = "" };
    err e = open_list(&p, &note);
    if (e == ERR_OK)
        e = run_prewarm(&p, &note);
    if (e == ERR_OK)
        print_result(&p);
    else
        code = import_fail(&p.im, e, &note);
    if (p.file != NULL)
        fclose(p.file);
    import_close(&p.im);
    return code;
}
