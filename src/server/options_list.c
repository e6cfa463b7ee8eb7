/* options_list.c - lists.NAME.FIELD, and Redis: their rows, their sections, and what they must be
 * as a whole. */
#include "server/options_impl.h"

#include <stdio.h>
#include <string.h>

enum { LIST_OPTION_BYTES = 160 }; /* "lists.NAME.FIELD" */

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define LIST(field)                                                                                \
    .offset = offsetof(struct config_list, field),                                                 \
    .width = sizeof(((struct config_list *)NULL)->field)

static const char *const degrades[] = { "local", "fail", NULL }; /* enum config_degrade */

const struct option option_list_rows[] = {
    { "generator", NULL, OPTION_TEXT, .initial = "",
      .prose = "URL that computes the list, without a query", LIST(list.generator) },
    { "params", NULL, OPTION_TEXT, .initial = "",
      .prose = "Names of the parameters that tell lists apart", LIST(params_text) },
    { "unique_by", NULL, OPTION_TEXT, .initial = "",
      .prose = "Fields in each of which no two items may be equal; empty: whole items",
      LIST(unique_text) },
    { "size", NULL, OPTION_COUNT, 1, LIST_SIZE_MAX, .initial = "5",
      .prose = "Most items, and the last position", LIST(list.size) },
    { "ttl", NULL, OPTION_MS, SECOND, 365 * 24 * HOUR, .initial = "60s",
      .prose = "Time that everybody sees the same list; a display keeps its list for display_ttl",
      LIST(list.ttl_ms), .reload = OPTION_ON_RELOAD },
    { "stale_ttl", NULL, OPTION_MS, 0, 365 * 24 * HOUR, .initial = "60s",
      .prose = "Further time that the old list is answered while the next is being made, or fails",
      LIST(list.stale_ttl_ms), .reload = OPTION_ON_RELOAD },
    { "display_ttl", NULL, OPTION_MS, 0, 365 * 24 * HOUR, .initial = "10m",
      .prose = "Time after the last read that a display keeps its list; 0: ttl and stale_ttl, as "
               "without a display",
      LIST(list.display_ttl_ms), .reload = OPTION_ON_RELOAD },
    { "displays_max", NULL, OPTION_COUNT, 1, 100000000, .initial = "100000",
      .prose = "Displays of one domain with a list in Redis; beyond it the least recently read "
               "lose theirs",
      LIST(list.displays_max), .reload = OPTION_ON_RELOAD },
    { "timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "10s",
      .prose = "Longest time of the generator", LIST(list.make_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "wait", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "5s",
      .prose = "Longest wait of a request without Prefer: wait", LIST(list.wait_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "degrade", NULL, OPTION_CHOICE, .choices = degrades, .initial = "local",
      .prose = "Without Redis: each server makes its own list, or none is answered",
      LIST(degrade) },
    { "no_cache", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Cache-Control: no-cache may ask for a new list, or joins the one being made; "
               "others see it within 5 s",
      LIST(list.no_cache_allowed), .reload = OPTION_ON_RELOAD },
    { "public", NULL, OPTION_FLAG, .initial = "false", .prose = "Shared caches may keep the list",
      LIST(list.is_public), .reload = OPTION_ON_RELOAD },
    { .name = NULL },
};

static bool is_list_name(str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return name.n > 0 && name.n <= 32;
}

err option_list(struct options *o, str name, struct options_from from, unsigned *index,
                struct err_note *note)
{
    struct config *c = &o->config;
    for (unsigned i = 0; i < c->lists_count; i++)
        if (str_eq(str_of(c->lists[i].list.name), name)) {
            *index = i;
            return ERR_OK;
        }
    if (!is_list_name(name))
        return option_fail(from, STR("lists"), note, "\"%.*s\" is no name of a list",
                           STR_ARG(str_take(name, 60)));
    if (c->lists_count == CONFIG_LISTS_MAX)
        return option_fail(from, STR("lists"), note, "more than %d lists", CONFIG_LISTS_MAX);
    const char *copy = arena_cstr(&o->texts, name);
    if (copy == NULL)
        return option_fail(from, STR("lists"), note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    *index = c->lists_count++;
    c->lists[*index] = (struct config_list){ .list = { .name = copy } };
    o->list_from[*index] = from;
    option_defaults(o, option_list_rows, &c->lists[*index], 0);
    return ERR_OK;
}

err option_set_list(struct options *o, struct option_value *v, struct err_note *note)
{
    const str section = STR("lists.");
    str field = str_skip(v->name, section.n);
    str name = str_split(&field, '.');
    if (!str_starts(v->name, section) || field.n == 0)
        return ERR_NOT_FOUND;
    unsigned index;
    err why = option_list(o, name, v->from, &index, note);
    if (why != ERR_OK)
        return why;
    v->row = option_find(option_list_rows, field);
    if (v->row == NULL)
        return option_fail(v->from, v->name, note, "there is no such option");
    v->base = &o->config.lists[index];
    return option_store(o, v, note);
}

/* "a, b" into names. NULL or what is wrong. */
static const char *split_names(struct options *o, const char *text, const char **names,
                               unsigned max, unsigned *count)
{
    str rest = str_of(text);
    while (rest.n > 0) {
        str name = str_trim(str_split(&rest, ','));
        if (name.n == 0 || *count == max)
            return name.n == 0 ? "has an empty name" : "has too many names";
        for (unsigned i = 0; i < *count; i++)
            if (str_eq(str_of(names[i]), name))
                return "has a name twice";
        names[*count] = arena_cstr(&o->texts, name);
        if (names[(*count)++] == NULL)
            return "is too long";
    }
    return NULL;
}

/* As the operator writes it. */
static str list_option(char *to, const struct config_list *l, const char *field)
{
    (void)snprintf(to, LIST_OPTION_BYTES, "lists.%s.%s", l->list.name,
                   field); /* cut, a long name still is one */
    return str_of(to);
}

static err finish_list(struct options *o, unsigned index, struct err_note *note)
{
    struct config_list *l = &o->config.lists[index];
    struct options_from from = o->list_from[index];
    char option[LIST_OPTION_BYTES];
    str url = str_of(l->list.generator);
    bool is_url = str_starts(url, STR("http://")) || str_starts(url, STR("https://"));
    if (!is_url || str_find(url, '?') < url.n || str_find(url, '#') < url.n)
        return option_fail(from, list_option(option, l, "generator"), note,
                           "the list wants a generator: an http or https URL without a query");
    const char *wrong =
        split_names(o, l->params_text, l->params, LIST_PARAMS_MAX, &l->list.params_count);
    if (wrong != NULL)
        return option_fail(from, list_option(option, l, "params"), note, "%s", wrong);
    wrong = split_names(o, l->unique_text, l->unique_by, LIST_UNIQUE_MAX, &l->list.unique_count);
    if (wrong != NULL)
        return option_fail(from, list_option(option, l, "unique_by"), note, "%s", wrong);
    l->list.params = l->params;
    l->list.unique_by = l->unique_by;
    l->list.fail_alone = l->degrade == DEGRADE_FAIL;
    return ERR_OK;
}

err options_finish_lists(struct options *o, struct options_from from, struct err_note *note)
{
    struct config_redis *r = &o->config.redis;
    struct err_note why_not;
    if (r->url != NULL && r->url[0] != 0 &&
        redis_url_parse(str_of(r->url), &r->address, &why_not) != ERR_OK)
        return option_fail(from, STR("redis.url"), note, "%s", why_not.text);
    err why = ERR_OK;
    for (unsigned i = 0; i < o->config.lists_count && why == ERR_OK; i++)
        why = finish_list(o, i, note);
    return why;
}
