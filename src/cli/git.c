/* git.c - reads a repository's history from git's plumbing commands, as streams. Invariant:
 * output that is not of the expected form ends the import with an error; nothing is guessed. */
#include "cli/git.h"

#include <stdlib.h>
#include <string.h>

/* A repository may be somebody else's, with a configuration that names programs to run: the monitor
 * of its files, which reading the index asks, and whatever brings objects that are missing. None of
 * them is run for an import. */
#define GIT_IN(repository) "git", "-c", "core.fsmonitor=false", "-C", repository

void git_guard(void)
{
    INVARIANT(setenv("GIT_ALLOW_PROTOCOL", "", 1) ==
              0); /* goes before what the repository allows */
    INVARIANT(setenv("GIT_NO_LAZY_FETCH", "1", 1) == 0); /* git 2.45 on */
}

/* ---- the list of commits ---- */

static err take_commit(struct git_history *h, str line, struct err_note *note)
{
    str rest = line;
    str seconds = str_split(&rest, ' ');
    str oid = str_split(&rest, ' ');
    struct git_commit c = { .merge = str_find(rest, ' ') < rest.n };
    if (!str_to_i64(seconds, &c.time_s) || !str_to_cstr(oid, c.oid, sizeof c.oid) || oid.n < 40)
        return err_bad(note, "git rev-list said \"%.*s\"", STR_ARG(str_take(line, 80)));
    if (h->count == h->size) {
        if (h->size == GIT_COMMITS_MAX) {
            err_note_set(note, "more than %d commits", GIT_COMMITS_MAX);
            return ERR_LIMIT;
        }
        h->size = h->size == 0 ? 1024 : h->size * 2;
        h->commits = reallocarray(h->commits, h->size, sizeof *h->commits);
        INVARIANT(h->commits != NULL);
    }
    h->commits[h->count++] = c;
    return ERR_OK;
}

err git_history_read(const char *repository, const char *ref, struct git_history *out,
                     struct err_note *note)
{
    const char *const argv[] = {
        GIT_IN(repository), "rev-list",         "--reverse", "--date-order", "--timestamp",
        "--parents",        "--end-of-options", ref,         "--",           NULL
    };
    struct child child;
    *out = (struct git_history){ 0 };
    err e = child_start(&child, argv, -1, note);
    if (e != ERR_OK)
        return e;
    char *line = NULL;
    size_t size = 0;
    while (e == ERR_OK && getline(&line, &size, child.from) > 0)
        e = take_commit(out, str_take(str_of(line), str_find(str_of(line), '\n')), note);
    free(line);
    err ended = child_end(&child, e == ERR_OK ? note : NULL);
    if (e == ERR_OK && ended != ERR_OK)
        return err_bad(note, "git cannot list the history of %s in \"%s\"", ref, repository);
    return e;
}

void git_history_fini(struct git_history *h)
{
    free(h->commits);
    *h = (struct git_history){ 0 };
}

err git_is_shallow(const char *repository, bool *out, struct err_note *note)
{
    const char *const argv[] = { GIT_IN(repository), "rev-parse", "--is-shallow-repository", NULL };
    struct child child;
    err e = child_start(&child, argv, -1, note);
    if (e != ERR_OK)
        return e;
    char line[64];
    bool said = fgets(line, sizeof line, child.from) != NULL && str_eq(str_of(line), STR("true\n"));
    e = child_end(&child, note);
    if (e == ERR_OK)
        *out = said;
    return e;
}

/* ---- what each changed ---- */

enum { CHANGES_MAGIC = 0x617c4a6e };
struct git_changes {
    uint32_t magic;
    const struct git_history *history;
    struct child child;
    FILE *ids; /* stdin of diff-tree: a file without a name, so that nobody waits for anybody */
    size_t next_index; /* the commit whose id comes next, at the earliest */
    bool any;          /* a commit's id was read */
    bool ended;        /* the child was waited for */
    char *word;        /* as getdelim wants it */
    size_t word_size;
};

static FILE *ids_file(const struct git_history *h)
{
    FILE *f = tmpfile();
    if (f == NULL)
        return NULL;
    for (size_t i = 0; i < h->count; i++)
        fprintf(f, "%s\n", h->commits[i].oid);
    if (fflush(f) != 0 || fseek(f, 0, SEEK_SET) != 0) {
        fclose(f);
        return NULL;
    }
    return f;
}

err git_changes_begin(const char *repository, const struct git_history *h, struct git_changes **out,
                      struct err_note *note)
{
    const char *const argv[] = {
        GIT_IN(repository), "diff-tree",   "--stdin",       "-r", "-m", "--root", "--raw", "-z",
        "--no-renames",     "--no-abbrev", "--no-ext-diff", NULL
    };
    struct git_changes *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    *g = (struct git_changes){ .magic = CHANGES_MAGIC, .history = h, .ids = ids_file(h) };
    if (g->ids == NULL) {
        free(g);
        err_note_set(note, "cannot write a temporary file of %zu commits", h->count);
        return ERR_IO;
    }
    err e = child_start(&g->child, argv, fileno(g->ids), note);
    if (e != ERR_OK) {
        fclose(g->ids);
        free(g);
        return e;
    }
    *out = g;
    return ERR_OK;
}

