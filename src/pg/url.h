/* url.h - parts of a URL, for connecting. Private to pg. */
#ifndef PG_URL_H
#define PG_URL_H

#include "pg/pg.h"

#include <libpq-fe.h>

enum { PG_URL_OPTIONS_BYTES_MAX = 512 }; /* of options for the session */

/* Borrowed of options; empty: not there. */
const char *pg_url_option(const PQconninfoOption *options, const char *keyword);
/* What is connected to: as libpq, the addresses, and hosts where there are none. */
const char *pg_url_addresses(const PQconninfoOption *options);
/* A list is of commas: how many it has, and number i of it, the caller's to free; NULL: that is
 * empty. */
unsigned pg_url_count(const char *list);
char *pg_url_nth(const char *list, unsigned i);

#endif
