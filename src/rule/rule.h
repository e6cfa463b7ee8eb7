/* rule.h - the language of rules: which events are wanted, and what is done for them.
 *
 * Model. A rule has a name, conditions on an event, and an effect. A rule set is read from YAML, is
 * whole and never changes. docs/rules.md is the manual of the language. Nothing here does what a
 * rule says: the caller does, with the fields of struct rule.
 *   An event is a JSON object, as the event log holds it. rule_event_begin names it, rule_match
 * asks one rule. Members of the event are looked for when a condition first names them, and
 * remembered until the next rule_event_begin; each object of the event is gone through once for all
 * rules. A pattern that takes more than RULE_MATCH_STEPS_MAX steps, and a member that an event has
 * twice, leave a condition open. A rule with an open condition that decides does not match, and the
 * verdict says which condition that was.
 *   Texts with placeholders are templates. rule_expand fills them in: values are percent-encoded in
 * URLs, escaped in JSON, and refused with control bytes in headers.
 * Source: config of changeprop (match, match_not, cases), without its functions in templates.
 * Pure. Thread: a rule set any, a rule_event one at a time. */
#ifndef RULE_RULE_H
#define RULE_RULE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

#include <yaml.h>

enum {
    RULE_TEXT_BYTES_MAX = 1 << 20, /* of a file of rules */
    RULE_RULES_MAX = 256,
    RULE_TARGETS_MAX = 2048, /* of all rules; a rule without targets counts as one */
    RULE_TARGETS_EACH_MAX = 32,
    RULE_WEIGHT_MAX = 100,
    RULE_NAME_BYTES_MAX = 64,
    RULE_DEPTH_MAX = 8,          /* of all, any and not within each other; of a body */
    RULE_CONDITIONS_MAX = 256,   /* of a rule, those in all, any and not with them */
    RULE_VALUES_MAX = 256,       /* in a list: of values, of numbers, of URLs, of headers */
    RULE_VALUE_BYTES_MAX = 4096, /* of a text in a rule */
    RULE_PATTERNS_MAX = 256,     /* regular expressions of a rule set */
    RULE_PATTERN_BYTES_MAX = 1024,
    RULE_GROUPS_MAX = 32,              /* groups of one pattern, those without names with them */
    RULE_CAPTURES_MAX = 16,            /* names of groups in a rule */
    RULE_PATHS_MAX = 512,              /* members named by a rule set, those above them with them */
    RULE_PATH_PARTS_MAX = 8,           /* names in a path */
    RULE_MATCH_STEPS_MAX = 100 * 1000, /* of a pattern on a text */
    RULE_MATCH_DEPTH_MAX = 10 * 1000,
    RULE_MATCH_HEAP_KIB_MAX = 4096,
    RULE_SUBJECT_BYTES_MAX = 64 << 10, /* of a text that a pattern looks at */
    RULE_EXPANDED_BYTES_MAX = 8 << 10, /* of a template that is filled in */
    RULE_FAULTS_MAX = 100,             /* told of one text */
    RULE_TEXTS_BYTES_MAX = 16 << 20,   /* memory of a rule set */
};

enum rule_effect {
    RULE_LOOK,     /* ask the wiki about the title */
    RULE_PURGE,    /* send PURGE to the targets */
    RULE_HTTP,     /* make a request */
    RULE_JOB,      /* have a job run */
    RULE_PRODUCE,  /* put the event into a queue */
    RULE_TIMELINE, /* note what the event says was superseded */
    RULE_DROP,     /* nothing; it says that the events are known */
    RULE_EFFECTS
};
enum rule_collapse { RULE_COLLAPSE_NONE, RULE_COLLAPSE_TITLE, RULE_COLLAPSE_SHA1 };
enum rule_failure { RULE_FAILURE_SKIP, RULE_FAILURE_HOLD };
#define RULE_TIMELINE_TTL_NS (30 * 86400 * NS_PER_S) /* the seed's */
enum rule_keep { RULE_KEEP_STORE, RULE_KEEP_REDIS, RULE_KEEPS };
const char *rule_keep_name(enum rule_keep k); /* "store" */
bool rule_keep_find(str name, enum rule_keep *out);
enum rule_body { RULE_BODY_EVENT, RULE_BODY_NONE, RULE_BODY_TEMPLATE };
enum rule_by { RULE_BY_TYPE, RULE_BY_DOMAIN, RULE_BY_TARGET, RULE_BYS };

