/* backup.c - palimpsest backup and restore. A backup is a store of its own; restore verifies it,
 * copies it and verifies the copy before it gets its name. */
#include "base/disk.h"
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/out.h"
#include "cli/store.h"
#include "cli/verbs.h"
#include "cli/whole.h"
#include "engine/store.h"

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
        json_t *doc =
            json_pack("{s:s, s:I, s:I, s:I}", "backup", dir, "bytes_copied",
                      (json_int_t)r->bytes_copied, "bytes_kept", (json_int_t)r->bytes_kept,
                      "segments_replaced", (json_int_t)r->segments_replaced);
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
               (unsigned long long)r->segments_replaced,
               r->segments_replaced == 1 ? "segment" : "segments",
               r->segments_replaced == 1 ? "was" : "were");
}

/* Reads the store only, so its disk may be read-only. */
static enum cli_exit backup_offline(const struct cli_call *call, const char *data, const char *dir)
{
    struct stat st;
    if (stat(data, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return cli_fail(call, CLI_FAILED, "backup: %s is no directory", data);
    }
    struct engine_opts opts = { .dir = data, .read_only = true };
    struct engine *engine = NULL;
    struct engine_backup_result r;
    store_time greatest;
    struct err_note note;
    err e = engine_open(&opts, &engine, &greatest, &note);
    if (e != ERR_OK)
        return cli_fail(call, e == ERR_BAD ? CLI_FAILED : store_exit(e), "backup: %s", note.text);
    e = engine_backup(engine, dir, &r, &note);
    engine_close(&engine);
    if (e != ERR_OK)
        return cli_fail(call,
                        e == ERR_CONFLICT ? CLI_REFUSED
                        : e == ERR_BAD    ? CLI_FAILED
                                          : store_exit(e),
                        "backup: %s", note.text);
    print_backup(cli_flag(call, "json"), dir, &r);
    return CLI_OK;
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
        c.failed = cli_fail(call, CLI_FAILED, "backup: the name of %s is not UTF-8", dir);
    else
        doc = client_ask_json(&c, &(struct client_request){ .method = "POST",
                                                            .path = STR("/v1/admin.backup"),
                                                            .has_body = true,
                                                            .body = str_of(body),
                                                            .patient = true,
                                                            .member = "bytes_copied" });
    if (doc != NULL)
        print_backup(
            c.json, json_string_value(json_object_get(to, "to")),
            &(struct engine_backup_result){
                .bytes_copied = (uint64_t)json_integer_value(json_object_get(doc, "bytes_copied")),
                .bytes_kept = (uint64_t)json_integer_value(json_object_get(doc, "bytes_kept")),
                .segments_replaced =
                    (uint64_t)json_integer_value(json_object_get(doc, "segments_replaced")) });
    if (doc != NULL && !c.json)
        store_tell_rest(doc);
    code = doc != NULL ? CLI_OK : c.failed;
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
        return backup_offline(call, data, call->operands[0]);
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

/* CLI_OK, or it was said why. */
static enum cli_exit cli_backup_verify(const struct cli_call *call, const char *dir, bool is_backup)
{
    struct store_check c;
    err e = store_check(dir, !cli_flag(call, "json"), &c);
    const char *first = json_string_value(json_array_get(c.found, 0));
    enum cli_exit code = store_exit(e);
    if (first == NULL)
        first = c.note.text;
    if (e == ERR_CORRUPT && is_backup)
        (void)cli_fail(
            call, code,
            "restore: the backup in %s is damaged, nothing is restored: %s (where its store is "
            "still whole, one more backup into it mends it)",
            dir, first);
    else if (e == ERR_CORRUPT)
        (void)cli_fail(call, code,
                       "restore: the copy of the backup in %s is damaged, nothing is restored: %s",
                       dir, first);
    else if (e != ERR_OK)
        (void)cli_fail(call, code, "restore: %s: %s", dir, first);
    json_decref(c.found);
    return code;
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

static enum cli_exit restore_to(const struct cli_call *call, const char *backup, const char *dir,
                                const char *part)
{
    uint64_t bytes;
    struct err_note note;
    enum cli_exit code = cli_backup_verify(call, backup, true);
    if (code != CLI_OK)
        return code;
    err e = copy_backup(backup, part, &bytes, &note);
    if (e == ERR_CONFLICT)
        return cli_fail(call, CLI_REFUSED,
                        "restore: %s exists: another restore is under way, or one was cut off and "
                        "left it; remove it then",
                        part);
    if (e != ERR_OK) {
        if (e != ERR_UNAVAILABLE) /* else nothing was copied */
            copy_remove(part);
        return cli_fail(call, CLI_FAILED, "restore: %s", note.text);
    }
    code = cli_backup_verify(call, part, false);
    if (code == CLI_OK && rename(part, dir) != 0)
        code = cli_fail(call, CLI_FAILED, "restore: cannot name it %s: %s", dir, strerror(errno));
    if (code != CLI_OK) {
        copy_remove(part);
        return code;
    }
    if (whole_sync_name(dir, &note) != ERR_OK)
        return cli_fail(call, CLI_FAILED,
                        "restore: %s is restored, but may be gone after a power cut: %s", dir,
                        note.text);
    char size[OUT_SIZE_BYTES];
    out_size(bytes, size);
    if (cli_flag(call, "json"))
        printf("{\"bytes_copied\":%llu}\n", (unsigned long long)bytes);
    else
        printf("restored %s, verified; start it with: palimpsest serve --data %s\n", size, dir);
    return CLI_OK;
}

/* A folder that another disk is mounted on cannot be put in place of by rename. */
static bool is_mount_point(const char *dir)
{
    char above[COPY_PATH_BYTES];
    struct stat own, parent;
    int n = snprintf(above, sizeof above, "%s/..", dir);
    return n > 0 && n < COPY_PATH_BYTES && stat(dir, &own) == 0 && stat(above, &parent) == 0 &&
           (own.st_dev != parent.st_dev || own.st_ino == parent.st_ino);
}

enum cli_exit verb_restore(struct cli_call *call)
{
    const char *backup = call->operands[0], *given = cli_value(call, "data");
    char part[COPY_PATH_BYTES], real[PATH_MAX];
    if (given == NULL || given[0] == '\0')
        return cli_fail(call, CLI_USAGE, "restore: --data says where to");
    const char *dir = realpath(given, real) != NULL
                          ? real
                          : given; /* a link stays, what it leads to is replaced */
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    int used = snprintf(part, sizeof part, "%.*s.restoring", (int)n, dir);
    struct stat st;
    if (stat(backup, &st) != 0 || !S_ISDIR(st.st_mode))
        return cli_fail(call, CLI_FAILED, "restore: %s is no directory", backup);
    if (used < 0 || used >= COPY_PATH_BYTES)
        return cli_fail(call, CLI_FAILED, "restore: the name of %s is too long", given);
    if (disk_lies_in(dir, backup))
        return cli_fail(call, CLI_REFUSED,
                        "restore: %s lies in the backup itself: choose a folder outside of it",
                        given);
    if (!is_free(dir))
        return cli_fail(call, CLI_REFUSED, "restore: %s is not empty; it is left as it is", given);
    if (is_mount_point(dir))
        return cli_fail(call, CLI_REFUSED,
                        "restore: %s is where a disk is mounted, which cannot be replaced at once: "
                        "name a folder in it",
                        given);
    return restore_to(call, backup, dir, part);
}
