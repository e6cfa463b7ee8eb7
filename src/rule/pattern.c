/* pattern.c - regular expressions by PCRE2, in UTF-8, with limits on what a match may cost.
 *
 * A group's name is a capture of the rule. The first pattern that sets a capture keeps it. */
#include "rule/rule_impl.h"

#include <string.h>

enum { PATTERN_PARENS_MAX = 64, PATTERN_REASON_BYTES = 128 };

static bool is_capture_name(str s)
{
    return s.n > 0 && s.n <= 32 && !rule_subject_is_word(s); /* PCRE2 looks at its letters */
}

/* Where the capture of that name goes, counted from 1; 0: there are too many. */
static unsigned char capture_slot(struct rule *r, str name)
{
    for (unsigned i = 0; i < r->captures_count; i++)
        if (str_eq(r->captures[i], name))
            return (unsigned char)(i + 1);
    if (r->captures_count == RULE_CAPTURES_MAX)
        return 0;
    r->captures[r->captures_count++] = name;
    return (unsigned char)r->captures_count;
}

/* The table of names: two bytes of the group's number, the name, a NUL. */
static const char *take_names(struct rule_set *s, struct rule *r, struct rule_pattern *p)
{
    uint32_t groups = 0, names = 0, entry_bytes = 0;
    PCRE2_SPTR table = NULL;
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_CAPTURECOUNT, &groups); /* of code that compiled */
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMECOUNT, &names);
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
    (void)pcre2_pattern_info(p->code, PCRE2_INFO_NAMETABLE, &table);
    if (groups > RULE_GROUPS_MAX)
        return "has more groups than a pattern may have";
    for (uint32_t i = 0; i < names; i++, table += entry_bytes) {
        unsigned group = (unsigned)table[0] << 8 | table[1];
        str name = str_of((const char *)table + 2);
        INVARIANT(group <= groups);
        if (!is_capture_name(name))
            return "names a group as a placeholder is called that there is already";
        name = arena_copy(&s->arena, name);
        if (name.p == NULL)
            return "is more than rules may take in memory";
        p->slot[group] = capture_slot(r, name);
        if (p->slot[group] == 0)
            return "names more groups than a rule may name";
    }
    return NULL;
}

static pcre2_code *compile(str text, bool caseless, int *code, PCRE2_SIZE *at)
{
    uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY |
                       (caseless ? PCRE2_CASELESS : 0);
    pcre2_compile_context *c = pcre2_compile_context_create(NULL);
    INVARIANT(c != NULL);
    (void)pcre2_set_parens_nest_limit(c, PATTERN_PARENS_MAX); /* cannot fail */
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)text.p, text.n, options, code, at, c);
    pcre2_compile_context_free(c);
    return compiled;
}

const char *rule_pattern_add(struct rule_set *s, struct rule *r, str text, bool caseless,
                             struct rule_pattern **out, struct err_note *note)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    if (text.n == 0)
        return "is an empty pattern, which every text matches; present: true says that";
    if (text.n > RULE_PATTERN_BYTES_MAX)
        return "is longer than a pattern may be";
    if (s->patterns_count == RULE_PATTERNS_MAX)
        return "is one pattern more than rules may have";
    struct rule_pattern *p = arena_calloc(&s->arena, 1, sizeof *p);
    if (p == NULL)
        return "is more than rules may take in memory";
    p->source = text;
    p->code = compile(text, caseless, &code, &at);
    if (p->code == NULL) {
        PCRE2_UCHAR reason[PATTERN_REASON_BYTES] = "";
        (void)pcre2_get_error_message(code, reason, sizeof reason); /* cut is good enough */
        err_note_set(note, "is no regular expression: %s, at character %zu", (const char *)reason,
                     at + 1);
        return note->text;
    }
    p->next = s->patterns; /* from here on the set frees it */
    s->patterns = p;
    s->patterns_count++;
    *out = p;
    return take_names(s, r, p);
}

enum rule_truth rule_pattern_match(struct rule_event *e, const struct rule_pattern *p, str text,
                                   str captures[RULE_CAPTURES_MAX])
{
    if (text.n > RULE_SUBJECT_BYTES_MAX)
        return RULE_UNDECIDED;
    int found = pcre2_match(p->code, (PCRE2_SPTR)text.p, text.n, 0, 0, e->match, e->limits);
    if (found == PCRE2_ERROR_NOMATCH)
        return RULE_NO;
    if (found < 0)
        return RULE_UNDECIDED;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(e->match);
    for (int i = 1; i < found; i++) {
        size_t begin = ends[2 * i], end = ends[2 * i + 1];
        unsigned slot = p->slot[i];
        if (slot == 0 || begin == PCRE2_UNSET || begin > end || captures[slot - 1].p != NULL)
            continue;
        captures[slot - 1] = (str){ .p = text.p + begin, .n = end - begin };
    }
    return RULE_YES;
}
