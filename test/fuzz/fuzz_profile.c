/* Goal: no Accept field breaks negotiation by profile, and what satisfies does so whatever stands
 * behind it. Method: the first line is the content's type, the rest the field. */
#include "page/profile.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    str accept = { .p = (const char *)data, .n = size };
    str type = str_split(&accept, '\n');
    arena_init(&a, 8 << 20);
    enum profile_verdict verdict = profile_judge(&a, accept, type);
    str longer = arena_printf(&a, "%.*s, */*", STR_ARG(accept));
    if (accept.n > 0 && verdict == PROFILE_SERVES && str_find(accept, '"') == accept.n)
        INVARIANT(profile_judge(&a, longer, type) == PROFILE_SERVES);
    INVARIANT(profile_judge(&a, STR("*/*"), type) == PROFILE_SERVES);
    arena_fini(&a);
    return 0;
}
