/* Goal: no body breaks the parser or the helpers, what is parsed is the same when written and
 * parsed again, slices and trees take the same texts, and base64 takes only what it writes. */
#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void members_try(const json_t *root)
{
    static const char *const known[] = { "a", "html", NULL };
    struct err_note note = { .text = "" };
    str text = STR_NONE;
    bool flag = false;
    int64_t number = 0;
    const json_t *value = NULL;
    if (json_body_str(root, "a", &text, &note) == ERR_OK)
        INVARIANT(text.p != NULL && text.p[text.n] == 0);
    if (json_body_i64(root, "a", -5, 5, &number, &note) == ERR_OK)
        INVARIANT(number >= -5 && number <= 5);
    (void)json_body_bool(root, "a", &flag, &note); /* these must only not crash */
    (void)json_body_object(root, "html", &value, &note);
    (void)json_body_array(root, "html", &value, &note);
    (void)json_body_only(root, known, &note);
}

static void parse_and_write_again(str text)
{
    struct err_note note = { .text = "" };
    json_t *root = NULL, *again = NULL;
    if (json_body_parse(text, &root, &note) != ERR_OK)
        return;
    members_try(root);
    char *written = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    INVARIANT(written != NULL);
    INVARIANT(json_body_parse(str_of(written), &again, &note) == ERR_OK);
    INVARIANT(json_equal(root, again));
    free(written);
    json_decref(root);
    json_decref(again);
}

/* Do both readers agree that it is JSON? They differ in depth, numbers and halves of pairs. */
static bool agree(str text, bool ours)
{
    json_error_t error;
    json_t *tree =
        json_loadb(text.n == 0 ? "" : text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool theirs = tree != NULL;
    json_decref(tree);
    if (theirs == ours || str_find(text, '\0') < text.n)
        return true;
    if (theirs)
        return text.n > JSON_SLICE_DEPTH_MAX;
    return json_error_code(&error) == json_error_numeric_overflow ||
           json_error_code(&error) == json_error_stack_overflow ||
           str_find_str(text, STR("\\u")) < text.n;
}

static void slices_try(str text)
{
    struct json_member members[16];
    struct arena a;
    unsigned count = 0;
    str value, again;
    bool ours = utf8_valid(text) && json_slice_value(text, &value);
    INVARIANT(agree(text, ours));
    if (!ours)
        return;
    INVARIANT(value.p >= text.p);
    INVARIANT(value.p + value.n <= text.p + text.n);
    arena_init(&a, 4 << 20);
    if (json_slice_members(&a, value, members, COUNT_OF(members), &count) != ERR_OK)
        count = 0;
    for (unsigned i = 0; i < count; i++) {
        INVARIANT(json_slice_value(members[i].value, &again));
        INVARIANT(str_eq(again, members[i].value));
        INVARIANT(utf8_valid(members[i].name));
    }
    arena_fini(&a);
}

static void base64_both_ways(str text)
{
    struct arena a;
    str bytes, again;
    arena_init(&a, 1 << 20);
    if (base64_decode(&a, text, BASE64_STRICT, &bytes) == ERR_OK) {
        INVARIANT(base64_encode(&a, bytes, &again) == ERR_OK);
        INVARIANT(str_eq(again, text));
    }
    INVARIANT(base64_encode(&a, text, &bytes) == ERR_OK);
    INVARIANT(base64_decode(&a, bytes, BASE64_STRICT, &again) == ERR_OK);
    INVARIANT(str_eq(again, text));
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = { .p = (const char *)data, .n = size };
    parse_and_write_again(text);
    slices_try(text);
    base64_both_ways(text);
    return 0;
}
