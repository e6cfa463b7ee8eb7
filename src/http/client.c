/* client.c - calls, from start to done.
 *
 * Invariants:
 * 1. A transfer is in live and in deadlines from its post's turn on the loop until transfer_end.
 * 2. done is called by transfer_end alone, never inside http_call_start, and after it the call is
 *    not touched.
 * 3. A transfer that is RESOLVING or RUNNING does so under a pass that is IN: the call's, or its
 * own. So the limits of the limiter are the limits of what runs.
 * 4. No function of the library calls back into transfer_end: results are collected when it has
 *    returned. */
#include "http/client_impl.h"
#include "http/negotiate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_TIMER_MS_MAX = 3600000 };

/* What is in a call's own words: the transfer may be gone while somebody still cancels the call. */
struct call_own {
    uint64_t id;
};

static const unsigned state_next[TRANSFER_STATES] = {
    [TRANSFER_POSTED] = BIT(TRANSFER_WAITING) | BIT(TRANSFER_RESOLVING) | BIT(TRANSFER_ENDED),
    [TRANSFER_WAITING] = BIT(TRANSFER_RESOLVING) | BIT(TRANSFER_ENDED),
    [TRANSFER_RESOLVING] = BIT(TRANSFER_RUNNING) | BIT(TRANSFER_ENDED),
    [TRANSFER_RUNNING] = BIT(TRANSFER_ENDED),
};

static void state_move(struct transfer *t, enum transfer_state to)
{
    MAGIC_CHECK(t, TRANSFER_MAGIC);
    INVARIANT(state_next[t->state] & BIT(to));
    t->state = to;
}

static str id_key(const uint64_t *id)
{
    return (str){ .p = (const char *)id, .n = sizeof *id };
}

/* ---- deadlines ---- */

static bool deadline_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct transfer *x =
        CONTAINER_OF((struct heap_node *)(uintptr_t)a, struct transfer, deadline);
    const struct transfer *y =
        CONTAINER_OF((struct heap_node *)(uintptr_t)b, struct transfer, deadline);
    return x->call->deadline.ns < y->call->deadline.ns;
}

static struct transfer *deadline_first(const struct http_client *c)
{
    struct heap_node *n = heap_first(&c->deadlines);
    return n == NULL ? NULL : CONTAINER_OF(n, struct transfer, deadline);
}

static void deadlines_arm(struct http_client *c)
{
    struct transfer *t = deadline_first(c);
    if (t == NULL) {
        loop_timer_stop(c->deadline_timer);
        return;
    }
    int64_t left = t->call->deadline.ns - clock_mono(c->opts.clock).ns;
    int64_t ms = left <= 0 ? 0 : left / NS_PER_MS + 1;
    loop_timer_start(c->deadline_timer, ms < CLIENT_TIMER_MS_MAX ? ms : CLIENT_TIMER_MS_MAX, 0);
}

static void on_deadline(void *ctx)
{
    struct http_client *c = ctx;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    mono now = clock_mono(c->opts.clock);
    for (struct transfer *t = deadline_first(c); t != NULL && t->call->deadline.ns <= now.ns;
         t = deadline_first(c)) {
        err_note_set(&t->call->note, "%s: no whole reply in time", t->url.host);
        t->call->fault = HTTP_FAULT_LATE;
        transfer_end(t, ERR_TIMEOUT);
    }
    deadlines_arm(c);
}

/* ---- hosts ---- */

static void host_free(struct http_client *c, struct client_host *h)
{
    INVARIANT(h->transfers == 0);
    INVARIANT(list_empty(&h->resolving));
    host_resolve_forget(h);
    if (h->prev != NULL)
        h->prev->next = h->next;
    else
        c->hosts = h->next;
    if (h->next != NULL)
        h->next->prev = h->prev;
    INVARIANT(map_remove(c->hosts_by_key, str_of(h->key)) == h);
    free(h->addresses);
    free(h);
}

static bool hosts_make_room(struct http_client *c)
{
    struct client_host *h = c->hosts;
    while (h != NULL && (h->transfers > 0 || h->job != NULL))
        h = h->next;
    if (h != NULL)
        host_free(c, h);
    return h != NULL;
}

