/* queues.c - all queues of a server: made, found, changed, deleted. Locks, in this order:
 * change_lock (one change of the catalogue at a time), lock (names), the lock of one queue.
 * Invariant: a queue is in the list of names when its row is on disk, and not before. */
#include "queue/catalogue.h"
#include "queue/order/flush.h"

#include "base/log.h"
#include "base/map.h"
#include "base/utf8.h"
#include "codec/goduration.h"

#include <stdlib.h>
#include <string.h>

#define QUEUES_MAGIC 0x9ae5u

static void read_lock(struct queues *qs)
{
    INVARIANT(pthread_rwlock_rdlock(&qs->lock) == 0);
}

static void write_lock(struct queues *qs)
{
    INVARIANT(pthread_rwlock_wrlock(&qs->lock) == 0);
}

static void queues_unlock(struct queues *qs)
{
    INVARIANT(pthread_rwlock_unlock(&qs->lock) == 0);
}

/* ---- names ---- */

/* White space as Unicode has it, because the peer's check is Go's unicode.IsSpace. */
static bool is_space_at(str s, size_t i)
{
    static const str wide[] = { STR_INIT("\xc2\x85"),     STR_INIT("\xc2\xa0"),
                                STR_INIT("\xe1\x9a\x80"), STR_INIT("\xe2\x80\xa8"),
                                STR_INIT("\xe2\x80\xa9"), STR_INIT("\xe2\x80\xaf"),
                                STR_INIT("\xe2\x81\x9f"), STR_INIT("\xe3\x80\x80") };
    unsigned char c = (unsigned char)s.p[i];
    str rest = str_skip(s, i);
    if (c == ' ' || (c >= '\t' && c <= '\r'))
        return true;
    /* U+2000 to U+200A. */
    if (rest.n >= 3 && str_starts(rest, STR("\xe2\x80")) && (unsigned char)rest.p[2] >= 0x80 &&
        (unsigned char)rest.p[2] <= 0x8a)
        return true;
    for (size_t w = 0; w < COUNT_OF(wide); w++)
        if (str_starts(rest, wide[w]))
            return true;
    return false;
}

static bool has_space(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (is_space_at(s, i))
            return true;
    return false;
}

/* In the order of the contract: length, white space, tilde; what the contract does not name
 * comes behind. */
static err check_text(const char *what, str name, struct err_note *note)
{
    if (name.n > QUEUE_NAME_BYTES_MAX) {
        err_note_set(note, "%s is invalid; cannot be greater than '%d' characters", what,
                     QUEUE_NAME_BYTES_MAX);
        return ERR_BAD;
    }
    if (has_space(name)) {
        err_note_set(note, "%s is invalid; '%.*s' cannot contain whitespace", what,
                     STR_ARG(str_take(name, 150)));
        return ERR_BAD;
    }
    if (str_find(name, '~') < name.n) {
        err_note_set(note, "%s is invalid; '%.*s' cannot contain '~' character", what,
                     STR_ARG(str_take(name, 150)));
        return ERR_BAD;
    }
    if (!utf8_valid(name)) {
        err_note_set(note, "%s is invalid; it is not valid UTF-8", what);
        return ERR_BAD;
    }
    if (str_find(name, '\0') < name.n) {
        err_note_set(note, "%s is invalid; it cannot contain NUL", what);
        return ERR_BAD;
    }
    return ERR_OK;
}

/* The first check trims ASCII space alone; others are refused by check_text. */
err queue_name_check(str name, struct err_note *note)
{
    size_t spaces = 0;
    while (spaces < name.n &&
           (name.p[spaces] == ' ' || (name.p[spaces] >= '\t' && name.p[spaces] <= '\r')))
        spaces++;
    if (spaces == name.n) {
        err_note_set(note, "queue name is invalid; queue name cannot be empty");
        return ERR_BAD;
    }
    return check_text("queue name", name, note);
}

