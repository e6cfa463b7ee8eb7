#include "app/page/tag.h"

bool tag_parse(str field, struct tag *out)
{
    struct tag tag = { .stash = false };
    str text = str_trim(field), tid, suffix;
    if (str_starts(text, STR("W/")))
        text = str_skip(text, 2);
    if (text.n > 0 && text.p[0] == '"')
        text = str_skip(text, 1);
    if (text.n > 0 && text.p[text.n - 1] == '"')
        text = str_take(text, text.n - 1);
    suffix = text;
    if (str_find(text, '"') < text.n || !str_to_u64(str_split(&suffix, '/'), &tag.name.rev))
        return false;
    tid = str_split(&suffix, '/');
    if (tag.name.rev > PAGE_REV_MAX || !tid_parse(str_take(tid, TID_TEXT_BYTES), &tag.name.tid))
        return false;
    tag.stash = str_eq(suffix, STR("stash"));
    *out = tag;
    return true;
}