static void origin_write(const struct call_url *url, char out[HTTP_ORIGIN_BYTES_MAX])
{
    int n = snprintf(out, HTTP_ORIGIN_BYTES_MAX, url->numeric6 ? "[%s]:%u" : "%s:%u", url->host,
                     url->port);
    INVARIANT(n > 0 && n < HTTP_ORIGIN_BYTES_MAX);
}

err http_client_origin(str url, char out[HTTP_ORIGIN_BYTES_MAX])
{
    struct call_url parts;
    err why = call_url_parse(url, &parts, NULL);
    if (why == ERR_OK)
        origin_write(&parts, out);
    return why;
}

err http_client_redirect(str url, str location, struct buf *out)
{
    char from[HTTP_URL_BYTES_MAX + 1], to[HTTP_URL_BYTES_MAX + 1];
    if (!str_to_cstr(url, from, sizeof from) || !str_to_cstr(location, to, sizeof to))
        return ERR_BAD;
    CURLU *joined = curl_url();
    INVARIANT(joined != NULL);
    char *text = NULL;
    bool fine = curl_url_set(joined, CURLUPART_URL, from, CURLU_PATH_AS_IS) == CURLUE_OK &&
                curl_url_set(joined, CURLUPART_URL, to, CURLU_PATH_AS_IS) == CURLUE_OK &&
                curl_url_get(joined, CURLUPART_URL, &text, 0) == CURLUE_OK;
    if (fine)
        buf_put(out, str_of(text));
    curl_free(text);
    curl_url_cleanup(joined);
    return fine ? buf_status(out) : ERR_BAD;
}

/* NULL: too many hosts at once. */
static struct client_host *host_of(struct http_client *c, const struct call_url *url)
{
    char key[HTTP_ORIGIN_BYTES_MAX];
    origin_write(url, key);
    struct client_host *h = map_get(c->hosts_by_key, str_of(key));
    if (h != NULL)
        return h;
    if (map_count(c->hosts_by_key) >= CLIENT_HOSTS_MAX && !hosts_make_room(c))
        return NULL;
    h = calloc(1, sizeof *h);
    INVARIANT(h != NULL);
    *h = (struct client_host){ .numeric = url->numeric, .next = c->hosts };
    list_init(&h->resolving);
    memcpy(h->key, key, sizeof key);
    memcpy(h->name, url->host, sizeof h->name);
    if (c->hosts != NULL)
        c->hosts->prev = h;
    c->hosts = h;
    INVARIANT(map_put(c->hosts_by_key, str_of(h->key), h) == NULL);
    return h;
}

/* ---- the way of a call ---- */

static void transfer_begin(struct transfer *t)
{
    state_move(t, TRANSFER_RUNNING);
    transfer_run(t);
}

/* It may run, once its host's addresses are known. A unix socket needs none. */
static void transfer_resolve(struct transfer *t)
{
    state_move(t, TRANSFER_RESOLVING);
    if (t->call->unix_path != NULL || host_resolve(t->client, t->host))
        transfer_begin(t);
    else
        list_append(&t->host->resolving, &t->resolving);
}

void host_resolved(struct client_host *h, const char *fault)
{
    for (struct list *l = list_take(&h->resolving); l != NULL; l = list_take(&h->resolving)) {
        struct transfer *t = CONTAINER_OF(l, struct transfer, resolving);
        if (fault == NULL) {
            transfer_begin(t);
            continue;
        }
        err_note_set(&t->call->note, "%s: %s", h->name, fault);
        t->call->fault = HTTP_FAULT_ABSENT;
        t->call->fault_text = fault;
        transfer_end(t, ERR_UNAVAILABLE);
    }
}

static void transfer_go(struct limiter_pass *p, bool in)
{
    struct transfer *t = CONTAINER_OF(p, struct transfer, pass);
    MAGIC_CHECK(t, TRANSFER_MAGIC);
    INVARIANT(in); /* deadlines are ours */
    transfer_resolve(t);
}

void transfer_end(struct transfer *t, err why)
{
    MAGIC_CHECK(t, TRANSFER_MAGIC);
    struct http_client *c = t->client;
    loop_assert_here(c->opts.loop);
    if (t->state == TRANSFER_RUNNING)
        transfer_halt(t);
    list_remove(&t->resolving);
    if (t->host != NULL) {
        INVARIANT(t->host->transfers > 0);
        t->host->transfers--;
    }
    (void)limiter_leave(c->limiter, &t->pass); /* from any state, also when it brought its own */
    state_move(t, TRANSFER_ENDED);
    heap_remove(&c->deadlines, &t->deadline);
    INVARIANT(map_remove(c->live, id_key(&t->id)) == t);
    struct http_call *call = t->call;
    t->magic = 0;
    free(t);
    call->done(call, why);
}

