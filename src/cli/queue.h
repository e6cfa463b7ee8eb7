/* queue.h - what the queue verbs share: calls to the server, handles of leased items, items as
 * people see them. Private to cli.
 *
 * A handle names a leased item: PARTITION/ID, as queue lease prints it and queue complete and retry
 * take it. Calls are Querator's and our own (docs/api.md), in JSON. Thread: one. */
#ifndef CLI_QUEUE_H
#define CLI_QUEUE_H

#include "cli/client.h"
#include "queue/queue.h"

enum {
    QUEUE_BATCH_MAX = 1000,          /* items, ids of one request */
    QUEUE_ITEM_BYTES_MAX = 64 << 20, /* read from a file; the server has its own limit */
    QUEUE_PAGE = 1000,
    QUEUE_LIST_MAX = 65536, /* the server's */
    QUEUE_TEXT_BYTES = 64,
    QUEUE_CELL_BYTES = 40,
};

/* One call. body is taken over. The answer, or NULL with its status (0: none came) and why not in
 * note. */
struct queue_reply {
    long status;
    enum cli_exit exit;
    struct err_note note;
    char next[CLIENT_FIELD_BYTES_MAX]; /* Next-Pivot as it came */
};
MUST_CHECK json_t *queue_post(struct client *c, const char *name, json_t *body,
                              const char *const headers[2], struct queue_reply *reply);
/* Tells why, with what it was about before it ("queue lease: ") or "". Returns reply's code. */
enum cli_exit queue_fail(const struct cli_call *call, const char *before,
                         const struct queue_reply *reply);
/* The same, and prints what went wrong; its code is in c->failed. */
MUST_CHECK json_t *queue_ask_with(struct client *c, const char *name, json_t *body,
                                  const char *const headers[2]);
MUST_CHECK json_t *queue_ask(struct client *c, const char *name, json_t *body);
/* A page of queues.list: at most limit queues of --namespace from pivot on, which becomes that of
 * the next page, "" after the last. NULL: as queue_post. */
MUST_CHECK json_t *queue_list_page(struct client *c, char pivot[QUEUE_NAME_BYTES_MAX + 1],
                                   int64_t limit, struct queue_reply *reply);
/* For calls whose answer says no more than that it was done. */
bool queue_order(struct client *c, const char *name, json_t *body);
/* {"queue_name": name} */
json_t *queue_named(const char *name);
/* Sets a text, which is UTF-8, when value is not NULL. */
void queue_set(json_t *body, const char *member, const char *value);

/* An option that is a whole number from min to max; fallback when absent. False: it was said. */
MUST_CHECK bool queue_number(const struct cli_call *call, const char *option, int64_t min,
                             int64_t max, int64_t *value);
/* An operand that is a partition. */
MUST_CHECK bool queue_partition(const struct cli_call *call, unsigned operand, int64_t *value);

/* Of a document: a text, or "" (never NULL); a whole number, also one in a text. */
const char *queue_text(const json_t *doc, const char *member);
int64_t queue_count(const json_t *doc, const char *member);
/* A Go duration, 0 when it is none. */
int64_t queue_age_ns(const json_t *doc, const char *member);
/* Cells of tables. An age is cut to milliseconds, from ten seconds up to seconds; none is "-". */
void queue_number_cell(int64_t n, char out[QUEUE_CELL_BYTES]);
void queue_age_cell(int64_t ns, char out[QUEUE_CELL_BYTES]);
/* An item's bytes, base64 in a member; in the arena. False: it was said. */
struct arena;
MUST_CHECK bool queue_bytes(const struct cli_call *call, const json_t *item, const char *member,
                            struct arena *a, str *out);
/* An item for --json: all but its bytes, then "body" when they are UTF-8, else "base64". */
json_t *queue_item_json(const json_t *item, const char *member, str bytes);

/* Lines, or pieces that end in NUL, of a descriptor. */
struct queue_lines {
    const struct cli_call *call;
    int fd;
    const char *file; /* as it was given, for what is said */
    char end;
    bool done; /* no more comes */
    size_t at;
    struct buf buf;
};
enum queue_line { LINE_ONE, LINE_NONE, LINE_NOT_YET, LINE_FAILED };
/* call and file are borrowed; file NULL and "-": standard input. With --null of call pieces end in
 * NUL. */
void queue_lines_init(struct queue_lines *l, const struct cli_call *call, int fd, const char *file);
void queue_lines_fini(struct queue_lines *l);
/* *line is borrowed until the next call. eager: LINE_NOT_YET instead of waiting. FAILED: it was
 * said. */
enum queue_line queue_lines_next(struct queue_lines *l, bool eager, str *line);
/* Is - among the operands behind the first once at most? False: it was said. */
MUST_CHECK bool queue_stdin_once(const struct cli_call *call);
/* Opens FILE, or standard input for "-" and NULL. -1: it was said. */
int queue_open(const struct cli_call *call, const char *file);

#endif
