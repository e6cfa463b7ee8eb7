/* change.c - names of changes, for logs and answers. */
#include "store/change.h"

#include "base/check.h"

const char *page_change_name(enum page_change_what what)
{
    static const char *const names[CHANGE_WHATS] = {
        [CHANGE_STORED] = "stored", [CHANGE_LATEST] = "latest", [CHANGE_SUPERSEDED] = "superseded",
        [CHANGE_HIDDEN] = "hidden", [CHANGE_SHOWN] = "shown",   [CHANGE_DATED] = "dated",
        [CHANGE_DUE] = "due",       [CHANGE_CULLED] = "culled", [CHANGE_PURGED] = "purged",
    };
    INVARIANT(what < CHANGE_WHATS);
    return names[what];
}