static err call_check(struct http_call *call)
{
    bool fine = http_is_token(str_of(call->method));
    for (unsigned i = 0; fine && i < call->headers_count; i++)
        fine = http_is_token(call->headers[i].name) && reply_is_value(call->headers[i].value);
    if (!fine)
        err_note_set(&call->note, "the method or a header holds what none may hold");
    return fine ? ERR_OK : ERR_BAD;
}

/* Its turn, or a place in the queue. */
static err transfer_enter(struct transfer *t)
{
    const struct http_call *call = t->call;
    const struct limiter_key host = { .origin = str_of(t->host->key) };
    enum limiter_state state = LIMITER_IN;
    if (call->pass == NULL)
        state = limiter_enter(t->client->limiter, call->key != NULL ? call->key : &host, &t->pass);
    else
        INVARIANT(call->pass->state == LIMITER_IN);
    if (state == LIMITER_IN)
        transfer_resolve(t);
    else if (state == LIMITER_WAITING)
        state_move(t, TRANSFER_WAITING);
    return state == LIMITER_OUT ? ERR_LIMIT : ERR_OK;
}

static err transfer_admit(struct transfer *t)
{
    struct http_client *c = t->client;
    struct http_call *call = t->call;
    if (c->stopped) {
        err_note_set(&call->note, "the client has stopped");
        return ERR_SHUTDOWN;
    }
    err why = call_check(call);
    if (why == ERR_OK)
        why = call_url_parse(call->url, &t->url, &call->note);
    if (why != ERR_OK)
        return why;
    if (clock_mono(c->opts.clock).ns >= call->deadline.ns) {
        err_note_set(&call->note, "%s: no time was left to ask", t->url.host);
        return ERR_TIMEOUT;
    }
    t->host = host_of(c, &t->url);
    if (t->host != NULL) {
        t->host->transfers++;
        why = transfer_enter(t);
    }
    if (t->host == NULL || why == ERR_LIMIT) {
        err_note_set(&call->note, "%s: too many requests are waiting", t->url.host);
        return ERR_LIMIT;
    }
    return why;
}

static void transfer_start(void *ctx)
{
    struct transfer *t = ctx;
    struct http_client *c = t->client;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    heap_add(&c->deadlines, &t->deadline);
    INVARIANT(map_put(c->live, id_key(&t->id), t) == NULL);
    err why = transfer_admit(t);
    if (why != ERR_OK)
        transfer_end(t, why);
    deadlines_arm(c);
}

void http_call_start(struct http_client *c, struct http_call *call)
{
    MAGIC_CHECK(c, CLIENT_MAGIC);
    struct transfer *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->magic = TRANSFER_MAGIC;
    t->id = atomic_fetch_add(&c->ids, 1) + 1;
    t->client = c;
    t->call = call;
    t->pass = (struct limiter_pass){ .deadline = LIMITER_NEVER, .go = transfer_go };
    list_init(&t->resolving);
    call->status = 0;
    call->reply_headers = NULL;
    call->reply_headers_count = 0;
    call->reply_body = STR_NONE;
    call->sent = false;
    call->fault = HTTP_FAULT_NONE;
    call->fault_text = NULL;
    call->note.text[0] = 0;
    const struct call_own own = { .id = t->id };
    static_assert(sizeof own <= sizeof call->own, "the client's words hold it");
    memcpy(call->own, &own, sizeof own);
    loop_post(c->opts.loop, transfer_start, t);
}

struct cancel {
    struct http_client *client;
    uint64_t id;
};

static void cancel_here(void *ctx)
{
    struct cancel *cancel = ctx;
    struct http_client *c = cancel->client;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    struct transfer *t = map_get(c->live, id_key(&cancel->id));
    free(cancel);
    if (t == NULL) /* it was done meanwhile */
        return;
    err_note_set(&t->call->note, "canceled");
    transfer_end(t, ERR_SHUTDOWN);
}

void http_call_cancel(struct http_client *c, struct http_call *call)
{
    MAGIC_CHECK(c, CLIENT_MAGIC);
    struct call_own own;
    memcpy(&own, call->own, sizeof own);
    struct cancel *cancel = malloc(sizeof *cancel);
    INVARIANT(cancel != NULL);
    *cancel = (struct cancel){ .client = c, .id = own.id };
    loop_post(c->opts.loop, cancel_here, cancel);
}

