/* match.c - does an event match a rule, and why not.
 *
 * A condition holds, does not, or is open. In order, the first one that does not hold or is open
 * ends a section. What a condition within `not` captures is forgotten, and so is what a section
 * within `any` captured that does not hold. Recursion ends at RULE_DEPTH_MAX, which the reader
 * kept.
 */
#include "base/date.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "rule/rule_impl.h"

#include <string.h>

enum { SHOWN_BYTES_MAX = 60, PPM_ALL = 1000 * 1000 };

/* ---- one test ---- */

static bool glob_matches(str glob, str text)
{
    size_t g = 0, t = 0, star = glob.n, back = 0; /* star: the last * seen, which eats to back */
    while (t < text.n) {
        if (g < glob.n && glob.p[g] == '*') {
            star = g++;
            back = t;
        } else if (g < glob.n && glob.p[g] == text.p[t]) {
            g++;
            t++;
        } else if (star < glob.n) {
            g = star + 1;
            t = ++back;
        } else {
            return false;
        }
    }
    while (g < glob.n && glob.p[g] == '*')
        g++;
    return g == glob.n;
}

static enum rule_truth value_holds(struct rule_event *e, const struct rule_value *v, str text,
                                   str *captures)
{
    bool holds = false;
    switch (v->kind) {
    case RULE_VALUE_EQUAL:
        holds = str_eq(v->text, text);
        break;
    case RULE_VALUE_GLOB:
        holds = glob_matches(v->text, text);
        break;
    case RULE_VALUE_PATTERN:
        return rule_pattern_match(e, v->pattern, text, captures);
    }
    return holds ? RULE_YES : RULE_NO;
}

enum rule_truth rule_test_holds(struct rule_event *e, const struct rule_condition *c,
                                str captures[RULE_CAPTURES_MAX])
{
    str text = STR_NONE;
    enum rule_truth holds = RULE_NO;
    enum rule_found found = rule_subject_text(e, NULL, c->subject, &text);
    if (found == RULE_FOUND_TWICE)
        return RULE_UNDECIDED;
    if (c->want != RULE_WANT_VALUE)
        return (found == RULE_FOUND_NONE) == (c->want == RULE_WANT_ABSENT) ? RULE_YES : RULE_NO;
    if (found != RULE_FOUND_TEXT)
        return RULE_NO;
    for (unsigned i = 0; i < c->values_count && holds != RULE_YES; i++) {
        enum rule_truth one = value_holds(e, &c->values[i], text, captures);
        holds = one == RULE_NO ? holds : one;
    }
    return holds;
}

/* ---- groups ---- */

struct captured {
    str texts[RULE_CAPTURES_MAX];
};

static enum rule_truth holds(struct rule_event *e, const struct rule_condition *c,
                             struct captured *captures);

static enum rule_truth all_hold(struct rule_event *e, const struct rule_condition *c,
                                struct captured *captures)
{
    for (const struct rule_condition *one = c->first; one != NULL; one = one->next) {
        enum rule_truth truth = holds(e, one, captures);
        if (truth != RULE_YES)
            return truth;
    }
    return RULE_YES;
}

static enum rule_truth any_holds(struct rule_event *e, const struct rule_condition *c,
                                 struct captured *captures)
{
    enum rule_truth truth = RULE_NO;
    const struct rule_condition *open = NULL;
    for (const struct rule_condition *one = c->first; one != NULL; one = one->next) {
        struct captured tried = *captures;
        enum rule_truth now = holds(e, one, &tried);
        if (now == RULE_YES) {
            *captures = tried;
            return now;
        }
        if (now == RULE_UNDECIDED && truth == RULE_NO) {
            truth = now;
            open = e->failed;
        }
    }
    e->failed = truth == RULE_UNDECIDED ? open : c;
    return truth;
}

static enum rule_truth none_holds(struct rule_event *e, const struct rule_condition *c,
                                  const struct captured *captures)
{
    struct captured forgotten = *captures;
    for (const struct rule_condition *one = c->first; one != NULL; one = one->next) {
        enum rule_truth truth = holds(e, one, &forgotten);
        if (truth == RULE_YES)
            e->failed = c;
        if (truth != RULE_NO)
            return truth == RULE_YES ? RULE_NO : truth;
    }
    return RULE_YES;
}

static enum rule_truth holds(struct rule_event *e, const struct rule_condition *c,
                             struct captured *captures)
{
    switch (c->group) {
    case RULE_TEST: {
        enum rule_truth truth = rule_test_holds(e, c, captures->texts);
        if (truth != RULE_YES)
            e->failed = c;
        return truth;
    }
    case RULE_ALL:
        return all_hold(e, c, captures);
    case RULE_ANY:
        return any_holds(e, c, captures);
    case RULE_NONE:
        return none_holds(e, c, captures);
    }
    return RULE_UNDECIDED;
}

/* ---- samples and ages ---- */

/* All events of a title are of the sample, or none is. */
static bool is_sampled(struct rule_event *e, const struct rule *r)
{
    if (r->sample_ppm == PPM_ALL)
        return true;
    str title = rule_event_title(e);
    uint64_t seed = hash_of_str(e->given.domain, 0);
    uint64_t sum = hash_of_str(title.n > 0 ? title : e->given.bytes, seed);
    return (int64_t)(sum % PPM_ALL) < r->sample_ppm;
}

