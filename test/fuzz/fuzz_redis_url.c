/* Goal: no URL of Redis makes the parser read or write where it must not, and what is accepted is
 * bounded text. */
#include "redis/redis.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct redis_address a;
    struct err_note note;
    if (redis_url_parse((str){ .p = (const char *)data, .n = n }, &a, &note) != ERR_OK)
        return 0;
    if (strlen(a.host) == 0 || strlen(a.host) > REDIS_HOST_BYTES_MAX ||
        strlen(a.user) > REDIS_NAME_BYTES_MAX || strlen(a.password) > REDIS_NAME_BYTES_MAX ||
        a.port == 0)
        abort();
    return 0;
}
