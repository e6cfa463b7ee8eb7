/* client.c - requests over libcurl, and what their failures mean to people and scripts. */
#include "cli/client.h"
#include "base/disk.h"
#include "base/tid.h"
#include "cli/out.h"
#include "cli/stop.h"
#include "http/negotiate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    RETRY_ROOM_BYTES = ERR_NOTE_BYTES - 80
}; /* of a note, so that what is added to it is not cut */

static const char *given_or(const struct cli_call *call, const char *name, const char *env,
                            const char *fallback)
{
    const char *value = cli_value(call, name);
    if (value == NULL && env != NULL)
        value = getenv(env);
    return value != NULL && value[0] != '\0' ? value : fallback;
}

enum cli_exit client_open(struct client *c, const struct cli_call *call)
{
    return client_open_at(c, call, NULL);
}

enum cli_exit client_open_at(struct client *c, const struct cli_call *call, const char *at)
{
    *c = (struct client){
        .call = call,
        .server =
            at != NULL ? at : given_or(call, "server", "PALIMPSEST_SERVER", CLIENT_SERVER_DEFAULT),
        .token = given_or(call, "token", "PALIMPSEST_TOKEN", NULL),
        .domain = given_or(call, "domain", NULL, "localhost"),
        .bucket = given_or(call, "bucket", NULL, "page"),
        .json = cli_flag(call, "json"),
    };
    str server = str_of(c->server);
    if (!str_starts(server, STR("http://")) && !str_starts(server, STR("https://"))) {
        return cli_fail(call, CLI_USAGE, "a server is a URL such as %s, not \"%s\"",
                        CLIENT_SERVER_DEFAULT, c->server);
    }
    if (c->token != NULL && strpbrk(c->token, "\r\n") != NULL) {
        return cli_fail(call, CLI_USAGE, "--token holds a line break");
    }
    c->curl = curl_easy_init();
    INVARIANT(c->curl != NULL);
    return CLI_OK;
}

void client_close(struct client *c)
{
    if (c->curl != NULL)
        curl_easy_cleanup(c->curl);
    c->curl = NULL;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    (void)ctx;
    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    return stop_asked();
}

void client_setup(const struct client *c, CURL *curl, const struct curl_slist *headers)
{
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT,
                     1L); /* a name server that hangs is not waited for at the end */
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CLIENT_CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE,
                     1L); /* a host that is gone is noticed by the patient, too */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)CLIENT_STALL_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "palimpsest");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (c->token != NULL) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, c->token);
    }
}

void client_follow(CURL *curl)
{
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)CLIENT_REDIRECTS_MAX);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
}

/* ---- paths ---- */

void client_path_text(struct buf *out, str text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.n; i++) {
        unsigned char ch = (unsigned char)text.p[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || ch == '-' || ch == '.' || ch == '_' || ch == '~';
        if (plain) {
            buf_put_c(out, (char)ch);
            continue;
        }
        buf_put_c(out, '%');
        buf_put_c(out, hex[ch >> 4]);
        buf_put_c(out, hex[ch & 15]);
    }
}

void client_path_segment(struct buf *out, str segment)
{
    buf_put_c(out, '/');
    client_path_text(out, segment);
}

str client_path(const struct buf *path)
{
    return buf_status(path) == ERR_OK ? buf_str(path) : STR("");
}

void client_path_bucket(const struct client *c, struct buf *out)
{
    client_path_segment(out, str_of(c->domain));
    buf_put(out, STR("/v1"));
    client_path_segment(out, str_of(c->bucket));
}

void client_path_render(const struct client *c, struct buf *out, str what, str title,
                        const char *const *name)
{
    client_path_bucket(c, out);
    client_path_segment(out, what);
    client_path_segment(out, title);
    for (unsigned i = 0; i < 2 && name != NULL && name[i] != NULL; i++)
        client_path_segment(out, str_of(name[i]));
}

