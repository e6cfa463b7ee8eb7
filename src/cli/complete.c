/* complete.c - shell completion out of the table of verbs: verbs, word by word, options, and the
 * values of options where there are few. Behind help and man come verbs. */
#include "cli/help.h"

#include "server/options.h"

#include <stdlib.h>
#include <string.h>

/* Values that an option may have; of all others with a value the kind is known by its name. */
static const struct {
    const char *option, *words;
} option_values[] = {
    { "role", "read write purge admin Admin" },     { "durability", "sync interval none" },
    { "content", "html data-parsoid lint source" }, { "domain", "localhost" },
    { "server", "http://127.0.0.1:7231" },
};

enum value_kind { VALUE_NONE, VALUE_WORDS, VALUE_FILE, VALUE_OPTION, VALUE_OTHER };

/* NULL: it may have any value. */
static const char *value_words(const struct cli_option *o)
{
    for (size_t i = 0; i < COUNT_OF(option_values); i++)
        if (strcmp(o->name, option_values[i].option) == 0)
            return option_values[i].words;
    return NULL;
}

static enum value_kind value_kind(const struct cli_option *o)
{
    static const char *const files[] = { "FILE", "DIR" };
    if (o->value == NULL)
        return VALUE_NONE;
    if (value_words(o) != NULL)
        return VALUE_WORDS;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (strcmp(o->value, files[i]) == 0)
            return VALUE_FILE;
    return strcmp(o->name, "set") == 0 ? VALUE_OPTION : VALUE_OTHER;
}

/* "a= b= " for what --set takes. */
static void option_names(FILE *to)
{
    struct buf names;
    buf_init(&names, 1u << 20);
    options_describe(OPTIONS_NAMES, &names);
    for (str rest = buf_str(&names); rest.n > 0;) {
        str name = str_split(&rest, '\n');
        fprintf(to, " %.*s=", STR_ARG(name));
    }
    buf_fini(&names);
}

/* Lower-case words of a usage such as "bash|zsh|fish"; n 0: it names no such words. */
static str choice_of(const struct cli_verb *v)
{
    str usage = str_of(v->usage);
    bool lower = str_find(usage, '|') < usage.n;
    for (size_t i = 0; i < usage.n; i++)
        lower = lower && ((usage.p[i] >= 'a' && usage.p[i] <= 'z') || usage.p[i] == '|');
    return lower ? usage : STR("");
}

static void choice_words(FILE *to, const struct cli_verb *v)
{
    for (str rest = choice_of(v); rest.n > 0;) {
        str word = str_split(&rest, '|');
        fprintf(to, " %.*s", STR_ARG(word));
    }
}

static void each_row(FILE *to, const struct cli_option *rows,
                     void (*each)(FILE *to, const struct cli_option *o))
{
    for (const struct cli_option *o = rows; o != NULL && o->name != NULL; o++)
        each(to, o);
}

static void option_word(FILE *to, const struct cli_option *o)
{
    fprintf(to, " --%s", o->name);
}

/* The word of a verb behind head, which ends with a blank or is empty; empty: it has none there. */
static str word_behind(const struct cli_verb *v, str head)
{
    str rest = str_skip(str_of(v->name), head.n);
    return str_starts(str_of(v->name), head) ? str_take(rest, str_find(rest, ' ')) : STR("");
}

static bool word_seen(const struct cli_verb *until, str head, str word)
{
    for (const struct cli_verb *v = cli_verbs; v != until; v++)
        if (str_eq(word_behind(v, head), word))
            return true;
    return false;
}

/* All words behind head, each once. */
static void words_behind(FILE *to, str head)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        str word = word_behind(v, head);
        if (word.n > 0 && !word_seen(v, head, word))
            fprintf(to, " %.*s", STR_ARG(word));
    }
}

static void first_words(FILE *to)
{
    words_behind(to, STR(""));
    fputs(" help", to);
}

/* Calls each for every head that a verb of more words has, "change " and "change rules ", once. */
static void each_head(FILE *to, const struct cli_verb *v, void (*each)(FILE *to, str head))
{
    str name = str_of(v->name);
    for (size_t n = 1; n <= name.n; n++) {
        str head = str_take(name, n);
        bool seen = false;
        for (const struct cli_verb *w = cli_verbs; w != v && !seen; w++)
            seen = str_starts(str_of(w->name), head);
        if (name.p[n - 1] == ' ' && !seen)
            each(to, head);
    }
}

