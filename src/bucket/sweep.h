/* sweep.h - a domain's titles, words to be forgotten, and notes, as store.c gives them to callers
 * (store/page_sweep.h). Private to this folder. */
#ifndef BUCKET_SWEEP_H
#define BUCKET_SWEEP_H

#include "bucket/catalog.h"

enum store_start page_walk_start(struct pages *p, struct page_walk *w);
enum store_start page_revs_start(struct pages *p, struct page_revs *r);
enum store_start page_forget_start(struct pages *p, struct page_forget *f);
enum store_start page_note_start(struct pages *p, struct page_note_put *n);

#endif
