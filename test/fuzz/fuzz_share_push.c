/* Goal: no message on our channel makes its reader leave it. Method: as it comes; errors are read as well. */
#include "flight/share_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    str id, text = { .p = (const char *)data, .n = n };
    struct share_news news;
    struct err_note note;
    err why;
    (void)share_push_parse(text, &id, &news);
    share_class_parse(text, &why, &note);
    return 0;
}
