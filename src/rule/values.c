/* values.c - reads the values of a rule's fields. */
#include "base/units.h"
#include "rule/fields.h"

#include <string.h>

enum { HEADERS_MAX = 32, QUEUE_NAME_BYTES_MAX = 512, SHOWN = 64 };

/* ---- numbers and durations ---- */

static bool number_read(struct rule_reading *r, const yaml_node_t *n, const struct rule_field *f,
                        int64_t *out)
{
    str text;
    if (!rule_read_text(r, n, &text))
        return false;
    if (!str_to_i64(text, out))
        return rule_fail(r, n, "\"%.*s\" is no whole number", STR_ARG(str_take(text, SHOWN)));
    return (*out >= f->least && *out <= f->most) ||
           rule_fail(r, n, "is %lld; from %lld to %lld is allowed", (long long)*out,
                     (long long)f->least, (long long)f->most);
}

bool rule_field_number(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                       void *at)
{
    return number_read(r, n, f, at);
}

bool rule_field_duration(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                         void *at)
{
    str text;
    int64_t ns;
    if (!rule_read_text(r, n, &text))
        return false;
    if (!units_parse_duration(text, &ns))
        return rule_fail(r, n, "\"%.*s\" is no duration: write 500ms, 2s, 5m, 1h or 7d",
                         STR_ARG(str_take(text, SHOWN)));
    if (ns < f->least || ns > f->most) {
        char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
        units_format_duration(f->least, least);
        units_format_duration(f->most, most);
        return rule_fail(r, n, "is %.*s; from %s to %s is allowed", STR_ARG(str_take(text, SHOWN)),
                         least, most);
    }
    *(int64_t *)at = ns;
    return true;
}

/* Digits with up to six behind a point, in millionths. -1: it is none, or a thousand or more. */
static int64_t decimal_ppm(str s)
{
    str rest = s, whole = str_split(&rest, '.');
    uint64_t units = 0, parts = 0;
    if (whole.n > 3 || !str_to_u64(whole, &units))
        return -1;
    if (rest.p != NULL && (rest.n > 6 || !str_to_u64(rest, &parts)))
        return -1;
    for (size_t i = rest.n; i < 6; i++)
        parts *= 10;
    return (int64_t)(units * 1000 * 1000 + parts);
}

/* 0.1, 10% */
bool rule_field_share(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                      void *at)
{
    str text;
    if (!rule_read_text(r, n, &text))
        return false;
    bool percent = str_ends(text, STR("%"));
    int64_t ppm = decimal_ppm(str_take(text, text.n - (percent ? 1 : 0)));
    ppm = ppm >= 0 && percent ? ppm / 100 : ppm;
    if (ppm < f->least || ppm > f->most)
        return rule_fail(r, n, "\"%.*s\" is no share: write 0.1 or 10%%, above 0 and at most 1",
                         STR_ARG(str_take(text, SHOWN)));
    *(int64_t *)at = ppm;
    return true;
}

/* 0.02 */
bool rule_field_domain_rate(struct rule_reading *r, const struct rule_field *f,
                            const yaml_node_t *n, void *at)
{
    str text;
    if (!rule_read_text(r, n, &text))
        return false;
    int64_t ppm = decimal_ppm(text);
    if (ppm < f->least)
        return rule_fail(r, n, "\"%.*s\" is no rate: write 0.02 or 2, above 0 and below 1000",
                         STR_ARG(str_take(text, SHOWN)));
    *(int64_t *)at = ppm;
    return true;
}

const char *rule_keep_name(enum rule_keep k)
{
    static const char names[RULE_KEEPS][8] = { "store", "redis" };
    return names[k];
}

bool rule_keep_find(str name, enum rule_keep *out)
{
    for (int k = 0; k < RULE_KEEPS; k++) {
        if (!str_eq(name, str_of(rule_keep_name((enum rule_keep)k))))
            continue;
        *out = (enum rule_keep)k;
        return true;
    }
    return false;
}

bool rule_field_keep(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                     void *at)
{
    str text;
    (void)f;
    if (!rule_read_text(r, n, &text))
        return false;
    return rule_keep_find(text, at) ||
           rule_fail(r, n, "\"%.*s\" is neither store nor redis", STR_ARG(str_take(text, SHOWN)));
}

