/* coding.h - in which coding a content is sent: as it is stored, or as it is. Pure. */
#ifndef PAGE_CODING_H
#define PAGE_CODING_H

#include "http/negotiate.h"
#include "store/page_store.h"

enum http_coding page_coding_of(enum page_codec codec);
/* The stored coding when the client likes it as much as identity, else identity. False: neither
 * will do, and *out is identity. */
MUST_CHECK bool page_coding_choose(str accept_encoding, enum page_codec stored,
                                   enum http_coding *out);
/* What the client accepts beside identity and likes as much, as bits of enum http_coding: clients
 * of one variant get the same answer. -1: it forbids identity, which is too odd for a shared one.
 */
int page_coding_variant(str accept_encoding);

#endif
