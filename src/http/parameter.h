/* parameter.h - parameters of header fields such as Content-Type (RFC 9110 5.6.6). Pure. */
#ifndef HTTP_PARAMETER_H
#define HTTP_PARAMETER_H

#include "base/arena.h"
#include "base/check.h"
#include "base/str.h"

/* Cuts off what stands before the next separator that is not within quotes, trimmed. *rest: p NULL
 * behind the last. */
str http_part_next(str *rest, char separator);
/* The type without parameters. */
str http_media_type(str content_type);
/* The value of a parameter of a field such as Content-Type or Content-Disposition, unquoted; false:
 * absent, or it is not written as RFC 9110 5.6.6 says. Result in field or the arena. */
MUST_CHECK bool http_parameter(struct arena *a, str field, str name, str *out);

#endif
