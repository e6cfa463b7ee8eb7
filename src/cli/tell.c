/* tell.c - what goes wrong, on stderr: a line for people, a document a line with --json. One place,
 * so that no verb forgets the one or the other, and no text of a server reaches a terminal as it
 * is. */
#include "cli/cli.h"
#include "cli/out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

static const char *const exit_names[CLI_EXITS] = {
    [CLI_OK] = "ok",           [CLI_FAILED] = "failed",       [CLI_USAGE] = "usage",
    [CLI_DAMAGED] = "damaged", [CLI_NO_SERVER] = "no_server", [CLI_NOT_FOUND] = "not_found",
    [CLI_REFUSED] = "refused",
};

enum cli_exit cli_exit_of(err why)
{
    switch (why) {
    case ERR_OK:
        return CLI_OK;
    case ERR_NOT_FOUND:
    case ERR_GONE:
        return CLI_NOT_FOUND;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
    case ERR_SHUTDOWN:
        return CLI_NO_SERVER;
    case ERR_CONFLICT:
    case ERR_PRECONDITION:
    case ERR_DENIED:
        return CLI_REFUSED;
    case ERR_BAD:
    case ERR_LIMIT:
    case ERR_AGAIN:
    case ERR_FULL:
    case ERR_CORRUPT: /* of an input: store_exit knows those of a store */
    case ERR_IO:
    case ERR_CODES:
        break;
    }
    return CLI_FAILED;
}

/* Names of files may be no UTF-8, which JSON cannot say: then what is beyond ASCII becomes '?'. */
static json_t *text_json(char *text)
{
    if (u8_check((const uint8_t *)text, strlen(text)) != NULL)
        for (char *p = text; *p != '\0'; p++)
            *p = (unsigned char)*p < 0x80 ? *p : '?';
    return json_string(text);
}

static void print_line(char *text)
{
    fputs("palimpsest: ", stderr);
    out_text(stderr, str_of(text));
    fputc('\n', stderr);
}

static char *format_text(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    INVARIANT(vasprintf(&text, format, args) >= 0);
    return text;
}

static enum cli_exit tell_fail(const struct cli_call *call, enum cli_exit code, long status,
                               char *text)
{
    if (call == NULL || !cli_flag(call, "json")) {
        print_line(text);
        return code;
    }
    json_t *doc = json_pack("{s:s, s:i, s:o}", "error", exit_names[code], "exit", (int)code,
                            "message", text_json(text));
    if (status > 0)
        (void)json_object_set_new(doc, "status", json_integer(status)); /* dies with its document */
    out_json(stderr, doc);
    json_decref(doc);
    return code;
}

enum cli_exit cli_fail(const struct cli_call *call, enum cli_exit code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    (void)tell_fail(call, code, 0, text); /* gives code back */
    free(text);
    return code;
}

enum cli_exit cli_fail_status(const struct cli_call *call, enum cli_exit code, long status,
                              const char *text)
{
    char *copy = strdup(text);
    INVARIANT(copy != NULL);
    (void)tell_fail(call, code, status, copy); /* as above */
    free(copy);
    return code;
}

void cli_warn(const struct cli_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    if (call == NULL || !cli_flag(call, "json")) {
        print_line(text);
    } else {
        json_t *doc = json_pack("{s:o}", "warning", text_json(text));
        out_json(stderr, doc);
        json_decref(doc);
    }
    free(text);
}
