/* options_describe.c - the table as text, for --help, the manual and the man page. */
#include "server/options.h"
#include "server/options_table.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

static void limits_of(const struct option *r, struct buf *out)
{
    char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
    switch (r->type) {
    case OPTION_CHOICE:
        for (unsigned i = 0; r->choices[i] != NULL; i++)
            buf_printf(out, "%s%s", i > 0 ? ", " : "", r->choices[i]);
        return;
    case OPTION_COUNT:
        buf_printf(out, "%llu to %llu", (unsigned long long)r->min, (unsigned long long)r->max);
        return;
    case OPTION_MODE:
        buf_printf(out, "%04llo to %04llo", (unsigned long long)r->min, (unsigned long long)r->max);
        return;
    case OPTION_SIZE:
        units_format_size(r->min, least);
        units_format_size(r->max, most);
        buf_printf(out, "%s to %s", least, most);
        return;
    case OPTION_MS:
    case OPTION_NS:
        units_format_duration((int64_t)r->min, least);
        units_format_duration((int64_t)r->max, most);
        buf_printf(out, "%s to %s", least, most);
        return;
    case OPTION_FLAG:
        buf_put(out, STR("true, false"));
        return;
    case OPTION_TEXT:
        buf_put(out, STR("text"));
        return;
    case OPTION_NAMES:
    case OPTION_DOMAINS:
        buf_put(out, STR("names"));
        return;
    case OPTION_LISTENS:
        buf_put(out, STR("addresses"));
        return;
    case OPTION_LISTEN_ADMIN:
        buf_put(out, STR("address"));
        return;
    case OPTION_RULES:
        buf_put(out, STR("rules"));
        return;
    case OPTION_HOOKS:
        buf_put(out, STR("nothing or an instant"));
        return;
    case OPTION_GONE:
        buf_put(out, STR("anything"));
        return;
    }
}

static const char *reload_of(const struct option *r)
{
    return r->reload == OPTION_ON_RELOAD ? "; taken over on SIGHUP" : "";
}

static void describe_text(const char *section, const struct option *r, struct buf *out)
{
    buf_printf(out, "  %s%s", section, r->name);
    if (r->flag != NULL)
        buf_printf(out, " (--%s)", r->flag);
    if (r->initial[0] != '\0')
        buf_printf(out, " [%s]", r->initial);
    buf_printf(out, "\n      %s; ", r->prose);
    limits_of(r, out);
    buf_printf(out, "%s.\n", reload_of(r));
}

static void describe_markdown(const char *section, const struct option *r, struct buf *out)
{
    buf_printf(out, "| `%s%s`%s%s%s | ", section, r->name, r->flag != NULL ? ", `--" : "",
               r->flag != NULL ? r->flag : "", r->flag != NULL ? "`" : "");
    limits_of(r, out);
    buf_printf(out, " | %s%s%s | %s | %s. |\n", r->initial[0] != '\0' ? "`" : "", r->initial,
               r->initial[0] != '\0' ? "`" : "", r->reload == OPTION_ON_RELOAD ? "yes" : "",
               r->prose);
}

static void describe_roff(const char *section, const struct option *r, struct buf *out)
{
    buf_printf(out, ".TP\n.B %s%s\n", section, r->name);
    if (r->flag != NULL)
        buf_printf(out, "Also\n.BR \\-\\-%s .\n", r->flag);
    buf_printf(out, "%s; ", r->prose);
    limits_of(r, out);
    buf_printf(out, "%s%s%s.\n", r->initial[0] != '\0' ? "; default " : "", r->initial,
               reload_of(r));
}

static void describe_name(const char *section, const struct option *r, struct buf *out)
{
    if (str_find_str(str_of(section), STR("NAME")) == strlen(section) && r->type != OPTION_RULES)
        buf_printf(out, "%s%s\n", section, r->name);
}

void options_describe(enum options_form form, struct buf *out)
{
    static void (*const describe[])(const char *, const struct option *,
                                    struct buf *) = { [OPTIONS_TEXT] = describe_text,
                                                      [OPTIONS_MARKDOWN] = describe_markdown,
                                                      [OPTIONS_ROFF] = describe_roff,
                                                      [OPTIONS_NAMES] = describe_name };
    if (form == OPTIONS_MARKDOWN)
        buf_put(out, STR("| option | values | default | SIGHUP | what it does |\n"
                         "| --- | --- | --- | --- | --- |\n"));
    for (const struct option *r = option_rows; r->name != NULL; r++)
        describe[form]("", r, out);
    for (const struct option *r = option_bucket_rows; r->name != NULL; r++)
        describe[form]("page.", r, out);
    for (const struct option *r = option_value_rows; r->name != NULL; r++)
        describe[form]("buckets.NAME.", r, out);
    for (const struct option *r = option_origin_rows; r->name != NULL; r++)
        describe[form]("domains.NAME.origin.", r, out);
    for (const struct option *r = option_list_rows; r->name != NULL; r++)
        describe[form]("lists.NAME.", r, out);
    for (const struct option *r = option_listener_rows; r->name != NULL; r++)
        describe[form]("listeners.NAME.", r, out);
}
