/* vlog.c - opening, appending, reading, punching. Replay is in replay.c, files in segment.c.
 *
 * Invariants
 *  1. Bytes in [0, tail.offset) of the active segment are written; behind them lie zeros (zeros.h)
 *     or nothing. Groups up to synced are on disk, and all of the sealed segments.
 *  2. vlog_append writes only into blocks that vlog_reserve got before, so ENOSPC is found in time.
 *  3. A segment gets a successor only when all its groups are synced and the file ends with them,
 *     on disk.
 *  4. A group's header claims no more of those before it to be on disk than a sync that returned
 *     had covered. */
#include "vlog/segment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { META_BYTES_MAX = 128 << 20, BLOCK_BYTES = 4096 };

struct vlog_tail vlog_start(void)
{
    return (struct vlog_tail){ .segment = VLOG_FIRST_SEGMENT, .offset = RECORD_SEGMENT_BYTES };
}

static enum zeros_when zeros_when(const struct vlog_opts *opts)
{
    if (opts->zeros_always)
        return ZEROS_ALWAYS;
    return file_zeros_pay(opts->dir_fd) ? ZEROS_BEHIND_SMALL : ZEROS_NEVER;
}

err vlog_open(const struct vlog_opts *opts, struct vlog **out, struct err_note *note)
{
    struct vlog *log = calloc(1, sizeof(*log));
    INVARIANT(log != NULL);
    log->magic = VLOG_MAGIC;
    log->dir_fd = opts->dir_fd;
    memcpy(log->id, opts->id, RECORD_ID_BYTES);
    log->segment_bytes = opts->segment_bytes;
    log->faults = opts->faults;
    log->read_only = opts->read_only;
    log->zeros.when = zeros_when(opts);
    log->zero_bytes = calloc(1, VLOG_ZEROS_BYTES);
    INVARIANT(log->zero_bytes != NULL);
    pthread_rwlock_init(&log->segments.lock, NULL);
    pthread_mutex_init(&log->sync, NULL);
    buf_init(&log->meta, META_BYTES_MAX);
    buf_init(&log->heads, META_BYTES_MAX);
    err why = segments_init(log);
    if (why != ERR_OK) {
        err_note_set(note, "cannot list the log's segments");
        vlog_close(&log);
        return why;
    }
    *out = log;
    return ERR_OK;
}

void vlog_close(struct vlog **lp)
{
    struct vlog *log = *lp;
    if (log == NULL)
        return;
    MAGIC_CHECK(log, VLOG_MAGIC);
    if (log->active != NULL && !log->read_only && log->active->reserved > log->tail.offset)
        (void)file_truncate(log->faults, atomic_load(&log->active->fd),
                            log->tail.offset); /* only tidies up */
    segments_fini(&log->segments);
    pthread_rwlock_destroy(&log->segments.lock);
    pthread_mutex_destroy(&log->sync);
    buf_fini(&log->meta);
    buf_fini(&log->heads);
    free(log->iov);
    free(log->zero_bytes);
    log->magic = 0;
    free(log);
    *lp = NULL;
}

struct vlog_tail vlog_tail(const struct vlog *log)
{
    return log->tail;
}

uint64_t vlog_synced(const struct vlog *log)
{
    return atomic_load(&log->synced);
}

/* Under the lock: the segment of to, the only one that may hold what is not on disk. */
static err sync_segment(struct vlog *log, struct vlog_tail to)
{
    struct segment *seg = segments_find(&log->segments, to.segment);
    INVARIANT(seg != NULL);
    log->sync_failed = file_datasync(log->faults, atomic_load(&seg->fd)) != 0;
    if (log->sync_failed)
        return ERR_IO;
    log->syncs++;
    atomic_store(&log->synced, to.seq);
    return ERR_OK;
}

err vlog_sync(struct vlog *log, struct vlog_tail to)
{
    MAGIC_CHECK(log, VLOG_MAGIC);
    if (atomic_load(&log->synced) >= to.seq)
        return ERR_OK;
    pthread_mutex_lock(&log->sync);
    err why = log->sync_failed ? ERR_IO : ERR_OK;
    if (why == ERR_OK && atomic_load(&log->synced) < to.seq)
        why = sync_segment(log, to);
    pthread_mutex_unlock(&log->sync);
    return why;
}