/* The words typed so far, as a case pattern of bash and zsh, and what may follow them. */
static void case_verb(FILE *to, const struct cli_verb *v)
{
    fprintf(to, "        \"%s \"*) words=\"", v->name);
    choice_words(to, v);
    each_row(to, v->options, option_word);
    if (v->client)
        each_row(to, cli_client_options, option_word);
    fputs(" --help\" ;;\n", to);
}

static void case_head(FILE *to, str head)
{
    fprintf(to, "        \"%.*s\") words=\"", STR_ARG(head));
    words_behind(to, head);
    fputs("\" ;;\n", to);
}

static void case_heads(FILE *to)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        each_head(to, v, case_head);
}

/* Was an option of this name in the table before, with a value or not? */
static bool option_seen(const struct cli_verb *until, const struct cli_option *row)
{
    for (const struct cli_verb *v = cli_verbs; v != until; v++)
        for (const struct cli_option *o = v->options; o != NULL && o->name != NULL; o++)
            if (strcmp(o->name, row->name) == 0)
                return true;
    return false;
}

static void case_value(FILE *to, const struct cli_option *o)
{
    enum value_kind kind = value_kind(o);
    if (kind == VALUE_NONE)
        return;
    fprintf(to, "        --%s) words=\"", o->name);
    if (kind == VALUE_WORDS)
        fputs(value_words(o), to);
    else if (kind == VALUE_OPTION)
        option_names(to);
    else
        fputs(kind == VALUE_FILE ? "@files" : "@nothing", to);
    fputs("\" ;;\n", to);
}

static void case_values(FILE *to)
{
    fputs("    case \"$prev\" in\n", to);
    each_row(to, cli_client_options, case_value);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        for (const struct cli_option *o = v->options; o != NULL && o->name != NULL; o++)
            if (!option_seen(v, o))
                case_value(to, o);
    fputs("    esac\n    [ -z \"$words\" ] || { echo \"$words\"; return; }\n", to);
}

/* What may follow, for bash and zsh alike: words, "@files" or "@nothing". $1: what was typed
 * before, each word with a blank behind it; $2: the last of these. */
static void words_function(FILE *to)
{
    fputs("_palimpsest_words() {\n"
          "    local typed=\"$1\" prev=\"$2\" words=\"\"\n",
          to);
    case_values(to);
    fputs("    case \"$typed\" in\n"
          "        \"help \"*) typed=\"${typed#help }\" ;;\n"
          "        \"man \"[!-]*|\"man \") typed=\"${typed#man }\" ;;\n"
          "    esac\n"
          "    [ -n \"$typed\" ] || typed=\" \"\n"
          "    case \"$typed\" in\n        \" \") words=\"",
          to);
    first_words(to);
    fputs("\" ;;\n", to);
    case_heads(to);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        case_verb(to, v);
    fputs("    esac\n"
          "    echo \"${words# }\"\n"
          "}\n",
          to);
}

/* COMP_WORDBREAKS parts --role=read at its =. */
static void bash(FILE *to)
{
    fputs("# bash completion of palimpsest\n", to);
    words_function(to);
    fputs(
        "_palimpsest() {\n"
        "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" words\n"
        "    [ \"$cur\" != \"=\" ] || cur=\"\"\n"
        "    [ \"$prev\" != \"=\" ] || prev=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
        "    words=\"$(_palimpsest_words \"${COMP_WORDS[*]:1:COMP_CWORD-1} \" \"$prev\")\"\n"
        "    COMPREPLY=()\n"
        "    [ \"$words\" != \"@nothing\" ] || return\n"
        "    [ \"$words\" = \"@files\" ] || COMPREPLY=( $(compgen -W \"$words\" -- \"$cur\") )\n"
        "    if [ \"${#COMPREPLY[@]}\" -eq 0 ]; then COMPREPLY=( $(compgen -f -- \"$cur\") ); fi\n"
        "    if [[ \"${COMPREPLY[0]}\" == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
        "}\n"
        "complete -o filenames -F _palimpsest palimpsest\n",
        to);
}

