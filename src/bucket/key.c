/* key.c - encodes and parses the keys of rows of page buckets. Invariant: the byte order of keys
 * is the order that walks rely on: by title, then newest render first. */
#include "bucket/key.h"

#include "base/buf.h"

#include <string.h>

enum { PREFIX_BYTES = 2 + 4 };

const struct due_lane page_due = { .space = SPACE_DUE, .flips = true };

void page_key_title(struct page_key *k, uint16_t bucket, uint32_t domain, str title)
{
    INVARIANT(title.n >= 1);
    INVARIANT(title.n <= PAGE_TITLE_BYTES_MAX);
    put_be16(k->p, bucket);
    put_be32(k->p + 2, domain);
    memcpy(k->p + PREFIX_BYTES, title.p, title.n);
    k->p[PREFIX_BYTES + title.n] = 0;
    k->n = PREFIX_BYTES + title.n + 1;
}

/* k may be title: the name is then appended in place. */
void page_key_name(struct page_key *k, const struct page_key *title, struct page_name name)
{
    unsigned char tid[TID_KEY_BYTES];
    if (k != title)
        memcpy(k->p, title->p, title->n);
    /* The complement turns the order round: the newest render has the least key. */
    put_be64(k->p + title->n, ~name.rev);
    tid_key(name.tid, tid);
    for (unsigned i = 0; i < TID_KEY_BYTES; i++)
        k->p[title->n + 8 + i] = (char)(unsigned char)~tid[i];
    k->n = title->n + PAGE_NAME_BYTES;
}

/* rev NULL: the key of the title's own row. tid NULL: the fence of a whole revision. Fences are
 * not inverted: nothing walks them by age. */
void page_key_fence(struct page_key *k, const struct page_key *title, const uint64_t *rev,
                    const struct tid *tid)
{
    memcpy(k->p, title->p, title->n);
    k->n = title->n;
    if (rev == NULL)
        return;
    put_be64(k->p + k->n, *rev);
    k->n += 8;
    if (tid == NULL)
        return;
    tid_key(*tid, (unsigned char *)k->p + k->n);
    k->n += TID_KEY_BYTES;
}

void page_key_after(struct page_key *k)
{
    INVARIANT(k->n < sizeof(k->p));
    k->p[k->n++] = 0;
}

/* Titles hold no control bytes: a 1 in the place of the NUL sorts behind all keys of this title,
 * and before each longer title. */
void page_key_title_end(struct page_key *k)
{
    k->p[k->n - 1] = 1;
}

void page_key_of(struct page_key *k, str key)
{
    /* An empty key stands for one that is too long; no row has it. */
    k->n = key.n <= PAGE_KEY_BYTES_MAX ? key.n : 0;
    if (k->n > 0)
        memcpy(k->p, key.p, k->n);
}

/* Whatever lies on a disk may come here: each length is checked before it is used. */
bool page_key_parse(str key, struct page_key_parts *out)
{
    if (key.n < PREFIX_BYTES + 1 + 1 + PAGE_NAME_BYTES || key.n > PAGE_KEY_BYTES_MAX)
        return false;
    const char *name = key.p + key.n - PAGE_NAME_BYTES;
    str title = { .p = key.p + PREFIX_BYTES, .n = key.n - PREFIX_BYTES - 1 - PAGE_NAME_BYTES };
    /* The NUL that ends the title must be the only one: names may contain any byte. */
    if (name[-1] != 0 || str_find(title, '\0') != title.n)
        return false;
    unsigned char tid[TID_KEY_BYTES];
    for (unsigned i = 0; i < TID_KEY_BYTES; i++)
        tid[i] = (unsigned char)~(unsigned char)name[8 + i];
    *out = (struct page_key_parts){
        .bucket = get_be16(key.p),
        .domain = get_be32(key.p + 2),
        .title = title,
        .name = { .rev = ~get_be64(name), .tid = tid_from_key(tid) },
    };
    return true;
}

bool page_key_title_parse(str key, struct page_key_parts *out)
{
    if (key.n < PREFIX_BYTES + 1 + 1 || key.n > PREFIX_BYTES + PAGE_TITLE_BYTES_MAX + 1)
        return false;
    str title = { .p = key.p + PREFIX_BYTES, .n = key.n - PREFIX_BYTES - 1 };
    if (key.p[key.n - 1] != 0 || str_find(title, '\0') != title.n)
        return false;
    *out = (struct page_key_parts){ .bucket = get_be16(key.p),
                                    .domain = get_be32(key.p + 2),
                                    .title = title };
    return true;
}

struct due_row page_due_row(enum page_due_kind kind, str row_key)
{
    /* A due row borrows its kind: a static byte for each outlives it. */
    static const char kinds[] = { 0, DUE_RENDER, DUE_LEDGER, DUE_TRACES };
    INVARIANT(row_key.n <= PAGE_KEY_BYTES_MAX);
    return (struct due_row){ .kind = { .p = &kinds[kind], .n = 1 }, .key = row_key };
}

bool page_due_parse(str of, enum page_due_kind *kind, str *row_key)
{
    struct page_key_parts parts;
    str key = str_skip(of, 1);
    if (of.n < 1 || of.p[0] < DUE_RENDER || of.p[0] > DUE_TRACES)
        return false;
    *kind = (enum page_due_kind)of.p[0];
    *row_key = key;
    return *kind == DUE_TRACES ? page_key_title_parse(key, &parts) : page_key_parse(key, &parts);
}

/* key has passed page_key_parse, or next_title of check.c: a NUL is in it. */
void page_key_prefix_of(struct page_key *k, str key)
{
    INVARIANT(key.n > PREFIX_BYTES);
    size_t n = PREFIX_BYTES + str_find(str_skip(key, PREFIX_BYTES), '\0') + 1;
    INVARIANT(n <= key.n);
    memcpy(k->p, key.p, n);
    k->n = n;
}
