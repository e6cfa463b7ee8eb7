/* settings.h - what the page service knows of its buckets, made of the options, at the start and
 * anew when they change. Private to server. */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include "bucket/pages.h"
#include "page/page.h"

struct config;
struct settings; /* all that there were; requests may still hold them */

/* From here on requests begin with what config says. page.store is there. */
void settings_renew(struct settings **all, struct page_service *page, const struct config *config);
/* No request is left. */
void settings_free(struct settings **all);

/* The policies of the page buckets that running has, as fresh says them; those that differ.
 * out has CONFIG_BUCKETS_MAX + 1. */
unsigned settings_policies(const struct config *running, const struct config *fresh,
                           struct pages_policy *out);

#endif
