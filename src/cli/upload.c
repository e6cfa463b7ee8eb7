/* upload.c - sends many requests at once for imports and `prewarm`, and repeats what can be
 * repeated. Invariant: the requests of one title are in order, one after another;
 * uploads_done_through never passes a request that has no answer. */
#include "cli/upload.h"
#include "cli/stop.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/json_text.h"

#include <stdlib.h>
#include <string.h>

enum { JOB_MAGIC = 0x0b10ad01, UPLOADS_MAGIC = 0x0b10ad02, NAME_BYTES = 1024 };

/* A job waits, is in the air, or is answered; it leaves the list when it and all before it are
 * answered. */
struct job {
    uint32_t magic;
    struct job *next;
    struct uploads *uploads; /* once it was in the air */
    uint64_t number;
    struct buf body, path, hold; /* hold: the body of the order; empty: none */
    char title[NAME_BYTES], mark[NAME_BYTES];
    size_t title_n, mark_n;
    uint64_t rev;
    struct tid tid;
    struct client_call *call; /* in the air; NULL: not */
    bool ask, purge, answered, accepted, holding;
    bool looks; /* first: is there anything to purge? */
    unsigned tries;
    mono not_before;
};

struct uploads {
    uint32_t magic;
    struct uploads_opts opts;
    unsigned flying;
    struct job *head, *tail;
    unsigned jobs_count, failed_in_row;
    size_t jobs_bytes;
    uint64_t last_number, done_through;
    struct upload_counts counts;
    struct upload_last last;
    char last_title[NAME_BYTES], last_mark[NAME_BYTES];
    bool answered; /* something did, once */
    err failed;
    struct err_note why;
};

struct uploads *uploads_new(const struct uploads_opts *opts)
{
    INVARIANT(opts->parallel >= 1);
    INVARIANT(opts->parallel <= UPLOAD_PARALLEL_MAX);
    struct uploads *u = calloc(1, sizeof *u);
    INVARIANT(u != NULL);
    *u = (struct uploads){ .magic = UPLOADS_MAGIC,
                           .opts = *opts,
                           .last_number = opts->first - 1,
                           .done_through = opts->first - 1 };
    return u;
}

static void job_free(struct job *j)
{
    buf_fini(&j->body);
    buf_fini(&j->path);
    buf_fini(&j->hold);
    j->magic = 0;
    free(j);
}

void uploads_free(struct uploads **up)
{
    struct uploads *u = *up;
    if (u == NULL)
        return;
    MAGIC_CHECK(u, UPLOADS_MAGIC);
    for (struct job *j = u->head; j != NULL; j = j->next)
        if (j->call != NULL)
            client_call_cancel(j->call);
    while (u->flying > 0)
        client_turn(u->opts.client, -1);
    while (u->head != NULL) {
        struct job *j = u->head;
        u->head = j->next;
        job_free(j);
    }
    u->magic = 0;
    free(u);
    *up = NULL;
}

/* ---- what is sent ---- */

static void put_header(struct buf *out, str name, str value)
{
    json_text_append(out, name);
    buf_put_c(out, ':');
    json_text_append(out, value);
}

static void put_binary(struct buf *out, str bytes)
{
    char *at = buf_extend(out, base64_size(bytes.n));
    if (at != NULL)
        (void)base64_put(at, bytes);
}

void upload_bundle_json(const struct upload_item *item, struct buf *out)
{
    for (unsigned i = 0; i < item->parts_count; i++) {
        const struct upload_part *p = &item->parts[i];
        buf_put_c(out, i == 0 ? '{' : ',');
        json_text_append(out, str_of(p->content));
        buf_put(out, STR(":{\"headers\":{"));
        put_header(out, STR("content-type"), str_of(p->type));
        for (unsigned k = 0; k < p->more_count; k++) {
            buf_put_c(out, ',');
            put_header(out, p->more[k].name, p->more[k].value);
        }
        buf_put(out, STR("},\"body\":"));
        if (p->binary) {
            buf_put_c(out, '"');
            put_binary(out, p->bytes);
            buf_put(out, STR("\",\"encoding\":\"base64\""));
        } else {
            json_text_append(out, p->bytes);
        }
        buf_put_c(out, '}');
    }
    buf_put_c(out, '}');
}