bool client_check_name(const struct cli_call *call, unsigned operand)
{
    uint64_t rev;
    struct tid tid;
    const char *name[2] = { call->operands[operand], call->operands[operand + 1] };
    if (name[0] != NULL && (!str_to_u64(str_of(name[0]), &rev) || rev == 0 || rev > INT64_MAX)) {
        (void)cli_fail(call, CLI_USAGE, "%s: REV is a whole number from 1 on, not \"%s\"",
                       call->verb->name, name[0]);
        return false;
    }
    if (name[0] != NULL && name[1] != NULL && !tid_parse(str_of(name[1]), &tid)) {
        (void)cli_fail(call, CLI_USAGE,
                       "%s: TID is a time UUID such as 3f6c1e80-0000-11ee-8000-000000000000, not "
                       "\"%s\"",
                       call->verb->name, name[1]);
        return false;
    }
    return true;
}

/* ---- one request ---- */

struct receiving {
    CURL *curl;
    struct client_answer *answer;
    FILE *to;
    int write_errno;
    bool render;
};

bool client_is_render(const char *etag, const char *cache_status)
{
    uint64_t rev;
    str tid;
    return cache_status[0] != '\0' || client_etag_read(etag, &rev, &tid);
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct receiving *r = ctx;
    size_t bytes = size * n;
    long status = 0;
    curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, &status);
    bool ours = !r->render || client_is_render(r->answer->etag, r->answer->cache_status);
    if (r->to != NULL && status >= 200 && status < 300 && ours) {
        size_t written = fwrite(p, 1, bytes, r->to);
        r->write_errno = errno;
        return written;
    }
    buf_put(&r->answer->body, (str){ .p = p, .n = bytes });
    return r->answer->body.failed ? 0 : bytes;
}

void client_field_keep(str line, str name, char dst[CLIENT_FIELD_BYTES_MAX])
{
    if (line.n <= name.n || !str_eq_nocase(str_take(line, name.n), name))
        return;
    str value = str_skip(line, name.n);
    while (value.n > 0 && (value.p[value.n - 1] == '\r' || value.p[value.n - 1] == '\n'))
        value.n--;
    if (!str_to_cstr(str_trim(value), dst, CLIENT_FIELD_BYTES_MAX))
        dst[0] = '\0';
}

bool client_ends_head(str line)
{
    return str_eq(line, STR("\r\n")) || str_eq(line, STR("\n"));
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct receiving *r = ctx;
    str line = { .p = p, .n = size * n };
    if (str_starts(line, STR("HTTP/"))) /* the answer a redirect led to */
        r->answer->etag[0] = r->answer->content_type[0] = r->answer->cache_status[0] = '\0';
    r->answer->head_whole =
        !str_starts(line, STR("HTTP/")) && (r->answer->head_whole || client_ends_head(line));
    client_field_keep(line, STR("etag:"), r->answer->etag);
    client_field_keep(line, STR("content-type:"), r->answer->content_type);
    client_field_keep(line, STR("cache-status:"), r->answer->cache_status);
    client_field_keep(line, STR("cache-control:"), r->answer->cache_control);
    client_field_keep(line, STR("age:"), r->answer->age);
    client_field_keep(line, STR("retry-after:"), r->answer->retry_after);
    client_field_keep(line, STR("list-version:"), r->answer->list_version);
    client_field_keep(line, STR("list-size:"), r->answer->list_size);
    client_field_keep(line, STR("next-pivot:"), r->answer->next_pivot);
    return line.n;
}

/* Another program than a web server, or a web server behind TLS that is none. */
static bool is_other_program(CURLcode code)
{
    return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
           code == CURLE_GOT_NOTHING || code == CURLE_SSL_CONNECT_ERROR || code == CURLE_HTTP2;
}

