/* boot.h - the object graph of a server: built in order, torn down in reverse. Private to
 * server. */
#ifndef SERVER_BOOT_H
#define SERVER_BOOT_H

#include "app/app.h"
#include "server/offline.h"
#include "server/timekeep.h"
#include "server/upkeep.h"

struct server {
    const struct config *config; /* borrowed */
    struct app app;              /* its members are the parts; handlers see this alone */
    struct page_domain *domains; /* app.page.domains, as they are filled in */
    struct settings *settings;   /* app.page.buckets */
    struct value_settings values[CONFIG_BUCKETS_MAX]; /* app.values.buckets */
    struct pages *pages;   /* app.page.store is what they do; without buckets with cassandra */
    struct tables *tables; /* app.tables, too */
    struct timeline_remote *timelines;  /* of rules that keep them in Redis; NULL: there is none */
    struct server_cassandra *cassandra; /* NULL: pages are in the data directory */
    struct server_secondary *secondary; /* NULL: there is none */
    bool lost;   /* what it keeps pages in is another one: it has to end, and to be started anew */
    bool served; /* origins are there, and what stands on them */
    struct upkeep *upkeep;
    struct timekeep timekeep;
    struct budget budget;        /* app.budget */
    struct queue_store **stores; /* of queues */
    unsigned stores_count;
};

/* Builds everything up to listeners that are bound and answer. On failure what was built is gone
 * again and *status says with what to exit. s is filled in place. Thread: the one that will run the
 * loop. */
MUST_CHECK err server_boot(struct server *s, const struct config *config, enum server_exit *status,
                           struct err_note *note);
/* config has new values of what a SIGHUP takes over: they hold from here on. Thread: the loop's. */
void server_reloaded(struct server *s);
/* The loop has stopped and no request is open. */
void server_unboot(struct server *s);

/* boot_store.c: the page store of store.kind cassandra, which becomes app.page.store. Runs the loop
 * until it is open, or for store.start_timeout. */
MUST_CHECK err server_open_store(struct server *s, enum server_exit *status, struct err_note *note);
struct table_store *server_shared_tables(struct server *s); /* NULL: store.kind embedded */
/* What the store knows of domains, as origins_recall: at once, or once the store is open. */
void server_recall(struct server *s);
/* Users, keys and roles that servers share; NULL: they are in the data directory. */
struct row_store *server_shared_keys(struct server *s);
/* Runs the loop until the client has stopped: all of it works on what was half built. Nobody asks
 * it any more. */
void server_close_store(struct server *s);
void server_free_store(struct server *s); /* behind all that knows the store */

/* boot_secondary.c: what is missing may lie in page.secondary; with the domains. Closing works on
 * what was half built, runs the loop until the client has stopped, and comes when nothing asks. */
MUST_CHECK err server_open_secondary(struct server *s, struct err_note *note);
void server_close_secondary(struct server *s);

/* boot_queue.c: pool_threads and as many more as stores and calls on them may hold while they do
 * not answer, so that those are nobody else's loss. */
unsigned server_pool_threads(const struct config *c);

/* boot_queue.c: the stores and the queues, after the loop is there; closing works on what was half
 * built. */
MUST_CHECK err server_open_queues(struct server *s, enum server_exit *status,
                                  struct err_note *note);
void server_close_queues(struct server *s);
/* Logs which rules put items into queues that are not there. */
void server_doubt_queues(struct server *s);

#endif
