/* path.h - what of a request's path is a bucket of values, and what of it logs may say: keys may be
 * secrets (sessions, caches of users). Paths are as they were sent, still encoded. Pure. */
#ifndef VALUE_PATH_H
#define VALUE_PATH_H

#include "base/arena.h"
#include "value/value.h"

/* Is it the path, or the pattern of a route, of a bucket of values? */
bool value_path(str path);
/* What may be logged of a path: nothing behind the name of such a bucket. pattern: of the route
 * that took the path; NULL: none did. Borrowed from path. */
str value_path_logged(str path, const char *pattern);
/* The bucket that a path names, whether or not there is a route for the rest of the path. False: it
 * names none, or the arena is full. */
MUST_CHECK bool value_path_bucket(struct arena *a, str path, enum value_kind *kind, str *name);

#endif
