/* percent.h - percent-encoding (RFC 3986 2.1). Private to http; http_encode and http_decode are
 * here too. */
#ifndef HTTP_PERCENT_H
#define HTTP_PERCENT_H

#include "base/str.h"

/* Every '%' is followed by two hex digits. */
bool percent_valid(str s);

#endif