/* words is a parameter of zsh's own there: the ones to offer are called otherwise. */
static void zsh(FILE *to)
{
    fputs("#compdef palimpsest\n", to);
    words_function(to);
    fputs("_palimpsest() {\n"
          "    setopt localoptions shwordsplit\n"
          "    local typed=\"${words[2,CURRENT-1]} \" prev=\"${words[CURRENT-1]}\" offered\n"
          "    if [[ \"$PREFIX\" == --*=* ]]; then prev=\"${PREFIX%%=*}\"; compset -P '*='; fi\n"
          "    offered=\"$(_palimpsest_words \"$typed\" \"$prev\")\"\n"
          "    [[ \"$offered\" != @nothing ]] || return 1\n"
          "    if [[ \"$offered\" == @files ]]; then _files; return; fi\n"
          "    if [[ \"$offered\" == *= ]]; then compadd -S '' -- ${=offered}; return; fi\n"
          "    [[ \"$PREFIX\" == -* || \"$offered\" != *--* ]] && compadd -- ${=offered}\n"
          "    [[ \"$PREFIX\" == -* || \"$offered\" != *--* ]] || _files\n"
          "}\n"
          "_palimpsest \"$@\"\n",
          to);
}

/* Single quotes of fish: only backslash and the quote itself are special. */
static void fish_text(FILE *to, const char *text)
{
    fputc('\'', to);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'' || *p == '\\')
            fputc('\\', to);
        fputc(*p, to);
    }
    fputc('\'', to);
}

static void fish_value(FILE *to, const struct cli_option *o)
{
    switch (value_kind(o)) {
    case VALUE_NONE:
        return;
    case VALUE_FILE:
        fputs(" -r -F", to);
        return;
    case VALUE_WORDS:
        fprintf(to, " -x -a '%s'", value_words(o));
        return;
    case VALUE_OPTION:
        fputs(" -x -a '", to);
        option_names(to);
        fputc('\'', to);
        return;
    case VALUE_OTHER:
        fputs(" -x", to);
        return;
    }
}

static void fish_options(FILE *to, const struct cli_verb *v, const struct cli_option *rows)
{
    for (const struct cli_option *o = rows; o != NULL && o->name != NULL; o++) {
        fprintf(to, "complete -c palimpsest -n '__palimpsest_is %s' -l %s", v->name, o->name);
        if (o->letter != 0)
            fprintf(to, " -s %c", o->letter);
        fish_value(to, o);
        fputs(" -d ", to);
        fish_text(to, o->prose);
        fputc('\n', to);
    }
}

/* The words that may come behind `before`, as `palimpsest before` and `palimpsest help before` have
 * them. */
static void fish_words(FILE *to, const char *before, unsigned count)
{
    fprintf(to,
            "complete -c palimpsest -n '__palimpsest_is %s; and test (count (commandline -opc)) "
            "-eq %u' -f -a '",
            before, count);
}

static void fish_head(FILE *to, str head)
{
    static const char *const before[] = { "", "help ", "man " };
    unsigned count = 1;
    for (size_t i = 0; i < head.n; i++)
        count += head.p[i] == ' ';
    for (unsigned i = 0; i < COUNT_OF(before); i++) {
        char words[64];
        (void)snprintf(words, sizeof words, "%s%.*s", before[i], (int)head.n - 1,
                       head.p); /* verbs are short */
        fish_words(to, words, i == 0 ? count : count + 1);
        words_behind(to, head);
        fputs("'\n", to);
    }
}

static void fish_verb(FILE *to, const struct cli_verb *v)
{
    str word = word_behind(v, STR(""));
    if (!word_seen(v, STR(""), word)) {
        fprintf(to, "complete -c palimpsest -n __fish_use_subcommand -a %.*s -d ", STR_ARG(word));
        fish_text(to, v->summary);
        fputc('\n', to);
    }
    each_head(to, v, fish_head);
    if (choice_of(v).n > 0) {
        fish_words(to, v->name, 2);
        choice_words(to, v);
        fputs("'\n", to);
    }
    fish_options(to, v, v->options);
    fish_options(to, v, v->client ? cli_client_options : NULL);
}

static void fish(FILE *to)
{
    fputs("# fish completion of palimpsest\n"
          "function __palimpsest_is\n"
          "    set -l typed (commandline -opc)[2..-1]\n"
          "    set -l n (count $argv)\n"
          "    test (count $typed) -ge $n; or return 1\n"
          "    set -l head $typed[1..$n]\n"
          "    test \"$head\" = \"$argv\"\n"
          "end\n",
          to);
    fish_words(to, "help", 2);
    first_words(to);
    fputs("'\n", to);
    fish_words(to, "man", 2);
    first_words(to);
    fputs("'\n", to);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        fish_verb(to, v);
}

bool help_completion(FILE *to, str shell)
{
    static const struct {
        const char *name;
        void (*print)(FILE *to);
    } shells[] = {
        { "bash", bash },
        { "zsh", zsh },
        { "fish", fish },
    };
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (str_eq(shell, str_of(shells[i].name))) {
            shells[i].print(to);
            return true;
        }
    return false;
}
