/* profile.c - compares the version of a specification that a client accepts with the stored one,
 * for reads. */
#include "page/profile.h"

#include "http/parameter.h"

enum { VERSION_PARTS = 3, VERSION_PARTS_COMPARED = 2 }; /* the patch number asks for nothing */

struct spec {
    str name; /* what stands before the version, with its slash */
    uint64_t version[VERSION_PARTS];
};

/* Splits "https://.../Specs/HTML/2.4.0". False: it has no version of three numbers. */
static bool parse_spec(str profile, struct spec *out)
{
    size_t at = profile.n;
    while (at > 0 && profile.p[at - 1] != '/')
        at--;
    str version = str_skip(profile, at);
    out->name = str_take(profile, at);
    for (unsigned i = 0; i < VERSION_PARTS; i++)
        if (!str_to_u64(str_split(&version, '.'), &out->version[i]))
            return false;
    return version.p == NULL && at > 0;
}

/* Is its weight 0: q=0, q=0.0 and so on? */
static bool is_refused(struct arena *a, str range)
{
    str q;
    if (!http_parameter(a, range, STR("q"), &q) || q.n == 0)
        return false;
    for (size_t i = 0; i < q.n; i++)
        if (q.p[i] != '0' && q.p[i] != '.')
            return false;
    return true;
}

/* Does a range without a profile take this type? */
static bool takes_type(str range, str type)
{
    str wanted = http_media_type(range);
    if (str_eq(wanted, STR("*/*")) || str_eq_nocase(wanted, type))
        return true;
    size_t slash = str_find(wanted, '/');
    return str_eq(str_skip(wanted, slash), STR("/*")) &&
           str_eq_nocase(str_take(wanted, slash), str_take(type, str_find(type, '/')));
}

/* Another major version never serves; of one major a later minor does. */
static enum profile_verdict compare(const struct spec *wanted, const struct spec *stored)
{
    if (stored->version[0] != wanted->version[0])
        return stored->version[0] < wanted->version[0] ? PROFILE_NEWER : PROFILE_OLDER;
    for (unsigned i = 1; i < VERSION_PARTS_COMPARED; i++)
        if (stored->version[i] != wanted->version[i])
            return stored->version[i] < wanted->version[i] ? PROFILE_NEWER : PROFILE_SERVES;
    return PROFILE_SERVES;
}

enum profile_verdict profile_judge(struct arena *a, str accept, str content_type)
{
    struct spec stored, wanted;
    str profile;
    bool asked = false, newer = false;
    if (accept.n == 0 || !http_parameter(a, content_type, STR("profile"), &profile) ||
        !parse_spec(profile, &stored))
        return PROFILE_SERVES;
    /* One range that is served decides; else a newer version may come of a new making. */
    while (accept.n > 0) {
        str range = http_part_next(&accept, ',');
        if (range.n == 0 || is_refused(a, range))
            continue;
        if (!http_parameter(a, range, STR("profile"), &profile)) {
            if (takes_type(range, http_media_type(content_type)))
                return PROFILE_SERVES;
            continue;
        }
        if (!str_eq_nocase(http_media_type(range), http_media_type(content_type)))
            continue; /* of another media type */
        if (!parse_spec(profile, &wanted) || !str_eq(wanted.name, stored.name))
            continue;
        enum profile_verdict verdict = compare(&wanted, &stored);
        if (verdict == PROFILE_SERVES)
            return PROFILE_SERVES;
        asked = true;
        newer |= verdict == PROFILE_NEWER;
    }
    return !asked ? PROFILE_SERVES : newer ? PROFILE_NEWER : PROFILE_OLDER;
}
