/* rule_impl.h - what the files of this folder share. Private to rule. */
#ifndef RULE_RULE_IMPL_H
#define RULE_RULE_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/arena.h"
#include "codec/yaml_doc.h"
#include "rule/rule.h"

#include <pcre2.h>
#include <stdatomic.h>

/* ---- members by path (path.c) ---- */

struct rule_seen;

/* Members that each rule set knows: what title, rev and kind stand for, the first that is there. */
enum rule_known {
    RULE_KNOWN_PAGE_TITLE,
    RULE_KNOWN_PAGE_PAGE_TITLE,
    RULE_KNOWN_REV_ID,
    RULE_KNOWN_REVISION_REV_ID,
    RULE_KNOWN_KIND,
    RULE_KNOWN_PAGE_CHANGE_KIND,
    RULE_KNOWN_TID,
    RULE_KNOWN_META_DT,
    RULE_KNOWN_ROOT_DT,
    RULE_KNOWN_ROOT_SIGNATURE,
    RULE_KNOWN_SHA1,
    RULE_KNOWN_DELAY_UNTIL,
    RULE_KNOWN_DATABASE,
    RULE_KNOWN_URI,
    RULE_KNOWN_LAST_REV_ID,
    RULE_KNOWN_SUPERSEDED_REV,
    RULE_KNOWN_SUPERSEDED_TID,
    RULE_KNOWNS
};

/* A member of events, below its parent; 0 is the event itself. */
struct rule_path {
    str name;
    unsigned parent, first_child, next; /* 0: none */
};
struct rule_paths {
    struct rule_path at[RULE_PATHS_MAX];
    unsigned count;
    unsigned known[RULE_KNOWNS];
};
void rule_paths_init(struct rule_paths *p);
/* The member of that path, "page.page_title". text lives as long as the paths. NULL: fine; else
 * what is wrong, a static phrase. */
const char *rule_paths_add(struct rule_paths *p, str text, unsigned *out);
/* What the event has there. */
const struct rule_seen *rule_event_member(struct rule_event *e, unsigned path);

/* ---- subjects: what conditions and placeholders name (event.c) ---- */

enum rule_subject_kind {
    RULE_SUBJECT_STREAM,
    RULE_SUBJECT_DOMAIN,
    RULE_SUBJECT_TITLE,
    RULE_SUBJECT_REV,
    RULE_SUBJECT_TID,
    RULE_SUBJECT_KIND,
    RULE_SUBJECT_MEMBER,
    RULE_SUBJECT_CAPTURE /* of placeholders alone */
};
struct rule_subject {
    enum rule_subject_kind kind;
    unsigned index; /* of the path, or of the capture */
};
/* Of a condition's name. As rule_paths_add. */
const char *rule_subject_find(struct rule_paths *p, str name, struct rule_subject *out);
/* One of the names that no capture may have: they are placeholders of their own. */
bool rule_subject_is_word(str name);

enum rule_found {
    RULE_FOUND_NONE, /* not there, or null */
    RULE_FOUND_TEXT,
    RULE_FOUND_OTHER, /* an object or an array */
    RULE_FOUND_TWICE, /* nobody can say which */
};
/* What the event has there, for subjects that are members of it; NULL: it is none. */
const struct rule_seen *rule_subject_seen(struct rule_event *e, struct rule_subject s);
/* Of the event that e has. v: for captures; NULL where there can be none. *text is written on
 * RULE_FOUND_TEXT: a text, or a number, true or false as they are written. */
enum rule_found rule_subject_text(struct rule_event *e, const struct rule_verdict *v,
                                  struct rule_subject s, str *text);

/* ---- patterns (pattern.c) ---- */

struct rule_pattern {
    pcre2_code *code;
    struct rule_pattern *next; /* of the set: whoever frees them */
    str source;
    unsigned char slot[RULE_GROUPS_MAX + 1]; /* of group i: where its text goes, counted from 1 */
};
/* Compiles text, which is between the slashes. The names of its groups become captures of r. NULL:
 * fine; else what is wrong, in note or a static phrase. */
const char *rule_pattern_add(struct rule_set *s, struct rule *r, str text, bool caseless,
                             struct rule_pattern **out, struct err_note *note);
enum rule_truth { RULE_NO, RULE_YES, RULE_UNDECIDED };
/* RULE_YES: captures that are not set yet are. */
enum rule_truth rule_pattern_match(struct rule_event *e, const struct rule_pattern *p, str text,
                                   str captures[RULE_CAPTURES_MAX]);

/* ---- conditions (condition.c reads, match.c decides) ---- */

enum rule_group { RULE_TEST, RULE_ALL, RULE_ANY, RULE_NONE };
enum rule_want { RULE_WANT_VALUE, RULE_WANT_PRESENT, RULE_WANT_ABSENT };
enum rule_value_kind { RULE_VALUE_EQUAL, RULE_VALUE_GLOB, RULE_VALUE_PATTERN };
struct rule_value {
    enum rule_value_kind kind;
    str text; /* as it is written */
    struct rule_pattern *pattern;
};
struct rule_condition {
    enum rule_group group;
    unsigned line;
    const struct rule_condition *first; /* of a group: those in it */
    const struct rule_condition *next;
    str field; /* of a test */
    struct rule_subject subject;
    enum rule_want want;
    const struct rule_value *values;
    unsigned values_count;
};