/* A reference for the caller. Under the lock of names. */
static struct queue *queue_queues_find(struct queues *qs, str name)
{
    struct queue *q = map_get(qs->names, name);
    if (q != NULL)
        queue_ref(q);
    return q;
}

err queues_find(struct queues *qs, str name, struct queue **out, struct err_note *note)
{
    MAGIC_CHECK(qs, QUEUES_MAGIC);
    read_lock(qs);
    struct queue *q = queue_queues_find(qs, name);
    queues_unlock(qs);
    if (q == NULL) {
        err_note_set(note, "queue does not exist; no such queue named '%.*s'",
                     STR_ARG(str_take(name, 180)));
        return ERR_NOT_FOUND;
    }
    *out = q;
    return ERR_OK;
}

/* Linear: numbers are asked for by moves and by orders alone. */
struct queue *queues_by_number(struct queues *qs, uint32_t number)
{
    struct queue *found = NULL;
    read_lock(qs);
    for (size_t i = 0; i < qs->count && found == NULL; i++)
        found = qs->sorted[i]->number == number ? qs->sorted[i] : NULL;
    if (found != NULL)
        queue_ref(found);
    queues_unlock(qs);
    return found;
}

/* ---- checks of create and update, in the order of the contract ---- */

/* Under change_lock: a dead queue cannot be deleted while it is checked. */
static err check_dead_queue(struct queues *qs, const struct queue_info *info, struct err_note *note)
{
    str dead = info->dead_queue;
    if (dead.n == 0)
        return ERR_OK;
    err why = check_text("dead queue", dead, note);
    if (why != ERR_OK)
        return why;
    /* An item that dies there would move to where it is. */
    if (str_eq(dead, info->name)) {
        err_note_set(note, "dead_queue cannot reference itself");
        return ERR_BAD;
    }
    struct queue *q = map_get(qs->names, dead);
    if (q == NULL ||
        !str_eq(q->info.space, info->space)) { /* nobody is told which queues others have */
        err_note_set(note, "dead_queue does not exist; '%.*s' was not found, create it first",
                     STR_ARG(str_take(dead, 150)));
        return ERR_BAD;
    }
    if (q->info.dead_queue.n > 0) { /* changed under change_lock alone, which we hold */
        err_note_set(note,
                     "dead_queue is invalid; '%.*s' already has its own dead_queue configured",
                     STR_ARG(str_take(dead, 120)));
        return ERR_BAD;
    }
    return ERR_OK;
}

static err check_numbers(const struct queue_info *info, struct err_note *note)
{
    if (info->reference.n > QUEUE_REFERENCE_BYTES_MAX) {
        err_note_set(note, "reference field is invalid; cannot be greater than '%d' characters",
                     QUEUE_REFERENCE_BYTES_MAX);
        return ERR_BAD;
    }
    if (info->max_attempts > QUEUE_ATTEMPTS_MAX) {
        err_note_set(note, "max attempts is invalid; cannot be greater than %d",
                     QUEUE_ATTEMPTS_MAX);
        return ERR_BAD;
    }
    if (info->partitions < 1) {
        err_note_set(note, "partitions is invalid; cannot be less than 1");
        return ERR_BAD;
    }
    if (info->partitions > QUEUE_PARTITIONS_MAX) {
        err_note_set(note, "partitions is invalid; cannot be greater than %d",
                     QUEUE_PARTITIONS_MAX);
        return ERR_BAD;
    }
    return ERR_OK;
}

static err check_timeouts(const struct queue_info *info, struct err_note *note)
{
    if (info->lease_timeout_ns <= 0) {
        err_note_set(note, "lease timeout is invalid; cannot be empty");
        return ERR_BAD;
    }
    if (info->expire_timeout_ns <= 0) {
        err_note_set(note, "expire timeout is invalid; cannot be empty");
        return ERR_BAD;
    }
    if (info->lease_timeout_ns > info->expire_timeout_ns) {
        char lease[GODURATION_BYTES_MAX + 1], expire[GODURATION_BYTES_MAX + 1];
        goduration_format(info->lease_timeout_ns, lease);
        goduration_format(info->expire_timeout_ns, expire);
        err_note_set(note,
                     "lease timeout is too long; %s cannot be greater than the expire timeout %s",
                     lease, expire);
        return ERR_BAD;
    }
    return ERR_OK;
}