static void put_path(const struct client *c, const struct upload_item *item, struct buf *out)
{
    if (item->ask) {
        client_path_render(c, out, STR("html"), item->title, NULL);
        buf_put(out, STR("?redirect=false"));
    } else {
        char rev[24], tid[TID_TEXT_BYTES + 1];
        snprintf(rev, sizeof rev, "%llu", (unsigned long long)item->rev);
        tid_format(item->tid, tid);
        client_path_render(c, out, item->purge ? STR("explain") : STR("all"), item->title,
                           (const char *const[]){ rev, item->purge ? NULL : tid });
        if (item->pin)
            buf_put(out, STR("?stash=true"));
    }
}

/* Else its mark alone counts. */
static bool item_is_sent(const struct upload_item *item)
{
    return item->parts_count > 0 || item->ask || item->purge;
}

static struct job *job_new(const struct uploads *u, const struct upload_item *item)
{
    struct job *j = calloc(1, sizeof *j);
    INVARIANT(j != NULL);
    j->magic = JOB_MAGIC;
    j->ask = item->ask;
    j->purge = j->looks = item->purge;
    j->rev = item->rev;
    j->tid = item->tid;
    j->title_n = item->title.n < NAME_BYTES ? item->title.n : NAME_BYTES;
    j->mark_n = item->mark.n < NAME_BYTES ? item->mark.n : NAME_BYTES;
    if (j->title_n > 0)
        memcpy(j->title, item->title.p, j->title_n);
    if (j->mark_n > 0)
        memcpy(j->mark, item->mark.p, j->mark_n);
    buf_init(&j->body, UPLOAD_BODY_BYTES_MAX);
    buf_init(&j->path, 16384);
    buf_init(&j->hold, 256);
    if (item->hold_until.n > 0) {
        buf_put(&j->hold, STR("{\"until\":"));
        json_text_append(&j->hold, item->hold_until);
        buf_put_c(&j->hold, '}');
    }
    if (item->parts_count > 0 && !item->ask)
        upload_bundle_json(item, &j->body);
    if (item_is_sent(item))
        put_path(u->opts.client, item, &j->path);
    return j;
}

static str job_title(const struct job *j)
{
    return (str){ .p = j->title, .n = j->title_n };
}

static void upload_refuse(struct uploads *u, struct job *j, const char *why)
{
    j->answered = true;
    u->counts.refused++;
    if (u->opts.refused != NULL)
        u->opts.refused(u->opts.ctx, job_title(j), j->rev, why);
}

/* ---- into the air ---- */

static void on_done(struct client_call *call, err why);

static void upload_fly(struct uploads *u, struct job *j)
{
    struct client_call *call = calloc(1, sizeof *call);
    INVARIANT(call != NULL);
    *call = (struct client_call){
        .request = { .method = j->ask || j->looks ? "GET"
                               : j->purge         ? "DELETE"
                                                  : "PUT",
                     .path = buf_str(&j->path),
                     .has_body = !j->ask && !j->purge,
                     .body = buf_str(j->holding ? &j->hold : &j->body),
                     .header = j->ask && u->opts.fresh ? "Cache-Control: no-cache" : NULL,
                     .follow = j->ask,
                     .skim = true },
        .done = on_done,
        .ctx = j,
    };
    j->uploads = u;
    if (client_call_start(u->opts.client, call) != ERR_OK) {
        upload_refuse(u, j, "the title is too long");
        free(call);
        return;
    }
    j->call = call;
    j->tries++;
    u->flying++;
}

