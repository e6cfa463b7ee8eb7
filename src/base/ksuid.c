/* ksuid.c - parses, prints, compares and counts KSUIDs as 160-bit numbers in words of 32 bits.
 * Invariant: the order of the text is the order of the bytes. */
#include "base/ksuid.h"

#include "base/buf.h"

#include <string.h>

enum { WORDS = 5, BASE = 62 };
static const char DIGITS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static void to_words(struct ksuid k, uint32_t w[WORDS])
{
    w[0] = k.seconds;
    w[1] = (uint32_t)(k.high >> 32);
    w[2] = (uint32_t)k.high;
    w[3] = (uint32_t)(k.low >> 32);
    w[4] = (uint32_t)k.low;
}

static struct ksuid from_words(const uint32_t w[WORDS])
{
    return (struct ksuid){
        .seconds = w[0],
        .high = (uint64_t)w[1] << 32 | w[2],
        .low = (uint64_t)w[3] << 32 | w[4],
    };
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 36;
    return -1;
}

/* w * 62 + digit; false when it does not fit. */
static bool shift_in(uint32_t w[WORDS], unsigned digit)
{
    uint64_t carry = digit;
    for (int i = WORDS - 1; i >= 0; i--) {
        carry += (uint64_t)w[i] * BASE;
        w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return carry == 0;
}

bool ksuid_parse(str text, struct ksuid *out)
{
    if (text.n != KSUID_TEXT_BYTES)
        return false;
    uint32_t w[WORDS] = { 0 };
    for (size_t i = 0; i < text.n; i++) {
        int digit = digit_of(text.p[i]);
        if (digit < 0 || !shift_in(w, (unsigned)digit))
            return false;
    }
    *out = from_words(w);
    return true;
}

const char *ksuid_refusal(str text)
{
    return text.n != KSUID_TEXT_BYTES
               ? "Valid encoded KSUIDs are 27 characters"
               : "Valid encoded KSUIDs are bounded by 000000000000000000000000000 and "
                 "aWgEPTl1tmebfsQzFP4bxwgy80V";
}

void ksuid_format(struct ksuid k, char out[KSUID_TEXT_BYTES + 1])
{
    uint32_t w[WORDS];
    to_words(k, w);
    for (int d = KSUID_TEXT_BYTES - 1; d >= 0; d--) {
        uint64_t rest = 0;
        for (int i = 0; i < WORDS; i++) {
            uint64_t now = rest << 32 | w[i];
            w[i] = (uint32_t)(now / BASE);
            rest = now % BASE;
        }
        out[d] = DIGITS[rest];
    }
    out[KSUID_TEXT_BYTES] = '\0';
}

int ksuid_cmp(struct ksuid a, struct ksuid b)
{
    if (a.seconds != b.seconds)
        return a.seconds < b.seconds ? -1 : 1;
    if (a.high != b.high)
        return a.high < b.high ? -1 : 1;
    if (a.low != b.low)
        return a.low < b.low ? -1 : 1;
    return 0;
}

struct ksuid ksuid_add(struct ksuid k, uint64_t n)
{
    struct ksuid sum = { .seconds = k.seconds, .high = k.high, .low = k.low + n };
    if (sum.low < k.low && ++sum.high == 0) {
        sum.seconds++;
        INVARIANT(sum.seconds != 0);
    }
    return sum;
}

bool ksuid_distance(struct ksuid a, struct ksuid b, uint64_t *out)
{
    if (ksuid_cmp(a, b) < 0)
        return false;
    bool borrow = a.low < b.low;
    uint64_t high = a.high - b.high - borrow;
    bool borrow_high = a.high < b.high || (borrow && a.high == b.high);
    if (high != 0 || a.seconds - b.seconds != (borrow_high ? 1u : 0u))
        return false;
    *out = a.low - b.low;
    return true;
}

struct ksuid ksuid_at(store_time t, uint64_t high, uint64_t low)
{
    int64_t seconds = t.ns / NS_PER_S - KSUID_EPOCH_S;
    if (seconds < 0)
        seconds = 0;
    if (seconds > UINT32_MAX)
        seconds = UINT32_MAX;
    return (struct ksuid){ .seconds = (uint32_t)seconds, .high = high, .low = low };
}

void ksuid_key(struct ksuid k, unsigned char out[KSUID_BYTES])
{
    put_be32(out, k.seconds);
    put_be64(out + 4, k.high);
    put_be64(out + 12, k.low);
}

struct ksuid ksuid_from_key(const unsigned char key[KSUID_BYTES])
{
    return (struct ksuid){ .seconds = get_be32(key),
                           .high = get_be64(key + 4),
                           .low = get_be64(key + 12) };
}

uint64_t ksuid_hash(struct ksuid k)
{
    uint64_t x = k.low ^ (k.high * UINT64_C(0x9e3779b97f4a7c15)) ^ ((uint64_t)k.seconds << 32);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}
