/* sha256.c - OpenSSL's, fetched once. Invariant: what was fetched is never freed, so that threads
 * that outlive main may hash. */
#include "codec/sha256.h"

#include "base/check.h"

#include <openssl/evp.h>
#include <pthread.h>

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
