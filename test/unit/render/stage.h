/* stage.h - an origin in this process that answers each path from rules, and renders asked of it;
 * for tests. */
#ifndef TEST_RENDER_STAGE_H
#define TEST_RENDER_STAGE_H

#include "../http/rogue.h"

#include "render/origin.h"
#include "render/title_rules.h"

#include <pthread.h>

enum { SAID_MAX = 64, SAID_BYTES_MAX = ROGUE_REQUEST_BYTES_MAX, WAIT_MS = 50000 };

enum act { ACT_REPLY, ACT_CUT, ACT_HANG, ACT_ENDLESS };
struct rule {
    const char *path; /* a request whose target holds this; NULL: the end */
    enum act act;
    const char *head; /* status line's rest and headers, "200 OK\r\nX: y\r\n" */
    const char *body;
    unsigned times; /* how often it applies; 0: always */
};
struct stage {
    struct rogue *rogue;
    struct asker asker;
    struct origin *origin;
    pthread_mutex_t lock;
    struct rule rules[12];
    unsigned used[12];
    char said[SAID_MAX][SAID_BYTES_MAX]; /* requests, in order */
    unsigned said_count, open, open_max, wishes_done;
};

struct wish {
    struct render_request r;
    struct stage *stage;
    struct arena arena;
    enum render_why why;
    unsigned dones, order; /* order: of being done, from 0 */
};

/* opts: its url is made of the rogue's address and path. Ends with origin_idle. */
struct stage *stage_new(const struct origin_opts *opts, const char *path, const struct rule *rules);
void stage_free(struct stage *s);
/* How many requests came; how many held text. */
unsigned asked(struct stage *s);
unsigned said(struct stage *s, const char *text);

/* Who waits for the wiki's rules. */
struct curious {
    struct siteinfo_waiter w;
    struct stage *stage;
    enum render_why why;
    unsigned gots;
};
void curious_start(struct curious *c, struct stage *s, int64_t ms);

void wish_begin(struct wish *w, struct stage *s, const char *title, uint64_t rev);
void wish_start(struct wish *w);
/* All of it; fails the test when the outcome is another. */
void wish_now(struct wish *w, enum render_why why);
void wish_end(struct wish *w);

#define META(rev, more)                                                                            \
    "{\"query\":{\"pages\":[{\"pageid\":5,\"ns\":0,\"title\":\"A/B c\",\"lastrevid\":9,"           \
    "\"revisions\":[{\"revid\":" rev ",\"parentid\":7,\"tags\":[]" more "}]}]}}"
#define HTML(rev) "<html about=\\\"//w/revision/" rev "\\\"><head></head><body>x</body></html>"
#define BUNDLE(rev)                                                                                \
    "{\"html\":{\"headers\":{\"content-type\":\"text/html; charset=utf-8\"},\"body\":\"" HTML(     \
        rev) "\"},"                                                                                \
             "\"data-parsoid\":{\"headers\":{\"content-type\":\"application/"                      \
             "json\"},\"body\":{\"ids\":{}}}}"
#define FINE_META                                                                                  \
    {                                                                                              \
        .path = "/w/api.php?", .head = "200 OK\r\n", .body = META("9", "")                         \
    }
#define BUNDLE_HEAD(rev)                                                                           \
    "200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Revision-Id: " rev "\r\n"

#define TEXT(...)                                                                                  \
    {                                                                                              \
        .path = "pagebundle", __VA_ARGS__                                                          \
    }

#endif