/* The first fault is told, as the contract orders them. */
static err check_info(struct queues *qs, const struct queue_info *info, struct err_note *note)
{
    err why = check_dead_queue(qs, info, note);
    if (why == ERR_OK)
        why = check_numbers(info, note);
    return why == ERR_OK ? check_timeouts(info, note) : why;
}

/* ---- rows of the catalogue ---- */

/* Partition i goes to the store that is shortest of its weight; with equal weights to store i mod
 * n. */
uint32_t queues_store_for(struct queues *qs, const uint32_t *counts)
{
    uint32_t best = 0;
    for (uint32_t s = 1; s < qs->opts.stores_count; s++) {
        /* Compared as (count + 1) / weight, without dividing. */
        if ((counts[s] + 1) * (uint64_t)qs->affinities[best] <
            (counts[best] + 1) * (uint64_t)qs->affinities[s])
            best = s;
    }
    return best;
}

/* The row of q as it is; its texts are q's, parts, with room for one more, the caller's to free.
 * Under change_lock. */
static struct catalogue_row row_of(struct queue *q)
{
    struct queues *qs = q->all;
    struct catalogue_row row = { .number = q->number,
                                 .keyed_count = q->keyed_count,
                                 .info = q->info,
                                 .stores_count = qs->opts.stores_count };
    for (unsigned s = 0; s < row.stores_count; s++)
        row.stores[s] = qs->opts.stores[s]->name;
    row.info.partitions = q->parts_count;
    row.parts = calloc(q->parts_count + 1, sizeof *row.parts);
    INVARIANT(row.parts != NULL);
    for (uint32_t i = 0; i < q->parts_count; i++)
        row.parts[i] = (struct catalogue_part){ .store = (uint16_t)q->parts[i]->store,
                                                .mode = (unsigned char)q->parts[i]->mode };
    return row;
}

err queue_save(struct queue *q)
{
    struct catalogue_row row = row_of(q);
    err why = catalogue_put(q->all->opts.engine, &row, 0);
    free(row.parts);
    return why;
}

/* The row comes before the partition: a partition without a row would never be found again. */
err queue_save_grown(struct queue *q, uint32_t store)
{
    struct catalogue_row row = row_of(q);
    row.parts[row.info.partitions++] =
        (struct catalogue_part){ .store = (uint16_t)store, .mode = PART_OPEN };
    err why = catalogue_put(q->all->opts.engine, &row, 0);
    free(row.parts);
    return why;
}

err queues_room(const struct queues *qs, uint32_t more, struct err_note *note)
{
    if (more == 0 || qs->partitions + more <= qs->opts.partitions_max)
        return ERR_OK;
    err_note_set(note,
                 "partitions is invalid; all queues together have %llu and cannot have more than %u"
                 " (queue.partitions_max)",
                 (unsigned long long)qs->partitions, qs->opts.partitions_max);
    return ERR_BAD;
}

/* names and sorted share the list's reference. Under change_lock: nobody else adds or removes. */
static void enlist(struct queues *qs, struct queue *q)
{
    size_t at = 0;
    write_lock(qs);
    qs->partitions += q->parts_count;
    INVARIANT(map_put(qs->names, q->info.name, q) == NULL);
    if (qs->count == qs->size) {
        qs->size = qs->size == 0 ? 16 : qs->size * 2;
        qs->sorted = reallocarray(qs->sorted, qs->size, sizeof(struct queue *));
        INVARIANT(qs->sorted != NULL);
    }
    for (size_t high = qs->count; at < high;) {
        size_t mid = at + (high - at) / 2;
        if (str_cmp(qs->sorted[mid]->info.name, q->info.name) < 0)
            at = mid + 1;
        else
            high = mid;
    }
    memmove(&qs->sorted[at + 1], &qs->sorted[at], (qs->count - at) * sizeof(struct queue *));
    qs->sorted[at] = q;
    qs->count++;
    queues_unlock(qs);
}