str http_call_header(const struct http_call *call, const char *name)
{
    for (unsigned i = 0; i < call->reply_headers_count; i++)
        if (str_eq_nocase(call->reply_headers[i].name, str_of(name)))
            return call->reply_headers[i].value;
    return STR_NONE;
}

/* ---- the client ---- */

static struct http_client_opts opts_filled(struct http_client_opts o)
{
    o.per_host_max = o.per_host_max != 0 ? o.per_host_max : 8;
    o.connections_max = o.connections_max != 0 ? o.connections_max : 64;
    o.waiting_max = o.waiting_max != 0 ? o.waiting_max : 10000;
    o.connect_timeout_ms = o.connect_timeout_ms != 0 ? o.connect_timeout_ms : 3000;
    o.dns_ttl_ms = o.dns_ttl_ms != 0 ? o.dns_ttl_ms : 30000;
    return o;
}

static void connections_keep(struct http_client *c)
{
    long most = (long)c->opts.connections_max;
    INVARIANT(curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, most) == CURLM_OK);
}

struct http_client *http_client_new(const struct http_client_opts *opts)
{
    struct http_client *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = CLIENT_MAGIC;
    c->opts = opts_filled(*opts);
    INVARIANT(c->opts.connections_max <= HTTP_CLIENT_CONNECTIONS_MAX);
    heap_init(&c->deadlines, deadline_before);
    c->live = map_new(0); /* keys are ours */
    c->hosts_by_key = map_new((uint64_t)clock_mono(opts->clock).ns);
    c->deadline_timer = loop_timer_new(opts->loop, on_deadline, c);
    c->limiter = limiter_new(opts->loop, opts->clock);
    limiter_limit(c->limiter, LIMITER_ALL, NULL,
                  (struct limiter_limits){ .running_max = c->opts.connections_max });
    limiter_limit(c->limiter, LIMITER_ORIGIN, NULL,
                  (struct limiter_limits){ .running_max = c->opts.per_host_max });
    limiter_limit(c->limiter, LIMITER_KIND, NULL,
                  (struct limiter_limits){ .waiting_max = c->opts.waiting_max });
    client_curl_open(c);
    connections_keep(c);
    return c;
}

void http_client_limit(struct http_client *c, const struct http_client_opts *opts)
{
    const struct http_client_opts o = opts_filled(*opts);
    MAGIC_CHECK(c, CLIENT_MAGIC);
    INVARIANT(o.connections_max <= HTTP_CLIENT_CONNECTIONS_MAX);
    struct limiter_limits all = limiter_limits_of(c->limiter, LIMITER_ALL, NULL);
    c->opts.connections_max = o.connections_max;
    c->opts.connect_timeout_ms = o.connect_timeout_ms;
    c->opts.dns_ttl_ms = o.dns_ttl_ms;
    all.running_max = o.connections_max; /* flights have a limit of their own there */
    limiter_limit(c->limiter, LIMITER_ALL, NULL, all);
    connections_keep(c);
}

struct limiter *http_client_limiter(struct http_client *c)
{
    MAGIC_CHECK(c, CLIENT_MAGIC);
    return c->limiter;
}

static void stop_here(void *ctx)
{
    struct http_client *c = ctx;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    c->stopped = true;
    for (struct transfer *t = deadline_first(c); t != NULL; t = deadline_first(c)) {
        err_note_set(&t->call->note, "the client has stopped");
        transfer_end(t, ERR_SHUTDOWN);
    }
}

void http_client_stop(struct http_client *c)
{
    MAGIC_CHECK(c, CLIENT_MAGIC);
    loop_post(c->opts.loop, stop_here, c);
}

void http_client_free(struct http_client **cp)
{
    struct http_client *c = *cp;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    INVARIANT(map_count(c->live) == 0);
    while (c->hosts != NULL)
        host_free(c, c->hosts);
    client_curl_close(c);
    limiter_free(&c->limiter);
    loop_timer_free(&c->deadline_timer);
    heap_fini(&c->deadlines);
    map_free(&c->live);
    map_free(&c->hosts_by_key);
    c->magic = 0;
    free(c);
    *cp = NULL;
}
