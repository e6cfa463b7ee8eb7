/* replay.c - from the position the index holds to the end of the log.
 *
 * A group that fails its sums is damage when a later one says it was on disk (vlog.c, invariants 3
 * and 4), and torn otherwise: a power loss leaves of what was not synced whatever blocks it likes,
 * and zeros that were written ahead (zeros.h) are no group. Values are checked of the groups that
 * none is known to say that of. */
#include "vlog/tail_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct replay {
    struct vlog *log;
    const struct vlog_replay_calls *calls;
    struct err_note *note;
    struct vlog_tail at; /* behind the last whole group */
    struct segment *seg;
    struct tail_reader reader;
    bool is_last;   /* no segment follows seg */
    uint64_t known; /* groups up to this are said to have been on disk */
    struct buf meta;
};

static err replay_damaged(struct replay *r, const char *what)
{
    char name[VLOG_NAME_BYTES];
    vlog_segment_name(r->at.segment, name);
    err_note_set(r->note,
                 "log/%s is damaged at offset %llu: %s. What was written behind it may be lost; "
                 "restore the store from"
                 " a backup, or see with check --data what else is damaged",
                 name, (unsigned long long)r->at.offset, what);
    return ERR_CORRUPT;
}

static struct record_spot spot_at(const struct replay *r, uint64_t offset)
{
    return (struct record_spot){ .id = r->log->id, .segment = r->at.segment, .offset = offset };
}

/* What headers behind a place say. */
struct later {
    bool any;       /* a group with a higher number is there */
    uint64_t known; /* the greatest number said to be on disk */
};

/* The last group that was on disk when g was written. */
static uint64_t known_by(const struct record_group *g)
{
    return g->unsynced < g->seq ? g->seq - 1 - g->unsynced : 0;
}

/* Looks for group headers with a higher number in window (which starts at offset). */
static void window_groups(const struct replay *r, str window, uint64_t offset, struct later *out)
{
    str magic = record_group_magic();
    size_t at = 0;
    while (at + RECORD_GROUP_BYTES <= window.n) {
        const char *hit = memmem(window.p + at, window.n - at, magic.p, magic.n);
        if (hit == NULL)
            return;
        at = (size_t)(hit - window.p);
        struct record_group g;
        if (record_group_decode(str_skip(window, at), spot_at(r, offset + at), &g) == ERR_OK &&
            g.seq > r->at.seq) {
            out->any = true;
            out->known = known_by(&g) > out->known ? known_by(&g) : out->known;
        }
        at++;
    }
}

/* Looks for whole group headers anywhere behind offset in this segment. */
static err find_later_groups(struct replay *r, uint64_t offset, struct later *out)
{
    enum { WINDOW = 1 << 16 };
    char *window = malloc(WINDOW);
    INVARIANT(window != NULL);
    err why = ERR_OK;
    *out = (struct later){ .any = false };
    while (why == ERR_OK && offset + RECORD_GROUP_BYTES <= r->reader.size) {
        uint64_t left = r->reader.size - offset;
        size_t n = left < WINDOW ? (size_t)left : WINDOW;
        why = tail_read(&r->reader, offset, n, window);
        if (why == ERR_OK)
            window_groups(r, (str){ .p = window, .n = n }, offset, out);
        offset += n < WINDOW ? n : WINDOW - RECORD_GROUP_BYTES + 1;
    }
    free(window);
    return why;
}

/* The group at r->at fails its checks: torn, or damage? */
static err torn_or_damaged(struct replay *r)
{
    if (!r->is_last)
        return replay_damaged(r, "a group fails its checksum and a later segment exists");
    struct later later;
    err why = find_later_groups(r, r->at.offset + 1, &later);
    if (why != ERR_OK)
        return why;
    bool was_there = later.known > r->at.seq;
    return was_there
               ? replay_damaged(r, "a group fails its checksum and one behind it says it was whole")
               : ERR_OK;
}

/* Reads and checks one value record at *at. ERR_CORRUPT when it does not hold. */
static err check_value(struct replay *r, uint64_t *at, uint64_t end)
{
    char head[RECORD_VALUE_BYTES + UINT16_MAX];
    uint64_t left = end - *at;
    size_t n = left < sizeof(head) ? (size_t)left : sizeof(head);
    err why = tail_read(&r->reader, *at, n, head);
    if (why != ERR_OK)
        return why;
    struct record_value v;
    if (record_value_decode((str){ .p = head, .n = n }, spot_at(r, *at), &v) != ERR_OK)
        return ERR_CORRUPT;
    uint64_t value_at = *at + RECORD_VALUE_BYTES + v.key_bytes;
    if (v.value_bytes > end - value_at)
        return ERR_CORRUPT;
    char *value = malloc(v.value_bytes + 1u);
    INVARIANT(value != NULL);
    why = tail_read(&r->reader, value_at, v.value_bytes, value);
    if (why == ERR_OK && XXH3_64bits(value, v.value_bytes) != v.hash)
        why = ERR_CORRUPT;
    free(value);
    *at = value_at + v.value_bytes;
    return why;
}

