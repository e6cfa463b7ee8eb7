/* permission.h - the permissions there are, and the roles every store has. Private to auth.
 *
 * A set of permissions is 64 bits. Bit numbers are on disk: never reuse one. Wildcards do not
 * exist. */
#ifndef AUTH_PERMISSION_H
#define AUTH_PERMISSION_H

#include "base/str.h"

/* False: no such permission. */
bool permission_bit(str name, uint64_t *bit);
/* The names of a set, in the order of the table; names has room for AUTH_PERMISSIONS_MAX. Returns
 * how many. */
unsigned permission_names(uint64_t bits, str *names);
/* Those that Querator knows: a list of Admin shows them alone. */
uint64_t permission_of_queues(void);
/* All the others, those on pages, tables and what an operator does with them: they count in any
 * domain that has the name of the namespace, now or later. */
uint64_t permission_of_content(void);

struct standard_role {
    const char *name;
    uint64_t bits;
};
enum { STANDARD_ROLES = 7 };
/* Admin, NamespaceOwner, PublicViewer, and for content read, write, purge, admin. */
bool standard_role_named(str name);
void standard_roles(struct standard_role out[STANDARD_ROLES]);

#endif
