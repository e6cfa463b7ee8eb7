/* origin_check.c - palimpsest origin check: asks the configured origins what a server would ask
 * them.
 *
 * Each check is a step that starts one request and leads to the next; all run on a loop of our own,
 * on this thread. Invariant: one request is under way, or the check is over. */
#include "cli/config.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "http/client.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "render/title_rules.h"
#include "server/options.h"
#include "server/origins.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_PAGE "Main_Page"
#define CHECK_STRANGER "Palimpsest/no_such_page" /* owns no revision */
#define CHECK_WORD "transformed"
enum { CHECK_ARENA_BYTES = 160 << 20, CHECK_NAME_BYTES = 24 };

struct check {
    const struct config_domain *domain;
    const char *title;
    struct loop *loop;
    struct clock *clock;
    struct http_client *client;
    struct origin *origin;
    struct arena arena;
    struct siteinfo_waiter site;
    struct render_request request;
    struct transform_request transform;
    mono began;
    uint64_t rev;
    unsigned failed;
    json_t *steps; /* of --json; NULL: printed as they come */
};

static const char *const kind_names[ORIGIN_KINDS] = { "parsoid", "rest", "template" };

/* ---- what is told ---- */

static void origin_check_tell(struct check *c, const char *name, bool fine, const char *text)
{
    int64_t ms = (clock_mono(c->clock).ns - c->began.ns) / NS_PER_MS;
    c->failed += !fine;
    if (c->steps != NULL) {
        json_array_append_new(c->steps, json_pack("{s:s, s:b, s:s, s:I}", "check", name, "ok", fine,
                                                  "text", text, "ms", (json_int_t)ms));
        return;
    }
    printf("  %-7s %-10s ", fine ? "ok" : "FAILED", name);
    out_text(stdout, str_of(text));
    printf("  (%lld ms)\n", (long long)ms);
}

static void tell_fine(struct check *c, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
static void tell_fine(struct check *c, const char *name, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    origin_check_tell(c, name, true, text);
}

/* What the operator may have got wrong. */
static const char *advice(enum render_why why, const char *step)
{
    bool site = strcmp(step, "siteinfo") == 0;
    switch (why) {
    case RENDER_FINE:
    case RENDER_CANCELED:
    case RENDER_WHYS:
        return "";
    case RENDER_NO_PAGE:
        return "; name a page it has with --title";
    case RENDER_NO_REVISION:
    case RENDER_SUPPRESSED:
        return "";
    case RENDER_OTHER_TITLE:
        return "; name it as the wiki writes it";
    case RENDER_DENIED:
        return "; the wiki is private, and the server reads it as nobody in particular";
    case RENDER_REFUSED:
        return site ? "; is origin.api its api.php?" : "; does it know origin.domain?";
    case RENDER_BUSY:
        return "; it is overloaded or under maintenance";
    case RENDER_FAILED:
        return site ? "; is it up, and is origin.api its api.php?"
                    : "; is it up, and is origin.url its rest.php?";
    case RENDER_TIMEOUT:
        return "; see origin.timeout";
    case RENDER_LIMIT:
        return "; see origin.reply_bytes_max";
    }
    return "";
}

static void tell_failure(struct check *c, const char *name, enum render_why why,
                         const struct err_note *note)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %.300s%s", render_why_name(why), note->text,
             advice(why, name));
    origin_check_tell(c, name, false, text);
}

/* ---- the steps, last first ---- */

static void origin_check_begin(struct check *c)
{
    c->began = clock_mono(c->clock);
    arena_reset(&c->arena);
}

static mono deadline(const struct check *c)
{
    return mono_add_ms(c->began,
                       2 * origin_opts_of(c->origin)->timeout_ms); /* two requests at most */
}

static void transformed(struct transform_request *t, enum render_why why)
{
    struct check *c = t->ctx;
    if (why != RENDER_FINE)
        tell_failure(c, "transform", why, &t->note);
    else if (str_find_str(t->reply, STR(CHECK_WORD)) == t->reply.n)
        origin_check_tell(c, "transform", false, "the answer does not hold the word it was sent");
    else
        tell_fine(c, "transform", "wikitext to HTML");
    loop_stop(c->loop);
}

static void check_transform(struct check *c)
{
    if (origin_opts_of(c->origin)->kind != ORIGIN_PARSOID) {
        loop_stop(c->loop);
        return;
    }
    origin_check_begin(c);
    c->transform = (struct transform_request){ .origin = c->origin,
                                               .from = "wikitext",
                                               .to = "html",
                                               .title = str_of(c->title),
                                               .body = STR("{\"wikitext\":\"'''" CHECK_WORD
                                                           "'''\",\"body_only\":true}"),
                                               .deadline = deadline(c),
                                               .arena = &c->arena,
                                               .done = transformed,
                                               .ctx = c };
    transform_start(&c->transform);
}

static void start_request(struct check *c, enum render_want want, str title, uint64_t rev,
                          void (*done)(struct render_request *r, enum render_why why))
{
    origin_check_begin(c);
    c->request = (struct render_request){ .origin = c->origin,
                                          .want = want,
                                          .title = title,
                                          .rev = rev,
                                          .deadline = deadline(c),
                                          .arena = &c->arena,
                                          .done = done,
                                          .ctx = c };
    render_start(&c->request);
}

static void stranger_answered(struct render_request *r, enum render_why why)
{
    struct check *c = r->ctx;
    if (why == RENDER_NO_PAGE || why == RENDER_NO_REVISION)
        tell_fine(c, "revision", "revision %llu belongs to %s and to no other page",
                  (unsigned long long)c->rev, c->title);
    else if (why == RENDER_FINE)
        origin_check_tell(c, "revision", false,
                          "a page that is not there was said to own the revision");
    else
        tell_failure(c, "revision", why, &r->note);
    check_transform(c);
}