/* Is an earlier render of the same title still to be answered? */
static bool must_wait(const struct uploads *u, const struct job *j)
{
    for (const struct job *k = u->head; k != j; k = k->next)
        if (!k->answered && str_eq(job_title(k), job_title(j)))
            return true;
    return false;
}

static void launch(struct uploads *u, mono now)
{
    for (struct job *j = u->head; j != NULL && u->flying < u->opts.parallel; j = j->next) {
        bool ready = j->call == NULL && !j->answered && j->not_before.ns <= now.ns;
        if (ready && !must_wait(u, j))
            upload_fly(u, j);
    }
}

/* ---- answers ---- */

static void upload_fail(struct uploads *u, err code, const char *text)
{
    if (u->failed != ERR_OK)
        return;
    u->failed = code;
    err_note_set(&u->why, "%s", text);
}

/* It is stored: what is left is the order to hold it. */
static void hold(struct uploads *u, struct job *j)
{
    char rev[24], tid[TID_TEXT_BYTES + 1];
    (void)snprintf(rev, sizeof rev, "%llu", (unsigned long long)j->rev); /* fits */
    tid_format(j->tid, tid);
    buf_clear(&j->path);
    client_path_render(u->opts.client, &j->path, STR("hold"), job_title(j),
                       (const char *const[]){ rev, tid });
    j->holding = true;
    j->tries = 0;
}

/* What a status is that says "not now": the server is away, or something behind it failed. */
static err err_of_status(int status)
{
    return status == 503 ? ERR_UNAVAILABLE : ERR_IO;
}

static void again_or_fail(struct uploads *u, struct job *j, err code, const char *why)
{
    if (j->tries >= (u->answered ? UPLOAD_TRIES : UPLOAD_FIRST_TRIES)) {
        upload_fail(u, code, why);
        return;
    }
    int64_t pause_ms = (int64_t)100 << j->tries;
    if (pause_ms > UPLOAD_PAUSE_MS_MAX)
        pause_ms = UPLOAD_PAUSE_MS_MAX;
    j->not_before = mono_add_ms(clock_mono(u->opts.clock), pause_ms);
}

/* What answers there is no Palimpsest: asking again is in vain. A 5xx but 501, which a server says
 * that has no PUT, may be of a proxy before one. */
static bool is_other_server(struct uploads *u, const struct client_answer *a, struct err_note *note)
{
    bool odd =
        a->status >= 300 || (a->status >= 200 && !client_is_render(a->etag, a->cache_status));
    bool final = a->status < 500 || a->status == 501;
    bool other = client_explain(u->opts.client, a, note) == CLI_NO_SERVER && odd && final;
    if (other)
        upload_fail(u, ERR_UNAVAILABLE, note->text);
    return other;
}

/* Is it said of this title for good, not of now? 429 is both. */
static bool is_full(const struct client_answer *a)
{
    json_t *doc = json_body_read(buf_str(&a->body));
    bool full = a->status == 429 &&
                str_ends(json_body_text(json_object_get(doc, "type")), STR("/too_many_renders"));
    json_decref(doc);
    return full;
}

/* What can be read of a revision is purged; what cannot be is none of a server's purges, of which a
 * title keeps few apart. */
static void take_looked(struct uploads *u, struct job *j, const struct client_answer *a)
{
    static const char *const hidden[] = { "unknown", "culled", "purged", "suppressed", "deleted" };
    char rev[24];
    json_t *doc = json_body_read(buf_str(&a->body));
    str state = json_body_text(json_object_get(doc, "state"));
    bool reads = a->status == 200 && state.n > 0;
    for (unsigned i = 0; i < COUNT_OF(hidden) && reads; i++)
        reads = !str_eq(state, str_of(hidden[i]));
    json_decref(doc);
    j->looks = false;
    j->tries = 0;
    j->answered = j->accepted = !reads;
    (void)snprintf(rev, sizeof rev, "%llu", (unsigned long long)j->rev); /* fits */
    buf_clear(&j->path);
    client_path_render(u->opts.client, &j->path, STR("all"), job_title(j),
                       (const char *const[]){ rev, NULL });
}