/* ---- appending ---- */

/* How far to reserve beyond what is needed: more in a larger segment, so that a small store stays
 * small. */
static uint64_t ahead_bytes(uint64_t end)
{
    uint64_t ahead = end / 16;
    if (ahead < VLOG_AHEAD_BYTES_MIN)
        ahead = VLOG_AHEAD_BYTES_MIN;
    return ahead > VLOG_AHEAD_BYTES_MAX ? VLOG_AHEAD_BYTES_MAX : ahead;
}

/* Blocks of seg, which is written up to tail, up to need. */
static err reserve_to(struct vlog *log, struct segment *seg, uint64_t tail, uint64_t need)
{
    if (need <= seg->reserved)
        return ERR_OK;
    uint64_t base = seg->reserved > tail ? seg->reserved : tail;
    int fd = atomic_load(&seg->fd);
    uint64_t to = need + ahead_bytes(need);
    int why = file_reserve(log->faults, fd, base, to - base);
    if (why == ENOSPC || why == EDQUOT) {
        to = need;
        why = file_reserve(log->faults, fd, base, to - base);
    }
    if (why != 0)
        return file_err(why) == ERR_FULL ? ERR_FULL : ERR_IO;
    seg->reserved = to;
    return ERR_OK;
}

/* Cuts the active segment behind its groups, for good: in one that has a successor zeros would look
 * like damage. */
static err vlog_seal(struct vlog *log)
{
    int fd = atomic_load(&log->active->fd);
    int why = file_truncate(log->faults, fd, log->tail.offset);
    log->active->zeroed = 0;
    return why == 0 && file_sync(log->faults, fd) == 0 ? ERR_OK : ERR_IO;
}

/* The active segment, cut by seal, goes on. The group on its way gets the blocks again that it was
 * promised. No more: the disk is full. */
static err unseal(struct vlog *log)
{
    struct segment *seg = log->active;
    uint64_t from = log->tail.offset;
    seg->reserved = log->promised > from ? log->promised : from;
    if (seg->reserved == from)
        return ERR_OK;
    int fd = atomic_load(&seg->fd);
    return file_reserve(log->faults, fd, from, seg->reserved - from) == 0 ? ERR_OK : ERR_IO;
}

/* Seals the active segment and starts the next, with blocks for n bytes of groups. When the disk
 * has no room for it the old one stays as it is: a group may be on its way into it. */
static err roll(struct vlog *log, uint64_t n)
{
    struct segment *next = NULL;
    bool sealed = false;
    err why = vlog_sync(log, log->tail);
    if (why == ERR_OK)
        why = segment_make(log, log->active->number + 1, &next);
    if (why != ERR_OK)
        return why;
    why = reserve_to(log, next, RECORD_SEGMENT_BYTES, RECORD_SEGMENT_BYTES + n);
    if (why == ERR_OK) {
        why = vlog_seal(log);
        sealed = why == ERR_OK;
    }
    if (why == ERR_OK)
        why = segment_add(log, next);
    if (why != ERR_OK) {
        segment_discard(log, &next);
        return why == ERR_FULL && sealed && unseal(log) != ERR_OK ? ERR_IO : why;
    }
    log->active = next;
    log->tail.segment = next->number;
    log->tail.offset = RECORD_SEGMENT_BYTES;
    return ERR_OK;
}

err vlog_reserve(struct vlog *log, uint64_t group_bytes)
{
    INVARIANT(!log->read_only && log->active != NULL);
    uint64_t n = RECORD_GROUP_BYTES + group_bytes;
    uint64_t tail = log->tail.offset;
    bool rolls = tail + n > log->segment_bytes && tail > RECORD_SEGMENT_BYTES;
    err why = rolls ? roll(log, n) : reserve_to(log, log->active, tail, tail + n);
    if (why == ERR_OK)
        log->promised = log->tail.offset + n;
    return why;
}

static bool has_record(const struct record_mutation *m)
{
    return m->blob == RECORD_BLOB_LOG && m->bytes.p != NULL;
}

uint64_t vlog_mutation_bytes(const struct record_mutation *m)
{
    uint64_t n = record_mutation_size(m);
    if (has_record(m))
        n += RECORD_VALUE_BYTES + m->key.n + m->bytes.n;
    return n;
}