void git_changes_end(struct git_changes **gp)
{
    struct git_changes *g = *gp;
    if (g == NULL)
        return;
    MAGIC_CHECK(g, CHANGES_MAGIC);
    if (!g->ended)
        child_drop(&g->child);
    fclose(g->ids);
    free(g->word);
    g->magic = 0;
    free(g);
    *gp = NULL;
}

bool git_raw_parse(str record, struct git_change *out)
{
    if (record.n < 1 || record.p[0] != ':')
        return false;
    str rest = str_skip(record, 1);
    str field[5];
    for (unsigned i = 0; i < 5; i++)
        field[i] = str_split(&rest, ' ');
    if (rest.n > 0 || field[4].n == 0 || field[3].n < 40 ||
        !str_to_cstr(field[3], out->oid, sizeof out->oid))
        return false;
    bool regular = str_eq(field[1], STR("100644")) || str_eq(field[1], STR("100755"));
    out->deleted = !regular;
    return true;
}

/* The next NUL-ended word; ERR_NOT_FOUND at the end of what git had to say. */
static err next_word(struct git_changes *g, str *out, struct err_note *note)
{
    ssize_t n = getdelim(&g->word, &g->word_size, '\0', g->child.from);
    if (n <= 0) {
        g->ended = true;
        err e = child_end(&g->child, note);
        return e == ERR_OK ? ERR_NOT_FOUND : e;
    }
    *out = (str){ .p = g->word, .n = (size_t)n - (g->word[n - 1] == '\0' ? 1 : 0) };
    return ERR_OK;
}

/* Ids come in the order they were sent; commits without changes are left out, merges come once a
 * parent. */
static bool take_id(struct git_changes *g, str id)
{
    if (g->any && str_eq(id, str_of(g->history->commits[g->next_index].oid)))
        return true;
    size_t i = g->any ? g->next_index + 1 : 0;
    while (i < g->history->count && !str_eq(id, str_of(g->history->commits[i].oid)))
        i++;
    if (i == g->history->count)
        return false;
    g->next_index = i;
    g->any = true;
    return true;
}

err git_changes_next(struct git_changes *g, struct git_change *out, struct err_note *note)
{
    MAGIC_CHECK(g, CHANGES_MAGIC);
    str word;
    err e = g->ended ? ERR_NOT_FOUND : ERR_OK;
    while (e == ERR_OK && (e = next_word(g, &word, note)) == ERR_OK && !str_starts(word, STR(":")))
        if (!take_id(g, word))
            return err_bad(note, "git diff-tree said \"%.*s\"", STR_ARG(str_take(word, 80)));
    if (e != ERR_OK)
        return e;
    struct git_change change = { .commit_index = g->next_index,
                                 .merge = g->history->commits[g->next_index].merge };
    if (!g->any || !git_raw_parse(word, &change))
        return err_bad(note, "git diff-tree said \"%.*s\"", STR_ARG(str_take(word, 80)));
    if (next_word(g, &change.path, note) != ERR_OK)
        return err_bad(note, "git diff-tree ended within a record");
    *out = change;
    return ERR_OK;
}

/* ---- blobs ---- */

err git_blobs_begin(const char *repository, struct git_blobs *out, struct err_note *note)
{
    const char *const argv[] = { GIT_IN(repository), "cat-file", "--batch", NULL };
    return child_start(&out->child, argv, -1, note);
}

void git_blobs_end(struct git_blobs *b)
{
    child_drop(&b->child);
}

static bool skip_bytes(FILE *from, uint64_t n)
{
    char chunk[8192];
    while (n > 0) {
        size_t want = n < sizeof chunk ? (size_t)n : sizeof chunk;
        if (fread(chunk, 1, want, from) != want)
            return false;
        n -= want;
    }
    return true;
}

/* "<oid> blob <size>" */
static bool parse_head(str line, uint64_t *size)
{
    str rest = line;
    (void)str_split(&rest, ' ');
    str type = str_split(&rest, ' ');
    return str_eq(type, STR("blob")) && str_to_u64(rest, size);
}

err git_blob_read(struct git_blobs *b, const char *oid, struct buf *out, struct err_note *note)
{
    char line[256];
    uint64_t size;
    buf_clear(out);
    bool sent = fprintf(b->child.to, "%s\n", oid) > 0 && fflush(b->child.to) == 0;
    if (!sent || fgets(line, sizeof line, b->child.from) == NULL) {
        err_note_set(note, "git cat-file ended");
        return ERR_IO;
    }
    str head = str_take(str_of(line), str_find(str_of(line), '\n'));
    if (!parse_head(head, &size)) {
        err_note_set(note, "git has no blob %s: \"%.*s\"", oid, STR_ARG(str_take(head, 100)));
        return ERR_NOT_FOUND;
    }
    if (size > GIT_BLOB_BYTES_MAX) {
        err_note_set(note, "%llu bytes, at most %d are imported", (unsigned long long)size,
                     GIT_BLOB_BYTES_MAX);
        return skip_bytes(b->child.from, size + 1) ? ERR_LIMIT : ERR_IO;
    }
    char *dst = size > 0 ? buf_extend(out, (size_t)size) : NULL;
    bool whole =
        (size == 0 || (dst != NULL && fread(dst, 1, (size_t)size, b->child.from) == size)) &&
        skip_bytes(b->child.from, 1);
    if (!whole) {
        err_note_set(note, "git cat-file ended within blob %s", oid);
        return ERR_IO;
    }
    return ERR_OK;
}
