/* Facts of titles: no bytes crash the decoder, and what it takes is written back the same. */
#include "title/fact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[FACT_BYTES_MAX];
    struct page_content contents[PAGE_CONTENTS_MAX];
    str in = { .p = (const char *)data, .n = size };
    struct fact f;
    if (fact_decode(in, &f, contents) == ERR_OK)
        INVARIANT(str_eq(fact_encode(&f, out), in));
    return 0;
}
