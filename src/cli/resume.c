/* resume.c - the state file of an import, and whether the server knows what it says. */
#include "cli/resume.h"

#include "cli/whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

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
    buf_init(&key, 32768);
    buf_printf(&key, "%s\n%s\n%s\n", c->server, c->domain, c->bucket);
    buf_put(&key, what);
    uint64_t hash = XXH3_64bits(key.p, key.n);
    buf_fini(&key);
    int n = -1;
    if (state != NULL && state[0] == '/')
        n = snprintf(r->path, sizeof r->path, "%s/palimpsest/import-%016llx.json", state, (unsigned long long)hash);
    else if (home != NULL && home[0] == '/')
        n = snprintf(r->path, sizeof r->path, "%s/.local/state/palimpsest/import-%016llx.json", home,
                     (unsigned long long)hash);
    if (n < 0 || (size_t)n >= sizeof r->path || !make_dirs(r->path))
        r->path[0] = '\0';
}

static bool copy_text(const json_t *doc, const char *name, char *dst, size_t size)
{
    const json_t *t = json_object_get(doc, name);
    return json_is_string(t) && str_to_cstr((str){ .p = json_string_value(t), .n = json_string_length(t) }, dst, size);
}

static void read_state(struct resume *r)
{
    json_t *doc = json_load_file(r->path, 0, NULL);
    json_int_t done = json_integer_value(json_object_get(doc, "done"));
    json_int_t rev = json_integer_value(json_object_get(doc, "rev"));
    bool whole = done > 0 && rev > 0 && copy_text(doc, "title", r->title, sizeof r->title) &&
                 copy_text(doc, "mark", r->mark, sizeof r->mark) && copy_text(doc, "tid", r->tid, sizeof r->tid);
    json_decref(doc);
    if (whole) {
        r->done = (uint64_t)done;
        r->rev = (uint64_t)rev;
    }
}

void resume_open(struct resume *r, const struct client *c, const char *given, str what, bool fresh)
{
    *r = (struct resume){ .call = c->call };
    if (given == NULL && what.n > 0)
        default_path(r, c, what);
    else if (given != NULL && !str_to_cstr(str_of(given), r->path, sizeof r->path))
        cli_warn(r->call, "the name of the state file is too long: nothing is kept");
    if (r->path[0] != '\0' && !fresh)
        read_state(r);
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
    client_path_render(c, &path, STR("explain"), str_of(r->title), (const char *const[]){ rev, r->tid });
    struct client_answer a;
    err e = client_send(c, &(struct client_request){ .method = "GET", .path = buf_str(&path) }, &a, note);
    buf_fini(&path);
    bool known = false;
    if (e == ERR_OK && a.status == 200) {
        json_t *doc = json_loadb(a.body.p != NULL ? a.body.p : "", a.body.n, 0, NULL);
        const char *state = json_string_value(json_object_get(doc, "state"));
        known = state != NULL && strcmp(state, "unknown") != 0 && strcmp(state, "purged") != 0;
        json_decref(doc);
    }
    client_answer_fini(&a);
    if (e == ERR_OK && !known)
        resume_forget(r);
    return e;
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
    json_t *doc = json_pack("{s:I, s:s%, s:s%, s:I, s:s}", "done", (json_int_t)uploads_done_through(u), "title",
                            last.title.p, last.title.n, "mark", last.mark.p, last.mark.n, "rev", (json_int_t)last.rev,
                            "tid", tid);
    struct err_note note = { .text = "it holds what is no UTF-8" };
    if (doc == NULL || !write_state(r, doc, &note)) {
        cli_warn(r->call, "cannot keep how far the import came in %s: %s", r->path, note.text);
        r->path[0] = '\0';
    }
    json_decref(doc);
}
