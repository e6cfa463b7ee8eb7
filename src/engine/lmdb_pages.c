/* lmdb_pages.c - walks every page of an LMDB file and checks its form before LMDB maps the file.
 * Invariant: each page belongs to one tree or to the free list, and to one place only. */
#include "engine/lmdb_pages.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE_BYTES = 4096,
    PAGE_HEADER = 16,
    NODE_HEADER = 8,
    DEPTH_MAX = 32, /* LMDB's own limit */
    KEY_BYTES_MAX = 511,
    TREES_MAX = 8,
    META_BYTES = 136,
    DB_BYTES = 48,
    P_BRANCH = 1,
    P_LEAF = 2,
    P_OVERFLOW = 4,
    P_META = 8,
    F_BIGDATA = 1,
    F_SUBDATA = 2,
};
#define META_MAGIC 0xBEEFC0DEu
#define PAGE_NONE UINT64_MAX

struct tree {
    uint64_t root, entries;
    uint16_t depth;
    bool is_free, is_main; /* the two that LMDB keeps itself */
};

/* A page on the way from the root to where we are. */
struct frame {
    uint64_t number;
    unsigned keys, next;
    unsigned char bytes[PAGE_BYTES];
};

struct pages {
    const struct lmdb_pages_opts *opts;
    struct err_note *note;
    uint64_t last; /* number of the last page in use */
    bool with_leaves;
    unsigned char *seen; /* a bit a page */
    struct tree trees[TREES_MAX];
    unsigned tree_count;
    struct frame *frames; /* DEPTH_MAX */
    uint64_t *free_list;
    size_t free_count, free_size;
};

