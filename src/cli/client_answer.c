/* client_answer.c - what the header of an answer says of the render that it brings. */
#include "cli/client.h"
#include "http/http.h"

bool client_etag_read(const char *etag, uint64_t *rev, str *tid)
{
    bool weak;
    str tag = http_etag_bare(str_of(etag), &weak);
    str number = str_split(&tag, '/');
    if (tag.p != NULL && tag.n > 0 && str_to_u64(number, rev)) {
        *tid = str_split(&tag, '/');
        return true;
    }
    *rev = 0;
    *tid = STR("");
    return false;
}

bool client_was_stored(const char *cache_status)
{
    str status = str_of(cache_status);
    (void)str_split(&status, ';'); /* whose cache */
    while (status.n > 0)
        if (str_eq(str_trim(str_split(&status, ';')), STR("hit")))
            return true;
    return false;
}

bool client_is_render(const char *etag, const char *cache_status)
{
    uint64_t rev;
    str tid;
    return cache_status[0] != '\0' || client_etag_read(etag, &rev, &tid);
}
