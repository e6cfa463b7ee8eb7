/* redo.c - the instant before which all renders of a domain are to be made anew, for the API and
 * for old.c: a note of the store.
 *
 * Bytes: version u8, the instant i64. */
#include "page/redo.h"

#include "base/buf.h"
#include "page/changes.h"

enum { REDO_VERSION = 1 };

/* At home, once the note is on disk. The instant comes before the counters: a reader that sees
 * them moved sees it, and ready answers end. */
static void redo_noted(struct store_call *c)
{
    struct page_redo *r = CONTAINER_OF(c, struct page_redo, note.call);
    r->why = c->why;
    if (r->why == ERR_OK) {
        atomic_store(r->domain->redo_ns, r->at.ns);
        page_changes_tell_all(r->service->changes);
    }
    r->done(r);
}

void page_redo_start(struct page_redo *r)
{
    const struct page_service *s = r->service;
    r->at = clock_store(s->clock);
    r->bytes[0] = REDO_VERSION;
    put_be64(r->bytes + 1, (uint64_t)r->at.ns);
    r->note = (struct page_note_put){
        .call = { .deadline = page_write_deadline(s), .home = r->home, .done = redo_noted },
        .domain = r->domain->number,
        .note = PAGE_NOTE_REDO,
        .bytes = { .p = r->bytes, .n = sizeof r->bytes }
    };
    store_call_post(page_store_note_put(s->store, &r->note), &r->note.call);
}

err page_redo_load(const struct page_service *s, const struct page_domain *d)
{
    char bytes[PAGE_NOTE_BYTES_MAX];
    size_t n = 0;
    err e = page_store_note_get(s->store, d->number, PAGE_NOTE_REDO, bytes, &n);
    /* Nobody ever asked for it. */
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e == ERR_OK && (n != REDO_BYTES || bytes[0] != REDO_VERSION))
        e = ERR_CORRUPT;
    if (e == ERR_OK)
        atomic_store(d->redo_ns, (int64_t)get_be64(bytes + 1));
    return e;
}