static void check_revision(struct check *c)
{
    if (!origin_has_api(c->origin) || c->rev == 0)
        check_transform(c);
    else
        start_request(c, WANT_META, STR(CHECK_STRANGER), c->rev, stranger_answered);
}

static void rendered(struct render_request *r, enum render_why why)
{
    struct check *c = r->ctx;
    if (why != RENDER_FINE) {
        tell_failure(c, "render", why, &r->note);
        check_revision(c);
        return;
    }
    char text[256] = "";
    size_t used = 0;
    for (unsigned i = 0; i < r->contents_count && used < sizeof text; i++) {
        char size[OUT_SIZE_BYTES];
        out_size(r->contents[i].raw.n, size);
        int n = snprintf(text + used, sizeof text - used, "%s%.*s %s", i > 0 ? ", " : "",
                         STR_ARG(str_take(r->contents[i].name, CHECK_NAME_BYTES)), size);
        used += n > 0 ? (size_t)n : 0;
    }
    tell_fine(c, "render", "%s revision %llu: %s", c->title, (unsigned long long)r->meta.rev, text);
    c->rev = r->meta.rev;
    check_revision(c);
}

static void check_render(struct check *c)
{
    start_request(c, WANT_RENDER, str_of(c->title), 0, rendered);
}

/* All of both requests is over, or the time of three. */
static void site_known(struct siteinfo_waiter *w, enum render_why why, const struct err_note *note)
{
    struct check *c = w->ctx;
    struct siteinfo *s = origin_siteinfo(c->origin);
    if (s != NULL)
        tell_fine(c, "siteinfo", "%.*s, language %.*s", STR_ARG(str_take(siteinfo_server(s), 200)),
                  STR_ARG(str_take(siteinfo_language(s), CHECK_NAME_BYTES)));
    if (why != RENDER_FINE)
        tell_failure(c, s != NULL ? "transforms" : "siteinfo", why, note);
    siteinfo_unref(&s);
    check_render(c);
}

static void check_site(void *ctx)
{
    struct check *c = ctx;
    if (!origin_has_api(c->origin)) {
        check_render(c);
        return;
    }
    origin_check_begin(c);
    mono late = mono_add_ms(c->began, 3 * origin_opts_of(c->origin)->timeout_ms);
    c->site = (struct siteinfo_waiter){
        .deadline = late, .transforms = true, .got = site_known, .ctx = c
    };
    origin_siteinfo_wait(c->origin, &c->site);
}

/* ---- the verb ---- */

static void run_steps(struct check *c, const struct config *config)
{
    struct http_client_opts opts = config->client;
    opts.loop = c->loop;
    opts.clock = c->clock;
    opts.user_agent = "palimpsest";
    c->client = http_client_new(&opts);
    c->began = clock_mono(c->clock);
    struct err_note note;
    if (origins_new(c->client, c->loop, c->clock, c->domain, &c->origin, &note) != ERR_OK) {
        origin_check_tell(c, "options", false, note.text);
    } else {
        loop_post(c->loop, check_site, c);
        loop_run(c->loop);
        INVARIANT(origin_idle(c->origin));
        origin_free(&c->origin);
    }
    http_client_free(&c->client);
}

static bool check_domain(const struct config *config, const struct config_domain *domain,
                         const char *title, json_t *all)
{
    struct sysclock *sysclock = sysclock_new();
    struct check *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    *c = (struct check){ .domain = domain,
                         .title = title,
                         .clock = sysclock_clock(sysclock),
                         .loop = loop_new(2),
                         .steps = all != NULL ? json_array() : NULL };
    arena_init(&c->arena, CHECK_ARENA_BYTES);
    const struct origin_opts *o = &domain->origin;
    if (all == NULL)
        printf("%s: %s at %s\n", domain->name, kind_names[o->kind], o->url);
    run_steps(c, config);
    if (all != NULL)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b, s:o}", "domain", domain->name,
                                             "kind", kind_names[o->kind], "url", o->url, "ok",
                                             c->failed == 0, "checks", c->steps));
    bool fine = c->failed == 0;
    arena_fini(&c->arena);
    loop_free(&c->loop);
    sysclock_free(&sysclock);
    free(c);
    return fine;
}

static enum cli_exit check_all(const struct config *config, const struct cli_call *call)
{
    const char *only = call->operands_count > 0 ? call->operands[0] : NULL;
    const char *title = cli_value(call, "title");
    json_t *all = cli_flag(call, "json") ? json_array() : NULL;
    bool fine = true;
    unsigned checked = 0;
    for (unsigned i = 0; i < config->domains_count; i++) {
        const struct config_domain *d = &config->domains[i];
        if (d->origin.url == NULL || (only != NULL && strcmp(only, d->name) != 0))
            continue;
        checked++;
        fine = check_domain(config, d, title != NULL ? title : CHECK_PAGE, all) && fine;
    }
    if (all != NULL)
        out_json(stdout, all);
    json_decref(all);
    if (checked > 0)
        return fine ? CLI_OK : CLI_FAILED;
    if (only != NULL)
        return cli_fail(call, CLI_USAGE, "origin check: %s has no origin", only);
    return cli_fail(call, CLI_USAGE,
                    "origin check: no domain has an origin; domains.NAME.origin.url names one");
}

enum cli_exit verb_origin_check(struct cli_call *call)
{
    struct options *o = options_new();
    enum cli_exit code = config_load(o, call);
    if (code == CLI_OK)
        code = check_all(options_config(o), call);
    options_free(&o);
    return code;
}
