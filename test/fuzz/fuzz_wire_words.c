/* Goal: no text breaks the reading of durations, ids, instants and base64; what is read is the same
 * when written and read again. */
#include "base/ksuid.h"
#include "codec/base64.h"
#include "codec/goduration.h"
#include "codec/wire_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void duration(struct arena *a, str text)
{
    char written[GODURATION_BYTES_MAX + 1];
    int64_t ns, again;
    str why = STR_NONE;
    if (goduration_parse(text, &ns, a, &why) != ERR_OK) {
        INVARIANT(str_starts(why, STR("time: ")));
        return;
    }
    goduration_format(ns, written);
    INVARIANT(goduration_parse(str_of(written), &again, a, &why) == ERR_OK);
    INVARIANT(again == ns);
}

static void id(str text)
{
    struct ksuid k;
    char written[KSUID_TEXT_BYTES + 1];
    if (!ksuid_parse(text, &k))
        return;
    ksuid_format(k, written);
    INVARIANT(str_eq(str_of(written), text));
}

static void instant(str text)
{
    char written[WIRE_TIME_BYTES + 1];
    int64_t seconds, seconds_again;
    int32_t nanos, nanos_again;
    if (!wire_time_parse(text, &seconds, &nanos))
        return;
    size_t n = wire_time_format(seconds, nanos, written);
    INVARIANT(n > 0);
    INVARIANT(wire_time_parse((str){ .p = written, .n = n }, &seconds_again, &nanos_again));
    INVARIANT(seconds == seconds_again);
    INVARIANT(nanos == nanos_again);
}

static void base64(struct arena *a, str text)
{
    str bytes, again;
    if (base64_decode(a, text, BASE64_GO, &bytes) != ERR_OK)
        return;
    char *written = arena_alloc(a, base64_size(bytes.n));
    INVARIANT(written != NULL);
    (void)base64_put(written, bytes);
    INVARIANT(base64_decode(a, (str){ .p = written, .n = base64_size(bytes.n) }, BASE64_GO,
                            &again) == ERR_OK);
    INVARIANT(str_eq(bytes, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    str text = { .p = (const char *)data, .n = size };
    arena_init(&a, 8 << 20);
    duration(&a, text);
    id(text);
    instant(text);
    base64(&a, text);
    arena_fini(&a);
    return 0;
}
