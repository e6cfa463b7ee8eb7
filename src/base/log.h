/* log.h - structured lines on one descriptor: level, event name, fields; never prose alone.
 *
 *   log_event(log, LOG_INFO, "page.put", LOG_STR("title", title), LOG_INT("rev", rev));
 *   2026-01-01T00:00:00.123Z info page.put title="Main Page" rev=7
 *
 * Values are quoted when they hold anything but plain characters, control bytes escaped, each cut
 * at LOG_VALUE_BYTES_MAX: a line is one line whatever a client sends. Thread: any; one write per
 * line. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/str.h"
#include "base/times.h"

enum { LOG_LINE_BYTES_MAX = 2048, LOG_VALUE_BYTES_MAX = 512 };
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVELS };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
    const char *name;
    str text; /* used when is_int is false */
    int64_t number;
    bool is_int;
};
#define LOG_STR(field, value) ((struct log_field){ .name = (field), .text = (value) })
#define LOG_CSTR(field, value) ((struct log_field){ .name = (field), .text = str_of(value) })
#define LOG_INT(field, value)                                                                      \
    ((struct log_field){ .name = (field), .number = (int64_t)(value), .is_int = true })

struct log;
/* fd is borrowed. clock gives the wall time of each line. Owner: caller. Dies when out of
 * memory. */
struct log *log_new(int fd, enum log_level least, enum log_format format, struct clock *clock);
void log_free(struct log **lp);
/* "info". */
const char *log_level_name(enum log_level level);
/* From here on lines below least are left out. Thread: any. */
void log_level_set(struct log *l, enum log_level least);
bool log_enabled(const struct log *l, enum log_level level);
/* l may be NULL: nothing is logged. A line that cannot be written is dropped. */
void log_write(struct log *l, enum log_level level, const char *event,
               const struct log_field *fields, unsigned count);
#define log_event(l, level, event, ...)                                                            \
    log_write((l), (level), (event), (const struct log_field[]){ __VA_ARGS__ },                    \
              (unsigned)(sizeof((const struct log_field[]){ __VA_ARGS__ }) /                       \
                         sizeof(struct log_field)))
#define log_note(l, level, event) log_write((l), (level), (event), NULL, 0)

#endif
