/* explain.c - what became of a render, damaged ones gone past. */
#include "bucket/look.h"

/* Counts a damaged row that the explanation goes past, and keeps the name of the first. */
static bool passed(void *ctx, str title, const struct page_name *name)
{
    struct page_explanation *x = ctx;
    (void)title; /* the one that was asked for */
    if (x->passed++ == 0 && name != NULL)
        x->passed_name = *name;
    return true;
}

err page_explain(struct page_bucket *b, struct engine_view *v, const struct page_which *w,
                 struct page_explanation *out)
{
    struct page_explanation gone_past = { .passed = 0 };
    const struct page_each each = { .damaged = passed, .ctx = &gone_past };
    struct look_damage damage = { .each = &each };
    const struct title_which which = look_which(w);
    struct look k;
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    /* No title of that size is ever stored: unknown is the answer, not an error. */
    if (w->title.n < 1 || w->title.n > PAGE_TITLE_BYTES_MAX) {
        *out = (struct page_explanation){ .state = PAGE_UNKNOWN,
                                          .policy = bucket_plan(b)->policy.kind };
        out->reason = retention_reason(&bucket_plan(b)->policy, PAGE_UNKNOWN);
        return ERR_OK;
    }
    look_init(&k, b, v, w->domain, w->title);
    look_past_damage(&k, &damage);
    err e = title_explain(&k.title, &which, out);
    if (e != ERR_OK)
        return e;
    if (out->state == PAGE_UNKNOWN && gone_past.passed > 0)
        return ERR_CORRUPT; /* what was asked for may be among the damaged */
    out->passed = gone_past.passed;
    out->passed_name = gone_past.passed_name;
    return ERR_OK;
}