err client_explain_curl(const struct client *c, CURLcode code, struct err_note *note)
{
    if (code == CURLE_ABORTED_BY_CALLBACK && stop_asked()) {
        err_note_set(note, "interrupted");
        return ERR_SHUTDOWN;
    }
    bool absent = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
    err_note_set(
        note, "%s: %s%s", c->server, curl_easy_strerror(code),
        c->call == NULL ? ""
        : absent
            ? " (is it running? --server or $PALIMPSEST_SERVER names it; see palimpsest help serve)"
        : is_other_program(code)
            ? " (is this the URL of a Palimpsest? --server or $PALIMPSEST_SERVER names it)"
            : "");
    return code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

static err outcome(const struct client *c, CURLcode code, const struct client_request *r,
                   const struct receiving *got, struct err_note *note)
{
    if (code == CURLE_OK && !got->answer->head_whole)
        code =
            CURLE_PARTIAL_FILE; /* libcurl takes what ends within its head for one without a body */
    if (code == CURLE_OK)
        return ERR_OK;
    if (got->answer->body.failed) {
        err_note_set(note, "an answer of more than %d bytes", CLIENT_ANSWER_BYTES_MAX);
        return ERR_LIMIT;
    }
    if (code == CURLE_WRITE_ERROR) {
        bool named = r->to_name != NULL;
        return disk_fail(note, "write", named ? r->to_name : "what the server sent",
                         got->write_errno);
    }
    return client_explain_curl(c, code, note);
}

static struct curl_slist *request_headers(const struct client_request *r)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    char line[CLIENT_FIELD_BYTES_MAX];
    if (r->has_body) {
        snprintf(line, sizeof line, "Content-Type: %s",
                 r->content_type != NULL ? r->content_type : "application/json");
        list = curl_slist_append(list, line);
    }
    if (r->header != NULL)
        list = curl_slist_append(list, r->header);
    if (r->header_more != NULL)
        list = curl_slist_append(list, r->header_more);
    INVARIANT(list != NULL);
    return list;
}

err client_send(struct client *c, const struct client_request *r, struct client_answer *out,
                struct err_note *note)
{
    *out = (struct client_answer){ 0 };
    buf_init(&out->body, CLIENT_ANSWER_BYTES_MAX);
    struct buf url;
    buf_init(&url, 16 << 10);
    str server = str_of(c->server);
    while (str_ends(server, STR("/")))
        server.n--;
    buf_printf(&url, "%.*s%.*s", STR_ARG(server), STR_ARG(r->path));
    buf_put_c(&url, '\0');
    if (buf_status(&url) != ERR_OK || r->path.n == 0) {
        buf_fini(&url);
        err_note_set(note, "the title, or another word, is too long for a request");
        return ERR_LIMIT;
    }
    struct receiving receiving = {
        .curl = c->curl, .answer = out, .to = r->to, .render = r->render
    };
    struct curl_slist *headers = request_headers(r);
    curl_easy_reset(c->curl);
    client_setup(c, c->curl, headers);
    curl_easy_setopt(c->curl, CURLOPT_URL, url.p);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &receiving);
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, &receiving);
    if (r->has_body) {
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, r->body.p != NULL ? r->body.p : "");
    }
    if (r->follow)
        client_follow(c->curl);
    if (r->patient)
        curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, 0L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, r->method);
    CURLcode code = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &out->status);
    curl_slist_free_all(headers);
    buf_fini(&url);
    return outcome(c, code, r, &receiving, note);
}

void client_answer_fini(struct client_answer *a)
{
    buf_fini(&a->body);
}

bool client_etag_read(const char *etag, uint64_t *rev, str *tid)
{
    bool weak;
    str tag = http_etag_bare(str_of(etag), &weak);
    str number = str_split(&tag, '/');
    if (tag.p != NULL && tag.n > 0 && str_to_u64(number, rev)) {
        *tid = str_split(&tag, '/');
        return true;
    }
    *rev = 0;
    *tid = STR("");
    return false;
}

bool client_was_stored(const char *cache_status)
{
    str status = str_of(cache_status);
    (void)str_split(&status, ';'); /* whose cache */
    while (status.n > 0)
        if (str_eq(str_trim(str_split(&status, ';')), STR("hit")))
            return true;
    return false;
}

/* ---- what went wrong ---- */

static enum cli_exit exit_of_status(long status)
{
    if (status == 404 || status == 410)
        return CLI_NOT_FOUND;
    if (status == 503)
        return CLI_NO_SERVER;
    return status >= 500 ? CLI_FAILED : CLI_REFUSED;
}

/* The library below the server answers what it cannot read itself, without a document. */
static bool is_too_long(long status)
{
    return status == 414 || status == 431;
}