struct rule_condition;
struct rule_template;
struct rule_header {
    str name;
    const struct rule_template *value;
};
/* At most count at once of what is called so; "*": of each other one. */
struct rule_limit {
    str name;
    int64_t count;
};
struct rule_strs {
    const str *p;
    unsigned count;
};
/* Of a rule set; lives as long as that. Fields that the effect does not have keep their default. */
struct rule {
    str name;
    unsigned index, line;
    uint64_t hash; /* of all but the name and the line; the same after a restart */
    enum rule_effect effect;
    const struct rule_condition *match;
    int64_t sample_ppm;                      /* of a million titles, so many are taken */
    int64_t claim_ttl_ns, root_claim_ttl_ns; /* DURATION_NEVER: however old */
    int64_t delay_ns;
    struct rule_strs targets;
    const int64_t *weights; /* of the targets of a job */
    const struct rule_template *url;
    const struct rule_template *const *urls;
    unsigned urls_count;
    str method;
    const struct rule_header *headers;
    unsigned headers_count;
    enum rule_body body;
    const struct rule_template *body_template;
    const int64_t *ok, *ignore;      /* statuses */
    unsigned ok_count, ignore_count; /* ok_count 0: 200 to 299 */
    int64_t retries, backoff_ns, backoff_factor, timeout_ns, concurrency;
    struct {
        const struct rule_limit *p;
        unsigned count;
    } concurrency_of[RULE_BYS];
    int64_t rate_count, rate_per_ns; /* 0: without a limit */
    enum rule_collapse collapse;
    enum rule_failure on_failure;
    int64_t edge_ttl_ns;
    int64_t rebound_ns; /* of PURGE: sent once more so much later, where a copy may have been
                           fetched meanwhile; 0: not */
    str queue;
    /* of timelines: of one domain, so many millionths of an entry a second; at once after a pause;
     * where, and how long */
    int64_t domain_rate_ppm, burst, ttl_ns;
    enum rule_keep keep;
    str captures[RULE_CAPTURES_MAX];
    unsigned captures_count;
};
const char *rule_effect_name(enum rule_effect e);

/* ---- rule sets ---- */

/* What is wrong with a text; borrowed inside the call that gets it. rule is empty outside of one.
 */
struct rule_fault {
    unsigned line; /* 0: not known */
    str rule;
    const char *text; /* what a sentence says of the field that it begins with */
};
typedef void rule_fault_fn(void *ctx, const struct rule_fault *fault);

struct rule_set;
/* rules: the section that has a section for each rule, as `change.rules` of a configuration. All
 * faults are told, RULE_FAULTS_MAX at most, and ERR_BAD is returned then; a document that only
 * memory stands against is ERR_LIMIT, told too. Owner: caller, one reference. */
MUST_CHECK err rule_set_parse(yaml_document_t *doc, const yaml_node_t *rules, rule_fault_fn *told,
                              void *ctx, struct rule_set **out);
/* The same of a text: a configuration of the server with `change: rules:`, or a file with `rules:`
 * alone. A null section has no rules. */
MUST_CHECK err rule_set_read(str text, rule_fault_fn *told, void *ctx, struct rule_set **out);
/* Reference counted: each reference is given back. Thread: any. */
struct rule_set *rule_set_ref(struct rule_set *s);
void rule_set_unref(struct rule_set **sp);
unsigned rule_set_count(const struct rule_set *s);
/* In the order of the text. */
const struct rule *rule_set_at(const struct rule_set *s, unsigned index);
const struct rule *rule_set_find(const struct rule_set *s,
                                 str name); /* NULL: there is none; s may be */

