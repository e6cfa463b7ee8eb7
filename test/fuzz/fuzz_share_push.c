/* Whatever comes over Redis's channels: a push is taken apart inside its bytes, or refused; so is
 * the class of an error and an id. The first byte chooses. */
#include "flight/share_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(str part, str whole)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

static void try_push(str text)
{
    str id;
    struct share_news n;
    unsigned char bytes[FLIGHT_ID_BYTES];
    char again[SHARE_ID_TEXT + 1];
    if (!share_push_parse(text, &id, &n))
        return;
    INVARIANT(n.fence != 0);
    INVARIANT(inside(id, text));
    INVARIANT(share_id_parse(id, bytes));
    share_id_text(bytes, again);
    INVARIANT(str_eq(id, str_of(again)));
    if (n.event != SHARE_GOT_VALUE)
        return;
    INVARIANT(inside(n.value.bytes, text));
    INVARIANT(inside(n.value.version, text));
    INVARIANT(share_fence_of(n.value.version) == n.fence);
}

static void try_class(str text)
{
    err why;
    struct err_note note;
    char class[FLIGHT_CLASS_BYTES_MAX];
    share_class_parse(text, &why, &note);
    INVARIANT(why != ERR_OK && why < ERR_CODES);
    INVARIANT(strlen(note.text) < sizeof note.text);
    str told = share_class(why, &note, class);
    err same;
    struct err_note again;
    share_class_parse(told, &same, &again);
    INVARIANT(same == why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* of its exact size: reading past it is seen */
    INVARIANT(copy != NULL);
    memcpy(copy, data, size);
    str text = { .p = copy + 1, .n = size - 1 };
    if (copy[0] == 'C')
        try_class(text);
    else
        try_push(text);
    free(copy);
    return 0;
}
