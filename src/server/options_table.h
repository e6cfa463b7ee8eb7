/* options_table.h - the rows of every option. Private to server/options. */
#ifndef SERVER_OPTIONS_TABLE_H
#define SERVER_OPTIONS_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_TEXT,    /* const char *; not empty */
    OPTION_CHOICE,  /* an enum: index in choices */
    OPTION_FLAG,    /* bool: true, false */
    OPTION_COUNT,   /* unsigned */
    OPTION_MODE,    /* permissions of a file, in octal; unsigned */
    OPTION_SIZE,    /* bytes; uint64_t, size_t or int64_t */
    OPTION_MS,      /* a duration kept in milliseconds, int64_t */
    OPTION_NS,      /* a duration kept in nanoseconds, int64_t */
    OPTION_NAMES,   /* names: pointer and count of struct page_bucket_opts.contents */
    OPTION_LISTENS, /* ADDR:PORT or unix:/PATH, several */
    OPTION_LISTEN_ADMIN,
    OPTION_DOMAINS, /* names that add up */
    OPTION_RULES,   /* struct rule_set *; a section of the file alone */
    OPTION_HOOKS,   /* test hooks: on, off or an instant; command line only */
    OPTION_GONE,    /* does nothing any more; taken with a warning for one release */
};

/* What a SIGHUP does with a value that changed. */
enum option_reload {
    OPTION_ON_RESTART, /* names it: it waits for a restart */
    OPTION_ON_RELOAD,  /* takes it over: what options_change.c copies, or rules */
};

#define OPTION_LEAP_MAX_INITIAL                                                                    \
    "1826d" /* of clock.leap_max; a store without a server goes by it, too */

/* min and max: count, bytes, or nanoseconds of a duration (whatever unit it is kept in). max
 * INT64_MAX allows "never". offset: in struct config, or in struct config_bucket or config_domain
 * for the rows of buckets and of origins. */
struct option {
    const char *name;
    const char *flag; /* also a flag of its own: "data" is --data VALUE */
    enum option_type type;
    uint64_t min, max;
    const char *const *choices; /* ends with NULL */
    const char *initial;        /* the default as one would write it; "" where there is none */
    const char *prose;          /* one sentence without the full stop */
    size_t bytes_max;           /* of a text; 0: OPTIONS_VALUE_BYTES_MAX */
    size_t offset, width;
    enum option_reload reload;
};

extern const struct option option_rows[];        /* ends with name NULL */
extern const struct option option_bucket_rows[]; /* fields of buckets; ends with name NULL */
/* fields of buckets of values; ends with name NULL */
extern const struct option option_value_rows[];
/* fields of domains.NAME.origin; ends with name NULL */
extern const struct option option_origin_rows[];
extern const struct option option_list_rows[];     /* fields of lists.NAME; ends with name NULL */
extern const struct option option_listener_rows[]; /* of listeners.NAME; ends with name NULL */
enum { OPTION_ROWS_MAX = 128 };                    /* of each table */

#endif
