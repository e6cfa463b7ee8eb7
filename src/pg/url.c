/* url.c - what a URL says, as libpq reads it, and whether it can be used.
 *
 * Invariant: no note quotes anything of it, nor of what libpq says of it: any part may be of a
 * password that was not written as it has to be. */
#include "pg/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BYTES_MAX = 64 };

static bool is_address(str host)
{
    char text[ADDRESS_BYTES_MAX];
    unsigned char address[16];
    if (host.n > 0 && host.p[0] == '/')
        return true;
    if (!str_to_cstr(host, text, sizeof(text)))
        return false;
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

const char *pg_url_option(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val == NULL ? "" : o->val;
    return "";
}

unsigned pg_url_count(const char *list)
{
    unsigned count = 1;
    for (const char *p = list; *p != '\0'; p++)
        count += *p == ',';
    return count;
}

char *pg_url_nth(const char *list, unsigned i)
{
    str rest = str_of(list), one = str_split(&rest, ',');
    for (; i > 0; i--)
        one = str_split(&rest, ',');
    char *text = one.n == 0 ? NULL : strndup(one.p, one.n);
    INVARIANT(text != NULL || one.n == 0);
    return text;
}

const char *pg_url_addresses(const PQconninfoOption *options)
{
    const char *addresses = pg_url_option(options, "hostaddr");
    return addresses[0] != '\0' ? addresses : pg_url_option(options, "host");
}

static err hosts_check(const PQconninfoOption *options, struct err_note *note)
{
    const char *hosts = pg_url_option(options, "host"), *addresses = pg_url_addresses(options);
    str rest = str_of(addresses);
    if (rest.n == 0) {
        err_note_set(note, "the PostgreSQL URL names no address");
        return ERR_BAD;
    }
    while (rest.p != NULL) {
        str host = str_split(&rest, ',');
        if (!is_address(host)) {
            err_note_set(
                note, "the PostgreSQL URL names a host: only numeric addresses can be used, such as"
                      " 127.0.0.1");
            return ERR_BAD;
        }
    }
    if (hosts[0] != '\0' && pg_url_count(hosts) != pg_url_count(addresses)) {
        err_note_set(note, "the PostgreSQL URL has as many of hostaddr as of host, or none");
        return ERR_BAD;
    }
    return ERR_OK;
}

static err ports_check(const PQconninfoOption *options, struct err_note *note)
{
    const char *ports = pg_url_option(options, "port");
    if (pg_url_count(ports) != 1 &&
        pg_url_count(ports) != pg_url_count(pg_url_addresses(options))) {
        err_note_set(note, "the PostgreSQL URL has one port for all addresses, or one for each");
        return ERR_BAD;
    }
    for (str rest = str_of(ports); rest.n > 0;) {
        str port = str_split(&rest, ',');
        uint64_t number = 1;
        if (port.n > 0 && (!str_to_u64(port, &number) || number == 0 || number > UINT16_MAX)) {
            err_note_set(note, "the PostgreSQL URL has a port that is none");
            return ERR_BAD;
        }
    }
    return ERR_OK;
}

/* libpq looks at these when it connects, which is when nobody reads what it says. */
static const struct {
    const char *keyword, *words[7];
} WORDS[] = {
    { "sslmode", { "disable", "allow", "prefer", "require", "verify-ca", "verify-full" } },
    { "target_session_attrs",
      { "any", "read-write", "read-only", "primary", "standby", "prefer-standby" } },
};

static err words_check(const PQconninfoOption *options, struct err_note *note)
{
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        const char *word = pg_url_option(options, WORDS[i].keyword);
        bool known = word[0] == '\0';
        for (size_t k = 0; WORDS[i].words[k] != NULL && !known; k++)
            known = strcmp(word, WORDS[i].words[k]) == 0;
        if (!known) {
            err_note_set(note, "the PostgreSQL URL has a value of %s that is none",
                         WORDS[i].keyword);
            return ERR_BAD;
        }
    }
    if (strlen(pg_url_option(options, "options")) > PG_URL_OPTIONS_BYTES_MAX) {
        err_note_set(note, "the PostgreSQL URL has options of more than %d bytes",
                     PG_URL_OPTIONS_BYTES_MAX);
        return ERR_BAD;
    }
    return ERR_OK;
}

/* Is an @ where user and password cannot be? Then part of a password is taken for a host or a
 * database, whose names are told when they cannot be had. */
static bool at_is_astray(str url)
{
    str rest = str_skip(url, str_find_str(url, STR("://")) + 3);
    str who = str_take(rest, str_find(rest, '/')), path = str_skip(rest, who.n);
    path = str_take(path, str_find(path, '?'));
    size_t at = str_find(who, '@');
    return str_find(path, '@') < path.n ||
           (at < who.n && str_find(str_skip(who, at + 1), '@') < who.n - at - 1);
}

err pg_url_check(const char *url, struct err_note *note)
{
    if (!str_starts(str_of(url), STR("postgresql://")) &&
        !str_starts(str_of(url), STR("postgres://"))) {
        err_note_set(note, "a PostgreSQL URL begins with postgresql://");
        return ERR_BAD;
    }
    PQconninfoOption *options = at_is_astray(str_of(url)) ? NULL : PQconninfoParse(url, NULL);
    if (options == NULL) {
        err_note_set(
            note,
            "the PostgreSQL URL cannot be read; what is special in a user or password is written as"
            " %%40 (@), %%2F (/), %%3A (:), %%25 (%%)");
        return ERR_BAD;
    }
    err why = hosts_check(options, note);
    if (why == ERR_OK)
        why = ports_check(options, note);
    if (why == ERR_OK)
        why = words_check(options, note);
    PQconninfoFree(options);
    return why;
}
