/* overlay.c - A skip list of rows with versions, between the log and the index. Invariant: one
 * thread writes; readers take no lock, because a node is complete before it is linked, and all
 * memory goes together, with the last reference. */
#include "engine/overlay.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 << 10, ALIGN_BYTES = 16 };

struct overlay_chunk {
    struct overlay_chunk *older;
    size_t size;
    _Alignas(16) char bytes[];
};

static void *alloc(struct overlay *o, size_t n)
{
    n = (n + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (o->chunks == NULL || n > o->chunks->size - o->chunk_used) {
        size_t size = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        struct overlay_chunk *c = malloc(sizeof(*c) + size);
        INVARIANT(c != NULL);
        c->older = o->chunks;
        c->size = size;
        o->chunks = c;
        o->chunk_used = 0;
    }
    void *p = o->chunks->bytes + o->chunk_used;
    o->chunk_used += n;
    o->bytes += n;
    return p;
}

static const char *overlay_copy(struct overlay *o, str s)
{
    char *p = alloc(o, s.n);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    return p;
}

static struct overlay_node *node_new(struct overlay *o, unsigned height)
{
    size_t n = sizeof(struct overlay_node) + height * sizeof(_Atomic(struct overlay_node *));
    struct overlay_node *node = alloc(o, n);
    memset(node, 0, n);
    node->height = (uint8_t)height;
    for (unsigned i = 0; i < height; i++)
        atomic_init(&node->next[i], NULL);
    return node;
}

struct overlay *overlay_new(void)
{
    struct overlay *o = calloc(1, sizeof(*o));
    INVARIANT(o != NULL);
    atomic_init(&o->refs, 1);
    atomic_init(&o->height, 1);
    o->random = 0x9e3779b97f4a7c15u;
    o->head = node_new(o, OVERLAY_HEIGHT_MAX);
    return o;
}

void overlay_ref(struct overlay *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
}

void overlay_unref(struct overlay **op)
{
    struct overlay *o = *op;
    *op = NULL;
    if (o == NULL || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (struct overlay_chunk *c = o->chunks; c != NULL;) {
        struct overlay_chunk *older = c->older;
        free(c);
        c = older;
    }
    free(o->dead);
    free(o);
}

static struct overlay_node *next_of(const struct overlay_node *n, int level)
{
    return atomic_load_explicit(&((struct overlay_node *)(uintptr_t)n)->next[level],
                                memory_order_acquire);
}

/* Order of nodes: key up, version down. */
static bool node_before(const struct overlay_node *n, str key, uint64_t seq)
{
    int c = str_cmp(overlay_key(n), key);
    return c < 0 || (c == 0 && n->seq > seq);
}

/* The last node before (key, seq) on every level; before[] may be NULL. Returns that of level 0.
 * *after: the node that stood behind it; read again it may be one that was just put between, of a
 * lesser key. May be NULL. */
static struct overlay_node *seek(const struct overlay *o, str key, uint64_t seq,
                                 struct overlay_node **before, struct overlay_node **after)
{
    int level =
        atomic_load_explicit(&((struct overlay *)(uintptr_t)o)->height, memory_order_relaxed) - 1;
    struct overlay_node *n = o->head;
    for (;;) {
        struct overlay_node *next = next_of(n, level);
        if (next != NULL && node_before(next, key, seq)) {
            n = next;
            continue;
        }
        if (before != NULL)
            before[level] = n;
        if (level == 0 && after != NULL)
            *after = next;
        if (level == 0)
            return n;
        level--;
    }
}

static unsigned random_height(struct overlay *o)
{
    o->random ^= o->random << 13;
    o->random ^= o->random >> 7;
    o->random ^= o->random << 17;
    unsigned height = 1;
    for (uint64_t r = o->random; height < OVERLAY_HEIGHT_MAX && (r & 3) == 0; r >>= 2)
        height++;
    return height;
}

static void overlay_fill(struct overlay *o, struct overlay_node *n, const struct overlay_row *row)
{
    n->value = overlay_copy(o, row->value);
    n->value_n = (uint16_t)row->value.n;
    n->blob = row->blob;
    n->deleted = row->deleted;
    n->fresh = row->fresh;
    if (row->blob.mem != NULL && !row->fresh)
        n->blob.mem = overlay_copy(o, (str){ .p = row->blob.mem, .n = row->blob.n });
}

struct overlay_node *overlay_add(struct overlay *o, const struct overlay_row *row)
{
    unsigned height = random_height(o);
    struct overlay_node *n = node_new(o, height);
    n->key = overlay_copy(o, row->key);
    n->key_n = (uint16_t)row->key.n;
    n->seq = row->seq;
    overlay_fill(o, n, row);
    int have = atomic_load_explicit(&o->height, memory_order_relaxed);
    struct overlay_node *before[OVERLAY_HEIGHT_MAX];
    for (int i = have; i < OVERLAY_HEIGHT_MAX; i++)
        before[i] = o->head;
    seek(o, row->key, row->seq, before, NULL);
    if ((int)height > have)
        atomic_store_explicit(&o->height, (int)height, memory_order_relaxed);
    for (unsigned i = 0; i < height; i++) {
        struct overlay_node *after =
            atomic_load_explicit(&before[i]->next[i], memory_order_relaxed);
        atomic_store_explicit(&n->next[i], after, memory_order_relaxed);
        atomic_store_explicit(&before[i]->next[i], n, memory_order_release);
    }
    o->rows++;
    return n;
}

void overlay_replace(struct overlay *o, struct overlay_node *n, const struct overlay_row *row)
{
    INVARIANT(n->seq == row->seq);
    overlay_fill(o, n, row);
}

void overlay_dead_add(struct overlay *o, struct vlog_extent extent)
{
    if (o->dead_count == o->dead_size) {
        o->dead_size = o->dead_size == 0 ? 16 : o->dead_size * 2;
        o->dead = realloc(o->dead, o->dead_size * sizeof(*o->dead));
        INVARIANT(o->dead != NULL);
    }
    o->dead[o->dead_count++] = extent;
}

/* The newest version in the run of nodes that starts at n (all of one key) not above seq; NULL. */
static struct overlay_node *visible(struct overlay_node *n, uint64_t seq)
{
    str key = overlay_key(n);
    for (; n != NULL && str_eq(overlay_key(n), key); n = next_of(n, 0))
        if (n->seq <= seq && !n->aborted)
            return n;
    return NULL;
}

struct overlay_node *overlay_find(const struct overlay *o, str key, uint64_t seq)
{
    struct overlay_node *n;
    (void)seek(o, key, seq, NULL, &n); /* what is before it is of no use */
    return n != NULL && str_eq(overlay_key(n), key) ? visible(n, seq) : NULL;
}

/* From n on (the first node of its key): the first key with a visible version. */
static struct overlay_node *first_visible(struct overlay_node *n, uint64_t seq)
{
    while (n != NULL) {
        struct overlay_node *found = visible(n, seq);
        if (found != NULL)
            return found;
        str key = overlay_key(n);
        while (n != NULL && str_eq(overlay_key(n), key))
            n = next_of(n, 0);
    }
    return NULL;
}

struct overlay_node *overlay_at_or_after(const struct overlay *o, str key, uint64_t seq)
{
    struct overlay_node *n;
    (void)seek(o, key, UINT64_MAX, NULL, &n); /* as above */
    return first_visible(n, seq);
}

struct overlay_node *overlay_before(const struct overlay *o, str key, bool inclusive, uint64_t seq)
{
    if (inclusive) {
        struct overlay_node *n = overlay_find(o, key, seq);
        if (n != NULL)
            return n;
    }
    struct overlay_node *n = seek(o, key, UINT64_MAX, NULL, NULL);
    while (n != o->head) {
        struct overlay_node *found = overlay_find(o, overlay_key(n), seq);
        if (found != NULL)
            return found;
        n = seek(o, overlay_key(n), UINT64_MAX, NULL, NULL);
    }
    return NULL;
}

struct overlay_node *overlay_next(const struct overlay *o, const struct overlay_node *n,
                                  uint64_t seq)
{
    if (n == NULL)
        return first_visible(next_of(o->head, 0), seq);
    str key = overlay_key(n);
    struct overlay_node *next = next_of(n, 0);
    while (next != NULL && str_eq(overlay_key(next), key))
        next = next_of(next, 0);
    return first_visible(next, seq);
}