/* Readers hold the lock of names: they see the queue in both, or in none. */
static void delist(struct queues *qs, struct queue *q)
{
    write_lock(qs);
    INVARIANT(map_remove(qs->names, q->info.name) == q);
    size_t at = 0;
    while (qs->sorted[at] != q)
        at++;
    memmove(&qs->sorted[at], &qs->sorted[at + 1], (qs->count - at - 1) * sizeof(struct queue *));
    qs->count--;
    qs->partitions -= q->parts_count;
    queues_unlock(qs);
}

/* ---- create, update, delete ---- */

static void lock_changes(struct queues *qs)
{
    INVARIANT(pthread_mutex_lock(&qs->change_lock) == 0);
}

static void unlock_changes(struct queues *qs)
{
    INVARIANT(pthread_mutex_unlock(&qs->change_lock) == 0);
}

/* Under change_lock, so that what is checked still holds when the row is written. */
static err check_create(struct queues *qs, const struct queue_info *info, struct err_note *note)
{
    err why = queue_name_check(info->name, note);
    if (why != ERR_OK)
        return why;
    if (qs->draining) {
        err_note_set(note, "service is shutting down");
        return ERR_SHUTDOWN;
    }
    if (map_get(qs->names, info->name) != NULL) {
        err_note_set(note, "invalid queue; '%.*s' already exists",
                     STR_ARG(str_take(info->name, 180)));
        return ERR_CONFLICT;
    }
    if (qs->count >= QUEUE_QUEUES_MAX) {
        err_note_set(note, "queue is overloaded; there are %d queues, which is the limit",
                     QUEUE_QUEUES_MAX);
        return ERR_LIMIT;
    }
    why = check_info(qs, info, note);
    return why == ERR_OK ? queues_room(qs, info->partitions, note) : why;
}

/* In memory alone: the row is written from it. */
static struct queue *queues_make(struct queues *qs, const struct queue_info *info)
{
    uint32_t counts[QUEUE_STORES_MAX] = { 0 };
    struct queue_info own = *info;
    own.created_at = own.updated_at = clock_store(qs->opts.clock);
    if (!own.has_durability)
        own.durability = qs->opts.durability;
    struct queue *q = queue_new(qs, &own, qs->next_number);
    /* Partitions that are added later take no order keys: the place of a key never changes. */
    q->keyed_count = info->partitions;
    for (uint32_t i = 0; i < info->partitions; i++) {
        uint32_t store = queues_store_for(qs, counts);
        counts[store]++;
        queue_part_add(q, store);
    }
    return q;
}

static void store_failed(struct err_note *note, err why)
{
    err_note_set(note, why == ERR_FULL ? "internal error, try your request again; the disk is full"
                                       : "internal error, try your request again");
}

err queues_create(struct queues *qs, const struct queue_info *info, struct err_note *note)
{
    lock_changes(qs);
    err why = check_create(qs, info, note);
    if (why != ERR_OK) {
        unlock_changes(qs);
        return why;
    }
    /* A number is used up by the row: next_number goes on in the same update. */
    struct queue *q = queues_make(qs, info);
    struct catalogue_row row = row_of(q);
    why = catalogue_put(qs->opts.engine, &row, qs->next_number + 1);
    free(row.parts);
    if (why == ERR_OK) {
        qs->next_number++;
        q->fresh = true;
        queue_own_fresh(q, 0);
        queue_ref(q); /* ours, beside the list's */
        enlist(qs, q);
        /* queues_drain may have taken its list before this queue was in it. */
        if (qs->draining)
            queue_end(q, false);
        log_event(qs->opts.log, LOG_INFO, "queue.create", LOG_STR("name", info->name),
                  LOG_INT("partitions", info->partitions));
    } else {
        store_failed(note, why);
        why = ERR_UNAVAILABLE;
    }
    unlock_changes(qs);
    /* Without the lock: others may change queues while this one is being read. */
    if (why == ERR_OK)
        queue_await_read(q, QUEUE_PARTS_ALL,
                         mono_add_ms(clock_mono(qs->opts.clock), QUEUE_READ_MS_MAX));
    queue_unref(&q);
    return why;
}

