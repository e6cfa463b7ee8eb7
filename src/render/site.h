/* site.h - siteinfo of one origin: asked for once, again when it is old, by whoever looks. Private
 * to this folder. */
#ifndef RENDER_SITE_H
#define RENDER_SITE_H

#include "render/render.h"

enum { SITE_AGAIN_MS_MIN = 500, SITE_AGAIN_MS_MAX = 30000 }; /* after failures in a row, doubling */
enum { SITE_TELL_MS = 60000 }; /* between lines in the log about failures of a kind */

struct site;
struct site *site_new(struct origin *o);
void site_free(struct site **sp);
/* A reference to what is known, or NULL; asks nobody. s may be NULL. Thread: any. */
struct siteinfo *site_peek(struct site *s);

#endif
