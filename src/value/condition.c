/* condition.c - judges If-Match and If-None-Match by the row that a read of the same target gives.
 * Pure. */
#include "base/date.h"
#include "http/negotiate.h"
#include "page/etag.h"
#include "value/value_impl.h"

bool value_condition_is_none(const struct value_condition *c)
{
    return c->if_match.n == 0 && c->if_none_match.n == 0;
}

/* The tag of the stored value: as its writer gave it, perhaps none; of a revision, "rev/tid". */
static str stored_tag(enum value_kind kind, const struct table_row *stored,
                      char text[PAGE_TAG_BYTES + 1], bool *weak)
{
    *weak = false;
    if (kind == VALUE_PLAIN)
        return http_etag_bare(table_row_value(stored, STR("etag")), weak);
    struct page_name name = { .rev = (uint64_t)table_long(table_row_value(stored, STR("rev"))),
                              .tid = table_tid(table_row_value(stored, STR("tid"))) };
    return page_tag(name, text);
}

static bool names_stored(enum value_kind kind, str field, const struct table_row *stored, bool weak)
{
    char text[PAGE_TAG_BYTES + 1];
    bool is_weak;
    /* "*" asks only whether something is stored. */
    if (stored == NULL || str_eq(str_trim(field), STR("*")))
        return stored != NULL;
    str tag = stored_tag(kind, stored, text, &is_weak);
    return tag.n > 0 && (weak || !is_weak) && http_etag_matches(field, tag, weak);
}

/* If-None-Match compares weakly, If-Match strongly (RFC 9110 13.1). */
bool value_condition_holds(const struct value_condition *c, enum value_kind kind,
                           const struct table_row *stored)
{
    return (c->if_match.n == 0 || names_stored(kind, c->if_match, stored, false)) &&
           (c->if_none_match.n == 0 || !names_stored(kind, c->if_none_match, stored, true));
}

/* rev/tid tags say when a value was made. */
bool value_is_older(str etag, str date)
{
    struct tid tid;
    int64_t date_ns;
    bool weak;
    str tag = http_etag_bare(etag, &weak), behind = str_skip(tag, str_find(tag, '/') + 1);
    return tid_parse(str_take(behind, TID_TEXT_BYTES), &tid) && date_parse_http(date, &date_ns) &&
           tid_time(tid).ns < date_ns;
}

bool value_is_named(str if_none_match, str etag)
{
    bool weak;
    str tag = http_etag_bare(etag, &weak);
    return str_eq(str_trim(if_none_match), STR("*")) ||
           (if_none_match.n > 0 && tag.n > 0 && http_etag_matches(if_none_match, tag, true));
}
