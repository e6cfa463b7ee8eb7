/* resume.c - the state file of an import, and whether the server knows what it says. */
#include "cli/resume.h"

#include "cli/whole.h"
#include "codec/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>
#include <xxhash.h>

enum { SUM_BYTES = 17, KEY_BYTES = 8 /* of a key, beside its parts */ };

static bool make_dirs(char *path)
{
    for (char *p = path + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok)
            return false;
    }
    return true;
}

static void default_path(struct resume *r, const struct client *c, str what)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    struct buf key;
    buf_init(&key, strlen(c->server) + strlen(c->domain) + strlen(c->bucket) + what.n + KEY_BYTES);
    buf_printf(&key, "%s\n%s\n%s\n", c->server, c->domain, c->bucket);
    buf_put(&key, what);
    uint64_t hash = XXH3_64bits(key.p, key.n);
    buf_fini(&key);
    int n = -1;
    if (state != NULL && state[0] == '/')
        n = snprintf(r->path, sizeof r->path, "%s/palimpsest/import-%016llx.json", state,
                     (unsigned long long)hash);
    else if (home != NULL && home[0] == '/')
        n = snprintf(r->path, sizeof r->path, "%s/.local/state/palimpsest/import-%016llx.json",
                     home, (unsigned long long)hash);
    if (n < 0 || (size_t)n >= sizeof r->path || !make_dirs(r->path))
        r->path[0] = '\0';
}

static bool copy_text(const json_t *doc, const char *name, char *dst, size_t size)
{
    const json_t *t = json_object_get(doc, name);
    return json_is_string(t) &&
           str_to_cstr((str){ .p = json_string_value(t), .n = json_string_length(t) }, dst, size);
}

static bool read_fields(struct resume *r, const json_t *doc)
{
    json_int_t done = json_integer_value(json_object_get(doc, "done"));
    json_int_t rev = json_integer_value(json_object_get(doc, "rev"));
    if (done <= 0 || rev <= 0 || !copy_text(doc, "title", r->title, sizeof r->title) ||
        !copy_text(doc, "mark", r->mark, sizeof r->mark) ||
        !copy_text(doc, "tid", r->tid, sizeof r->tid))
        return false;
    r->done = (uint64_t)done;
    r->rev = (uint64_t)rev;
    return true;
}

/* Of all but the sum itself. */
static void sum_of(json_t *doc, char sum[SUM_BYTES])
{
    json_t *rest = json_copy(doc);
    INVARIANT(rest != NULL);
    (void)json_object_del(rest, "sum"); /* there need be none */
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    INVARIANT(text != NULL);
    (void)snprintf(sum, SUM_BYTES, "%016llx",
                   (unsigned long long)XXH3_64bits(text, strlen(text))); /* fits */
    free(text);
    json_decref(rest);
}

/* A device that is at its end at once, such as /dev/null, keeps nothing. */
static bool keeps_nothing(int fd, const struct stat *st)
{
    char c;
    return S_ISCHR(st->st_mode) && read(fd, &c, 1) == 0;
}