/* Gives every value of the group its place, the first one the group's header and meta as well. */
static void place_values(const struct vlog *log, struct vlog_group *g, struct record_group *head)
{
    for (uint32_t i = 0; i < g->count; i++)
        head->meta_bytes += (uint32_t)record_mutation_size(&g->mutations[i]);
    uint64_t extent = log->tail.offset;
    uint64_t at = extent + RECORD_GROUP_BYTES + head->meta_bytes;
    for (uint32_t i = 0; i < g->count; i++) {
        struct record_mutation *m = &g->mutations[i];
        if (!has_record(m))
            continue;
        uint64_t value_at = at + RECORD_VALUE_BYTES + m->key.n;
        m->place.segment = log->tail.segment;
        m->place.extent_offset = extent;
        m->place.value_offset = (uint32_t)(value_at - extent);
        m->place.n = (uint32_t)m->bytes.n;
        m->place.extent_size = m->place.value_offset + m->place.n;
        at = value_at + m->bytes.n;
        extent = at;
        head->values++;
        head->values_bytes += RECORD_VALUE_BYTES + m->key.n + m->bytes.n;
    }
}

static void iov_room(struct vlog *log, size_t count)
{
    if (log->iov_size >= count)
        return;
    free(log->iov);
    log->iov = calloc(count, sizeof(*log->iov));
    INVARIANT(log->iov != NULL);
    log->iov_size = count;
}

static struct iovec iov_of(str s)
{
    return (struct iovec){ .iov_base = (void *)(uintptr_t)s.p,
                           .iov_len = s.n }; /* pwritev reads only */
}

static void encode_values(struct vlog *log, const struct vlog_group *g, struct iovec *iov,
                          int *count)
{
    char *head = log->heads.p;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct record_mutation *m = &g->mutations[i];
        if (!has_record(m))
            continue;
        uint64_t at =
            m->place.extent_offset + m->place.value_offset - m->key.n - RECORD_VALUE_BYTES;
        struct record_value v = {
            .seq = g->seq,
            .hash = m->place.hash,
            .value_bytes = m->place.n,
            .key_bytes = (uint16_t)m->key.n,
            .space = m->space,
        };
        struct record_spot spot = { .id = log->id, .segment = m->place.segment, .offset = at };
        record_value_encode(&v, spot, m->key, head);
        iov[(*count)++] = (struct iovec){ .iov_base = head, .iov_len = RECORD_VALUE_BYTES };
        iov[(*count)++] = iov_of(m->key);
        iov[(*count)++] = iov_of(m->bytes);
        head += RECORD_VALUE_BYTES;
    }
}

/* Fills meta, heads and iov; returns the number of iovecs. */
static int encode_group(struct vlog *log, const struct vlog_group *g,
                        const struct record_group *head, char *header)
{
    buf_clear(&log->meta);
    for (uint32_t i = 0; i < g->count; i++)
        record_mutation_encode(&g->mutations[i], &log->meta);
    buf_clear(&log->heads);
    (void)buf_extend(&log->heads, (size_t)head->values * RECORD_VALUE_BYTES); /* checked below */
    INVARIANT(buf_status(&log->meta) == ERR_OK);
    INVARIANT(buf_status(&log->heads) == ERR_OK);
    INVARIANT(log->meta.n == head->meta_bytes);
    struct record_spot spot = { .id = log->id,
                                .segment = log->tail.segment,
                                .offset = log->tail.offset };
    record_group_encode(head, spot, buf_str(&log->meta), header);
    iov_room(log, 3 + 3 * (size_t)head->values); /* the last one is for zeros */
    int count = 0;
    log->iov[count++] = (struct iovec){ .iov_base = header, .iov_len = RECORD_GROUP_BYTES };
    log->iov[count++] = iov_of(buf_str(&log->meta));
    encode_values(log, g, log->iov, &count);
    return count;
}

/* How many zeros to write behind a group that ends there. */
static uint64_t zeros_behind(const struct vlog *log, uint64_t end)
{
    const struct segment *seg = log->active;
    if (end <= seg->zeroed || !zeros_pay(&log->zeros))
        return 0;
    uint64_t limit = seg->reserved < log->segment_bytes ? seg->reserved : log->segment_bytes;
    uint64_t until = end + VLOG_ZEROS_BYTES < limit ? end + VLOG_ZEROS_BYTES : limit;
    until = until / BLOCK_BYTES * BLOCK_BYTES;
    return until > end ? until - end : 0;
}

