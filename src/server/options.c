/* options.c - names to rows, the sources in their order, and what options say together.
 *
 * Invariants: 1. a row's origin is set exactly when a source named it. 2. bucket 0 is "page". 3.
 * nothing of the config points outside options->texts, contents and static text. */
#include "server/options_impl.h"

#include "base/units.h"
#include "rule/rule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct options_from from_default = { .file = "default" };
static const struct options_from from_environment = { .file = "environment" };
static const struct options_from from_arguments = { .file = "command line" };

/* ---- names ---- */

/* Defaults go the way of every other value, so that they are within their limits too. */
void option_defaults(struct options *o, const struct option *rows, void *base, unsigned bucket)
{
    for (const struct option *r = rows; r->name != NULL; r++) {
        if (r->initial[0] == '\0' || r->type == OPTION_DOMAINS)
            continue;
        struct option_value v = { .row = r,
                                  .base = base,
                                  .name = str_of(r->name),
                                  .text = str_of(r->initial),
                                  .from = from_default,
                                  .bucket = bucket };
        struct err_note note;
        err why = option_store(o, &v, &note);
        if (why != ERR_OK)
            check_failed(__FILE__, __LINE__, note.text);
    }
}

struct options *options_new(void)
{
    struct options *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    arena_init(&o->texts, OPTIONS_TEXT_BYTES_MAX);
    buf_init(&o->faults, OPTIONS_TEXT_BYTES_MAX);
    option_defaults(o, option_rows, &o->config, 0);
    o->config.buckets_count = 1;
    o->config.buckets[0].page.name = "page";
    option_defaults(o, option_bucket_rows, &o->config.buckets[0], 0);
    return o;
}

void options_free(struct options **op)
{
    if (*op == NULL)
        return;
    arena_fini(&(*op)->texts);
    buf_fini(&(*op)->faults);
    rule_set_unref(&(*op)->config.change.rules);
    free((*op)->config.domains);
    free((*op)->domain_from);
    free(*op);
    *op = NULL;
}

const struct config *options_config(const struct options *o)
{
    INVARIANT(o->finished);
    return &o->config;
}

bool option_is_plain_name(str s, size_t bytes_max, const char *extra)
{
    if (s.n == 0 || s.n > bytes_max)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(extra, c) == NULL))
            return false;
    }
    return true;
}

bool option_is_one_of(str s, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(s, str_of(names[i])))
            return true;
    return false;
}

static void grow_domains(struct options *o)
{
    o->domains_size = o->domains_size == 0 ? 16 : 2 * o->domains_size;
    o->config.domains = realloc(o->config.domains, o->domains_size * sizeof o->config.domains[0]);
    o->domain_from = realloc(o->domain_from, o->domains_size * sizeof o->domain_from[0]);
    INVARIANT(o->config.domains != NULL);
    INVARIANT(o->domain_from != NULL);
}

err option_add_domain(struct options *o, str name, struct options_from from, unsigned *index,
                      struct err_note *note)
{
    static const char *const reserved[] = { "v1",      "health", "healthz", "readyz",
                                            "metrics", ".",      "..",      "_system" };
    struct config *c = &o->config;
    if (!option_is_plain_name(name, CONFIG_NAME_BYTES_MAX, "-._"))
        return option_fail(from, STR("domains"), note, "\"%.*s\" is no name of a domain",
                           STR_ARG(str_take(name, 60)));
    if (option_is_one_of(name, reserved, COUNT_OF(reserved)))
        return option_fail(from, STR("domains"), note, "\"%.*s\" is a reserved name",
                           STR_ARG(name));
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), name)) {
            if (index != NULL)
                *index = i;
            return ERR_OK;
        }
    if (c->domains_count == CONFIG_DOMAINS_MAX)
        return option_fail(from, STR("domains"), note, "more than %d domains", CONFIG_DOMAINS_MAX);
    if (c->domains_count == o->domains_size)
        grow_domains(o);
    const char *copy = arena_cstr(&o->texts, name);
    if (copy == NULL)
        return option_fail(from, STR("domains"), note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    unsigned at = c->domains_count++;
    c->domains[at] = (struct config_domain){ .name = copy };
    o->domain_from[at] = (struct origin_from){ .last = { .file = NULL } };
    option_defaults(o, option_origin_rows, &c->domains[at], 0);
    if (index != NULL)
        *index = at;
    return ERR_OK;
}

