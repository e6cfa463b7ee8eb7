/* args.c - turns a command line into a call: the verb, its options, its operands. Invariant: a
 * word that is no valid text is refused, and never repaired into another name. */
#include "cli/args.h"

#include "base/utf8.h"

#include <string.h>

enum { WORD_SHOWN_BYTES = 60 };

const struct cli_option cli_client_options[] = {
    { "server", 0, "URL",
      "Server to talk to: URL or unix:/PATH [$PALIMPSEST_SERVER or http://127.0.0.1:7231]" },
    { "token", 0, "TOKEN", "Bearer token sent with each request [$PALIMPSEST_TOKEN]" },
    { "domain", 0, "NAME", "Domain of the titles [localhost]" },
    { "bucket", 0, "NAME", "Bucket of the titles [page]" },
    { "json", 0, NULL, "Print JSON for machines" },
    { NULL, 0, NULL, NULL },
};

const struct cli_option args_help_option = { "help", 'h', NULL, "Print this help" };

static bool words_match(str name, int argc, char **argv, int *words)
{
    int at = 0;
    for (str rest = name; rest.n > 0; at++) {
        str word = str_split(&rest, ' ');
        if (at >= argc || !str_eq(word, str_of(argv[at])))
            return false;
    }
    *words = at;
    return true;
}

const struct cli_verb *args_verb(const struct cli_verb *verbs, int argc, char **argv, int *words)
{
    const struct cli_verb *best = NULL;
    int best_words = 0;
    for (const struct cli_verb *v = verbs; v->name != NULL; v++) {
        int n;
        if (words_match(str_of(v->name), argc, argv, &n) && n > best_words) {
            best = v;
            best_words = n;
        }
    }
    *words = best_words;
    return best;
}

static const struct cli_option *find_in(const struct cli_option *options, str name, char letter)
{
    for (const struct cli_option *o = options; o != NULL && o->name != NULL; o++) {
        bool hit = letter != 0 ? o->letter == letter : str_eq(name, str_of(o->name));
        if (hit)
            return o;
    }
    return NULL;
}

const struct cli_option *args_json_option(void)
{
    return find_in(cli_client_options, STR("json"), '\0');
}

/* Words that an option of all client verbs takes at argv[0], its value with it; 0: it is none, or
 * its value is missing. */
static int global_words(int argc, char **argv)
{
    str name = str_of(argv[0]);
    if (!str_starts(name, STR("--")))
        return 0;
    name = str_skip(name, 2);
    const struct cli_option *o =
        find_in(cli_client_options, str_take(name, str_find(name, '=')), '\0');
    int words = o == NULL ? 0 : o->value == NULL || str_find(name, '=') < name.n ? 1 : 2;
    return words <= argc ? words : 0;
}

/* argv[from] comes to stand at `at`, what was in between behind it. */
static void move_word(char **argv, int from, int at)
{
    char *word = argv[from];
    memmove(argv + at + 1, argv + at, (size_t)(from - at) * sizeof *argv);
    argv[at] = word;
}

/* Does a verb begin with these words? */
static bool is_head(const struct cli_verb *verbs, char **argv, int count)
{
    for (const struct cli_verb *v = verbs; v->name != NULL; v++) {
        str rest = str_of(v->name);
        int at = 0;
        while (at < count && rest.n > 0 && str_eq(str_split(&rest, ' '), str_of(argv[at])))
            at++;
        if (at == count)
            return true;
    }
    return false;
}

int args_verb_first(const struct cli_verb *verbs, int argc, char **argv)
{
    int at = 0, n;
    while (at < argc && (n = global_words(argc - at, argv + at)) > 0)
        at += n;
    if (at == argc)
        return 0;
    int moved = at;
    move_word(argv, at, 0);
    at++;
    for (int words = 1;; words++, at++) {
        while (at < argc && (n = global_words(argc - at, argv + at)) > 0)
            at += n;
        if (at == argc)
            return moved;
        move_word(argv, at, words);
        if (!is_head(verbs, argv, words + 1)) {
            char *word = argv[words];
            memmove(argv + words, argv + words + 1, (size_t)(at - words) * sizeof *argv);
            argv[at] = word;
            return moved;
        }
    }
}

static const struct cli_option *find_option(const struct cli_verb *verb, str name, char letter)
{
    const struct cli_option *o = find_in(verb->options, name, letter);
    if (o == NULL && verb->client)
        o = find_in(cli_client_options, name, letter);
    if (o == NULL && (letter == 'h' || str_eq(name, STR("help"))))
        o = &args_help_option;
    return o;
}