/* The bytes of the file; an empty one is none. ERR_NOT_FOUND: nothing is there. */
static err read_file(struct resume *r, struct buf *out, struct err_note *note)
{
    struct stat st;
    int fd = open(r->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return ERR_NOT_FOUND;
    if (fd < 0 || fstat(fd, &st) != 0) {
        err_note_set(note, "cannot read %s: %s", r->path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return ERR_IO;
    }
    if (keeps_nothing(fd, &st)) {
        close(fd);
        r->path[0] = '\0';
        return ERR_NOT_FOUND;
    }
    bool small = S_ISREG(st.st_mode) && st.st_size < RESUME_FILE_BYTES_MAX;
    char *dst = small ? buf_extend(out, RESUME_FILE_BYTES_MAX) : NULL;
    ssize_t n = small ? read(fd, dst, RESUME_FILE_BYTES_MAX) : 0;
    int why = errno;
    close(fd);
    if (!small) {
        err_note_set(note, "%s is no state file of an import: name another", r->path);
        return ERR_CONFLICT;
    }
    if (n < 0) {
        err_note_set(note, "cannot read %s: %s", r->path, strerror(why));
        return ERR_IO;
    }
    out->n = (size_t)n;
    return n == 0 ? ERR_NOT_FOUND : ERR_OK;
}

/* Was it written by us, whatever became of it since? What stands where nobody named a file was. */
static bool is_ours(const struct resume_opts *opts, str text)
{
    static const char *const begins[] = { "{\"of\":\"import ", "{\"of\":\"migrate ",
                                          "{\"of\":\"prewarm", "{\"done\":" };
    bool ours = opts->given == NULL;
    for (size_t i = 0; i < COUNT_OF(begins); i++)
        ours = ours || str_starts(text, str_of(begins[i]));
    return ours;
}

static bool is_whole(json_t *doc, struct resume *found)
{
    const char *sum = json_string_value(json_object_get(doc, "sum"));
    char real[SUM_BYTES];
    if (doc == NULL || !read_fields(found, doc))
        return false;
    sum_of(doc, real);
    return sum == NULL || strcmp(sum, real) == 0;
}

/* Its fields, when they are whole and of this import. */
static err take_state(struct resume *r, str text, json_t *doc, const struct resume_opts *opts,
                      struct err_note *note)
{
    struct resume found = *r;
    const char *of = json_string_value(json_object_get(doc, "of"));
    bool whole = is_whole(doc, &found);
    if (!whole && !is_ours(opts, text)) {
        err_note_set(note, "%s is no state file of an import: name another", r->path);
        return ERR_CONFLICT;
    }
    if (opts->fresh)
        return ERR_OK;
    if (!whole) {
        err_note_set(note, "%s is damaged: --restart begins anew", r->path);
        return ERR_CONFLICT;
    }
    if (of != NULL && strcmp(of, r->of) != 0) {
        err_note_set(note, "%s is of another import, \"%s\": name another, or --restart", r->path,
                     of);
        return ERR_CONFLICT;
    }
    *r = found;
    return ERR_OK;
}

static err read_state(struct resume *r, const struct resume_opts *opts, struct err_note *note)
{
    struct buf text;
    buf_init(&text, RESUME_FILE_BYTES_MAX);
    err e = read_file(r, &text, note);
    if (e == ERR_OK) {
        json_t *doc = json_body_read(buf_str(&text));
        e = take_state(r, buf_str(&text), doc, opts, note);
        json_decref(doc);
    }
    buf_fini(&text);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Of a longer one its beginning and a digest of all of it. */
static void set_of(struct resume *r, str of)
{
    if (!str_to_cstr(of, r->of, sizeof r->of))
        (void)snprintf(r->of, sizeof r->of, "%.*s... %016llx", RESUME_OF_SHOWN_BYTES, of.p,
                       (unsigned long long)XXH3_64bits(of.p, of.n)); /* fits */
}

err resume_open(struct resume *r, const struct client *c, const struct resume_opts *opts,
                struct err_note *note)
{
    *r = (struct resume){ .call = c->call };
    set_of(r, opts->of);
    if (opts->given != NULL && !str_to_cstr(str_of(opts->given), r->path, sizeof r->path)) {
        err_note_set(note, "the name of the file of --state is too long");
        return ERR_LIMIT;
    }
    if (u8_check((const uint8_t *)r->of, strlen(r->of)) != NULL) /* JSON cannot say it */
        for (char *p = r->of; *p != '\0'; p++)
            *p = (unsigned char)*p < 0x80 ? *p : '?';
    if (opts->given == NULL && opts->input.n > 0)
        default_path(r, c, opts->input);
    return r->path[0] != '\0' ? read_state(r, opts, note) : ERR_OK;
}

void resume_forget(struct resume *r)
{
    r->done = 0;
}

err resume_verify(struct resume *r, struct client *c, struct err_note *note)
{
    if (r->done == 0)
        return ERR_OK;
    char rev[24];
    snprintf(rev, sizeof rev, "%llu", (unsigned long long)r->rev);
    struct buf path;
    buf_init(&path, 16384);
    client_path_render(c, &path, STR("explain"), str_of(r->title),
                       (const char *const[]){ rev, r->tid });
    struct client_answer a;
    err e = client_send(c, &(struct client_request){ .method = "GET", .path = client_path(&path) },
                        &a, note);
    buf_fini(&path);
    bool known = false;
    if (e == ERR_OK && a.status == 200) {
        json_t *doc = json_body_read(buf_str(&a.body));
        const char *state = json_string_value(json_object_get(doc, "state"));
        known = state != NULL && strcmp(state, "unknown") != 0 && strcmp(state, "purged") != 0;
        json_decref(doc);
    }
    client_answer_fini(&a);
    if (e == ERR_OK && !known)
        resume_forget(r);
    return e;
}

void resume_end(struct resume *r)
{
    /* An empty file is none, and a link stays what it is. */
    if (r->path[0] != '\0' && truncate(r->path, 0) != 0 && errno != ENOENT)
        cli_warn(r->call, "cannot empty %s: %s", r->path, strerror(errno));
}

static bool write_state(const struct resume *r, const json_t *doc, struct err_note *note)
{
    struct whole w;
    if (whole_begin(&w, r->path, note) != ERR_OK)
        return false;
    bool dumped = json_dumpf(doc, w.to, JSON_COMPACT) == 0;
    return whole_end(&w, dumped, note) == ERR_OK && dumped;
}

void resume_save(struct resume *r, const struct uploads *u, mono now, bool forced)
{
    struct upload_last last = uploads_last(u);
    bool due = forced || now.ns - r->saved_at.ns >= RESUME_SAVE_EVERY_MS * NS_PER_MS;
    if (r->path[0] == '\0' || last.rev == 0 || !due)
        return;
    r->saved_at = now;
    char tid[TID_TEXT_BYTES + 1];
    tid_format(last.tid, tid);
    json_t *doc =
        json_pack("{s:s, s:I, s:s%, s:s%, s:I, s:s}", "of", r->of, "done",
                  (json_int_t)uploads_done_through(u), "title", last.title.p, last.title.n, "mark",
                  last.mark.p, last.mark.n, "rev", (json_int_t)last.rev, "tid", tid);
    struct err_note note = { .text = "it holds what is no UTF-8" };
    char sum[SUM_BYTES];
    if (doc != NULL) {
        sum_of(doc, sum);
        (void)json_object_set_new(doc, "sum", json_string(sum)); /* dies with its document */
    }
    if (doc == NULL || !write_state(r, doc, &note)) {
        cli_warn(r->call, "cannot keep how far the import came in %s: %s", r->path, note.text);
        r->path[0] = '\0';
    }
    json_decref(doc);
}
