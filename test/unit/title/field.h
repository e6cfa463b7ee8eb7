/* field.h - a title written down as facts, in seconds from a fixed instant, and looked at. */
#ifndef TEST_TITLE_FIELD_H
#define TEST_TITLE_FIELD_H

#include "title/derive.h"
#include "title/find.h"

enum { GRACE_S = 100, LEDGER_S = 10000, FIELD_FACTS_MAX = 32 };

struct field {
    struct fact facts[FIELD_FACTS_MAX];
    struct title_facts in;
    struct title_plan plans[2];
    struct arena arena;
    struct title_memory out;
};

/* server 1; a policy with the ttls above */
void field_begin(struct field *x, enum page_policy_kind kind);
void field_end(struct field *x);
store_time second(int64_t s);
struct page_name name_of(uint64_t rev, int64_t tid_s);
/* What follows may be changed by who added it. */
struct fact *add(struct field *x, enum fact_what what, int64_t at_s, struct page_name name);
struct fact *add_put(struct field *x, int64_t at_s, uint64_t rev, int64_t tid_s);
void derive_at(struct field *x, int64_t s);
err field_find(struct field *x, enum page_select select, struct page_name name,
               struct page_row *row, struct page_trace *trace);
/* Of a render that is stored, or of what is left of it. */
void assert_state(struct field *x, struct page_name name, enum page_state state);
void assert_latest(struct field *x, uint64_t rev);

#endif
