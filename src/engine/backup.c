/* backup.c - a copy of a running store that opens as a store.
 *
 *   pin            nothing the copy needs is punched or unlinked from here on
 *   index          LMDB's own consistent copy, to index/data.mdb.new
 *   tail           where the log ends now; not before the index's position. A folder with more
 *   behind it is refused segments       up to the tail, in order, beside those that are there: each
 *                  complete as .next, or not at all; one that is there in full is kept, and none
 *   replaced by one that is damaged in the store switch         STORE goes, the new segments and
 *                  the new index replace the old, segments the source no longer has go, STORE comes
 *                  back
 *   verify         the copy is opened for reading and checked; if segments are damaged that were
 *                  kept, all of this runs once more, copying them anew
 * An interrupted backup is finished by running it again. Until the switch the folder opens as the
 * backup before; in the switch, and in a first backup, it has no STORE and does not open. Half
 * files (.new) go when a backup fails and when one begins, whole segments (.next) are kept for the
 * next one, but on a full disk. */
#include "engine/backup_parts.h"
#include "engine/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_BYTES = 1 << 20,
    PART_NAME_BYTES = VLOG_NAME_BYTES + 8,
};

static err copy_index(struct backup *b)
{
    int fd = -1;
    int why =
        file_open(b->engine->faults, b->index_fd, "data.mdb.new", O_RDWR | O_CREAT | O_TRUNC, &fd);
    if (why != 0)
        return backup_refuse(b, "cannot write the index in", why);
    why = mdb_env_copyfd(b->engine->env, fd);
    if (why == 0)
        why = file_sync(b->engine->faults, fd);
    struct stat st;
    if (why == 0 && fstat(fd, &st) == 0)
        b->result.bytes_copied += (uint64_t)st.st_size;
    close(fd);
    return why == 0 ? ERR_OK : backup_refuse(b, "cannot write the index in", why > 0 ? why : EIO);
}

/* ---- segments ---- */

/* NNNNNNNN.seg, or with what is behind it. */
static const char *part_name(uint32_t number, const char *behind, char out[PART_NAME_BYTES])
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(number, name);
    (void)snprintf(out, PART_NAME_BYTES, "%s%s", name, behind);
    return out;
}

/* What of [0, end) is no hole: only that is ever copied. Where the file system cannot say, all of
 * it. */
static uint64_t data_bytes(int fd, uint64_t end)
{
    uint64_t sum = 0, at = 0;
    while (at < end) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* only a hole up to the end */
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return end;
        uint64_t until = (uint64_t)hole < end ? (uint64_t)hole : end;
        sum += until > (uint64_t)data ? until - (uint64_t)data : 0;
        at = (uint64_t)hole;
    }
    return sum;
}

/* Is the segment there already, of this store and as long as it should be? *bytes: of its data. */
static bool is_kept(struct backup *b, const char *name, uint32_t number, uint64_t end,
                    uint64_t *bytes)
{
    char header[RECORD_SEGMENT_BYTES];
    int fd = -1;
    struct stat st;
    if (file_open(b->engine->faults, b->log_fd, name, O_RDONLY, &fd) != 0)
        return false;
    bool same = fstat(fd, &st) == 0 && (uint64_t)st.st_size == end &&
                file_read(b->engine->faults, fd, header, sizeof(header), 0) == 0;
    *bytes = same ? data_bytes(fd, end) : 0;
    close(fd);
    struct record_spot spot = { .id = b->engine->id, .segment = number };
    return same && record_segment_decode((str){ .p = header, .n = sizeof(header) }, spot) == ERR_OK;
}

static int copy_range(struct backup *b, int from, int to, uint64_t at, uint64_t end)
{
    while (at < end) {
        size_t n = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
        int why = file_read(b->engine->faults, from, b->buffer, n, at);
        struct iovec iov = { .iov_base = b->buffer, .iov_len = n };
        if (why == 0)
            why = file_write(b->engine->faults, to, &iov, 1, at);
        if (why != 0)
            return why;
        at += n;
        b->result.bytes_copied += n;
    }
    return 0;
}

