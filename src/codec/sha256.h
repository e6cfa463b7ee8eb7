/* sha256.h - SHA-256, by OpenSSL. EVP_MD_fetch takes locks, so it is called once for the process.
 * Each sha256_begin is ended by exactly one sha256_end, which frees it. Thread: any, but one thread
 * at a time for one hash. No errors: without memory the process ends. */
#ifndef CODEC_SHA256_H
#define CODEC_SHA256_H

#include "base/str.h"

enum { SHA256_BYTES = 32 };
struct evp_md_ctx_st; /* OpenSSL's */

struct evp_md_ctx_st *sha256_begin(void);
void sha256_add(struct evp_md_ctx_st *h, str bytes);
/* Writes the digest and frees h. */
void sha256_end(struct evp_md_ctx_st *h, unsigned char out[SHA256_BYTES]);
void sha256_of(str bytes, unsigned char out[SHA256_BYTES]);
/* HMAC (RFC 2104) over the parts, one behind the other, in hex digits: who does not know the key
 * cannot make it. */
enum { SHA256_TEXT_BYTES = 2 * SHA256_BYTES };
void sha256_keyed(str key, const str *parts, unsigned count, char out[SHA256_TEXT_BYTES + 1]);
/* Takes as long for each text of that length. */
bool sha256_keyed_eq(const char ours[SHA256_TEXT_BYTES + 1], str theirs);

#endif