enum rule_difference { RULE_ADDED, RULE_REMOVED, RULE_CHANGED };
/* May an event of that stream match a rule that does something about it? False: the conditions on
 * streams exclude it from each rule but those of effect drop. NULL: no. Thread: any. */
bool rule_set_may_want(const struct rule_set *s, str stream);
/* Tells what is no fault of the rules, and most likely a slip. NULL: fine. */
void rule_set_doubt(const struct rule_set *s, rule_fault_fn *told, void *ctx);
/* Calls each for every rule that is not the same in both; true: there was none. NULL for ctx is
 * fine, each NULL too. A set that is NULL has no rules. */
bool rule_sets_compare(const struct rule_set *before, const struct rule_set *after,
                       void (*each)(void *ctx, enum rule_difference how, str name), void *ctx);

/* ---- matching ---- */

/* What is known of an event beside its bytes; all borrowed until the next rule_event_begin. */
struct rule_given {
    str stream, domain;
    str bytes;
    store_time at; /* when it was taken: its age, where it says none itself (meta.dt) */
    store_time now;
};
enum rule_answer {
    RULE_MATCHES,
    RULE_DIFFERS,     /* a condition does not hold */
    RULE_NOT_SAMPLED, /* all hold, and it is not of the sample */
    RULE_TOO_OLD,     /* all hold, and claim_ttl or root_claim_ttl is over */
    RULE_OPEN,        /* a condition could not be decided */
};
struct rule_verdict {
    enum rule_answer answer;
    const struct rule_condition *failed; /* RULE_DIFFERS, RULE_OPEN: the first */
    str captures[RULE_CAPTURES_MAX];     /* as the rule names them; p NULL: not set */
};

struct rule_event;
/* For events and the rules of that set, which outlives it. Owner: caller. */
struct rule_event *rule_event_new(const struct rule_set *s);
void rule_event_free(struct rule_event **ep);
/* ERR_BAD: the bytes are no JSON object; then there is no event to match. */
MUST_CHECK err rule_event_begin(struct rule_event *e, const struct rule_given *given);
/* *v is borrowed from e until the next rule_event_begin. */
void rule_match(struct rule_event *e, const struct rule *r, struct rule_verdict *v);
/* How often a condition was left open since rule_event_new. */
uint64_t rule_event_open(const struct rule_event *e);
/* Why it does not match, in a sentence without a full stop. v: of the event that e has now. */
void rule_why(struct rule_event *e, const struct rule *r, const struct rule_verdict *v,
              struct err_note *out);
/* The title that an event tells of, as it is written there; empty: of none. */
str rule_event_title(struct rule_event *e);
/* Members that effects want to know; empty: not there. */
enum rule_text {
    RULE_TEXT_ROOT_DT, /* of jobs: root_event.dt, root_event.signature */
    RULE_TEXT_ROOT_SIGNATURE,
    RULE_TEXT_SHA1,
    RULE_TEXT_DELAY_UNTIL,
    RULE_TEXT_DATABASE,
    RULE_TEXT_URI, /* of a PURGE that is relayed */
    RULE_TEXT_REV, /* of the store's own events: what they are about, what the wiki has, */
    RULE_TEXT_LAST_REV,
    RULE_TEXT_SUPERSEDED_REV, /* and what was the latest until then */
    RULE_TEXT_SUPERSEDED_TID,
    RULE_TEXTS
};
str rule_event_text(struct rule_event *e, enum rule_text which);

/* ---- templates ---- */

/* Is that one of the domains that are configured? */
struct rule_domains {
    bool (*has)(void *ctx, str domain);
    void *ctx;
};
/* Fills a template in and appends it to out, RULE_EXPANDED_BYTES_MAX at most. v: of a rule that
 * matches the event. ERR_BAD: it cannot be, and note says why; ERR_LIMIT: it is longer. */
MUST_CHECK err rule_expand(struct rule_event *e, const struct rule_verdict *v,
                           const struct rule_template *t, const struct rule_domains *domains,
                           struct buf *out, struct err_note *note);
/* As the rule has it, for people. */
str rule_template_source(const struct rule_template *t);

#endif