/* Copies [0, end) and leaves holes as holes. */
static int copy_sparse(struct backup *b, int from, int to, uint64_t end)
{
    uint64_t at = 0;
    while (at < end) {
        off_t data = lseek(from, (off_t)at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* only a hole up to the end */
        off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        if (hole < 0)
            return errno;
        uint64_t until = (uint64_t)hole < end ? (uint64_t)hole : end;
        int why = (uint64_t)data < end ? copy_range(b, from, to, (uint64_t)data, until) : 0;
        if (why != 0)
            return why;
        at = (uint64_t)hole;
    }
    int why = file_truncate(b->engine->faults, to, end);
    return why == 0 ? file_sync(b->engine->faults, to) : why;
}

static int copy_file(struct backup *b, uint32_t number, uint64_t end)
{
    char name[PART_NAME_BYTES], part[PART_NAME_BYTES], next[PART_NAME_BYTES];
    int from = -1;
    int to = -1;
    part_name(number, ".new", part);
    int why = file_open(b->engine->faults, b->engine->log_fd, part_name(number, "", name), O_RDONLY,
                        &from);
    if (why != 0)
        return why;
    why = file_open(b->engine->faults, b->log_fd, part, O_RDWR | O_CREAT | O_TRUNC, &to);
    if (why == 0) {
        why = copy_sparse(b, from, to, end);
        close(to);
    }
    close(from);
    return why == 0
               ? file_rename(b->engine->faults, b->log_fd, part, part_name(number, ".next", next))
               : why;
}

static int unlink_part(struct backup *b, uint32_t number, const char *behind)
{
    char name[PART_NAME_BYTES];
    int why = file_unlink(b->engine->faults, b->log_fd, part_name(number, behind, name));
    return why == ENOENT ? 0 : why;
}

static bool is_suspect(const struct backup *b, uint32_t number)
{
    for (size_t i = 0; i < b->suspect_count; i++)
        if (b->suspects[i] == number)
            return true;
    return b->suspect_count == BACKUP_SUSPECTS_MAX;
}

static void note_first(void *ctx, const char *what)
{
    struct backup *b = ctx;
    if (b->note.text[0] == '\0')
        err_note_set(&b->note, "%s", what);
}

/* Before it replaces the one in the folder, which may be the last whole one. */
static err source_is_whole(struct backup *b, uint32_t number)
{
    struct engine_check_opts opts = { .found = note_first, .ctx = b, .segment = number };
    err why = engine_check(b->engine, &opts);
    struct err_note first = b->note;
    if (why == ERR_CORRUPT)
        err_note_set(
            &b->note,
            "%s, in the store itself. It does not replace the one in %s: back up to another folder",
            first.text, b->dir);
    return why;
}

/* ERR_NOT_FOUND: it was empty and went meanwhile. */
static err copy_anew(struct backup *b, uint32_t number, uint64_t end)
{
    char name[PART_NAME_BYTES];
    bool replaces = faccessat(b->log_fd, part_name(number, "", name), F_OK, 0) == 0;
    err why = replaces ? source_is_whole(b, number) : ERR_OK;
    if (why != ERR_OK)
        return why;
    int failed = copy_file(b, number, end);
    return failed == 0 || failed == ENOENT
               ? file_err(failed)
               : backup_refuse(b, "cannot copy a log segment in", failed);
}

static err copy_segment(struct backup *b, const struct vlog_segment *s)
{
    uint64_t end = s->number == b->tail.segment ? b->tail.offset : s->end;
    char name[PART_NAME_BYTES], next[PART_NAME_BYTES];
    err why = ERR_OK;
    uint64_t kept, copied = b->result.bytes_copied;
    if (is_suspect(b, s->number)) {
        why = copy_anew(b, s->number, end);
        b->result.segments_replaced++;
        b->bytes_replaced += b->result.bytes_copied - copied;
    } else if (is_kept(b, part_name(s->number, "", name), s->number, end, &kept)) {
        b->result.bytes_kept += kept;
        int failed = unlink_part(b, s->number, ".next");
        why = failed == 0 ? ERR_OK : backup_refuse(b, "cannot remove a log segment in", failed);
    } else if (is_kept(b, part_name(s->number, ".next", next), s->number, end, &kept)) {
        b->result.bytes_kept += kept;
    } else {
        why = copy_anew(b, s->number, end);
    }
    b->result.segments += why == ERR_OK;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err copy_segments(struct backup *b)
{
    struct vlog_segment s = { .number = 0 };
    err why = vlog_segment_next(b->engine->log, 0, &s);
    while (why == ERR_OK && s.number <= b->tail.segment) {
        why = copy_segment(b, &s);
        if (why == ERR_OK)
            why = vlog_segment_next(b->engine->log, s.number + 1, &s);
    }
    if (why == ERR_NOT_FOUND || why == ERR_OK)
        return file_sync(b->engine->faults, b->log_fd) == 0
                   ? ERR_OK
                   : backup_refuse(b, "cannot sync in", EIO);
    return why;
}

/* Puts the segments of the copy up to the tail in place and drops those that the store no longer
 * has. */
static err place_segments(struct backup *b)
{
    struct vlog_segment s = { .number = 0 };
    for (uint32_t number = 1; number <= b->tail.segment; number++) {
        char name[PART_NAME_BYTES], next[PART_NAME_BYTES];
        if (s.number < number && vlog_segment_next(b->engine->log, number, &s) != ERR_OK)
            return ERR_IO;
        int why = 0;
        if (number == s.number) {
            why = file_rename(b->engine->faults, b->log_fd, part_name(number, ".next", next),
                              part_name(number, "", name));
        } else {
            why = unlink_part(b, number, ".next");
            why = why == 0 ? unlink_part(b, number, "") : why;
        }
        if (why != 0 && why != ENOENT)
            return backup_refuse(b, "cannot put the segments in place in", why);
    }
    return file_sync(b->engine->faults, b->log_fd) == 0 ? ERR_OK
                                                        : backup_refuse(b, "cannot sync in", EIO);
}

static err switch_over(struct backup *b)
{
    const struct file_faults *ff = b->engine->faults;
    b->switching = true;
    int why = file_unlink(ff, b->dir_fd, "STORE");
    if (why == 0)
        why = file_sync(ff, b->dir_fd);
    if (why != 0 && why != ENOENT)
        return backup_refuse(b, "cannot take STORE away in", why);
    err is = place_segments(b);
    if (is != ERR_OK)
        return is;
    why = file_rename(ff, b->index_fd, "data.mdb.new", "data.mdb");
    if (why == 0)
        why = file_sync(ff, b->index_fd);
    if (why != 0)
        return backup_refuse(b, "cannot put the index in place in", why);
    is = store_write_id(ff, b->dir_fd, b->engine->id);
    return is == ERR_OK ? ERR_OK
                        : backup_refuse(b, "cannot write STORE in", is == ERR_FULL ? ENOSPC : EIO);
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- verifying ---- */

static void suspect_add(void *ctx, uint32_t segment)
{
    struct backup *b = ctx;
    if (!is_suspect(b, segment))
        b->suspects[b->suspect_count++] = segment;
}

static err backup_verify(struct backup *b)
{
    MDB_envinfo info;
    if (mdb_env_info(b->engine->env, &info) != 0)
        return ERR_IO;
    struct engine_opts opts = { .dir = b->dir, .read_only = true, .map_bytes = info.me_mapsize };
    struct engine *copy = NULL;
    store_time greatest;
    b->note.text[0] = '\0';
    b->suspect_count = 0;
    err why = engine_open(&opts, &copy, &greatest, &b->note);
    if (why != ERR_OK)
        return why;
    struct engine_check_opts check = { .found = note_first, .damaged = suspect_add, .ctx = b };
    why = engine_check(copy, &check);
    engine_close(&copy);
    return why;
}

/* Behind the last group that is acknowledged. */
static struct vlog_tail acknowledged(struct engine *e)
{
    pthread_mutex_lock(&e->index);
    struct vlog_tail tail = e->active->end;
    pthread_mutex_unlock(&e->index);
    return tail;
}

/* Is there more behind the tail, in its segment or in others? Then the folder goes on where this
 * store, restored from an older one, has taken another way: not to be overwritten, nor to be mixed
 * with. */
static bool target_is_ahead(const struct backup *b)
{
    char last[VLOG_NAME_BYTES];
    vlog_segment_name(b->tail.segment, last);
    int fd = openat(b->log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    struct stat st;
    bool ahead = fstatat(b->log_fd, last, &st, 0) == 0 && (uint64_t)st.st_size > b->tail.offset;
    for (struct dirent *d = readdir(dir); d != NULL && !ahead; d = readdir(dir))
        ahead = str_ends(str_of(d->d_name), STR(".seg")) &&
                (strlen(d->d_name) > strlen(last) || strcmp(d->d_name, last) > 0);
    closedir(dir);
    return ahead;
}

static err copy_and_switch(struct backup *b)
{
    err why = backup_target_open(b);
    if (why != ERR_OK)
        return why;
    /* So that the log of the copy has next to no tail that the index does not know: damage there
     * would look like a write that was cut off. A store that cannot write any more is copied with
     * its tail. */
    why = engine_flush(b->engine);
    if (why != ERR_OK && why != ERR_FULL)
        return why;
    why = copy_index(b);
    b->tail = acknowledged(b->engine);
    if (why == ERR_OK && target_is_ahead(b)) {
        err_note_set(
            &b->note,
            "%s holds a later state of this store than it is in now, which would be lost: choose"
            " another folder",
            b->dir);
        return ERR_CONFLICT;
    }
    if (why == ERR_OK)
        why = copy_segments(b);
    return why == ERR_OK ? switch_over(b) : why;
}

/* After a failure: takes away what must not stay, and says what the folder holds. */
static void clear_up(struct backup *b, err why)
{
    if (!b->opened)
        return;
    bool emptied = why == ERR_FULL && !b->switching;
    backup_sweep_halves(b);
    if (emptied)
        backup_sweep_folder(b->log_fd, ".next");
    struct err_note first = b->note;
    const char *what = first.text[0] != '\0' ? first.text : err_name(why);
    err_note_set(&b->note, "%s%s%s", what, emptied ? "; what was copied is removed again" : "",
                 b->switching
                     ? "; the folder holds no whole backup until backup has run there again"
                 : b->suspect_count > 0 ? "; the copy there is damaged, too"
                 : b->had_store         ? "; the backup that was there before is whole"
                                        : "; there is no backup there yet");
}

/* One time through, up to the verifying. */
static err backup_pass(struct backup *b)
{
    struct engine_view *v = engine_view_begin(b->engine);
    struct engine_pin pin = engine_pin(v);
    engine_view_end(&v);
    b->opened = b->switching = false;
    b->note.text[0] = '\0';
    err why = copy_and_switch(b);
    engine_unpin(b->engine, pin);
    if (why != ERR_OK)
        clear_up(b, why);
    fd_close(&b->lock_fd);
    fd_close(&b->index_fd);
    fd_close(&b->log_fd);
    fd_close(&b->dir_fd);
    return why;
}

static err engine_backup_run(struct backup *b)
{
    err why = backup_pass(b);
    if (why != ERR_OK)
        return why;
    why = backup_verify(b);
    if (why == ERR_CORRUPT && b->suspect_count > 0 && b->result.bytes_kept > 0) {
        uint64_t kept = b->result.bytes_kept;
        b->result = (struct engine_backup_result){ .bytes_copied = b->result.bytes_copied };
        why = backup_pass(b);
        b->result.bytes_kept = kept > b->bytes_replaced ? kept - b->bytes_replaced : 0;
        why = why == ERR_OK ? backup_verify(b) : why;
    }
    if (why == ERR_CORRUPT) {
        struct err_note first = b->note;
        err_note_set(&b->note,
                     "%s, in the copy just made in %s. The store seems to be damaged itself: run "
                     "check on it",
                     first.text, b->dir);
    }
    return why;
}

err engine_backup(struct engine *e, const char *dir, struct engine_backup_result *out,
                  struct err_note *note)
{
    MAGIC_CHECK(e, ENGINE_MAGIC);
    struct backup b = { .engine = e, .dir = dir };
    b.dir_fd = b.log_fd = b.index_fd = b.lock_fd = -1;
    b.buffer = malloc(COPY_BYTES);
    INVARIANT(b.buffer != NULL);
    err why = engine_backup_run(&b);
    free(b.buffer);
    if (why == ERR_OK)
        *out = b.result;
    else if (b.note.text[0] == '\0')
        err_note_set(note, "the backup to %s failed: %s", dir, err_name(why));
    else
        err_note_set(note, "%s", b.note.text);
    return why;
}