/* domains.NAME.origin.FIELD: a name has dots itself, so the last ".origin." counts. ERR_NOT_FOUND:
 * no such thing. */
static err set_origin(struct options *o, struct option_value *v, struct err_note *note)
{
    const str section = STR("domains."), middle = STR(".origin.");
    str rest = str_skip(v->name, section.n);
    size_t at = rest.n, next = str_find_str(rest, middle);
    if (!str_starts(v->name, section) || next == rest.n)
        return ERR_NOT_FOUND;
    for (size_t from = 0; from + next < rest.n;
         from = at + 1, next = str_find_str(str_skip(rest, from), middle))
        at = from + next;
    unsigned index;
    v->row = option_find(option_origin_rows, str_skip(rest, at + middle.n));
    if (v->row == NULL)
        return option_fail(v->from, v->name, note, "there is no such option");
    err why = option_add_domain(o, str_take(rest, at), v->from, &index, note);
    if (why != ERR_OK)
        return why;
    v->base = &o->config.domains[index];
    why = option_store(o, v, note);
    if (why != ERR_OK)
        return why;
    struct origin_from *from = &o->domain_from[index];
    from->last = v->from;
    if (str_eq(str_of(v->row->name), STR("url")))
        from->url = v->from;
    else if (str_eq(str_of(v->row->name), STR("api")))
        from->api = v->from;
    else if (str_eq(str_of(v->row->name), STR("rerender_concurrency")))
        from->rerenders = v->from;
    return ERR_OK;
}

/* The first option below a section: "page.policy" of "page". NULL: it is none. The prefix goes to
 * *section. */
static const struct option *first_of_section(str name, const char **prefix)
{
    static const struct {
        const char *name, *prefix;
        const struct option *rows;
    } others[] = {
        { "page", "page.", option_bucket_rows },
        { "lists", "lists.NAME.", option_list_rows },
        { "buckets", "buckets.NAME.", option_bucket_rows },
        { "listeners", "listeners.NAME.", option_listener_rows },
    };
    for (const struct option *r = option_rows; r->name != NULL; r++) {
        str rest = str_of(r->name), section = str_split(&rest, '.');
        *prefix = "";
        if (rest.n > 0 && str_eq(section, name))
            return r;
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        *prefix = others[i].prefix;
        if (str_eq(name, str_of(others[i].name)))
            return others[i].rows;
    }
    return NULL;
}

/* Is it the last part of an option's name, as grace_ttl is of page.grace_ttl? NULL: of none. */
static const char *longer_name(str name, const char **prefix)
{
    *prefix = "";
    for (const struct option *r = option_rows; r->name != NULL; r++) {
        str rest = str_of(r->name);
        (void)str_split(&rest, '.'); /* the section */
        if (str_eq(rest, name))
            return r->name;
    }
    *prefix = "page.";
    const struct option *r = option_find(option_bucket_rows, name);
    return r != NULL ? r->name : NULL;
}

err option_unknown(struct options_from from, str name, struct err_note *note)
{
    const char *prefix;
    const struct option *first = first_of_section(name, &prefix);
    if (first != NULL)
        return option_fail(from, name, note, "is a section, not a value: %s%s is an option of it",
                           prefix, first->name);
    const char *longer = longer_name(name, &prefix);
    if (longer != NULL)
        return option_fail(from, name, note, "there is no such option; %s%s is one", prefix,
                           longer);
    return option_fail(from, name, note, "there is no such option; palimpsest options lists them");
}

