/* rules_call.h - a call of the rules (change/change.h), which waits for the disk: read at the
 * worker, made on the pool, answered at its home. Private to this folder. */
#ifndef APP_CHANGE_RULES_CALL_H
#define APP_CHANGE_RULES_CALL_H

#include "app/change/rules_json.h"
#include "app/pooled.h"
#include "change/superseded.h"
#include "codec/json.h"

struct rules_call;
/* What a call is: a row of its route. */
struct rules_way {
    /* Members that the body may have, ended by NULL; and each that it must have. */
    const char *const *members, *const *wanted;
    /* ERR_BAD with the note: the body is wrong. Texts go to the arena. Worker. */
    err (*read)(struct rules_call *c, const json_t *body);
    /* Makes the call, and writes the answer to out. Pool thread. */
    err (*run)(struct rules_call *c, const struct rules_json *out);
};
struct rules_call {
    struct pooled pooled;
    const struct rules_way *way;
    str rule;
    union {
        struct change_limits limits;
        struct change_listing listing;
        struct change_timeline timeline;
        struct change_dry dry;
        struct {
            uint64_t id;
            int state;
        } item;
        struct {
            str name;
            bool drained;
        } target;
        struct {
            str stream, id;
            uint64_t seq;
        } event;
        store_time from;
        bool paused;
    };
    str text; /* of rules */
    /* Set by run, where there is more to wait for; NULL: there is not. Called when run went well;
     * rules_call_go_on comes once, later. Then run is called once more, with `again`. x's home. */
    void (*wait)(struct rules_call *c);
    bool again;
    err why;
    struct err_note note;
    str faults; /* of a text of rules, a line each; empty: none */
    struct buf out;
};
/* The handler of a route whose row is a rules_way. */
void rules_call_start(struct http_exchange *x, void *app);

/* What wait waited for is there; why: ERR_OK, or that the call fails. Any thread. */
void rules_call_go_on(struct rules_call *c, err why);

/* Readers of members, for read. False: the note says what is wrong. */
MUST_CHECK err rules_read_text(struct rules_call *c, const json_t *body, const char *name,
                               str *out);
/* A decimal number as a text, or as a number; absent: 0. */
MUST_CHECK err rules_read_id(struct rules_call *c, const json_t *body, const char *name,
                             uint64_t *out);
/* The name of a state; absent: -1. */
MUST_CHECK err rules_read_state(struct rules_call *c, const json_t *body, int *out);
/* Writes the rule as it is now. */
MUST_CHECK err rules_put_rule(struct rules_call *c, const struct rules_json *out);

#endif
