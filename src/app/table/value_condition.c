/* value_condition.c - If-Match and If-None-Match of what changes a value (RFC 9110 13.1.1, 13.1.2):
 * judged in the update that decides, by the row that a GET of the same path would answer. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "http/negotiate.h"
#include "table/table_write.h"

bool value_is_conditional(const struct value_request *r)
{
    const struct http_common *c = http_common(r->x);
    return c->if_match.n > 0 || c->if_none_match.n > 0;
}

/* What the stored value's etag says: as the writer gave it, and there may be none; of a revision it
 * is of its key. */
static str stored_tag(const struct value_request *r, const struct table_row *stored,
                      char text[VALUE_REV_TAG_BYTES], bool *weak)
{
    *weak = false;
    if (r->kind == BUCKET_PLAIN)
        return http_etag_bare(table_row_value(stored, STR("etag")), weak);
    int64_t rev = table_long(table_row_value(stored, STR("rev")));
    value_rev_tag(rev, table_tid(table_row_value(stored, STR("tid"))), text);
    return str_of(text);
}

static bool names_stored(const struct value_request *r, str field, const struct table_row *stored,
                         bool weak)
{
    char text[VALUE_REV_TAG_BYTES];
    bool is_weak;
    if (stored == NULL || str_eq(str_trim(field), STR("*")))
        return stored != NULL;
    str tag = stored_tag(r, stored, text, &is_weak);
    return tag.n > 0 && (weak || !is_weak) && http_etag_matches(field, tag, weak);
}

bool value_allows(void *ctx, const struct table_row *stored)
{
    struct value_request *r = ctx;
    const struct http_common *c = http_common(r->x);
    r->unmet = (c->if_match.n > 0 && !names_stored(r, c->if_match, stored, false)) ||
               (c->if_none_match.n > 0 && names_stored(r, c->if_none_match, stored, true));
    return !r->unmet;
}

bool value_judge(struct value_request *r)
{
    if (!r->write.is_delete && !value_is_conditional(r))
        return true;
    r->write.predicates = r->predicates;
    r->write.predicates_count = value_predicates(r);
    if (r->write.predicates_count == 0) {
        app_fail(r->x, ERR_LIMIT, NULL);
        return false;
    }
    if (value_is_conditional(r)) {
        r->write.condition = IF_ALLOWED;
        r->write.allow = value_allows;
        r->write.allow_ctx = r;
        r->write.allow_by_key = r->kind == BUCKET_REVS;
    }
    return true;
}

void value_unmet(struct value_request *r)
{
    app_problem(r->x, 412, "precondition_failed", NULL,
                STR("A condition of the request does not hold."), STR_NONE);
}