static uint16_t u16_at(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static uint32_t u32_at(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t u64_at(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static err lmdb_pages_damaged(struct pages *p, uint64_t number, const char *what)
{
    err_note_set(p->note,
                 "index/data.mdb is damaged at page %llu: %s; restore the store from a backup",
                 (unsigned long long)number, what);
    return ERR_CORRUPT;
}

static err read_bytes(struct pages *p, void *dst, size_t n, uint64_t number)
{
    int why = file_read(p->opts->faults, p->opts->fd, dst, n, number * PAGE_BYTES);
    if (why == 0)
        return ERR_OK;
    err_note_set(p->note, "index/data.mdb cannot be read at page %llu", (unsigned long long)number);
    return ERR_IO;
}

/* Takes count pages for the tree that is walked; false when one is outside the file or taken
 * already. */
static bool claim(struct pages *p, uint64_t number, uint64_t count)
{
    if (number < 2 || number > p->last || count > p->last - number + 1)
        return false;
    for (uint64_t i = number; i < number + count; i++) {
        if (p->seen[i / 8] & (1u << i % 8))
            return false;
        p->seen[i / 8] = (unsigned char)(p->seen[i / 8] | (1u << i % 8));
    }
    return true;
}

/* ---- nodes ---- */

static const unsigned char *node_at(const struct frame *f, unsigned i)
{
    return f->bytes + u16_at(f->bytes + PAGE_HEADER + 2 * i);
}

static str node_key(const unsigned char *node)
{
    return (str){ .p = (const char *)node + NODE_HEADER, .n = u16_at(node + 6) };
}

static uint64_t node_child(const unsigned char *node)
{
    return (uint64_t)u16_at(node) | (uint64_t)u16_at(node + 2) << 16 |
           (uint64_t)u16_at(node + 4) << 32;
}

static uint32_t node_size(const unsigned char *node)
{
    return (uint32_t)u16_at(node) | (uint32_t)u16_at(node + 2) << 16;
}

static bool node_fits(const struct frame *f, unsigned i, bool leaf)
{
    unsigned offset = u16_at(f->bytes + PAGE_HEADER + 2 * i);
    if (offset % 2 != 0 || offset < u16_at(f->bytes + 14) || offset > PAGE_BYTES - NODE_HEADER)
        return false;
    const unsigned char *node = f->bytes + offset;
    uint64_t n = NODE_HEADER + (uint64_t)u16_at(node + 6);
    if (u16_at(node + 6) > KEY_BYTES_MAX)
        return false;
    if (leaf)
        n += u16_at(node + 4) & F_BIGDATA ? sizeof(uint64_t) : node_size(node);
    return n <= PAGE_BYTES - offset;
}

static bool nodes_fit(const struct frame *f, bool leaf)
{
    for (unsigned i = 0; i < f->keys; i++)
        if (!node_fits(f, i, leaf))
            return false;
    return true;
}

/* The first key of a branch stands for everything below its second. */
static bool keys_rise(const struct frame *f, bool leaf)
{
    for (unsigned i = leaf ? 1 : 2; i < f->keys; i++)
        if (str_cmp(node_key(node_at(f, i - 1)), node_key(node_at(f, i))) >= 0)
            return false;
    return true;
}

/* ---- values of leaves ---- */

static void free_add(struct pages *p, uint64_t number)
{
    if (p->free_count == p->free_size) {
        p->free_size = p->free_size == 0 ? 256 : p->free_size * 2;
        p->free_list = realloc(p->free_list, p->free_size * sizeof(*p->free_list));
        INVARIANT(p->free_list != NULL);
    }
    p->free_list[p->free_count++] = number;
}

/* A record of the free list: a count and that many page numbers. They are looked at when all trees
 * are known. */
static err free_record(struct pages *p, uint64_t number, const unsigned char *data, size_t n)
{
    uint64_t count = n < 8 ? UINT64_MAX : u64_at(data);
    if (count > n / 8 - (n < 8 ? 0 : 1))
        return lmdb_pages_damaged(p, number, "a record of the free list is too short");
    for (uint64_t i = 1; i <= count; i++)
        free_add(p, u64_at(data + 8 * i));
    return ERR_OK;
}

static err tree_record(struct pages *p, uint64_t number, const unsigned char *data, size_t n)
{
    if (n != DB_BYTES || p->tree_count == TREES_MAX)
        return lmdb_pages_damaged(p, number, "the description of a table does not fit");
    p->trees[p->tree_count++] = (struct tree){
        .depth = u16_at(data + 6),
        .entries = u64_at(data + 32),
        .root = u64_at(data + 40),
    };
    return ERR_OK;
}

static err leaf_value(struct pages *p, const struct tree *t, uint64_t number,
                      const unsigned char *data, size_t n)
{
    if (t->is_free)
        return free_record(p, number, data, n);
    return t->is_main ? tree_record(p, number, data, n) : ERR_OK;
}

/* A value on pages of its own. */
static err big_value(struct pages *p, const struct tree *t, uint64_t number, uint32_t n)
{
    uint64_t count = (PAGE_HEADER + (uint64_t)n + PAGE_BYTES - 1) / PAGE_BYTES;
    unsigned char head[PAGE_HEADER];
    if (!claim(p, number, count))
        return lmdb_pages_damaged(p, number,
                                  "a large value lies outside the file or in another one's place");
    err why = read_bytes(p, head, sizeof(head), number);
    if (why != ERR_OK)
        return why;
    if (u64_at(head) != number || u16_at(head + 10) != P_OVERFLOW || u32_at(head + 12) < count)
        return lmdb_pages_damaged(p, number, "the header of a large value");
    if (!t->is_free)
        return ERR_OK;
    unsigned char *bytes = malloc(PAGE_HEADER + (size_t)n);
    INVARIANT(bytes != NULL);
    why = read_bytes(p, bytes, PAGE_HEADER + (size_t)n, number);
    if (why == ERR_OK)
        why = free_record(p, number, bytes + PAGE_HEADER, n);
    free(bytes);
    return why;
}

static err leaf_values(struct pages *p, const struct tree *t, const struct frame *f)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < f->keys && why == ERR_OK; i++) {
        const unsigned char *node = node_at(f, i);
        const unsigned char *data = node + NODE_HEADER + node_key(node).n;
        unsigned flags = u16_at(node + 4);
        unsigned expect = t->is_main ? F_SUBDATA : flags & F_BIGDATA;
        if (flags != expect)
            why = lmdb_pages_damaged(p, f->number, "an entry has flags that are not used");
        else if (flags & F_BIGDATA)
            why = big_value(p, t, u64_at(data), node_size(node));
        else
            why = leaf_value(p, t, f->number, data, node_size(node));
    }
    return why;
}

/* ---- trees ---- */

/* Reads and checks one page of a tree into frame f. */
static err page_read(struct pages *p, const struct tree *t, struct frame *f, uint64_t number,
                     bool leaf)
{
    if (!claim(p, number, 1))
        return lmdb_pages_damaged(p, number, "it lies outside the file or belongs to two parents");
    err why = read_bytes(p, f->bytes, PAGE_BYTES, number);
    if (why != ERR_OK)
        return why;
    unsigned lower = u16_at(f->bytes + 12);
    unsigned upper = u16_at(f->bytes + 14);
    if (u64_at(f->bytes) != number || u16_at(f->bytes + 10) != (leaf ? P_LEAF : P_BRANCH))
        return lmdb_pages_damaged(p, number, "it is not the page it should be");
    if (lower < PAGE_HEADER || lower % 2 != 0 || lower > upper || upper > PAGE_BYTES)
        return lmdb_pages_damaged(p, number, "its bounds");
    f->number = number;
    f->next = 0;
    f->keys = (lower - PAGE_HEADER) / 2;
    if (f->keys < (leaf ? 1u : 2u))
        return lmdb_pages_damaged(p, number, "it is empty");
    if (!nodes_fit(f, leaf))
        return lmdb_pages_damaged(p, number, "an entry reaches beyond it");
    if (!t->is_free && !keys_rise(f, leaf))
        return lmdb_pages_damaged(p, number, "its keys are out of order");
    return ERR_OK;
}

/* Walks one tree, depth first, one frame a level. */
static err tree_check(struct pages *p, const struct tree *t)
{
    if (t->root == PAGE_NONE)
        return t->entries == 0 && t->depth == 0
                   ? ERR_OK
                   : lmdb_pages_damaged(p, 0, "an empty table has entries");
    if (t->depth == 0 || t->depth > DEPTH_MAX)
        return lmdb_pages_damaged(p, t->root, "the depth of its table");
    bool leaves = p->with_leaves || t->is_free || t->is_main;
    uint64_t entries = 0;
    unsigned level = 0;
    if (t->depth == 1 && !leaves)
        return ERR_OK;
    err why = page_read(p, t, &p->frames[0], t->root, t->depth == 1);
    while (why == ERR_OK) {
        struct frame *f = &p->frames[level];
        bool leaf = level + 1u == t->depth;
        if (leaf) {
            entries += f->keys;
            why = leaf_values(p, t, f);
        }
        bool below_is_skipped = level + 2u == t->depth && !leaves;
        if (leaf || below_is_skipped || f->next == f->keys) {
            if (level == 0)
                break;
            level--;
            continue;
        }
        uint64_t child = node_child(node_at(f, f->next++));
        level++;
        if (why == ERR_OK)
            why = page_read(p, t, &p->frames[level], child, level + 1u == t->depth);
    }
    if (why == ERR_OK && leaves && entries != t->entries)
        why = lmdb_pages_damaged(p, t->root, "its table has another number of entries");
    return why;
}

static err free_check(struct pages *p)
{
    for (size_t i = 0; i < p->free_count; i++)
        if (!claim(p, p->free_list[i], 1))
            return lmdb_pages_damaged(p, p->free_list[i],
                                      "it is listed as free but in use, or listed twice");
    return ERR_OK;
}

/* ---- the meta pages ---- */

static err meta_read(struct pages *p, unsigned number, unsigned char meta[META_BYTES])
{
    unsigned char bytes[PAGE_HEADER + META_BYTES];
    err why = read_bytes(p, bytes, sizeof(bytes), number);
    if (why != ERR_OK)
        return why;
    memcpy(meta, bytes + PAGE_HEADER, META_BYTES);
    bool fits = u64_at(bytes) == number && u16_at(bytes + 10) == P_META &&
                u32_at(meta) == META_MAGIC && u32_at(meta + 4) == 1 &&
                u32_at(meta + 24) == PAGE_BYTES;
    return fits ? ERR_OK : lmdb_pages_damaged(p, number, "it is no meta page of this version");
}

/* The newer of the two, as LMDB chooses. */
static err meta_choose(struct pages *p, unsigned char meta[META_BYTES])
{
    unsigned char other[META_BYTES];
    err why = meta_read(p, 0, meta);
    if (why == ERR_OK)
        why = meta_read(p, 1, other);
    if (why == ERR_OK && u64_at(other + 128) > u64_at(meta + 128))
        memcpy(meta, other, META_BYTES);
    return why;
}

static struct tree meta_tree(const unsigned char *db, bool is_free)
{
    return (struct tree){
        .depth = u16_at(db + 6),
        .entries = u64_at(db + 32),
        .root = u64_at(db + 40),
        .is_free = is_free,
        .is_main = !is_free,
    };
}

static err check_trees(struct pages *p, const unsigned char meta[META_BYTES])
{
    struct tree free_tree = meta_tree(meta + 24, true);
    struct tree main_tree = meta_tree(meta + 24 + DB_BYTES, false);
    err why = tree_check(p, &free_tree);
    if (why == ERR_OK)
        why = tree_check(p, &main_tree);
    for (unsigned i = 0; i < p->tree_count && why == ERR_OK; i++)
        why = tree_check(p, &p->trees[i]);
    return why == ERR_OK ? free_check(p) : why;
}

err lmdb_pages_check(const struct lmdb_pages_opts *opts, struct err_note *note)
{
    struct pages p = { .opts = opts, .note = note };
    struct stat st;
    unsigned char meta[META_BYTES];
    if (fstat(opts->fd, &st) != 0)
        return ERR_IO;
    uint64_t size = (uint64_t)st.st_size;
    if (size < 2 * PAGE_BYTES)
        return lmdb_pages_damaged(&p, 0, "the file is cut off");
    err why = meta_choose(&p, meta);
    if (why != ERR_OK)
        return why;
    p.last = u64_at(meta + 120);
    if (p.last < 1 || p.last > size / PAGE_BYTES)
        return lmdb_pages_damaged(&p, 0, "the file is cut off");
    p.with_leaves = size <= opts->leaf_bytes_max;
    p.seen = calloc(p.last / 8 + 1, 1);
    p.frames = malloc(DEPTH_MAX * sizeof(*p.frames));
    INVARIANT(p.seen != NULL && p.frames != NULL);
    why = (p.last + 1) * PAGE_BYTES > size && u64_at(meta + 128) > 0
              ? lmdb_pages_damaged(&p, p.last, "the file is cut off")
              : check_trees(&p, meta);
    free(p.seen);
    free(p.frames);
    free(p.free_list);
    return why;
}
