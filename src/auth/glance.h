/* glance.h - what was allowed a moment ago, by the very field that asked: for what is asked with
 * every request. Private to auth.
 *
 * Model. A table of fixed size, a slot for each hash of a field. A slot holds the whole field, the
 * namespace and the permission, and is compared with them; it is good while nothing of the
 * authority has changed since, and its key has not expired. What is denied is not kept. Thread:
 * any. */
#ifndef AUTH_GLANCE_H
#define AUTH_GLANCE_H

#include "base/str.h"
#include "base/times.h"

enum { GLANCE_SLOTS = 1024, GLANCE_FIELD_BYTES_MAX = 96, GLANCE_SPACE_BYTES_MAX = 64 };

struct glances;
struct glances *glances_new(uint64_t seed);
void glances_free(struct glances **gp);

struct glance {
    str field; /* p NULL: none; that is another than an empty one */
    str space;
    const char *permission; /* static: compared by its address */
};
/* Was it allowed, as of this generation of the authority? Until *expires_at. */
bool glances_ask(struct glances *g, const struct glance *what, uint64_t generation,
                 store_time *expires_at);
/* It was. generation: read before it was looked up. What is longer than a slot is passed over. */
void glances_add(struct glances *g, const struct glance *what, uint64_t generation,
                 store_time expires_at);

#endif
