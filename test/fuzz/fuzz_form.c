/* Goal: no body of a form breaks its parser, and what it takes obeys its limits. Method: the first
 * line of the input is the Content-Type, the rest the body. */
#include "http/form.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct form form;
    struct err_note note = { { 0 } };
    str body = { .p = (const char *)data, .n = size }, value;
    str type = str_split(&body, '\n');
    arena_init(&a, 8 << 20);
    err why = form_parse(&a, type, body.p == NULL ? STR("") : body, &form, &note);
    INVARIANT(why == ERR_OK || why == ERR_NOT_FOUND || why == ERR_LIMIT || note.text[0] != 0);
    if (why == ERR_OK) {
        INVARIANT(form.count <= FORM_FIELDS_MAX);
        for (unsigned i = 0; i < form.count; i++) {
            INVARIANT(form.fields[i].name.n >= 1 && form.fields[i].name.n <= FORM_NAME_BYTES_MAX);
            INVARIANT(form.fields[i].value.n <= size);
        }
        INVARIANT(!form_find(&form, "", &value));
    }
    arena_fini(&a);
    return 0;
}
