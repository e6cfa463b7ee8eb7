/* complete.c - shell completion out of the table of verbs. Verbs of two words complete their second word. */
#include "cli/help.h"

#include <string.h>

static void each_row(FILE *to, const struct cli_option *rows, void (*each)(FILE *to, const struct cli_option *o))
{
    for (const struct cli_option *o = rows; o != NULL && o->name != NULL; o++)
        each(to, o);
}

static void option_word(FILE *to, const struct cli_option *o)
{
    fprintf(to, " --%s", o->name);
}

static bool first_word_seen(const struct cli_verb *until, str word)
{
    for (const struct cli_verb *v = cli_verbs; v != until; v++)
        if (str_eq(str_take(str_of(v->name), str_find(str_of(v->name), ' ')), word))
            return true;
    return false;
}

static void first_words(FILE *to)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        str word = str_take(str_of(v->name), str_find(str_of(v->name), ' '));
        if (!first_word_seen(v, word))
            fprintf(to, " %.*s", STR_ARG(word));
    }
    fputs(" help", to);
}

/* The words typed so far, as a case pattern of bash and zsh, and what may follow them. */
static void case_verb(FILE *to, const struct cli_verb *v)
{
    fprintf(to, "        \"%s \"*) words=\"", v->name);
    each_row(to, v->options, option_word);
    if (v->client)
        each_row(to, cli_client_options, option_word);
    fputs(" --help\" ;;\n", to);
}

static void case_second_words(FILE *to)
{
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        str name = str_of(v->name);
        str word = str_take(name, str_find(name, ' '));
        if (word.n == name.n || first_word_seen(v, word))
            continue;
        fprintf(to, "        \"%.*s \") words=\"", STR_ARG(word));
        for (const struct cli_verb *w = v; w->name != NULL; w++)
            if (str_starts(str_of(w->name), str_take(name, word.n + 1)))
                fprintf(to, " %s", w->name + word.n + 1);
        fputs("\" ;;\n", to);
    }
}

static void cases(FILE *to)
{
    fputs("    case \"$typed\" in\n        \" \") words=\"", to);
    first_words(to);
    fputs("\" ;;\n", to);
    case_second_words(to);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
        case_verb(to, v);
    fputs("    esac\n", to);
}

static void bash(FILE *to)
{
    fputs("# bash completion of palimpsest\n"
          "_palimpsest() {\n"
          "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" typed words=\"\"\n"
          "    typed=\"${COMP_WORDS[*]:1:COMP_CWORD-1} \"\n", to);
    cases(to);
    fputs("    COMPREPLY=( $(compgen -W \"$words\" -- \"$cur\") )\n"
          "    if [ \"${#COMPREPLY[@]}\" -eq 0 ]; then COMPREPLY=( $(compgen -f -- \"$cur\") ); fi\n"
          "}\n"
          "complete -o filenames -F _palimpsest palimpsest\n", to);
}

/* words is a parameter of zsh's own there: the ones to offer are called otherwise. */
static void zsh(FILE *to)
{
    fputs("#compdef palimpsest\n"
          "_palimpsest_words() {\n"
          "    local typed=\"$1\" words=\"\"\n", to);
    cases(to);
    fputs("    print -r -- ${=words}\n"
          "}\n"
          "_palimpsest() {\n"
          "    local typed=\"${words[2,CURRENT-1]} \" offered\n"
          "    offered=\"$(_palimpsest_words \"$typed\")\"\n"
          "    [[ \"$PREFIX\" == -* || \"$offered\" != *--* ]] && compadd -- ${=offered}\n"
          "    [[ \"$PREFIX\" == -* || \"$offered\" != *--* ]] || _files\n"
          "}\n"
          "_palimpsest \"$@\"\n", to);
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

static void fish_options(FILE *to, const struct cli_verb *v, const struct cli_option *rows)
{
    for (const struct cli_option *o = rows; o != NULL && o->name != NULL; o++) {
        fprintf(to, "complete -c palimpsest -n '__palimpsest_is %s' -l %s", v->name, o->name);
        if (o->letter != 0)
            fprintf(to, " -s %c", o->letter);
        fputs(o->value != NULL ? " -r -d " : " -d ", to);
        fish_text(to, o->prose);
        fputc('\n', to);
    }
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
          "end\n", to);
    for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++) {
        str name = str_of(v->name);
        str word = str_take(name, str_find(name, ' '));
        if (!first_word_seen(v, word)) {
            fprintf(to, "complete -c palimpsest -n __fish_use_subcommand -a %.*s -d ", STR_ARG(word));
            fish_text(to, v->summary);
            fputc('\n', to);
        }
        if (word.n < name.n)
            fprintf(to, "complete -c palimpsest -n '__palimpsest_is %.*s; and test (count (commandline -opc)) -eq 2'"
                    " -f -a %s\n", STR_ARG(word), v->name + word.n + 1);
        fish_options(to, v, v->options);
        fish_options(to, v, v->client ? cli_client_options : NULL);
    }
}

bool help_completion(FILE *to, str shell)
{
    static const struct { const char *name; void (*print)(FILE *to); } shells[] = {
        { "bash", bash }, { "zsh", zsh }, { "fish", fish },
    };
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (str_eq(shell, str_of(shells[i].name))) {
            shells[i].print(to);
            return true;
        }
    return false;
}