static void take_status(struct uploads *u, struct job *j, const struct client_answer *a)
{
    int status = a->status;
    struct err_note note;
    if (j->holding || j->purge)
        (void)client_explain(u->opts.client, a, &note);
    else if (is_other_server(u, a, &note))
        return;
    if (j->looks && (status == 200 || status == 404 || status == 410)) {
        take_looked(u, j, a);
        return;
    }
    switch (status) {
    case 204:
        if (!j->purge) {
            upload_refuse(u, j, "204 is no answer to a PUT");
            return;
        }
        u->counts.purged++;
        j->answered = j->accepted = true;
        return;
    case 200:
    case 201:
        if (j->holding) {
            j->answered = j->accepted = true;
            return;
        }
        j->answered = j->accepted = j->hold.n == 0;
        if (!j->answered)
            hold(u, j);
        u->counts.bytes_sent += j->body.n;
        if (status == 201)
            u->counts.stored++;
        else
            u->counts.already++;
        return;
    case 409:
        u->counts.differ++;
        upload_refuse(u, j, note.text);
        return;
    case 410:
        u->counts.gone++;
        upload_refuse(u, j, note.text);
        return;
    case 401:
    case 403:
        upload_fail(u, ERR_DENIED, note.text);
        return;
    case 404:
    case 405:
        if (j->holding)
            upload_refuse(u, j, note.text); /* it was let go since */
        else
            upload_fail(u, ERR_NOT_FOUND, note.text);
        return;
    default:
        if (is_full(a) || (status >= 400 && status < 500 && status != 408 && status != 429))
            upload_refuse(u, j,
                          note.text); /* whatever is wrong with it, the next one may be right */
        else
            again_or_fail(u, j, err_of_status(status), note.text);
    }
}

static void take_made(struct uploads *u, struct job *j, const struct client_answer *a)
{
    str tid;
    j->answered = true;
    u->failed_in_row = 0;
    j->accepted = client_etag_read(a->etag, &j->rev, &tid) && tid_parse(tid, &j->tid);
    if (client_was_stored(a->cache_status))
        u->counts.already++;
    else
        u->counts.stored++;
}

/* One title whose render cannot be made is left out; many of them are a broken origin. */
static void take_unmade(struct uploads *u, struct job *j, const char *why)
{
    if (j->tries < UPLOAD_ASK_TRIES) {
        again_or_fail(u, j, ERR_IO, why);
        return;
    }
    upload_refuse(u, j, why);
    if (++u->failed_in_row >= UPLOAD_ASK_FAILED_IN_ROW_MAX)
        upload_fail(u, ERR_IO, why);
}

static void take_asked(struct uploads *u, struct job *j, const struct client_answer *a)
{
    int status = a->status;
    struct err_note note;
    if (is_other_server(u, a, &note))
        return;
    switch (status) {
    case 200:
        take_made(u, j, a);
        return;
    case 401:
        upload_fail(u, ERR_DENIED, note.text);
        return;
    case 500:
    case 502:
    case 504:
        take_unmade(u, j, note.text);
        return;
    default:
        if (status >= 400 && status < 500 && status != 429)
            upload_refuse(u, j, note.text);
        else
            again_or_fail(u, j, err_of_status(status), note.text);
    }
}

static void on_done(struct client_call *call, err why)
{
    struct job *j = call->ctx;
    MAGIC_CHECK(j, JOB_MAGIC);
    struct uploads *u = j->uploads;
    u->flying--;
    j->call = NULL;
    u->answered = u->answered || why == ERR_OK;
    if (why == ERR_OK && j->ask)
        take_asked(u, j, &call->answer);
    else if (why == ERR_OK)
        take_status(u, j, &call->answer);
    else
        again_or_fail(u, j, why, call->note.text);
    client_answer_fini(&call->answer);
    free(call);
}

