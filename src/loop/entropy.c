/* entropy.c - reads random bytes from the kernel. A kernel that gives none ends the process:
 * keys made without them would be guessable. */
#include "loop/entropy.h"

#include "base/check.h"

#include <errno.h>
#include <sys/random.h>

void entropy_bytes(void *dst, size_t n)
{
    unsigned char *at = dst;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        INVARIANT(got > 0);
        at += got;
        n -= (size_t)got;
    }
}

uint64_t entropy_u64(void)
{
    uint64_t v;
    entropy_bytes(&v, sizeof v);
    return v;
}
