/* sha256.h - SHA-256, by OpenSSL. The library looks for its code each time it is named, behind
 * locks of its own; here that is done once for the process. Thread: any; one of a hash at a time.
 * Never fails: what OpenSSL has no memory for ends the process. */
#ifndef CODEC_SHA256_H
#define CODEC_SHA256_H

#include "base/str.h"

enum { SHA256_BYTES = 32 };
struct evp_md_ctx_st; /* OpenSSL's */

struct evp_md_ctx_st *sha256_begin(void);
void sha256_add(struct evp_md_ctx_st *h, str bytes);
/* h is gone. */
void sha256_end(struct evp_md_ctx_st *h, unsigned char out[SHA256_BYTES]);
void sha256_of(str bytes, unsigned char out[SHA256_BYTES]);

#endif