/* 10, 10/s, 10/m, 10/h */
bool rule_field_rate(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                     void *at)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = { { "s", NS_PER_S }, { "m", 60 * NS_PER_S }, { "h", 3600 * NS_PER_S } };
    str text;
    (void)at; /* it is two fields */
    if (!rule_read_text(r, n, &text))
        return false;
    str unit = text, number = str_split(&unit, '/');
    int64_t count = 0, per_ns = unit.p == NULL ? NS_PER_S : 0;
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (unit.p != NULL && str_eq(unit, str_of(units[i].unit)))
            per_ns = units[i].ns;
    if (per_ns == 0 || !str_to_i64(number, &count) || count < f->least || count > f->most)
        return rule_fail(r, n, "\"%.*s\" is no rate: write 10/s, 10/m or 10/h, from %lld to %lld",
                         STR_ARG(str_take(text, SHOWN)), (long long)f->least, (long long)f->most);
    r->rule->rate_count = count;
    r->rule->rate_per_ns = per_ns;
    return true;
}

bool rule_field_statuses(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                         void *at)
{
    unsigned count = rule_list_count(n);
    (void)at; /* it is two fields */
    if (count == 0 || count > RULE_VALUES_MAX)
        return rule_fail(r, n, "wants a status, or a list of 1 to %d", RULE_VALUES_MAX);
    int64_t *statuses = rule_alloc(r, n, count, sizeof *statuses);
    for (unsigned i = 0; statuses != NULL && i < count; i++)
        if (!number_read(r, rule_list_at(r, n, i), f, &statuses[i]))
            return false;
    bool ok = strcmp(f->name, "ok") == 0;
    *(ok ? &r->rule->ok : &r->rule->ignore) = statuses;
    *(ok ? &r->rule->ok_count : &r->rule->ignore_count) = count;
    return statuses != NULL;
}

/* ---- words ---- */

/* False: it is none of them. */
static bool word_find(str text, const char *const *words, unsigned count, unsigned *out)
{
    for (*out = 0; *out < count; ++*out)
        if (str_eq(text, str_of(words[*out])))
            return true;
    return false;
}

static bool word_read(struct rule_reading *r, const yaml_node_t *n, const char *const *words,
                      unsigned count, unsigned *out)
{
    struct err_note list = { .text = "" };
    str text;
    if (!rule_read_text(r, n, &text))
        return false;
    if (word_find(text, words, count, out))
        return true;
    size_t used = 0;
    for (unsigned i = 0; i < count; i++) /* few and short: they fit */
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%s",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " and ",
                                 words[i]);
    return rule_fail(r, n, "\"%.*s\" is none of %s", STR_ARG(str_take(text, SHOWN)), list.text);
}

static const char *const collapses[] = {
    [RULE_COLLAPSE_NONE] = "none", [RULE_COLLAPSE_TITLE] = "title", [RULE_COLLAPSE_SHA1] = "sha1"
};

bool rule_field_collapse(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                         void *at)
{
    static const struct {
        unsigned may;
        const char *words;
    } of[RULE_EFFECTS] = {
        [RULE_LOOK] = { BIT(RULE_COLLAPSE_TITLE), "title" },
        [RULE_PURGE] = { BIT(RULE_COLLAPSE_TITLE), "title" },
        [RULE_HTTP] = { BIT(RULE_COLLAPSE_NONE), "none" },
        [RULE_JOB] = { BIT(RULE_COLLAPSE_NONE) | BIT(RULE_COLLAPSE_SHA1), "none or sha1" },
        [RULE_PRODUCE] = { BIT(RULE_COLLAPSE_NONE), "none" },
        [RULE_TIMELINE] = { 0, "" }, /* it has no such field */
    };
    unsigned word;
    str text;
    (void)f;
    if (!rule_read_text(r, n, &text))
        return false;
    if (!word_find(text, collapses, COUNT_OF(collapses), &word) ||
        (of[r->rule->effect].may & BIT(word)) == 0)
        return rule_fail(r, n, "is %.*s; with effect %s it is %s", STR_ARG(str_take(text, SHOWN)),
                         rule_effect_name(r->rule->effect), of[r->rule->effect].words);
    *(enum rule_collapse *)at = (enum rule_collapse)word;
    return true;
}

bool rule_field_on_failure(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                           void *at)
{
    static const char *const words[] = {
        [RULE_FAILURE_SKIP] = "skip", [RULE_FAILURE_HOLD] = "hold"
    };
    unsigned word;
    (void)f;
    if (!word_read(r, n, words, COUNT_OF(words), &word))
        return false;
    *(enum rule_failure *)at = (enum rule_failure)word;
    return true;
}