static err check_values(struct replay *r, uint64_t at, uint64_t end)
{
    err why = ERR_OK;
    while (why == ERR_OK && at < end)
        why = check_value(r, &at, end);
    return why;
}

/* Reads the group at r->at. ERR_OK; ERR_CORRUPT: it fails its sums; ERR_IO. */
static err read_group(struct replay *r, struct record_group *g)
{
    char header[RECORD_GROUP_BYTES];
    uint64_t left = r->reader.size - r->at.offset;
    if (left < RECORD_GROUP_BYTES)
        return ERR_CORRUPT;
    err why = tail_read(&r->reader, r->at.offset, sizeof(header), header);
    if (why != ERR_OK)
        return why;
    struct record_spot spot = spot_at(r, r->at.offset);
    why = record_group_decode((str){ .p = header, .n = sizeof(header) }, spot, g);
    if (why != ERR_OK)
        return why;
    left -= RECORD_GROUP_BYTES;
    if (g->meta_bytes > left || g->values_bytes > left - g->meta_bytes)
        return ERR_CORRUPT;
    buf_clear(&r->meta);
    char *meta = buf_extend(&r->meta, g->meta_bytes);
    if (g->meta_bytes > 0 && meta == NULL)
        return ERR_CORRUPT;
    uint64_t meta_at = r->at.offset + RECORD_GROUP_BYTES;
    if (g->meta_bytes > 0)
        why = tail_read(&r->reader, meta_at, g->meta_bytes, meta);
    if (why != ERR_OK)
        return why;
    if (!record_meta_fits(header, spot, buf_str(&r->meta)))
        return ERR_CORRUPT;
    uint64_t values_at = meta_at + g->meta_bytes;
    uint64_t end = values_at + g->values_bytes;
    return r->is_last && g->seq > r->known ? check_values(r, values_at, end) : ERR_OK;
}

static err hand_out(struct replay *r, const struct record_group *g)
{
    if (g->seq != r->at.seq + 1)
        return replay_damaged(r, "a group is missing");
    uint64_t n = RECORD_GROUP_BYTES + (uint64_t)g->meta_bytes + g->values_bytes;
    struct vlog_found found = {
        .head = *g,
        .whole = { .segment = r->at.segment, .offset = r->at.offset, .size = n },
        .after = { .segment = r->at.segment, .offset = r->at.offset + n, .seq = g->seq },
    };
    struct cursor c = { .rest = buf_str(&r->meta) };
    for (uint32_t i = 0; i < g->mutations; i++) {
        struct record_mutation m;
        if (record_mutation_decode(&c, &m) != ERR_OK)
            return replay_damaged(r, "a group cannot be read");
        r->calls->mutation(r->calls->ctx, &m, g->seq);
    }
    if (!cursor_done(&c))
        return replay_damaged(r, "a group cannot be read");
    r->calls->group(r->calls->ctx, &found);
    r->at = found.after;
    return ERR_OK;
}

/* Goes over the headers from r->at on as far as they are whole, for what they say of those
 * before. */
static err learn_known(struct replay *r)
{
    uint64_t offset = r->at.offset;
    r->known = r->at.seq;
    for (uint64_t seq = r->at.seq + 1; offset + RECORD_GROUP_BYTES <= r->reader.size; seq++) {
        char header[RECORD_GROUP_BYTES];
        struct record_group g;
        err why = tail_read(&r->reader, offset, sizeof(header), header);
        if (why != ERR_OK)
            return why;
        why =
            record_group_decode((str){ .p = header, .n = sizeof(header) }, spot_at(r, offset), &g);
        uint64_t left = r->reader.size - offset - RECORD_GROUP_BYTES;
        if (why != ERR_OK || g.seq != seq || g.meta_bytes > left ||
            g.values_bytes > left - g.meta_bytes)
            return ERR_OK;
        r->known = known_by(&g) > r->known ? known_by(&g) : r->known;
        offset += RECORD_GROUP_BYTES + (uint64_t)g.meta_bytes + g.values_bytes;
    }
    return ERR_OK;
}

