/* help.c - the table of verbs as help text and man pages. */
#include "cli/help.h"
#include "cli/args.h"

#include <string.h>

enum { HELP_COLUMNS = 79, HELP_OPTION_INDENT = 32, HELP_LINE_BYTES = 2048 };

static const struct cli_option no_options = { NULL, 0, NULL, NULL };

/* The options of a verb, its own first; calls each. */
static void each_option(const struct cli_verb *v,
                        void (*each)(FILE *to, const struct cli_option *o), FILE *to)
{
    for (const struct cli_option *o = v->options != NULL ? v->options : &no_options;
         o->name != NULL; o++)
        each(to, o);
    for (const struct cli_option *o = v->client ? cli_client_options : &no_options; o->name != NULL;
         o++)
        each(to, o);
    each(to, &args_help_option);
}

/* Is it a verb of this group ("import" of "import git")? Every verb is of the group "". */
static bool in_group(const struct cli_verb *v, const char *group)
{
    size_t n = strlen(group);
    return n == 0 || (strncmp(v->name, group, n) == 0 && v->name[n] == ' ');
}

static size_t widest_name(const char *group)
{
    size_t widest = 0;
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        if (in_group(v, group) && strlen(v->name) > widest)
            widest = strlen(v->name);
    return widest;
}

static void list_verbs(FILE *to, const char *group)
{
    int widest = (int)widest_name(group);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        if (in_group(v, group))
            fprintf(to, "  %-*s  %s\n", widest, v->name, v->summary);
    fputs("\npalimpsest help VERB tells more.\n", to);
}

static const char *const exits[CLI_EXITS] = {
    [CLI_OK] = "fine",
    [CLI_FAILED] = "failed while running",
    [CLI_USAGE] = "usage or configuration",
    [CLI_DAMAGED] = "the store is damaged or of another version",
    [CLI_NO_SERVER] = "no server answers, or another program does",
    [CLI_NOT_FOUND] = "not stored, or not any more",
    [CLI_REFUSED] = "refused by the server, or would overwrite",
};

void help_overview(FILE *to)
{
    fputs("Usage: palimpsest VERB [OPTION]... [OPERAND]...\n"
          "       (--server, --token, --domain, --bucket and --json also before VERB)\n\n",
          to);
    list_verbs(to, "");
    fputs("\nExit status (with --json errors are documents on standard error):\n", to);
    for (size_t i = 0; i < COUNT_OF(exits); i++)
        fprintf(to, "  %zu  %s\n", i, exits[i]);
}

bool help_is_group(const char *word)
{
    return word[0] != '\0' && widest_name(word) > 0;
}

void help_group(FILE *to, const char *group)
{
    fprintf(to, "Usage: palimpsest %s VERB [OPTION]... [OPERAND]...\n\n", group);
    list_verbs(to, group);
}

/* Paragraphs, broken between words; `at` is the column where the first one begins, indent that of
 * further lines. */
static void help_fill(FILE *to, const char *text, size_t at, size_t indent)
{
    size_t column = at;
    while (*text != '\0') {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " \n");
        bool breaks = column > indent && column + blanks + word > HELP_COLUMNS;
        if (breaks)
            fprintf(to, "\n%*s", (int)indent, "");
        fprintf(to, "%.*s", (int)(breaks ? word : blanks + word), text + (breaks ? blanks : 0));
        column = (breaks ? indent : column + blanks) + word;
        text += blanks + word;
        for (; *text == '\n'; text++, column = 0)
            fputc('\n', to);
    }
    fputc('\n', to);
}

void help_lines(FILE *to, str text)
{
    while (text.n > 0) {
        char line[HELP_LINE_BYTES];
        str one = str_split(&text, '\n');
        size_t indent = 0;
        while (indent < one.n && one.p[indent] == ' ')
            indent++;
        if (str_to_cstr(one, line, sizeof line))
            help_fill(to, line, 0, indent);
        else
            fprintf(to, "%.*s\n", STR_ARG(one));
    }
}

static void help_option_line(FILE *to, const struct cli_option *o)
{
    char left[64];
    char letter[8] = "    ";
    if (o->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value != NULL ? " " : "",
             o->value != NULL ? o->value : "");
    int n = fprintf(to, "  %-28s  ", left);
    help_fill(to, o->prose, n > 0 ? (size_t)n : 0, HELP_OPTION_INDENT);
}

