/* Goal: the digests are those of FIPS 180-4. Method: its examples, whole and in pieces, also from
 * several threads that begin at once. */
#include "codec/sha256.h"

#include "base/check.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdio.h>

static void hex(const unsigned char bytes[SHA256_BYTES], char out[2 * SHA256_BYTES + 1])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static const struct {
    const char *text, *digest;
} examples[] = {
    { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

static void the_examples_of_the_standard_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(examples); i++) {
        unsigned char bytes[SHA256_BYTES];
        char text[2 * SHA256_BYTES + 1];
        str in = str_of(examples[i].text);
        sha256_of(in, bytes);
        hex(bytes, text);
        assert_string_equal(text, examples[i].digest);
        struct evp_md_ctx_st *h = sha256_begin();
        for (size_t at = 0; at < in.n; at++)
            sha256_add(h, str_take(str_skip(in, at), 1));
        sha256_end(h, bytes);
        hex(bytes, text);
        assert_string_equal(text, examples[i].digest);
    }
}

static void *hash_many(void *out)
{
    for (int i = 0; i < 1000; i++)
        sha256_of(STR("abc"), out);
    return NULL;
}

static void threads_may_begin_at_once(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    unsigned char bytes[THREADS][SHA256_BYTES];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hash_many, bytes[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        char text[2 * SHA256_BYTES + 1];
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        hex(bytes[i], text);
        assert_string_equal(text, examples[1].digest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_begin_at_once), /* first: nothing was looked up */
        cmocka_unit_test(the_examples_of_the_standard_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
