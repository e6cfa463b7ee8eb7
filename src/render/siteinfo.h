/* siteinfo.h - what a wiki says of its titles, as title.c reads it. Private to this folder. */
#ifndef RENDER_SITEINFO_H
#define RENDER_SITEINFO_H

#include "render/render.h"

#include <stdatomic.h>

enum {
    SITEINFO_NAMESPACES_MAX = 1024,
    SITEINFO_NAMES_MAX = 8192, /* of namespaces, aliases with them */
    SITEINFO_INTERWIKIS_MAX = 16384,
    SITEINFO_NAME_BYTES_MAX = 255,
    SITEINFO_ARENA_BYTES_MAX = 16 << 20
};
enum { NS_SPECIAL = -1, NS_MAIN = 0, NS_TALK = 1, NS_USER = 2, NS_USER_TALK = 3 };

struct site_namespace {
    int64_t id;
    str name;
    bool first_letter;
}; /* name: the local one, underscores */
struct site_name {
    str spelling;
    const struct site_namespace *of;
};
struct map;
struct siteinfo {
    _Atomic unsigned refs;
    struct arena arena;
    struct site_namespace *namespaces;
    unsigned namespaces_count;
    struct site_name *names;
    unsigned names_count;
    struct map *by_name;    /* folded -> struct site_namespace */
    struct map *interwikis; /* folded -> anything */
    bool legal[256];        /* bytes a title may hold */
    bool dotted_i;          /* Turkic: the capital of i has its dot */
    str server, language;
};

struct siteinfo *siteinfo_ref(struct siteinfo *s);
/* Lower case, NFC, underscores for spaces; false: too long for a name, or not UTF-8. */
struct folded {
    char text[4 * SITEINFO_NAME_BYTES_MAX];
    size_t n;
};
MUST_CHECK bool siteinfo_fold(str name, struct folded *out);
const struct site_namespace *siteinfo_namespace(const struct siteinfo *s,
                                                str name); /* NULL: none of that name */
bool siteinfo_is_interwiki(const struct siteinfo *s, str prefix);
/* name is, letter for letter, one of that namespace's names with underscores. */
bool siteinfo_spells(const struct siteinfo *s, const struct site_namespace *of, str name);

/* 1.2.3.4 without leading zeros, IPv6 in full and upper case, as names of users; s itself when it
 * is no address. */
str title_ip(struct arena *a, str s);

#endif
