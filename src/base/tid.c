/* tid.c - parses, prints and compares tids, and turns them into keys whose byte order is their
 * order. */
#include "base/tid.h"

#include "base/buf.h"

#define TID_EPOCH_TICKS 0x01b21dd213814000ull /* 1582-10-15 to 1970-01-01 in 100 ns */
#define TID_VARIANT 0x8000000000000000ull
#define TID_VARIANT_MASK 0xc000000000000000ull
#define TID_MULTICAST 0x0000010000000000ull

__extension__ typedef __int128 ticks_wide; /* ticks times 100 pass 63 bits */

static bool is_dash_place(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

bool tid_parse(str text, struct tid *out)
{
    unsigned char bytes[16] = { 0 };
    size_t nibbles = 0;
    if (text.n != TID_TEXT_BYTES)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (is_dash_place(i)) {
            if (text.p[i] != '-')
                return false;
            continue;
        }
        int digit = str_hex_digit(text.p[i]);
        if (digit < 0)
            return false;
        bytes[nibbles / 2] = (unsigned char)(bytes[nibbles / 2] << 4 | digit);
        nibbles++;
    }
    return tid_from_uuid(bytes, out);
}

void tid_uuid(struct tid t, unsigned char out[TID_UUID_BYTES])
{
    INVARIANT(t.ticks <= TID_TICKS_MAX);
    put_be32(out, (uint32_t)t.ticks);
    put_be16(out + 4, (uint16_t)(t.ticks >> 32));
    put_be16(out + 6, (uint16_t)(0x1000 | t.ticks >> 48)); /* the version */
    put_be64(out + 8, t.low);
}

bool tid_from_uuid(const unsigned char uuid[TID_UUID_BYTES], struct tid *out)
{
    uint64_t low = get_be64(uuid + 8);
    if (uuid[6] >> 4 != 1 || (low & TID_VARIANT_MASK) != TID_VARIANT)
        return false;
    uint64_t high = (uint64_t)get_be16(uuid + 6) & 0x0fff;
    uint64_t ticks = high << 48 | (uint64_t)get_be16(uuid + 4) << 32 | get_be32(uuid);
    *out = (struct tid){ .ticks = ticks, .low = low };
    return true;
}

/* The lowest digits of v; returns what is behind them. */
static char *hex_put(char *at, uint64_t v, unsigned digits)
{
    for (unsigned i = digits; i > 0; v >>= 4)
        at[--i] = "0123456789abcdef"[v & 15];
    return at + digits;
}

void tid_format(struct tid t, char out[TID_TEXT_BYTES + 1])
{
    INVARIANT(t.ticks <= TID_TICKS_MAX);
    char *at = hex_put(out, t.ticks, 8);
    *at++ = '-';
    at = hex_put(at, t.ticks >> 32, 4);
    *at++ = '-';
    *at++ = '1'; /* the version */
    at = hex_put(at, t.ticks >> 48, 3);
    *at++ = '-';
    at = hex_put(at, t.low >> 48, 4);
    *at++ = '-';
    *hex_put(at, t.low, 12) = 0;
}

int tid_cmp(struct tid a, struct tid b)
{
    if (a.ticks != b.ticks)
        return a.ticks < b.ticks ? -1 : 1;
    return (a.low > b.low) - (a.low < b.low);
}

void tid_key(struct tid t, unsigned char out[TID_KEY_BYTES])
{
    put_be64(out, t.ticks);
    put_be64(out + 8, t.low);
}

struct tid tid_from_key(const unsigned char key[TID_KEY_BYTES])
{
    return (struct tid){ .ticks = get_be64(key), .low = get_be64(key + 8) };
}

store_time tid_time(struct tid t)
{
    ticks_wide ns = ((ticks_wide)t.ticks - (ticks_wide)TID_EPOCH_TICKS) * 100;
    if (ns > INT64_MAX)
        return STORE_TIME_NEVER;
    if (ns < INT64_MIN)
        return (store_time){ .ns = INT64_MIN };
    return (store_time){ .ns = (int64_t)ns };
}

uint64_t tid_ticks(store_time t)
{
    int64_t ticks = t.ns / 100 + (t.ns % 100 > 0 ? 1 : 0);
    ticks_wide sum = (ticks_wide)ticks + (ticks_wide)TID_EPOCH_TICKS;
    if (sum < 0)
        return 0;
    return sum > (ticks_wide)TID_TICKS_MAX ? TID_TICKS_MAX : (uint64_t)sum;
}

struct tid tid_make(uint64_t ticks, uint64_t random)
{
    INVARIANT(ticks <= TID_TICKS_MAX);
    uint64_t low = (random & ~TID_VARIANT_MASK) | TID_VARIANT | TID_MULTICAST;
    return (struct tid){ .ticks = ticks, .low = low };
}
