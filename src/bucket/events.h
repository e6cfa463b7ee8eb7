/* events.h - changes of renders as events of the event log, appended in the update that makes the
 * change. Private to this folder.
 *
 *   palimpsest.render   a render became the latest
 *   palimpsest.gone     a render is no longer given; kind: culled, purged, hidden, deleted
 *   palimpsest.dated    what was given of the title is not what is to be given now, and no render
 * is stored yet that tells of it; kind: revision (the wiki has a newer one), touched (the page was,
 * at the same revision), shown (a render that was hidden or deleted is given again)
 *
 * docs/api.md, "Events of the store", has their members. */
#ifndef BUCKET_EVENTS_H
#define BUCKET_EVENTS_H

#include "base/err.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "store/change.h"

#include <stdatomic.h>

struct event_log;
struct pages;

struct page_events {
    struct event_log *log;
    atomic_uint streams; /* bits of enum page_stream; 0: no events, and there may be no log */
    char **domains;      /* names by number; NULL: none has this number */
    uint32_t domains_size;
    struct rng rng; /* committer only: ids of events */
};
void page_events_fini(struct page_events *e);
/* This domain has that number. Start-up only. */
void page_events_domain(struct page_events *e, uint32_t number, str name);

/* What is built for one update. */
struct page_event_texts;
void page_event_texts_free(struct page_event_texts **tp);
/* Appends events for those of the changes that a selected stream tells; in a decision, once each
 * time it runs. *tp keeps their bytes until the update is done; NULL before. */
MUST_CHECK err page_events_append(struct pages *p, struct engine_txn *t,
                                  const struct page_change *changes, unsigned count,
                                  struct page_event_texts **tp);
/* Does any stream tell? */
static inline bool page_events_wanted(const struct page_events *e)
{
    return atomic_load_explicit(&e->streams, memory_order_relaxed) != 0;
}
bool page_events_appended(const struct page_event_texts *t);

#endif