enum cli_exit client_explain(const struct client *c, const struct client_answer *a,
                             struct err_note *note)
{
    str body = buf_str(&a->body);
    json_t *doc = body.n > 0 ? json_loadb(body.p, body.n, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(doc, "detail"));
    const char *title = json_string_value(json_object_get(doc, "title"));
    const char *message = json_string_value(json_object_get(doc, "message"));
    bool ours = detail != NULL || title != NULL || message != NULL;
    if (detail == NULL)
        detail = message;
    if (ours)
        err_note_set(note, "the server answered %ld%s%s%s%s", a->status, title != NULL ? " " : "",
                     title != NULL ? title : "", detail != NULL ? ": " : "",
                     detail != NULL ? detail : "");
    else if (is_too_long(a->status))
        err_note_set(note, "the server answered %ld: the request is too long", a->status);
    else
        err_note_set(note,
                     "%s answered %ld, and not as a Palimpsest does: is this its URL? --server or "
                     "$PALIMPSEST_SERVER names it",
                     c->server, a->status);
    json_decref(doc);
    return ours || is_too_long(a->status) ? exit_of_status(a->status) : CLI_NO_SERVER;
}

/* A listener without the admin routes says that it does not know them. */
static bool is_wrong_listener(const struct client_request *r, const struct client_answer *a)
{
    str body = buf_str(&a->body);
    bool method = str_find_str(body, STR("http method")) < body.n;
    return str_starts(r->path, STR("/v1/admin.")) &&
           (a->status == 501 || (a->status == 400 && method));
}

bool client_ask(struct client *c, const struct client_request *r, struct client_answer *out)
{
    struct err_note note;
    err e = client_send(c, r, out, &note);
    bool good = e == ERR_OK && out->status >= 200 && out->status < 300;
    if (good && (!r->render || client_is_render(out->etag, out->cache_status)))
        return true;
    c->failed = e == ERR_OK ? client_explain(c, out, &note) : cli_exit_of(e);
    if (e == ERR_OK && out->status == 504 && r->only_stored)
        c->failed = CLI_NOT_FOUND;
    if (e == ERR_OK && out->retry_after[0] != '\0' && strlen(note.text) < RETRY_ROOM_BYTES) {
        char said[sizeof note.text];
        (void)snprintf(said, sizeof said, "%s", note.text); /* of the same size */
        err_note_set(&note, "%s (Retry-After: %.40s)", said, out->retry_after);
    }
    if (e == ERR_OK && is_wrong_listener(r, out))
        err_note_set(
            &note,
            "%s has no admin routes: --server wants the URL of the server's admin listener "
            "(admin_listen)",
            c->server);
    (void)cli_fail_status(c->call, c->failed, e == ERR_OK ? out->status : 0,
                          note.text); /* gives failed back */
    return false;
}

bool client_order(struct client *c, const struct client_request *r)
{
    struct client_answer a;
    bool done = client_ask(c, r, &a);
    if (done && a.status != 204) {
        struct err_note note;
        c->failed = client_explain(c, &a, &note);
        if (c->failed != CLI_NO_SERVER) /* it has an error's members, with 2xx */
            c->failed = CLI_FAILED;
        (void)cli_fail_status(c->call, c->failed, a.status, note.text); /* gives failed back */
        done = false;
    }
    client_answer_fini(&a);
    return done;
}

/* An object with what the request wants of it, that says in no page to go on at the same place as
 * the page before. */
static bool is_answer(struct client *c, const struct client_request *r, const json_t *doc)
{
    const json_t *next = json_object_get(doc, "next");
    if (!json_is_object(doc) || (r->member != NULL && json_object_get(doc, r->member) == NULL))
        return false;
    if (next == NULL)
        return true;
    uint64_t hash = XXH3_64bits(json_string_value(next), json_string_length(next));
    bool leads_on = json_is_string(next) && hash != c->next_hash;
    c->next_hash = hash;
    return leads_on;
}

json_t *client_ask_json(struct client *c, const struct client_request *r)
{
    struct client_answer a;
    json_t *doc = NULL;
    if (client_ask(c, r, &a)) {
        str body = buf_str(&a.body);
        doc = json_loadb(body.p != NULL ? body.p : "", body.n, 0, NULL);
        if (!is_answer(c, r, doc)) {
            c->failed = cli_fail(c->call, CLI_NO_SERVER,
                                 "the answer of %s is not JSON as a Palimpsest sends it: is "
                                 "this its URL? --server or $PALIMPSEST_SERVER names it",
                                 c->server);
            json_decref(doc);
            doc = NULL;
        }
    }
    client_answer_fini(&a);
    return doc;
}