/* Is p to be read soon? Not when its store does not answer, or after a failure. */
static bool is_unread(const struct part *p)
{
    return !p->loaded && !p->held && !stores_silent(p->queue->all, p->store);
}

static bool is_read(const struct queue *q, uint32_t partition)
{
    for (uint32_t i = 0; i < q->parts_count; i++)
        if ((partition == QUEUE_PARTS_ALL || partition == i) && is_unread(q->parts[i]))
            return false;
    return true;
}

/* A bit for each store; QUEUE_STORES_MAX is 64. */
static uint64_t stores_of(struct queue *q, uint32_t partition, bool unread_alone)
{
    uint64_t stores = 0;
    queue_enter(q);
    for (uint32_t i = 0; i < q->parts_count; i++)
        if ((partition == QUEUE_PARTS_ALL || partition == i) &&
            (!unread_alone || is_unread(q->parts[i])))
            stores |= UINT64_C(1) << q->parts[i]->store;
    queue_leave(q);
    return stores;
}

uint64_t queue_stores(struct queue *q, uint32_t partition)
{
    return stores_of(q, partition, false);
}

uint64_t queue_stores_unread(struct queue *q)
{
    return stores_of(q, QUEUE_PARTS_ALL, true);
}

/* A queue that ends is not read any more: nobody waits for that. */
bool queue_is_read(struct queue *q, uint32_t partition)
{
    queue_enter(q);
    bool over = is_read(q, partition) || q->draining || q->deleted;
    queue_leave(q);
    return over;
}

void queue_await_read(struct queue *q, uint32_t partition, mono deadline)
{
    struct clock *clock = q->all->opts.clock;
    while (!queue_is_read(q, partition) && clock_mono(clock).ns < deadline.ns)
        queue_rest();
}

const char *const queue_durability_names[] = {
    [QUEUE_SYNC] = "sync", [QUEUE_INTERVAL] = "interval", [QUEUE_NONE] = "none", NULL
};

/* Under the lock of q. The queue's texts become copies of info's, but for name and space. */
static void take_info(struct queue *q, struct queue_info *info)
{
    struct queue_info old = q->info, to;
    queue_info_own(&to, info);
    /* What is not in use any more, in one struct, so that it is freed in one go. */
    struct queue_info spare = {
        .name = to.name, .space = to.space, .dead_queue = old.dead_queue, .reference = old.reference
    };
    to.name = old.name; /* others look at these two without our lock */
    to.space = old.space;
    q->info = to;
    queue_info_free(&spare);
}

/* Fields that are absent keep what is there. New partitions come last, one by one: a failure
 * leaves the queue with those that were made. */
