/* sha256.c - OpenSSL's, fetched once. Invariant: what was fetched is never freed, so that threads
 * that outlive main may hash. */
#include "codec/sha256.h"

#include "base/check.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

static EVP_MD *code;
static pthread_once_t code_once = PTHREAD_ONCE_INIT;

static void code_fetch(void)
{
    code = EVP_MD_fetch(NULL, "SHA256", NULL);
    INVARIANT(code != NULL);
}

EVP_MD_CTX *sha256_begin(void)
{
    INVARIANT(pthread_once(&code_once, code_fetch) == 0);
    EVP_MD_CTX *h = EVP_MD_CTX_new();
    INVARIANT(h != NULL);
    INVARIANT(EVP_DigestInit_ex(h, code, NULL) == 1);
    return h;
}

void sha256_add(EVP_MD_CTX *h, str bytes)
{
    INVARIANT(bytes.n == 0 || EVP_DigestUpdate(h, bytes.p, bytes.n) == 1);
}

void sha256_end(EVP_MD_CTX *h, unsigned char out[SHA256_BYTES])
{
    unsigned n = 0;
    INVARIANT(EVP_DigestFinal_ex(h, out, &n) == 1 && n == SHA256_BYTES);
    EVP_MD_CTX_free(h);
}

void sha256_of(str bytes, unsigned char out[SHA256_BYTES])
{
    EVP_MD_CTX *h = sha256_begin();
    sha256_add(h, bytes);
    sha256_end(h, out);
}

void sha256_keyed(str key, const str *parts, unsigned count, char out[SHA256_TEXT_BYTES + 1])
{
    enum { BLOCK = 64, INNER = 0x36, OUTER = 0x5c };
    static const char hex[] = "0123456789abcdef";
    unsigned char pad[BLOCK] = { 0 }, digest[SHA256_BYTES];
    if (key.n > BLOCK)
        sha256_of(key, pad);
    else if (key.n > 0)
        memcpy(pad, key.p, key.n);
    for (unsigned i = 0; i < BLOCK; i++)
        pad[i] ^= INNER;
    EVP_MD_CTX *h = sha256_begin();
    sha256_add(h, (str){ .p = (const char *)pad, .n = BLOCK });
    for (unsigned i = 0; i < count; i++)
        sha256_add(h, parts[i]);
    sha256_end(h, digest);
    for (unsigned i = 0; i < BLOCK; i++)
        pad[i] ^= INNER ^ OUTER;
    h = sha256_begin();
    sha256_add(h, (str){ .p = (const char *)pad, .n = BLOCK });
    sha256_add(h, (str){ .p = (const char *)digest, .n = SHA256_BYTES });
    sha256_end(h, digest);
    for (unsigned i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = hex[digest[i] >> 4];
        out[2 * i + 1] = hex[digest[i] & 15];
    }
    out[SHA256_TEXT_BYTES] = 0;
}

bool sha256_keyed_eq(const char ours[SHA256_TEXT_BYTES + 1], str theirs)
{
    return theirs.n == SHA256_TEXT_BYTES && CRYPTO_memcmp(ours, theirs.p, SHA256_TEXT_BYTES) == 0;
}