/* All groups of one segment from r->at on; stops before a torn one. */
static err replay_groups(struct replay *r)
{
    err learned = r->is_last ? learn_known(r) : ERR_OK;
    if (learned != ERR_OK)
        return learned;
    while (r->at.offset < r->reader.size) {
        struct record_group g;
        err why = read_group(r, &g);
        if (why == ERR_CORRUPT)
            return torn_or_damaged(r);
        if (why == ERR_OK)
            why = hand_out(r, &g);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

static err header_state(struct replay *r, bool *good)
{
    char header[RECORD_SEGMENT_BYTES];
    *good = false;
    if (r->reader.size < sizeof(header))
        return ERR_OK;
    err why = tail_read(&r->reader, 0, sizeof(header), header);
    if (why == ERR_OK)
        *good = record_segment_decode((str){ .p = header, .n = sizeof(header) }, spot_at(r, 0)) ==
                ERR_OK;
    return why;
}

/* A segment whose header is bad: a crash while it was made leaves one without groups; it is
 * dropped. */
static err drop_unborn(struct replay *r, bool *dropped)
{
    struct later later;
    err why = find_later_groups(r, 0, &later);
    if (why != ERR_OK)
        return why;
    if (later.any || !r->is_last)
        return replay_damaged(r, "its header fails the checksum");
    *dropped = true;
    return ERR_OK;
}

static err replay_segment(struct replay *r, bool *dropped)
{
    bool good = false;
    err why = tail_reader_init(&r->reader, r->log, r->seg);
    if (why == ERR_OK && r->reader.size < r->at.offset && r->at.offset > RECORD_SEGMENT_BYTES)
        why = replay_damaged(r, "it is shorter than the index says");
    if (why == ERR_OK)
        why = header_state(r, &good);
    if (why == ERR_OK && !good)
        why = r->at.offset > RECORD_SEGMENT_BYTES
                  ? replay_damaged(r, "its header fails the checksum")
                  : drop_unborn(r, dropped);
    if (why == ERR_OK && !*dropped)
        why = replay_groups(r);
    tail_reader_fini(&r->reader);
    if (why == ERR_IO)
        err_note_set(r->note, "log segment %u cannot be read", r->at.segment);
    return why;
}

static err missing(struct replay *r, uint32_t number)
{
    err_note_set(r->note,
                 "log segment %u is missing. Put the file back, or restore the store from a backup",
                 number);
    return ERR_CORRUPT;
}

static bool is_last(struct vlog *log, const struct segment *seg)
{
    return log->segments.count > 0 && log->segments.all[log->segments.count - 1] == seg;
}

/* Walks the segments from r->at on. *last: the segment the log ends in; NULL: none there yet. */
static err replay_all(struct replay *r, struct segment **last)
{
    struct segment *seg = segments_find(&r->log->segments, r->at.segment);
    if (seg == NULL && r->at.seq == 0 && r->log->segments.count == 0)
        return ERR_OK;
    if (seg == NULL)
        return missing(r, r->at.segment);
    for (;;) {
        bool dropped = false;
        struct vlog_tail before = r->at;
        r->seg = seg;
        r->is_last = is_last(r->log, seg);
        if (*last != NULL) {
            r->at.segment = seg->number;
            r->at.offset = RECORD_SEGMENT_BYTES;
        }
        err why = replay_segment(r, &dropped);
        if (why != ERR_OK)
            return why;
        if (dropped && *last != NULL)
            r->at = before;
        if (dropped)
            return r->log->read_only ? ERR_OK : segment_remove(r->log, seg);
        *last = seg;
        if (r->is_last)
            return ERR_OK;
        seg = segments_find(&r->log->segments, seg->number + 1);
        if (seg == NULL)
            return missing(r, r->at.segment + 1);
    }
}

/* What is behind the tail is cut off before anything is appended there. Synced even when nothing
 * was: a process that was killed may have written the last group, or made the segment, without a
 * sync, and the index takes it for good. */
static err cut_tail(struct replay *r, struct segment *last)
{
    struct vlog *log = r->log;
    atomic_store(&last->end, r->at.offset);
    if (log->read_only)
        return ERR_OK;
    int fd = -1;
    err why = segment_fd(log, last, &fd);
    if (why != ERR_OK)
        return why;
    int failed = file_truncate(log->faults, fd, r->at.offset);
    if (failed == 0)
        failed = file_sync(log->faults, fd);
    if (failed == 0)
        failed = file_sync(log->faults, log->dir_fd);
    return file_err(failed);
}

static err segment_first(struct vlog *log, struct segment **out)
{
    struct segment *seg = NULL;
    err why = segment_make(log, VLOG_FIRST_SEGMENT, &seg);
    if (why == ERR_OK)
        why = segment_add(log, seg);
    if (why == ERR_OK)
        *out = seg;
    else if (seg != NULL)
        segment_discard(log, &seg);
    return why;
}

err vlog_replay(struct vlog *log, struct vlog_tail from, const struct vlog_replay_calls *calls,
                struct err_note *note)
{
    struct replay r = {
        .log = log, .calls = calls, .note = note, .at = from, .reader = { .fd = -1 }
    };
    buf_init(&r.meta, (size_t)UINT32_MAX);
    struct segment *last = NULL;
    err why = replay_all(&r, &last);
    buf_fini(&r.meta);
    if (why == ERR_OK && last == NULL && !log->read_only)
        why = segment_first(log, &last);
    if (why == ERR_OK && last != NULL)
        why = cut_tail(&r, last);
    if (why != ERR_OK) {
        if (why != ERR_CORRUPT)
            err_note_set(note, "the log cannot be opened: %s", err_name(why));
        return why;
    }
    log->active = last;
    log->tail = r.at;
    atomic_store(&log->synced, r.at.seq);
    return ERR_OK;
}
