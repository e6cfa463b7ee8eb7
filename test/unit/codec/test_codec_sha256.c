/* Goal: the digests are those of FIPS 180-4. Method: its examples, whole and in pieces, also from
 * several threads that begin at once. */
#include "codec/sha256.h"

#include "base/check.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

/* RFC 4231, 4.2, 4.3 and 4.7: a key that is short, and one longer than a block. */
static void a_keyed_hash_is_that_of_the_standard(void **state)
{
    (void)state;
    static const struct {
        unsigned char fill;
        size_t key_bytes;
        const char *key, *data, *digest;
    } keyed[] = {
        { 0x0b, 20, NULL, "Hi There",
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { 0, 4, "Jefe", "what do ya want for nothing?",
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { 0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First",
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
    };
    for (size_t i = 0; i < COUNT_OF(keyed); i++) {
        char key[131], text[SHA256_TEXT_BYTES + 1];
        memset(key, keyed[i].fill, sizeof key);
        if (keyed[i].key != NULL)
            memcpy(key, keyed[i].key, keyed[i].key_bytes);
        str data = str_of(keyed[i].data);
        const str parts[] = { str_take(data, 3), STR(""), str_skip(data, 3) };
        sha256_keyed((str){ .p = key, .n = keyed[i].key_bytes }, parts, COUNT_OF(parts), text);
        assert_string_equal(text, keyed[i].digest);
        assert_true(sha256_keyed_eq(text, str_of(keyed[i].digest)));
        assert_false(sha256_keyed_eq(text, str_skip(str_of(text), 1)));
        text[7] ^= 1;
        assert_false(sha256_keyed_eq(text, str_of(keyed[i].digest)));
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
        cmocka_unit_test(a_keyed_hash_is_that_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