void cli_print_help(const struct cli_verb *v)
{
    printf("Usage: palimpsest %s [OPTION]...%s%s\n\n", v->name, v->usage[0] != '\0' ? " " : "",
           v->usage);
    help_fill(stdout, v->prose, 0, 0);
    fputs("\nOptions:\n", stdout);
    each_option(v, help_option_line, stdout);
}

/* ---- man pages ---- */

/* Text as roff: no line of it is a request, no backslash an escape, no dash a hyphen. */
static void man_text(FILE *to, const char *text)
{
    bool line_start = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (p[0] == '\n' && p[1] == '\n') {
            fputs("\n.PP\n", to);
            p++;
            line_start = true;
            continue;
        }
        if (line_start && (*p == '.' || *p == '\''))
            fputs("\\&", to);
        if (*p == '\\')
            fputs("\\e", to);
        else if (*p == '-')
            fputs("\\-", to);
        else
            fputc(*p, to);
        line_start = *p == '\n';
    }
}

static void man_option(FILE *to, const struct cli_option *o)
{
    fputs(".TP\n", to);
    if (o->letter != 0)
        fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB", to);
    man_text(to, "--");
    man_text(to, o->name);
    fputs("\\fR", to);
    if (o->value != NULL)
        fprintf(to, " \\fI%s\\fR", o->value);
    fputc('\n', to);
    man_text(to, o->prose);
    fputs(".\n", to);
}

/* "import git" is palimpsest-import-git(1). */
static void man_name(FILE *to, const char *name, bool roff)
{
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == ' ' || *p == '-')
            fputs(roff ? "\\-" : "-", to);
        else
            fputc(*p, to);
    }
}

void help_man_verb(FILE *to, const struct cli_verb *v)
{
    fputs(".TH PALIMPSEST 1\n.SH NAME\npalimpsest\\-", to);
    man_name(to, v->name, true);
    fputs(" \\- ", to);
    man_text(to, v->summary);
    fprintf(to, "\n.SH SYNOPSIS\n\\fBpalimpsest %s\\fR [\\fIOPTION\\fR]... ", v->name);
    man_text(to, v->usage);
    fputs("\n.SH DESCRIPTION\n", to);
    man_text(to, v->prose);
    fputs("\n.SH OPTIONS\n", to);
    each_option(v, man_option, to);
    if (v->man_more != NULL)
        v->man_more(to);
    fputs(".SH SEE ALSO\n\\fBpalimpsest\\fR(1)\n", to);
}

void help_man_overview(FILE *to)
{
    fputs(".TH PALIMPSEST 1\n.SH NAME\npalimpsest \\- a revisioned render store\n"
          ".SH SYNOPSIS\n\\fBpalimpsest\\fR \\fIVERB\\fR [\\fIOPTION\\fR]... [\\fIOPERAND\\fR]...\n"
          ".SH DESCRIPTION\n"
          "Keeps the newest render of every page at hand, and what it replaced for as long as "
          "somebody may\n"
          "still need it. One binary is server and client.\n.SH VERBS\n",
          to);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        fprintf(to, ".TP\n\\fB%s\\fR ", v->name);
        man_text(to, v->usage);
        fputc('\n', to);
        man_text(to, v->summary);
        fputs(" (see \\fBpalimpsest\\-", to);
        man_name(to, v->name, true);
        fputs("\\fR(1))\n", to);
    }
    fputs(".SH EXIT STATUS\n", to);
    for (size_t i = 0; i < COUNT_OF(exits); i++)
        fprintf(to, ".TP\n%zu\n%s\n", i, exits[i]);
    fputs(
        ".PP\nWith \\-\\-json each failure is one document on standard error, with error, exit,\n"
        "message and, where the server answered, status.\n.SH ENVIRONMENT\n"
        "\\fBPALIMPSEST_SERVER\\fR, \\fBPALIMPSEST_TOKEN\\fR: as the options of the client verbs.\n"
        "\\fBNO_COLOR\\fR: no colours, also on a terminal.\n",
        to);
}
