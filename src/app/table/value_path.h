/* value_path.h - what all of app must know of buckets of values: their paths. */
#ifndef APP_TABLE_VALUE_PATH_H
#define APP_TABLE_VALUE_PATH_H

#include "app/app.h"
#include "value/path.h"

/* What may be logged of the target. Borrowed from x. */
str value_target_logged(const struct http_exchange *x);
/* Lets scripts of other sites read the answer where the bucket's configuration does. Before
 * anything is answered; routed or not. */
void value_share(struct http_exchange *x, const struct app *app);

#endif