/* Takes the option at argv[*at], its value too, and moves *at to the last word taken. */
static err take_option(struct cli_call *c, int argc, char **argv, int *at, struct err_note *note)
{
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    str rest = str_of(word + (is_long ? 2 : 1));
    str name = is_long ? str_take(rest, str_find(rest, '=')) : str_take(rest, 1);
    const char *value = name.n < rest.n ? rest.p + name.n + (is_long ? 1 : 0) : NULL;
    const struct cli_option *o = find_option(c->verb, name, is_long ? '\0' : word[1]);
    if (o == NULL)
        return err_bad(note, "unknown option %s%.*s (a word that is no option goes behind --)",
                       is_long ? "--" : "-", STR_ARG(name));
    if (o->value == NULL && value != NULL)
        return err_bad(note, "--%s takes no value", o->name);
    if (o->value != NULL && value == NULL) {
        if (*at + 1 >= argc)
            return err_bad(note, "--%s wants a value: --%s %s", o->name, o->name, o->value);
        value = argv[++*at];
    }
    if (o == &args_help_option) {
        c->help = true;
        return ERR_OK;
    }
    if (c->given_count == CLI_GIVEN_MAX)
        return err_bad(note, "more than %d options", CLI_GIVEN_MAX);
    c->given[c->given_count++] =
        (struct cli_given){ .option = o, .value = value != NULL ? value : "" };
    return ERR_OK;
}

static err check_operands(const struct cli_call *c, struct err_note *note)
{
    const struct cli_verb *v = c->verb;
    if (c->help || (c->operands_count >= v->operands_min && c->operands_count <= v->operands_max))
        return ERR_OK;
    return err_bad(note, "%s: palimpsest %s%s%s",
                   c->operands_count < v->operands_min ? "something is missing" : "too many words",
                   v->name, v->usage[0] != '\0' ? " " : "", v->usage);
}

/* ---- text ---- */

/* Files, and what git calls its own, may have any name; all else becomes text, of a request or of
 * an answer. */
static bool is_text(const struct cli_option *o)
{
    static const char *const others[] = { "FILE", "DIR", "REF", "PATTERN" };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (o->value != NULL && strcmp(o->value, others[i]) == 0)
            return false;
    return true;
}

static void refuse_operand(str word, struct err_note *note)
{
    char shown[WORD_SHOWN_BYTES + 1];
    size_t n = word.n < WORD_SHOWN_BYTES ? word.n : WORD_SHOWN_BYTES;
    for (size_t i = 0; i < n; i++)
        shown[i] = word.p[i] >= ' ' && word.p[i] < 0x7f ? word.p[i] : '?';
    err_note_set(note, "\"%.*s\" is not UTF-8", (int)n, shown);
}

/* A name made valid would be the name of something else; an empty one, as of a variable that is not
 * set, names nothing. Where no word is wanted at all, an empty one says as much. */
static err check_text(const struct cli_call *c, struct err_note *note)
{
    for (unsigned i = 0; i < c->given_count; i++) {
        const struct cli_given *g = &c->given[i];
        if (is_text(g->option) && !utf8_valid(str_of(g->value)))
            return err_bad(note, "--%s is not UTF-8", g->option->name);
    }
    unsigned count = c->verb->files_from > 0 ? c->verb->files_from - 1 : c->operands_count;
    for (unsigned i = 0; i < count && i < c->operands_count; i++) {
        if (c->operands[i][0] == '\0' && c->verb->operands_min > 0)
            return err_bad(note, "word %u is empty: palimpsest %s %s", i + 1, c->verb->name,
                           c->verb->usage);
        if (!utf8_valid(str_of(c->operands[i]))) {
            refuse_operand(str_of(c->operands[i]), note);
            return ERR_BAD;
        }
    }
    return ERR_OK;
}

/* -1 is a number that its verb refuses, unless the verb has an option of that letter. */
static bool is_number(const struct cli_verb *verb, const char *word)
{
    return strspn(word + 1, "0123456789") == strlen(word + 1) &&
           find_option(verb, STR_NONE, word[1]) == NULL;
}

err args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_call *out,
               struct err_note *note)
{
    struct cli_call c = { .verb = verb };
    bool options_over = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!options_over && strcmp(word, "--") == 0) {
            options_over = true;
            continue;
        }
        if (!options_over && word[0] == '-' && word[1] != '\0' && !is_number(verb, word)) {
            err e = take_option(&c, argc, argv, &i, note);
            if (e != ERR_OK)
                return e;
            continue;
        }
        if (c.operands_count == CLI_OPERANDS_MAX)
            return err_bad(note, "more than %d operands", CLI_OPERANDS_MAX);
        c.operands[c.operands_count++] = word;
    }
    err e = check_operands(&c, note);
    if (e == ERR_OK)
        e = check_text(&c, note);
    if (e != ERR_OK)
        return e;
    *out = c;
    return ERR_OK;
}

const char *cli_value(const struct cli_call *call, const char *name)
{
    for (unsigned i = call->given_count; i > 0; i--)
        if (strcmp(call->given[i - 1].option->name, name) == 0)
            return call->given[i - 1].value;
    return NULL;
}

bool cli_flag(const struct cli_call *call, const char *name)
{
    return cli_value(call, name) != NULL;
}
