/* options_impl.h - the options while they are filled in. Private to server/options*.c. */
#ifndef SERVER_OPTIONS_IMPL_H
#define SERVER_OPTIONS_IMPL_H

#include "base/arena.h"
#include "server/inherit.h"
#include "server/options.h"
#include "server/options_table.h"

#include <yaml.h>

/* Where an origin was said; file NULL: it was not. */
struct origin_from {
    struct options_from last, url, api, rerenders; /* rerenders: rerender_concurrency */
};

enum { LISTENER_ROWS = 4, LISTEN_OPTION_BYTES = 64 /* "listeners.NAME.listen" */ };

struct options {
    struct config config;
    struct options_from list_from[CONFIG_LISTS_MAX]; /* of the list itself */
    struct options_from listener_from[CONFIG_LISTENERS_MAX]
                                     [LISTENER_ROWS + 1]; /* of rows; the last: of the listener */
    struct arena texts;
    struct options_from from[OPTION_ROWS_MAX]; /* file NULL: the default stands */
    struct options_from bucket_from[CONFIG_BUCKETS_MAX][OPTION_ROWS_MAX];
    struct options_from value_from[CONFIG_BUCKETS_MAX]
                                  [OPTION_ROWS_MAX]; /* fields of buckets of values */
    const char *shown[OPTION_ROWS_MAX];              /* last value as written */
    const char *contents[CONFIG_BUCKETS_MAX][PAGE_CONTENTS_MAX];
    struct origin_from *domain_from;
    unsigned domains_size;
    const struct inherited *inherited; /* may be NULL */
    struct buf faults;                 /* of rules: lines */
    bool finished;
};

/* One value on its way to its place. */
struct option_value {
    const struct option *row;
    void *base; /* the struct that row->offset counts in */
    str name;   /* as the operator wrote it, for messages */
    str text;
    struct options_from from;
    unsigned bucket; /* for bucket rows */
};
MUST_CHECK err option_store(struct options *o, const struct option_value *v, struct err_note *note);
/* The list in queue.stores, from the text that was written. */
MUST_CHECK err options_finish_stores(struct options *o, struct options_from from,
                                     struct err_note *note);
/* A name that no option has: fails, and says what may have been meant. */
MUST_CHECK err option_unknown(struct options_from from, str name, struct err_note *note);
/* Formats "FILE:LINE: NAME: " and the rest, control bytes replaced; always returns ERR_BAD. */
err option_fail(struct options_from from, str name, struct err_note *note, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* One "ADDR:PORT" into *out. false: no such thing. */
MUST_CHECK bool option_parse_listen(struct options *o, str text, struct http_listen *out);
/* The row of this name, or NULL. */
const struct option *option_find(const struct option *rows, str name);
/* Adds a domain unless it is there; *index (NULL allowed). */
MUST_CHECK err option_add_domain(struct options *o, str name, struct options_from from,
                                 unsigned *index, struct err_note *note);
/* Every default of rows into base. */
void option_defaults(struct options *o, const struct option *rows, void *base, unsigned bucket);
/* options_list.c. lists.NAME.FIELD; ERR_NOT_FOUND: no such thing. */
MUST_CHECK err option_set_list(struct options *o, struct option_value *v, struct err_note *note);
MUST_CHECK err option_list(struct options *o, str name, struct options_from from, unsigned *index,
                           struct err_note *note);
/* Looks at lists and Redis as a whole. from: of redis.url. */
MUST_CHECK err options_finish_lists(struct options *o, struct options_from from,
                                    struct err_note *note);
/* options_tell.c. change.streams: is each a stream of the store? */
MUST_CHECK err options_finish_streams(struct options *o, struct options_from from,
                                      struct err_note *note);
/* options_filter.c. listeners.NAME.FIELD; ERR_NOT_FOUND: no such thing. */
MUST_CHECK err option_set_listener(struct options *o, struct option_value *v,
                                   struct err_note *note);
MUST_CHECK err option_listener(struct options *o, str name, struct options_from from,
                               unsigned *index, struct err_note *note);
/* As the operator writes it; field "": the listener itself. to: LISTEN_OPTION_BYTES. *from: where
 * that was said. */
str option_listener_name(const struct options *o, const char *name, const char *field, char *to,
                         struct options_from *from);
/* What each shows: after buckets and lists. */
MUST_CHECK err options_finish_filters(struct options *o, struct err_note *note);
/* options_listen.c. All listeners, and what they serve. */
MUST_CHECK err options_finish_listens(struct options *o, struct err_note *note);
/* Of a listener without a name of its own: the option that it is of. */
const char *option_listen_row(const struct http_listen *l);
/* The option that says its address, and where. */
str option_listen_name(const struct options *o, const struct http_listen *l, char *to,
                       struct options_from *from);
/* What an address should be. */
const char *option_listen_wanted(str text);
/* Where the option of that name came from, and what was written; NULL: nothing was. */
struct options_from option_from(const struct options *o, const char *name);
const char *option_shown(const struct options *o, const char *name);
/* options_tell.c. change.databases: is each entry NAME=DOMAIN, of a domain that there is? */
MUST_CHECK err options_finish_databases(struct options *o, struct options_from from,
                                        struct err_note *note);
/* Where the wiki of a domain is for its readers, when that was not said. False: article_path is
 * none. */
MUST_CHECK bool options_fill_place(struct options *o, struct config_domain *d);
/* options_rules.c. Is there what the rules want of other options? */
MUST_CHECK err options_finish_rules(struct options *o, struct err_note *note);
/* options_rules.c. change.rules, from its section. ERR_BAD: note has the first fault, and
 * options_faults all of them. */
MUST_CHECK err options_rules(struct options *o, yaml_document_t *doc, const yaml_node_t *rules,
                             struct options_from from, struct err_note *note);
/* Tells what rules differ, and takes them over. */
void options_rules_take(struct options *running, const struct options *fresh,
                        options_change_fn *each, void *ctx);
/* options_store.c. The cluster of store.*, and what it cannot keep: after buckets and rules. */
MUST_CHECK err options_finish_store(struct options *o, struct err_note *note);
/* The nodes of c; name: of the option that says them. */
MUST_CHECK err options_finish_points(struct options *o, struct config_cassandra *c,
                                     const char *name, struct err_note *note);
/* Login and TLS of c; section: "store". */
MUST_CHECK err options_finish_login(const struct options *o, const struct config_cassandra *c,
                                    const char *section, struct err_note *note);
/* options_secondary.c. page.secondary.*: after domains. */
MUST_CHECK err options_finish_secondary(struct options *o, struct err_note *note);
/* options_bucket.c. Sets a field of a bucket, also before its kind is known. */
MUST_CHECK err option_set_field(struct options *o, struct option_value *v, str field,
                                struct err_note *note);
/* Looks at each bucket as a whole, and sets those of values apart. */
MUST_CHECK err options_finish_buckets(struct options *o, struct err_note *note);
/* Of lower-case letters, digits and extra; not begun with extra. */
bool option_is_plain_name(str s, size_t bytes_max, const char *extra);
/* A text that somebody gave. */
static inline bool option_is_said(const char *text)
{
    return text != NULL && text[0] != '\0';
}
bool option_is_one_of(str s, const char *const *names, size_t count);
/* Finds or adds the bucket; *index. */
MUST_CHECK err option_bucket(struct options *o, str name, struct options_from from, unsigned *index,
                             struct err_note *note);

#endif