static err update(struct queues *qs, struct queue *q, const struct queue_info *info,
                  struct err_note *note)
{
    struct queue_info to = *info;
    const struct queue_info *old = &q->info;
    /* A queue never changes its namespace. */
    to.space = old->space;
    to.created_at = old->created_at;
    to.updated_at = clock_store(qs->opts.clock);
    to.lease_timeout_ns =
        info->lease_timeout_ns != 0 ? info->lease_timeout_ns : old->lease_timeout_ns;
    to.expire_timeout_ns =
        info->expire_timeout_ns != 0 ? info->expire_timeout_ns : old->expire_timeout_ns;
    to.partitions = info->partitions != 0 ? info->partitions : q->parts_count;
    if (!info->has_durability) {
        to.has_durability = old->has_durability;
        to.durability = old->durability;
    }
    err why = check_info(qs, &to, note);
    if (why != ERR_OK)
        return why;
    if (to.partitions < q->parts_count) {
        err_note_set(
            note, "partitions is invalid; a queue has %u and cannot have fewer, drain them instead",
            q->parts_count);
        return ERR_BAD;
    }
    why = queues_room(qs, to.partitions - q->parts_count, note);
    if (why != ERR_OK)
        return why;
    struct catalogue_row row = row_of(q);
    /* The row keeps the number of partitions: queue_grow writes each new one. */
    uint32_t before = row.info.partitions;
    row.info = to;
    row.info.partitions = before;
    why = catalogue_put(qs->opts.engine, &row, 0);
    free(row.parts);
    if (why != ERR_OK) {
        store_failed(note, why);
        return ERR_UNAVAILABLE;
    }
    queue_enter(q);
    take_info(q, &to);
    queue_leave(q);
    for (; why == ERR_OK && before < to.partitions; before++)
        why = queue_grow(q, note);
    return why;
}

err queues_update(struct queues *qs, const struct queue_info *info, struct err_note *note)
{
    struct queue *q;
    err why = queue_name_check(info->name, note);
    if (why != ERR_OK)
        return why;
    lock_changes(qs);
    why = queues_find(qs, info->name, &q, note);
    if (why == ERR_OK) {
        why = update(qs, q, info, note);
        queue_unref(&q);
    }
    if (why == ERR_OK)
        log_event(qs->opts.log, LOG_INFO, "queue.update", LOG_STR("name", info->name));
    unlock_changes(qs);
    return why;
}

/* How many name this one as their dead queue. Under change_lock. */
static unsigned count_naming(const struct queues *qs, const struct queue *dead)
{
    unsigned count = 0;
    for (size_t i = 0; i < qs->count; i++) {
        const struct queue_info *info = &qs->sorted[i]->info;
        count += str_eq(info->dead_queue, dead->info.name) && str_eq(info->space, dead->info.space);
    }
    return count;
}

/* Under change_lock. The row first: from then on a restart drops the partitions, whatever
 * happens here. */
static err delete (struct queues *qs, struct queue *q, bool named_too, struct err_note *note)
{
    unsigned naming = count_naming(qs, q);
    if (naming > 0 && !named_too) {
        err_note_set(
            note, "queue is in use; it is the dead queue of others (%u), give them another first",
            naming);
        return ERR_CONFLICT;
    }
    struct catalogue_row row = row_of(q);
    err why = catalogue_delete(qs->opts.engine, &row);
    free(row.parts);
    if (why != ERR_OK) {
        store_failed(note, why);
        return ERR_UNAVAILABLE;
    }
    delist(qs, q);
    queue_end(q, true);
    log_event(qs->opts.log, naming > 0 ? LOG_WARN : LOG_INFO, "queue.delete",
              LOG_STR("name", q->info.name), LOG_INT("dead_queue_of", naming));
    /* The list's reference; the caller has one of its own. */
    struct queue *listed = q;
    /* The job drops the partitions on their stores while the queue's last requests end. */
    queue_drop(q);
    queue_unref(&listed);
    return ERR_OK;
}

err queues_delete(struct queues *qs, str name, bool named_too, struct err_note *note)
{
    struct queue *q;
    lock_changes(qs);
    err why = queues_find(qs, name, &q, note);
    if (why == ERR_OK) {
        why = delete (qs, q, named_too, note);
        queue_unref(&q);
    }
    unlock_changes(qs);
    return why;
}

/* For life.c, which loads the catalogue before anybody else is there. */
void queues_enlist(struct queues *qs, struct queue *q)
{
    enlist(qs, q);
}