bool rule_field_method(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                       void *at)
{
    static const char *const words[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "PURGE" };
    unsigned word;
    (void)f;
    if (!word_read(r, n, words, COUNT_OF(words), &word))
        return false;
    *(str *)at = str_of(words[word]);
    return true;
}

bool rule_field_queue(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                      void *at)
{
    str text;
    (void)f;
    if (!rule_read_text(r, n, &text))
        return false;
    if (text.n == 0 || text.n > QUEUE_NAME_BYTES_MAX)
        return rule_fail(r, n, "wants a name of 1 to %d bytes", QUEUE_NAME_BYTES_MAX);
    if (str_find(text, '~') < text.n || str_find(text, ' ') < text.n)
        return rule_fail(r, n, "has a blank or a ~, which no queue of yours has in its name");
    *(str *)at = text;
    return true;
}

/* ---- where to, and what ---- */

/* {url: .., weight: ..} */
static bool weighted_read(struct rule_reading *r, const yaml_node_t *n, str *url, int64_t *weight)
{
    static const struct rule_field of = { .least = 1, .most = RULE_WEIGHT_MAX };
    if (!rule_read_mapping(r, n, RULE_VALUES_MAX))
        return false;
    const yaml_node_t *at = NULL;
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = rule_node(r, p->key), *value = rule_node(r, p->value);
        if (str_eq(yaml_doc_text(key), STR("url")))
            at = value;
        else if (!str_eq(yaml_doc_text(key), STR("weight")))
            return rule_fail(r, key, "has %.*s in a target, which is none of url and weight",
                             STR_ARG(str_take(yaml_doc_text(key), SHOWN)));
        else if (!number_read(r, value, &of, weight))
            return false;
    }
    return at != NULL ? rule_read_target(r, at, true, url)
                      : rule_fail(r, n, "has a target without url");
}

static bool target_read(struct rule_reading *r, const yaml_node_t *n, str *url, int64_t *weight)
{
    bool is_job = r->rule->effect == RULE_JOB;
    *weight = 1;
    return is_job && n->type == YAML_MAPPING_NODE ? weighted_read(r, n, url, weight)
                                                  : rule_read_target(r, n, is_job, url);
}

bool rule_field_targets(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                        void *at)
{
    unsigned count = rule_list_count(n);
    (void)f;
    if (n->type == YAML_MAPPING_NODE || count == 0 || count > RULE_TARGETS_EACH_MAX)
        return rule_fail(r, n, "wants a URL, or a list of 1 to %d", RULE_TARGETS_EACH_MAX);
    str *targets = rule_alloc(r, n, count, sizeof *targets);
    int64_t *weights = rule_alloc(r, n, count, sizeof *weights);
    for (unsigned i = 0; targets != NULL && weights != NULL && i < count; i++) {
        const yaml_node_t *one = rule_list_at(r, n, i);
        if (!target_read(r, one, &targets[i], &weights[i]))
            return false;
        for (unsigned j = 0; j < i; j++)
            if (str_eq(targets[i], targets[j]))
                return rule_fail(r, one, "has %.*s twice", STR_ARG(str_take(targets[i], SHOWN)));
    }
    *(struct rule_strs *)at = (struct rule_strs){ .p = targets, .count = count };
    r->rule->weights = weights;
    return targets != NULL && weights != NULL;
}

bool rule_field_url(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                    void *at)
{
    (void)f;
    return rule_read_template(r, n, RULE_TEMPLATE_URL, at);
}

bool rule_field_urls(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                     void *at)
{
    unsigned count = rule_list_count(n);
    (void)f;
    (void)at; /* it is two fields */
    if (n->type == YAML_MAPPING_NODE || count == 0 || count > RULE_TARGETS_EACH_MAX)
        return rule_fail(r, n, "wants a path or a URL, or a list of 1 to %d",
                         RULE_TARGETS_EACH_MAX);
    const struct rule_template **urls = rule_alloc(r, n, count, sizeof(struct rule_template *));
    for (unsigned i = 0; urls != NULL && i < count; i++) {
        const yaml_node_t *one = rule_list_at(r, n, i);
        bool path = one->type == YAML_SCALAR_NODE && str_starts(yaml_doc_text(one), STR("/"));
        if (!rule_read_template(r, one, path ? RULE_TEMPLATE_PATH : RULE_TEMPLATE_URL, &urls[i]))
            return false;
    }
    r->rule->urls = urls;
    r->rule->urls_count = count;
    return urls != NULL;
}

