/* origins.h - what asks others: an HTTP client, flights, an origin for each domain that has one,
 * lists, and the Redis that servers share. What the configuration does not want is not there.
 * Private to server, but for origins_new. */
#ifndef SERVER_ORIGINS_H
#define SERVER_ORIGINS_H

#include "app/app.h"
#include "store/page_store.h"

/* Stands in the store beside the configured buckets and is reached by no path: wikitext that was
 * transformed, kept for the life of an edit. */
#define ORIGINS_STASH_NAME "_stash"
struct page_bucket_opts origins_stash_opts(const struct config *config);
bool origins_wanted(const struct config *config);
struct http_client;
struct loop;
/* The origin of a domain that has one, with the secret of its file. As origin_new; ERR_BAD, too,
 * when the file cannot be read. */
MUST_CHECK err origins_new(struct http_client *client, struct loop *loop, struct clock *clock,
                           const struct config_domain *config, struct origin **out,
                           struct err_note *note);

/* domains: app's, to be filled in. The loop and the pages are there. ERR_BAD: an origin's options
 * make no sense. */
MUST_CHECK err origins_open(struct app *app, struct page_domain *domains, struct err_note *note);
/* What the store knows of domains holds from here on. Blocks: a pool job, unless the store is the
 * engine's. */
void origins_recall(const struct app *app);
/* What the options say of limits and times holds from here on. Thread: the loop's. */
void origins_reloaded(struct app *app, struct page_domain *domains);
/* Whoever waits gets ERR_SHUTDOWN, and nothing more is asked. */
void origins_drain(struct app *app);
/* Nothing is being made or asked. */
bool origins_idle(const struct app *app);
/* Idle, or the loop never ran. */
void origins_close(struct app *app, struct page_domain *domains);

#endif
