/* permission.c - the table of permissions and the roles that every store has. Invariant: the
 * number of a bit is on disk, so a number is never used for a second permission. */
#include "auth/permission.h"

#include "auth/auth.h"

enum role_of {
    OWNER = 1,
    VIEWER = 2,
    READ = 4,
    WRITE = 8,
    PURGE = 16,
    ADMIN = 32
}; /* Admin has all */

/* The bit of a permission is its place here. */
static const struct {
    const char *name;
    unsigned roles;
} permissions[] = {
    { "namespace.create", 0 },
    { "namespace.delete", 0 },
    { "namespace.list", 0 },
    { "namespace.update", 0 },
    { "queue.create", OWNER },
    { "queue.delete", OWNER },
    { "queue.update", OWNER },
    { "queue.list", OWNER },
    { "queue.produce", OWNER },
    { "queue.lease", OWNER },
    { "queue.complete", OWNER },
    { "queue.retry", OWNER },
    { "queue.stats", OWNER },
    { "queue.clear", OWNER },
    { "user.create", 0 },
    { "user.delete", 0 },
    { "user.list", 0 },
    { "apikey.create", ADMIN },
    { "apikey.delete", ADMIN },
    { "apikey.list", ADMIN },
    { "role.create", OWNER },
    { "role.update", OWNER },
    { "role.delete", OWNER },
    { "role.list", OWNER },
    { "rolebinding.create", OWNER },
    { "rolebinding.delete", OWNER },
    { "rolebinding.list", OWNER },
    { "system.health", OWNER | VIEWER | ADMIN },
    { "system.metrics", OWNER | VIEWER | ADMIN },
    /* the last of Querator's is system.metrics; from here on they are ours */
    { "page.read", READ | WRITE | ADMIN },
    { "page.write", WRITE | ADMIN },
    { "page.purge", PURGE | ADMIN },
    { "table.read", READ | WRITE | ADMIN },
    { "table.write", WRITE | ADMIN },
    { "admin.read", ADMIN },
    { "admin.write", ADMIN },
    { "admin.check", ADMIN },
    { "admin.backup", ADMIN },
    { "table.purge", PURGE | ADMIN },
    { "change.write", WRITE | ADMIN },
    { "change.read", READ | WRITE | ADMIN },
    { "change.private", ADMIN },
};
enum { OF_QUEUES = 29 };
_Static_assert(COUNT_OF(permissions) <= AUTH_PERMISSIONS_MAX, "one bit each");

bool permission_bit(str name, uint64_t *bit)
{
    for (unsigned i = 0; i < COUNT_OF(permissions); i++)
        if (str_eq(str_of(permissions[i].name), name)) {
            *bit = (uint64_t)1 << i;
            return true;
        }
    return false;
}

unsigned permission_names(uint64_t bits, str *names)
{
    unsigned n = 0;
    for (unsigned i = 0; i < COUNT_OF(permissions); i++)
        if ((bits & (uint64_t)1 << i) != 0)
            names[n++] = str_of(permissions[i].name);
    return n;
}

uint64_t permission_of_queues(void)
{
    return ((uint64_t)1 << OF_QUEUES) - 1;
}

uint64_t permission_of_content(void)
{
    return ~permission_of_queues();
}

bool auth_permission_known(const char *permission)
{
    uint64_t bit;
    return permission_bit(str_of(permission), &bit);
}

static const struct {
    const char *name;
    unsigned role;
} names[STANDARD_ROLES] = {
    { "Admin", 0 },     { "NamespaceOwner", OWNER }, { "PublicViewer", VIEWER }, { "read", READ },
    { "write", WRITE }, { "purge", PURGE },          { "admin", ADMIN },
};

bool standard_role_named(str name)
{
    for (unsigned r = 0; r < STANDARD_ROLES; r++)
        if (str_eq(str_of(names[r].name), name))
            return true;
    return false;
}

void standard_roles(struct standard_role out[STANDARD_ROLES])
{
    for (unsigned r = 0; r < STANDARD_ROLES; r++) {
        out[r] = (struct standard_role){ .name = names[r].name };
        for (unsigned i = 0; i < COUNT_OF(permissions); i++)
            if (names[r].role == 0 || (permissions[i].roles & names[r].role) != 0)
                out[r].bits |= (uint64_t)1 << i;
    }
}