err options_set(struct options *o, str name, str value, struct options_from from,
                struct err_note *note)
{
    struct option_value v = { .base = &o->config, .name = name, .text = value, .from = from };
    str rest = name;
    err of_origin = set_origin(o, &v, note);
    if (of_origin != ERR_NOT_FOUND)
        return of_origin;
    err of_list = option_set_list(o, &v, note);
    if (of_list != ERR_NOT_FOUND)
        return of_list;
    err of_listener = option_set_listener(o, &v, note);
    if (of_listener != ERR_NOT_FOUND)
        return of_listener;
    bool of_rules = str_starts(name, STR("change.rules."));
    v.row = option_find(option_rows, of_rules ? STR("change.rules") : name);
    if (v.row == NULL && str_starts(name, STR("page.")))
        return option_set_field(o, &v, str_skip(name, 5), note);
    if (v.row == NULL && str_eq(str_split(&rest, '.'), STR("buckets")) &&
        str_find(rest, '.') < rest.n) {
        err why = option_bucket(o, str_split(&rest, '.'), from, &v.bucket, note);
        return why != ERR_OK ? why : option_set_field(o, &v, rest, note);
    }
    if (v.row == NULL || (v.row->type == OPTION_HOOKS && from.file != from_arguments.file))
        return v.row == NULL ? option_unknown(from, name, note)
                             : option_fail(from, name, note, "only as a flag");
    const char *shown = arena_cstr(&o->texts, str_take(value, OPTIONS_VALUE_BYTES_MAX));
    if (shown == NULL)
        return option_fail(from, name, note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    err why = option_store(o, &v, note);
    if (why == ERR_OK) {
        o->from[v.row - option_rows] = from;
        o->shown[v.row - option_rows] = shown;
    }
    return why;
}

/* ---- sources ---- */

err options_read_file(struct options *o, const char *path, struct err_note *note)
{
    struct options_from from = { .file = path };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return option_fail(from, STR_NONE, note, "cannot be opened: %s", strerror(errno));
    char *text = malloc(OPTIONS_FILE_BYTES_MAX + 1);
    INVARIANT(text != NULL);
    size_t n = 0;
    ssize_t got;
    do {
        got = read(fd, text + n, OPTIONS_FILE_BYTES_MAX + 1 - n);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    err why;
    if (got < 0)
        why = option_fail(from, STR_NONE, note, "cannot be read: %s", strerror(errno));
    else if (n > OPTIONS_FILE_BYTES_MAX)
        why = option_fail(from, STR_NONE, note, "is larger than %d bytes", OPTIONS_FILE_BYTES_MAX);
    else
        why = options_yaml(o, (str){ .p = text, .n = n }, path, note);
    free(text);
    (void)close(fd); /* was only read */
    return why;
}

/* "page.grace_ttl" is PAGE_GRACE_TTL. */
static bool is_variable_of(str variable, const char *prefix, const char *name)
{
    str p = str_of(prefix), n = str_of(name);
    if (variable.n != p.n + n.n)
        return false;
    for (size_t i = 0; i < variable.n; i++) {
        char c = i < p.n ? p.p[i] : n.p[i - p.n];
        char upper = c == '.' ? '_' : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        if (variable.p[i] != upper)
            return false;
    }
    return true;
}

static bool variable_name(str variable, char *out, size_t size)
{
    static const struct {
        const struct option *rows;
        const char *prefix;
    } tables[] = { { option_rows, "" }, { option_bucket_rows, "page." } };
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct option *r = tables[t].rows; r->name != NULL; r++)
            if (r->type != OPTION_HOOKS && is_variable_of(variable, tables[t].prefix, r->name)) {
                (void)snprintf(out, size, "%s%s", tables[t].prefix,
                               r->name); /* names of ours fit */
                return true;
            }
    return false;
}

/* Read by other parts of the program, not by the table. */
static bool is_other_variable(str variable)
{
    return str_eq(variable, STR("CONFIG")) || str_eq(variable, STR("SERVER")) ||
           str_eq(variable, STR("TOKEN"));
}

/* A variable cannot say where a name ends in it, so it reaches nothing that has one. */
static bool is_of_a_name(str variable)
{
    return str_starts(variable, STR("BUCKETS_")) || str_starts(variable, STR("LISTS_")) ||
           str_starts(variable, STR("DOMAINS_")) || str_starts(variable, STR("LISTENERS_"));
}

static void tell_unknown(str variable, const char *pair,
                         void (*unknown)(void *ctx, const char *variable), void *ctx)
{
    char text[256];
    (void)snprintf(text, sizeof text,
                   "PALIMPSEST_%.*s (what has a name of its own is set in the file or with --set)",
                   STR_ARG(str_take(variable, 128)));
    unknown(ctx, is_of_a_name(variable) ? text : pair);
}

err options_environment(struct options *o, char *const *envp,
                        void (*unknown)(void *ctx, const char *variable), void *ctx,
                        struct err_note *note)
{
    for (; *envp != NULL; envp++) {
        str value = str_of(*envp);
        const str prefix = STR("PALIMPSEST_");
        if (!str_starts(value, prefix))
            continue;
        str variable = str_skip(str_split(&value, '='), prefix.n);
        char name[128];
        if (variable_name(variable, name, sizeof name)) {
            err why = options_set(o, str_of(name), value, from_environment, note);
            if (why != ERR_OK)
                return why;
        } else if (!is_other_variable(variable) && unknown != NULL) {
            tell_unknown(variable, *envp, unknown, ctx);
        }
    }
    return ERR_OK;
}

/* One argument, split at '=' or completed by the next one. */
struct argument {
    str flag, value;
    bool has_value;
};

static struct argument argument_at(int argc, char **argv, int *i)
{
    struct argument a = { .value = str_of(argv[*i]) };
    a.has_value = str_find(a.value, '=') < a.value.n;
    a.flag = str_split(&a.value, '=');
    if (!a.has_value && !str_eq(a.flag, STR("--test-hooks")) && *i + 1 < argc) {
        a.value = str_of(argv[++*i]);
        a.has_value = true;
    }
    return a;
}

static err take_argument(struct options *o, struct argument a, struct err_note *note)
{
    if (str_eq(a.flag, STR("--test-hooks")))
        return options_set(o, STR("test_hooks"), a.has_value ? a.value : STR("true"),
                           from_arguments, note);
    const struct option *row = NULL;
    for (const struct option *r = option_rows; r->name != NULL; r++)
        if (r->flag != NULL && str_starts(a.flag, STR("--")) &&
            str_eq(str_skip(a.flag, 2), str_of(r->flag)))
            row = r;
    bool is_set = str_eq(a.flag, STR("--set")), is_config = str_eq(a.flag, STR("--config"));
    if (row == NULL && !is_set && !is_config)
        return option_fail(from_arguments, a.flag, note, "there is no such option");
    if (!a.has_value)
        return option_fail(from_arguments, a.flag, note, "wants a value");
    if (is_config)
        return ERR_OK;
    if (row != NULL)
        return options_set(o, str_of(row->name), a.value, from_arguments, note);
    str value = a.value;
    if (str_find(value, '=') == value.n)
        return option_fail(from_arguments, a.value, note, "--set wants NAME=VALUE");
    str name = str_split(&value, '=');
    if (str_eq(name, STR("test_hooks")))
        return option_fail(from_arguments, name, note, "only as --test-hooks");
    return options_set(o, name, value, from_arguments, note);
}

err options_arguments(struct options *o, int argc, char **argv, struct err_note *note)
{
    for (int i = 0; i < argc; i++) {
        err why = take_argument(o, argument_at(argc, argv, &i), note);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

err options_config_path(int argc, char **argv, char *const *envp, const char **path,
                        struct err_note *note)
{
    const char *found = NULL;
    for (int i = 0; i < argc; i++) {
        struct argument a = argument_at(argc, argv, &i);
        if (!str_eq(a.flag, STR("--config")) || !a.has_value)
            continue;
        if (found != NULL)
            return option_fail(from_arguments, STR("--config"), note, "is there twice");
        found = a.value.p; /* to the end of its argument */
    }
    for (; found == NULL && *envp != NULL; envp++)
        if (str_starts(str_of(*envp), STR("PALIMPSEST_CONFIG=")))
            found = *envp + sizeof "PALIMPSEST_CONFIG=" - 1;
    *path = found;
    return ERR_OK;
}

err options_load(struct options *o, const struct options_sources *from, struct err_note *note)
{
    const char *path;
    o->inherited = from->inherited;
    err why = options_config_path(from->argc, from->argv, from->envp, &path, note);
    if (why == ERR_OK && path != NULL)
        why = options_read_file(o, path, note);
    if (why == ERR_OK)
        why = options_environment(o, from->envp, from->unknown, from->ctx, note);
    if (why == ERR_OK)
        why = options_arguments(o, from->argc, from->argv, note);
    return why != ERR_OK ? why : options_finish(o, note);
}