static int64_t instant_of(struct rule_event *e, enum rule_known known, int64_t otherwise)
{
    int64_t ns = otherwise;
    const struct rule_seen *s = rule_event_member(e, e->set->paths.known[known]);
    return s->found == RULE_FOUND_TEXT && date_parse_rfc3339(s->text, &ns) ? ns : otherwise;
}

/* Instants may be as far from each other as the type goes: nothing is subtracted. */
static bool is_older(const struct rule_event *e, int64_t ns, int64_t ttl_ns)
{
    return ttl_ns != DURATION_NEVER && ns < INT64_MAX - ttl_ns && ns + ttl_ns < e->given.now.ns;
}

static bool event_is_older(struct rule_event *e, const struct rule *r)
{
    return is_older(e, instant_of(e, RULE_KNOWN_META_DT, e->given.at.ns), r->claim_ttl_ns);
}

static bool root_is_older(struct rule_event *e, const struct rule *r)
{
    return is_older(e, instant_of(e, RULE_KNOWN_ROOT_DT, INT64_MAX), r->root_claim_ttl_ns);
}

/* ---- rules ---- */

void rule_match(struct rule_event *e, const struct rule *r, struct rule_verdict *v)
{
    struct captured captures = { .texts = { STR_NONE } };
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    INVARIANT(e->given.bytes.p != NULL);
    e->failed = NULL;
    *v = (struct rule_verdict){ .answer = RULE_MATCHES };
    enum rule_truth truth = holds(e, r->match, &captures);
    if (truth != RULE_YES) {
        e->open += truth == RULE_UNDECIDED;
        v->answer = truth == RULE_NO ? RULE_DIFFERS : RULE_OPEN;
        v->failed = e->failed;
        return;
    }
    memcpy(v->captures, captures.texts, sizeof v->captures);
    if (!is_sampled(e, r))
        v->answer = RULE_NOT_SAMPLED;
    else if (event_is_older(e, r) || root_is_older(e, r))
        v->answer = RULE_TOO_OLD;
}

/* ---- why not ---- */

struct shown {
    char text[SHOWN_BYTES_MAX + 4];
};

static struct shown shown_text(str s)
{
    struct shown out;
    size_t n = utf8_clean(s, out.text, SHOWN_BYTES_MAX);
    memcpy(out.text + n, n < s.n ? "..." : "", n < s.n ? 4 : 1);
    return out;
}

static void why_value(struct rule_event *e, const struct rule_condition *c, struct err_note *out)
{
    str text = STR_NONE;
    enum rule_found found = rule_subject_text(e, NULL, c->subject, &text);
    struct shown name = shown_text(c->field), is = shown_text(text),
                 wanted = shown_text(c->values_count > 0 ? c->values[0].text : STR(""));
    if (c->want == RULE_WANT_ABSENT)
        err_note_set(out, "line %u: %s is there", c->line, name.text);
    else if (found == RULE_FOUND_NONE)
        err_note_set(out, "line %u: %s is not there", c->line, name.text);
    else if (found == RULE_FOUND_OTHER)
        err_note_set(out, "line %u: %s is no text", c->line, name.text);
    else if (c->values_count == 1)
        err_note_set(out, "line %u: %s is \"%s\", not \"%s\"", c->line, name.text, is.text,
                     wanted.text);
    else
        err_note_set(out, "line %u: %s is \"%s\", none of %u values", c->line, name.text, is.text,
                     c->values_count);
}

static void why_open(struct rule_event *e, const struct rule_condition *c, struct err_note *out)
{
    str text = STR_NONE;
    struct shown name = shown_text(c->field);
    if (rule_subject_text(e, NULL, c->subject, &text) == RULE_FOUND_TWICE)
        err_note_set(out, "line %u: the event has %s twice", c->line, name.text);
    else
        err_note_set(out,
                     "line %u: %s is too much for the pattern: %d steps and %d bytes are the "
                     "limits",
                     c->line, name.text, RULE_MATCH_STEPS_MAX, RULE_SUBJECT_BYTES_MAX);
}

void rule_why(struct rule_event *e, const struct rule *r, const struct rule_verdict *v,
              struct err_note *out)
{
    MAGIC_CHECK(e, RULE_EVENT_MAGIC);
    switch (v->answer) {
    case RULE_MATCHES:
        err_note_set(out, "it matches");
        break;
    case RULE_DIFFERS:
        if (v->failed->group == RULE_ANY)
            err_note_set(out, "line %u: nothing in any holds", v->failed->line);
        else if (v->failed->group == RULE_NONE)
            err_note_set(out, "line %u: something in not holds", v->failed->line);
        else
            why_value(e, v->failed, out);
        break;
    case RULE_NOT_SAMPLED:
        err_note_set(out, "sample: its title is not of the sample");
        break;
    case RULE_TOO_OLD:
        err_note_set(out, "%s: it is too old",
                     event_is_older(e, r) ? "claim_ttl" : "root_claim_ttl");
        break;
    case RULE_OPEN:
        why_open(e, v->failed, out);
        break;
    }
}