err vlog_append(struct vlog *log, struct vlog_group *g, struct vlog_extent *whole)
{
    MAGIC_CHECK(log, VLOG_MAGIC);
    INVARIANT(g->seq == log->tail.seq + 1);
    struct record_group head = { .seq = g->seq, .time = g->time, .mutations = g->count };
    head.unsynced = (uint32_t)(log->tail.seq - atomic_load(&log->synced));
    place_values(log, g, &head);
    uint64_t n = RECORD_GROUP_BYTES + head.meta_bytes + head.values_bytes;
    INVARIANT(log->tail.offset + n <= log->active->reserved);
    zeros_count(&log->zeros, n, head.unsynced == 0);
    uint64_t zeros = g->no_zeros ? 0 : zeros_behind(log, log->tail.offset + n);
    char header[RECORD_GROUP_BYTES];
    int count = encode_group(log, g, &head, header);
    log->iov[count++] = (struct iovec){ .iov_base = log->zero_bytes, .iov_len = zeros };
    int fd = atomic_load(&log->active->fd);
    int why = file_write(log->faults, fd, log->iov, count, log->tail.offset);
    if (why != 0)
        return file_err(why) == ERR_FULL ? ERR_FULL : ERR_IO;
    *whole =
        (struct vlog_extent){ .segment = log->tail.segment, .offset = log->tail.offset, .size = n };
    log->tail.seq = g->seq;
    log->tail.offset += n;
    if (zeros > 0)
        log->active->zeroed = log->tail.offset + zeros;
    atomic_store(&log->active->end, log->tail.offset);
    log->groups++;
    log->bytes_written += n;
    return ERR_OK;
}

/* ---- reading and giving back ---- */

typedef int read_fn(const struct file_faults *ff, int fd, void *dst, size_t n, uint64_t offset);

static err read_with(struct vlog *log, uint32_t segment, uint64_t offset, struct iovec to,
                     read_fn *fn)
{
    struct segment *seg = segments_find(&log->segments, segment);
    if (seg == NULL)
        return ERR_CORRUPT;
    uint64_t end = atomic_load_explicit(&seg->end, memory_order_acquire);
    if (offset > end || to.iov_len > end - offset)
        return ERR_CORRUPT;
    int fd = -1;
    err why = segment_fd(log, seg, &fd);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_CORRUPT : ERR_IO;
    int got = fn(log->faults, fd, to.iov_base, to.iov_len, offset);
    if (got == ENODATA)
        return ERR_CORRUPT;
    if (got == EAGAIN)
        return ERR_AGAIN;
    return got == 0 ? ERR_OK : ERR_IO;
}

err vlog_read(struct vlog *log, uint32_t segment, uint64_t offset, size_t n, void *dst)
{
    return read_with(log, segment, offset, (struct iovec){ .iov_base = dst, .iov_len = n },
                     file_read);
}

err vlog_read_now(struct vlog *log, uint32_t segment, uint64_t offset, size_t n, void *dst)
{
    return read_with(log, segment, offset, (struct iovec){ .iov_base = dst, .iov_len = n },
                     file_read_now);
}

err vlog_punch(struct vlog *log, struct vlog_extent hole)
{
    struct segment *seg = segments_find(&log->segments, hole.segment);
    if (seg == NULL)
        return ERR_OK;
    uint64_t from = (hole.offset + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    uint64_t to = (hole.offset + hole.size) / BLOCK_BYTES * BLOCK_BYTES;
    if (from >= to)
        return ERR_OK;
    int fd = -1;
    err why = segment_fd(log, seg, &fd);
    if (why != ERR_OK)
        return why;
    return file_err(file_punch(log->faults, fd, from, to - from));
}

void vlog_stats_get(struct vlog *log, struct vlog_stats *out)
{
    pthread_rwlock_rdlock(&log->segments.lock);
    uint64_t segments = log->segments.count;
    pthread_rwlock_unlock(&log->segments.lock);
    *out = (struct vlog_stats){
        .segments = segments,
        .syncs = log->syncs,
        .groups = log->groups,
        .bytes_written = log->bytes_written,
    };
}