/* Of one test; captures are set as rule_pattern_match does. */
enum rule_truth rule_test_holds(struct rule_event *e, const struct rule_condition *c,
                                str captures[RULE_CAPTURES_MAX]);

/* ---- templates (template.c reads, expand.c fills in) ---- */

enum rule_template_kind {
    RULE_TEMPLATE_URL,  /* absolute */
    RULE_TEMPLATE_PATH, /* begins with a slash */
    RULE_TEMPLATE_HEADER,
    RULE_TEMPLATE_HOST, /* the header: {domain} alone */
    RULE_TEMPLATE_BODY,
};
struct rule_piece {
    bool is_placeholder, is_whole; /* whole: in a body, all of a text of JSON */
    str text;                      /* of a placeholder: its name */
    struct rule_subject subject;
};
struct rule_template {
    enum rule_template_kind kind;
    str source;
    const struct rule_piece *pieces;
    unsigned pieces_count;
    bool host_is_domain; /* of a URL, of Host: its first placeholder is the host */
};

/* ---- sets, and reading them ---- */

enum { RULE_SET_MAGIC = 0x5e7a0b1d, RULE_EVENT_MAGIC = 0x7c3e91d5 };
struct rule_set {
    uint32_t magic;
    atomic_uint refs;
    struct arena arena;
    struct rule_paths paths;
    struct rule_pattern *patterns;
    unsigned patterns_count;
    struct rule *rules;
    unsigned count;
};

struct rule_reading {
    yaml_document_t *doc;
    struct rule_set *set;
    rule_fault_fn *told;
    void *ctx;
    unsigned faults;
    struct rule *rule;         /* that is read; NULL: none */
    str field;                 /* of it; empty: none */
    unsigned targets;          /* of all rules so far */
    str timelines[RULE_KEEPS]; /* the rule that keeps the timeline there; empty: none so far */
    unsigned conditions;       /* of the rule */
    unsigned body_bytes;
};
/* Tells a fault of the field at hand; false. */
bool rule_fail(struct rule_reading *r, const yaml_node_t *at, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* Memory of the set; NULL: it is full, and that is told. */
void *rule_alloc(struct rule_reading *r, const yaml_node_t *at, size_t count, size_t size);
bool rule_keep(struct rule_reading *r, const yaml_node_t *at, str text, str *out);
static inline yaml_node_t *rule_node(struct rule_reading *r, int index)
{
    return yaml_document_get_node(r->doc, index);
}
/* A plain text that is there, RULE_VALUE_BYTES_MAX at most, without control bytes, in UTF-8. */
bool rule_read_text(struct rule_reading *r, const yaml_node_t *n, str *out);
/* A mapping whose names are texts, each there once; max entries at most. */
bool rule_read_mapping(struct rule_reading *r, const yaml_node_t *n, unsigned max);
static inline unsigned rule_pairs(const yaml_node_t *n)
{
    return (unsigned)(n->data.mapping.pairs.top - n->data.mapping.pairs.start);
}
static inline unsigned rule_items(const yaml_node_t *n)
{
    return (unsigned)(n->data.sequence.items.top - n->data.sequence.items.start);
}
/* An entry of a list, or the one value that stands for a list of one. */
unsigned rule_list_count(const yaml_node_t *n);
const yaml_node_t *rule_list_at(struct rule_reading *r, const yaml_node_t *n, unsigned i);

bool rule_read_match(struct rule_reading *r, const yaml_node_t *n,
                     const struct rule_condition **out);
/* All fields of the rule at hand. */
bool rule_read_fields(struct rule_reading *r, const yaml_node_t *n);
bool rule_read_template(struct rule_reading *r, const yaml_node_t *n, enum rule_template_kind kind,
                        const struct rule_template **out);
/* A mapping or a list, which becomes JSON. */
bool rule_read_body(struct rule_reading *r, const yaml_node_t *n, const struct rule_template **out);
/* A URL without placeholders; without a path, too, unless with_path: then the slash at its end is
 * left out. */
bool rule_read_target(struct rule_reading *r, const yaml_node_t *n, bool with_path, str *out);
uint64_t rule_hash_node(struct rule_reading *r, const yaml_node_t *n);

/* ---- events ---- */

struct rule_seen {
    enum rule_found found;
    bool is_gone_through; /* those of its members that paths name are known */
    str raw;              /* as it is written */
    str text;             /* of RULE_FOUND_TEXT */
};
struct rule_event {
    uint32_t magic;
    const struct rule_set *set;
    struct rule_given given;
    struct arena arena; /* texts with escapes */
    struct rule_seen seen[RULE_PATHS_MAX];
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint64_t open;
    const struct rule_condition *failed;
    bool is_of_a_kind; /* inside of rule_may_want_kind */
};

/* May an event of the stream and the kind that e has match the rule, whatever else it has? */
bool rule_may_want_kind(struct rule_event *e, const struct rule *r);
bool rule_may_want_stream(const struct rule_set *s, const struct rule *r, str stream);

/* Does the rule send requests to where a server takes events, /v1/events? Then it may match what
 * comes of them. */
bool rule_feeds_events(const struct rule *r);

#endif
