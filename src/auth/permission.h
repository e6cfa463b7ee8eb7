/* permission.h - the permissions there are, and the roles every store has. Private to auth.
 *
 * A set of permissions is 64 bits. Bit numbers are on disk: never reuse one. Wildcards do not exist. */
#ifndef AUTH_PERMISSION_H
#define AUTH_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

/* False: no such permission. */
bool permission_bit(const char *name, uint64_t *bit);

struct standard_role { const char *name; uint64_t bits; };
enum { STANDARD_ROLES = 7 };
/* Admin, NamespaceOwner, PublicViewer, and for content read, write, purge, admin. */
void standard_roles(struct standard_role out[STANDARD_ROLES]);

#endif