static void keep_last(struct uploads *u, const struct job *j)
{
    memcpy(u->last_title, j->title, j->title_n);
    memcpy(u->last_mark, j->mark, j->mark_n);
    u->last = (struct upload_last){ .title = { .p = u->last_title, .n = j->title_n },
                                    .mark = { .p = u->last_mark, .n = j->mark_n },
                                    .rev = j->rev,
                                    .tid = j->tid };
}

static void drop_answered(struct uploads *u)
{
    while (u->head != NULL && u->head->answered) {
        struct job *j = u->head;
        u->head = j->next;
        if (u->head == NULL)
            u->tail = NULL;
        u->jobs_count--;
        u->jobs_bytes -= j->body.n;
        u->done_through = j->number;
        if (j->accepted)
            keep_last(u, j);
        job_free(j);
    }
}

/* Until when nothing can happen by itself. */
static int64_t poll_ms(const struct uploads *u, mono now)
{
    int64_t soonest_ms = 1000;
    for (const struct job *j = u->head; j != NULL; j = j->next) {
        int64_t ms = (j->not_before.ns - now.ns + NS_PER_MS - 1) / NS_PER_MS;
        if (j->call == NULL && !j->answered && ms > 0 && ms < soonest_ms)
            soonest_ms = ms;
    }
    return soonest_ms;
}

/* One turn; wait: until something happened or may be tried again. */
static err upload_turn(struct uploads *u, bool wait, struct err_note *note)
{
    launch(u, clock_mono(u->opts.clock));
    client_turn(u->opts.client,
                wait && u->head != NULL ? poll_ms(u, clock_mono(u->opts.clock)) : 0);
    drop_answered(u);
    if (stop_asked())
        upload_fail(u, ERR_SHUTDOWN, "interrupted");
    if (u->failed != ERR_OK) {
        err_note_set(note, "%s", u->why.text);
        return u->failed;
    }
    return ERR_OK;
}

err uploads_put(struct uploads *u, const struct upload_item *item, struct err_note *note)
{
    MAGIC_CHECK(u, UPLOADS_MAGIC);
    INVARIANT(item->parts_count <= UPLOAD_PARTS_MAX);
    while (u->failed == ERR_OK &&
           (u->jobs_count >= UPLOAD_WINDOW || u->jobs_bytes >= UPLOAD_WINDOW_BYTES)) {
        err e = upload_turn(u, true, note);
        if (e != ERR_OK)
            return e;
    }
    struct job *j = job_new(u, item);
    j->number = ++u->last_number;
    if (u->tail != NULL)
        u->tail->next = j;
    else
        u->head = j;
    u->tail = j;
    u->jobs_count++;
    u->jobs_bytes += j->body.n;
    if (!item_is_sent(item))
        j->answered = true;
    else if (item->title.n > NAME_BYTES || buf_status(&j->path) != ERR_OK)
        upload_refuse(u, j, "the title is too long");
    else if (buf_status(&j->body) != ERR_OK)
        upload_refuse(u, j, "the render is too large");
    return upload_turn(u, false, note);
}

err uploads_turn(struct uploads *u, struct err_note *note)
{
    MAGIC_CHECK(u, UPLOADS_MAGIC);
    return upload_turn(u, false, note);
}

err uploads_finish(struct uploads *u, struct err_note *note)
{
    MAGIC_CHECK(u, UPLOADS_MAGIC);
    while (u->head != NULL) {
        err e = upload_turn(u, true, note);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

struct upload_counts uploads_counts(const struct uploads *u)
{
    return u->counts;
}

uint64_t uploads_done_through(const struct uploads *u)
{
    return u->done_through;
}

struct upload_last uploads_last(const struct uploads *u)
{
    return u->last;
}
