/* goduration.h - durations as Go writes and reads them ("1h30m", "900ms", "-1.5s"), with the words
 * of its errors: what time.ParseDuration and Duration.String do, to the letter. Pure. Thread:
 * any. */
#ifndef CODEC_GODURATION_H
#define CODEC_GODURATION_H

#include "base/arena.h"
#include "base/err.h"

enum { GODURATION_BYTES_MAX = 32 };

/* ERR_BAD: *why is Go's sentence, in the arena (`time: invalid duration "foo"`). ERR_LIMIT: the
 * arena is full. */
MUST_CHECK err goduration_parse(str text, int64_t *ns, struct arena *a, str *why);
/* "1m30s"; "0s". */
void goduration_format(int64_t ns, char out[GODURATION_BYTES_MAX + 1]);

#endif
