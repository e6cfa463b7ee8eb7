/* oracle.c - see oracle.h. */
#include "lib/oracle.h"

#include "base/check.h"

#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static bool oracle_matches(const char *pattern)
{
    glob_t found;
    bool matches = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return matches;
}

static bool oracle_on_path(const char *program)
{
    const char *path = getenv("PATH");
    for (const char *at = path; at != NULL; at = strchr(at, ':')) {
        char whole[PATH_MAX];
        at += at != path; /* the colon */
        int n = snprintf(whole, sizeof whole, "%.*s/%s", (int)strcspn(at, ":"), at, program);
        if (n < (int)sizeof whole && access(whole, X_OK) == 0)
            return true;
    }
    return false;
}

void oracle_need(const char *what)
{
    if (strchr(what, '/') != NULL ? oracle_matches(what) : oracle_on_path(what))
        return;
    printf("skipped: %s is not here; script/deps test installs it\n", what);
    exit(SKIPPED);
}
