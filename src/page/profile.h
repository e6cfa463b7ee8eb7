/* profile.h - content negotiation by the version of a specification, as RESTBase does it
 * (docs/peers.md, 1).
 *
 *   Accept: text/html; charset=utf-8; profile="https://www.mediawiki.org/wiki/Specs/HTML/2.4.0"
 *
 * wants that specification at that version or a later one of the same major; the patch number is
 * ignored. A range without a profile, of another media type or of another specification than the
 * content's asks for nothing; content without a profile satisfies everybody. Pure. */
#ifndef PAGE_PROFILE_H
#define PAGE_PROFILE_H

#include "base/arena.h"
#include "base/str.h"

enum profile_verdict {
    PROFILE_SERVES, /* the content will do */
    PROFILE_NEWER,  /* a newer version is wanted: making the content again may give it */
    PROFILE_OLDER,  /* an older major version is wanted: it cannot be had */
};
/* accept: the request's field, empty when absent. The arena holds what had to be unquoted. */
enum profile_verdict profile_judge(struct arena *a, str accept, str content_type);

#endif
