/* backup.c - palimpsest backup and restore. A backup is a store of its own; restore verifies it, copies it and
 * verifies the copy before it gets its name. */
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/out.h"
#include "cli/store.h"
#include "cli/verbs.h"
#include "engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_backup(bool json, const char *dir, const struct engine_backup_result *r)
{
    if (json) {
        json_t *doc = json_pack("{s:s, s:I, s:I, s:I}", "backup", dir, "bytes_copied", (json_int_t)r->bytes_copied,
                                "bytes_kept", (json_int_t)r->bytes_kept, "segments_replaced",
                                (json_int_t)r->segments_replaced);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    char a[OUT_SIZE_BYTES], b[OUT_SIZE_BYTES];
    out_size(r->bytes_copied, a);
    out_size(r->bytes_kept, b);
    printf("backup in %s: %s copied, %s were there already\n", dir, a, b);
    if (r->segments_replaced > 0)
        printf("%llu log %s of the backup before %s damaged, and copied anew\n",
               (unsigned long long)r->segments_replaced, r->segments_replaced == 1 ? "segment" : "segments",
               r->segments_replaced == 1 ? "was" : "were");
}

/* Reads the store only, so its disk may be read-only. */
static enum cli_exit backup_offline(const char *data, const char *dir, bool json)
{
    struct stat st;
    if (stat(data, &st) != 0 || !S_ISDIR(st.st_mode)) {
        cli_error("backup: %s is no directory", data);
        return CLI_FAILED;
    }
    struct engine_opts opts = { .dir = data, .read_only = true };
    struct engine *engine = NULL;
    struct engine_backup_result r;
    store_time greatest;
    struct err_note note;
    err e = engine_open(&opts, &engine, &greatest, &note);
    if (e == ERR_OK)
        e = engine_backup(engine, dir, &r, &note);
    engine_close(&engine);
    if (e == ERR_OK)
        print_backup(json, dir, &r);
    else
        cli_error("backup: %s", note.text);
    return e == ERR_BAD ? CLI_FAILED : (enum cli_exit)store_exit(e);
}

/* The server wants an absolute name, for it has another working directory. */
static json_t *backup_body(const char *dir)
{
    if (dir[0] == '/')
        return json_pack("{s:s}", "to", dir);
    char cwd[PATH_MAX];
    if (getcwd(cwd, sizeof cwd) == NULL)
        return NULL;
    json_t *path = json_sprintf("%s/%s", cwd, dir);
    return path != NULL ? json_pack("{s:o}", "to", path) : NULL;
}

static enum cli_exit backup_online(const struct cli_call *call, const char *dir)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *to = backup_body(dir);
    char *body = to != NULL ? json_dumps(to, JSON_COMPACT) : NULL;
    json_t *doc = NULL;
    if (body == NULL)
        cli_error("backup: the name of %s is not UTF-8", dir);
    else
        doc = client_ask_json(&c, &(struct client_request){
            .method = "POST", .path = STR("/v1/admin.backup"), .has_body = true, .body = str_of(body),
            .patient = true });
    if (doc != NULL)
        print_backup(c.json, json_string_value(json_object_get(to, "to")), &(struct engine_backup_result){
            .bytes_copied = (uint64_t)json_integer_value(json_object_get(doc, "bytes_copied")),
            .bytes_kept = (uint64_t)json_integer_value(json_object_get(doc, "bytes_kept")),
            .segments_replaced = (uint64_t)json_integer_value(json_object_get(doc, "segments_replaced")) });
    code = doc != NULL ? CLI_OK : CLI_FAILED;
    json_decref(doc);
    json_decref(to);
    free(body);
    client_close(&c);
    return code;
}

enum cli_exit verb_backup(struct cli_call *call)
{
    const char *data = cli_value(call, "data");
    if (data != NULL)
        return backup_offline(data, call->operands[0], cli_flag(call, "json"));
    return backup_online(call, call->operands[0]);
}

/* ---- restore ---- */

/* Absent or an empty directory. */
static bool is_free(const char *dir)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return errno == ENOENT;
    unsigned entries = 0;
    while (entries < 3 && readdir(d) != NULL)
        entries++;
    closedir(d);
    return entries == 2;
}

static bool verify(const char *dir, bool is_backup, bool json, enum cli_exit *code)
{
    struct store_check c;
    err e = store_check(dir, !json, &c);
    const char *first = json_string_value(json_array_get(c.found, 0));
    if (first == NULL)
        first = c.note.text;
    if (e == ERR_CORRUPT && is_backup)
        cli_error("restore: the backup in %s is damaged, nothing is restored: %s (where its store is still whole, one"
                  " more backup into it mends it)", dir, first);
    else if (e == ERR_CORRUPT)
        cli_error("restore: the copy of the backup in %s is damaged, nothing is restored: %s", dir, first);
    else if (e != ERR_OK)
        cli_error("restore: %s: %s", dir, first);
    json_decref(c.found);
    *code = (enum cli_exit)store_exit(e);
    return e == ERR_OK;
}

/* Copies it while no other process has it: a server may just be backing up into it. */
static err copy_backup(const char *backup, const char *part, uint64_t *bytes, struct err_note *note)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/LOCK", backup);
    int lock = n < 0 || n >= PATH_MAX ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        err_note_set(note, "%s is in use by another process", backup);
        close(lock);
        return ERR_UNAVAILABLE;
    }
    err e = copy_tree(backup, part, bytes, note);
    if (lock >= 0)
        close(lock);
    return e;
}

static enum cli_exit restore_to(const char *backup, const char *dir, const char *part, bool json)
{
    enum cli_exit code;
    uint64_t bytes;
    struct err_note note;
    if (!verify(backup, true, json, &code))
        return code;
    err e = copy_backup(backup, part, &bytes, &note);
    if (e == ERR_CONFLICT) {
        cli_error("restore: %s exists: another restore is under way, or one was cut off and left it; remove it then",
                  part);
        return CLI_FAILED;
    }
    if (e != ERR_OK) {
        cli_error("restore: %s", note.text);
        if (e != ERR_UNAVAILABLE) /* else nothing was copied */
            copy_remove(part);
        return CLI_FAILED;
    }
    if (!verify(part, false, json, &code)) {
        copy_remove(part);
        return code;
    }
    if (rename(part, dir) != 0) {
        cli_error("restore: cannot name it %s: %s", dir, strerror(errno));
        copy_remove(part);
        return CLI_FAILED;
    }
    char size[OUT_SIZE_BYTES];
    out_size(bytes, size);
    if (json)
        printf("{\"bytes_copied\":%llu}\n", (unsigned long long)bytes);
    else
        printf("restored %s, verified; start it with: palimpsest serve --data %s\n", size, dir);
    return CLI_OK;
}

enum cli_exit verb_restore(struct cli_call *call)
{
    const char *backup = call->operands[0], *dir = cli_value(call, "data");
    char part[COPY_PATH_BYTES];
    if (dir == NULL || dir[0] == '\0') {
        cli_error("restore: --data says where to");
        return CLI_USAGE;
    }
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    int used = snprintf(part, sizeof part, "%.*s.restoring", (int)n, dir);
    struct stat st;
    if (stat(backup, &st) != 0 || !S_ISDIR(st.st_mode)) {
        cli_error("restore: %s is no directory", backup);
        return CLI_FAILED;
    }
    if (!is_free(dir) || used < 0 || used >= COPY_PATH_BYTES) {
        cli_error("restore: %s is not empty; it is left as it is", dir);
        return CLI_FAILED;
    }
    return restore_to(backup, dir, part, cli_flag(call, "json"));
}