static const char *header_check(str name)
{
    /* Those that say how far a message goes, and for which connection. */
    static const char *const kept[] = { "connection", "content-length",    "expect",
                                        "keep-alive", "proxy-connection",  "te",
                                        "trailer",    "transfer-encoding", "upgrade" };
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '-' && c != '_')
            return "is no name of a header";
    }
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        if (str_eq_nocase(name, str_of(kept[i])))
            return "is a header that the server sets itself";
    return name.n == 0 ? "is no name of a header" : NULL;
}

/* The last of `all`, which has room for it. */
static bool header_read(struct rule_reading *r, const yaml_node_pair_t *p, struct rule_header *all,
                        unsigned last)
{
    const yaml_node_t *key = rule_node(r, p->key);
    struct rule_header *h = &all[last];
    if (!rule_read_text(r, key, &h->name))
        return false;
    const char *wrong = header_check(h->name);
    for (unsigned j = 0; j < last; j++)
        wrong = str_eq_nocase(all[j].name, h->name) ? "is there twice" : wrong;
    if (wrong != NULL)
        return rule_fail(r, key, "\"%.*s\" %s", STR_ARG(str_take(h->name, SHOWN)), wrong);
    bool host = str_eq_nocase(h->name, STR("host"));
    return rule_read_template(r, rule_node(r, p->value),
                              host ? RULE_TEMPLATE_HOST : RULE_TEMPLATE_HEADER, &h->value);
}

/* To the end, so that all that is wrong is told. */
bool rule_field_headers(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                        void *at)
{
    bool fine = true;
    (void)f;
    (void)at; /* it is two fields */
    if (!rule_read_mapping(r, n, HEADERS_MAX))
        return false;
    unsigned count = rule_pairs(n);
    struct rule_header *headers = rule_alloc(r, n, count + 1, sizeof *headers);
    for (unsigned i = 0; headers != NULL && i < count; i++)
        fine = header_read(r, &n->data.mapping.pairs.start[i], headers, i) && fine;
    r->rule->headers = headers;
    r->rule->headers_count = count;
    return headers != NULL && fine;
}

bool rule_field_body(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                     void *at)
{
    static const char *const words[] = { [RULE_BODY_EVENT] = "event", [RULE_BODY_NONE] = "none" };
    (void)f;
    (void)at; /* it is two fields */
    if (n->type != YAML_SCALAR_NODE) {
        r->rule->body = RULE_BODY_TEMPLATE;
        return rule_read_body(r, n, &r->rule->body_template);
    }
    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        if (str_eq(yaml_doc_text(n), str_of(words[i]))) {
            r->rule->body = (enum rule_body)i;
            return true;
        }
    }
    return rule_fail(r, n, "is neither event, nor none, nor a section that becomes JSON");
}

/* ---- limits by name ---- */

static bool limits_read(struct rule_reading *r, const yaml_node_t *n, const struct rule_field *f,
                        enum rule_by by)
{
    if (!rule_read_mapping(r, n, RULE_VALUES_MAX))
        return false;
    unsigned count = rule_pairs(n);
    struct rule_limit *limits = rule_alloc(r, n, count + 1, sizeof *limits);
    for (unsigned i = 0; limits != NULL && i < count; i++) {
        const yaml_node_pair_t *p = &n->data.mapping.pairs.start[i];
        if (!rule_read_text(r, rule_node(r, p->key), &limits[i].name) ||
            !number_read(r, rule_node(r, p->value), f, &limits[i].count))
            return false;
    }
    r->rule->concurrency_of[by].p = limits;
    r->rule->concurrency_of[by].count = count;
    return limits != NULL;
}

bool rule_field_concurrency_of(struct rule_reading *r, const struct rule_field *f,
                               const yaml_node_t *n, void *at)
{
    static const char *const names[RULE_BYS] = {
        [RULE_BY_TYPE] = "type", [RULE_BY_DOMAIN] = "domain", [RULE_BY_TARGET] = "target"
    };
    (void)at; /* it is in three parts */
    if (!rule_read_mapping(r, n, RULE_BYS))
        return false;
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = rule_node(r, p->key);
        unsigned by = 0;
        while (by < RULE_BYS && !str_eq(yaml_doc_text(key), str_of(names[by])))
            by++;
        if (by == RULE_BYS)
            return rule_fail(r, key, "has a name that is none of type, domain and target");
        if (by == RULE_BY_TYPE && r->rule->effect != RULE_JOB)
            return rule_fail(r, key, "has type, and only jobs have one");
        if (!limits_read(r, rule_node(r, p->value), f, (enum rule_by)by))
            return false;
    }
    return true;
}
