/* transform.c - the phases of a transform.
 *
 *   SETTLE the title -> RULES, to know whether the origin transforms at all
 *     |-> USER: whose the cookies are
 *     |     /-> CHECK: may it still be given? -> FIND once more, or END
 *     \-> FIND the original (pool) -> WRITE what is asked (pool) -> ASK the origin (loop)
 *           |-> HOP: not here. Has another server it? -> WRITE
 *           \-> END: not stored         FATE: is the page gone? <-/ |  \-> END
 *                                                                   |-> UNWRAP its bundle (pool) ->
 * END
 *                                                                   \-> KEEP it for the edit -> END
 *
 * Invariants: each phase has one thing under way, or none; what is under way calls transform_go, on
 * whichever thread, and nothing of t is touched meanwhile, but by page_transform_leave. A phase
 * runs where its row says. Only ASK and its end, both on the loop, touch `asking`. */
#include "base/check.h"
#include "codec/json.h"
#include "loop/loop.h"
#include "page/headers.h"
#include "page/stash.h"
#include "page/transform_impl.h"
#include "render/title_rules.h"

enum { ORIGIN_MEMBERS_MAX = 16, WORDS_BYTES_MAX = 200 };

/* The words of the API that name a kind. */
static const struct {
    const char *from, *to;
} kinds[TRANSFORM_KINDS] = {
    [HTML_TO_WIKITEXT] = { "html", "wikitext" },
    [HTML_TO_HTML] = { "html", "html" },
    [WIKITEXT_TO_HTML] = { "wikitext", "html" },
    [WIKITEXT_TO_LINT] = { "wikitext", "lint" },
};

static enum transform_phase settle_enter(struct page_transform *t);
static enum transform_phase rules_enter(struct page_transform *t);
static enum transform_phase user_enter(struct page_transform *t);
static enum transform_phase write_enter(struct page_transform *t);
static enum transform_phase ask_enter(struct page_transform *t);
static enum transform_phase unwrap_enter(struct page_transform *t);
static enum transform_phase fate_enter(struct page_transform *t);
static enum transform_phase end_enter(struct page_transform *t);

/* Where the entry of a phase runs. HERE: on the thread of the phase before. */
enum phase_place { PLACE_HERE, PLACE_HOME, PLACE_LOOP, PLACE_POOL };
/* Each phase: its entry, the place where that runs, and the phases that may follow. */
static const struct {
    enum transform_phase (*enter)(struct page_transform *t);
    enum phase_place place;
    unsigned next;
} phases[PHASES] = {
    [PHASE_WAITS] = { NULL, PLACE_HERE, BIT(PHASE_SETTLE) },
    [PHASE_SETTLE] = { settle_enter, PLACE_HERE,
                       BIT(PHASE_RULES) | BIT(PHASE_USER) | BIT(PHASE_FIND) | BIT(PHASE_END) },
    [PHASE_RULES] = { rules_enter, PLACE_HERE,
                      BIT(PHASE_RULES) | BIT(PHASE_USER) | BIT(PHASE_FIND) | BIT(PHASE_END) },
    [PHASE_USER] = { user_enter, PLACE_HERE, BIT(PHASE_FIND) | BIT(PHASE_END) },
    [PHASE_FIND] = { transform_find_enter, PLACE_POOL,
                     BIT(PHASE_CHECK) | BIT(PHASE_HOP) | BIT(PHASE_TAKE) | BIT(PHASE_WRITE) |
                         BIT(PHASE_END) },
    [PHASE_CHECK] = { transform_check_enter, PLACE_HERE, BIT(PHASE_FIND) | BIT(PHASE_END) },
    [PHASE_HOP] = { transform_hop_enter, PLACE_HERE,
                    BIT(PHASE_TAKE) | BIT(PHASE_WRITE) | BIT(PHASE_END) },
    [PHASE_TAKE] = { transform_take_enter, PLACE_LOOP, BIT(PHASE_FIND) | BIT(PHASE_END) },
    [PHASE_WRITE] = { write_enter, PLACE_HERE, BIT(PHASE_ASK) | BIT(PHASE_END) },
    [PHASE_ASK] = { ask_enter, PLACE_LOOP,
                    BIT(PHASE_UNWRAP) | BIT(PHASE_KEEP) | BIT(PHASE_FATE) | BIT(PHASE_END) },
    [PHASE_UNWRAP] = { unwrap_enter, PLACE_POOL, BIT(PHASE_END) },
    [PHASE_KEEP] = { transform_keep_enter, PLACE_POOL, BIT(PHASE_END) },
    [PHASE_FATE] = { fate_enter, PLACE_LOOP, BIT(PHASE_END) },
    [PHASE_END] = { end_enter, PLACE_HOME, 0 },
};

static void phase_run(struct task *task)
{
    struct page_transform *t = CONTAINER_OF(task, struct page_transform, task);
    transform_go(t, phases[t->phase].enter(t));
}

/* Phases that run HERE follow each other in the loop; any other is posted, and t may be gone then.
 */
void transform_go(struct page_transform *t, enum transform_phase to)
{
    while (to != PHASE_WAITS) {
        INVARIANT((phases[t->phase].next & BIT(to)) != 0);
        t->phase = to;
        if (phases[to].place != PLACE_HERE) {
            struct loop *loop = t->service->loop;
            t->task.run = phase_run;
            home_post(phases[to].place == PLACE_HOME   ? t->home
                      : phases[to].place == PLACE_LOOP ? loop_home(loop)
                                                       : loop_pool(loop),
                      &t->task);
            return;
        }
        to = phases[to].enter(t);
    }
}

/* ---- ending ---- */

enum transform_phase transform_end(struct page_transform *t, enum transform_outcome outcome)
{
    t->outcome = outcome;
    return PHASE_END;
}

enum transform_phase transform_end_why(struct page_transform *t, enum transform_outcome outcome,
                                       err why, const struct err_note *note)
{
    t->why = why;
    if (note == NULL)
        t->note.text[0] = 0;
    else if (note != &t->note)
        t->note = *note;
    return transform_end(t, outcome);
}

static enum transform_phase origin_failed(struct page_transform *t, enum render_why why,
                                          const struct err_note *note, int64_t retry_after_s)
{
    t->retry_ms = 1000 * retry_after_s;
    return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, page_err_of_render(why), note);
}

/* The origin's own words, cut to WORDS_BYTES_MAX: editors show them to their users. */
static str origin_words(struct page_transform *t)
{
    struct json_member members[ORIGIN_MEMBERS_MAX];
    unsigned count;
    str value, text;
    if (json_slice_value(t->ask.reply, &value) &&
        json_slice_members(t->arena, value, members, ORIGIN_MEMBERS_MAX, &count) == ERR_OK) {
        const struct json_member *message = json_slice_find(members, count, "message");
        if (message != NULL && json_slice_string(t->arena, message->value, &text) == ERR_OK &&
            text.n > 0)
            return str_take(text, WORDS_BYTES_MAX);
    }
    return str_of(t->ask.note.text);
}

/* At home, once for each transform; done may free t. */
static enum transform_phase end_enter(struct page_transform *t)
{
    buf_fini(&t->sent);
    trust_release(&t->trusted.cell);
    if (t->outcome == TRANSFORM_REFUSED)
        t->words = origin_words(t);
    t->done(t);
    return PHASE_WAITS;
}

/* ---- what the origin said ---- */

/* What becomes of the edit when the wiki said this of the revision. FINE: then the failure is the
 * origin's. */
static enum transform_phase fate_judge(struct page_transform *t, enum render_why why)
{
    if (why == RENDER_NO_PAGE || why == RENDER_NO_REVISION)
        return transform_end(t, TRANSFORM_DELETED);
    if (why == RENDER_SUPPRESSED)
        return transform_end(t, TRANSFORM_HIDDEN);
    if (why == RENDER_FINE)
        return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, ERR_UNAVAILABLE, NULL);
    return origin_failed(t, why, &t->fate.request.note, t->fate.request.retry_after_s);
}

static void fate_told(struct page_ask *a)
{
    struct page_transform *t = CONTAINER_OF(a, struct page_transform, fate);
    transform_go(t, fate_judge(t, a->why));
}

/* Asks what became of the revision. Without cookies, as anybody would: the store and other servers
 * hear the answer. */
static enum transform_phase fate_enter(struct page_transform *t)
{
    t->of_fate = t->target;
    t->of_fate.has_rev = true;
    t->of_fate.name.rev = t->ask.rev;
    t->fate = (struct page_ask){ .service = t->service,
                                 .target = &t->of_fate,
                                 .want = WANT_META,
                                 .deadline = t->deadline,
                                 .arena = t->arena,
                                 .done = fate_told };
    page_ask_start(&t->fate);
    return PHASE_WAITS;
}

/* Cookies go to the origin only where the operator allows that. */
static str cookie_of(const struct page_transform *t)
{
    return t->target.domain->forward_cookies ? t->cookie : STR_NONE;
}

/* Takes the HTML out of the origin's bundle; that is the answer. */
static err unwrap(struct page_transform *t)
{
    struct render_content *html = &t->parts[0];
    bool fragment = t->kind == WIKITEXT_TO_HTML && t->fields.body_only;
    err why = pagebundle_html(t->ask.reply, t->arena, html, &t->note);
    if (why == ERR_OK && !fragment && !render_head_is(html->raw)) {
        err_note_set(&t->note, "the bundle's html has no head");
        why = ERR_BAD;
    }
    if (why != ERR_OK)
        return why == ERR_LIMIT ? why : ERR_CORRUPT;
    t->headers = html->headers;
    t->body = html->raw;
    /* Who edits a render that was brought up to date names that render: by the head. */
    bool named = t->kind != HTML_TO_HTML ||
                 render_head_put(t->arena, html->raw, t->original_name.name.tid, &t->body);
    return named ? ERR_OK : ERR_LIMIT;
}

static enum transform_phase unwrap_enter(struct page_transform *t)
{
    err why = unwrap(t);
    return why == ERR_OK ? transform_end(t, TRANSFORM_DONE)
                         : transform_end_why(t, TRANSFORM_ORIGIN_FAILED, why, &t->note);
}

/* ---- asking the origin ---- */

static bool has_bundles(const struct page_transform *t)
{
    const struct origin *origin = t->target.domain->origin;
    return origin != NULL && origin_opts_of(origin)->kind == ORIGIN_PARSOID;
}

/* Is a bundle asked for? Its HTML has ids that tie it to its data; other HTML carries the data
 * inline. */
static bool makes_bundle(const struct page_transform *t)
{
    return has_bundles(t) && (t->kind == WIKITEXT_TO_HTML || t->kind == HTML_TO_HTML);
}

/* Is the outcome kept for the editor's next request? */
static bool is_kept(const struct page_transform *t)
{
    return t->kind == WIKITEXT_TO_HTML && t->fields.stash;
}

/* Loop. Sorts the origin's answer. */
static enum transform_phase asked_judge(struct page_transform *t, enum render_why why)
{
    const struct transform_request *r = &t->ask;
    if (why == RENDER_NO_REVISION && r->rev != 0)
        return PHASE_FATE;
    if (why == RENDER_NO_REVISION) /* of none; to an editor a 404 is a page to begin, without what
                                      was typed */
        return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, ERR_UNAVAILABLE, &r->note);
    t->origin_status = r->status;
    if (why == RENDER_REFUSED || why == RENDER_DENIED)
        return transform_end(t, TRANSFORM_REFUSED);
    if (why != RENDER_FINE)
        return origin_failed(t, why, &r->note, r->retry_after_s);
    /* The revision may have been hidden while the origin worked: then its text is not given. */
    struct page_denied denied = { .why = RENDER_FINE };
    if (r->rev != 0)
        denied = page_denied_since(t->service, &t->target, r->rev, t->began);
    if (denied.why != RENDER_FINE)
        return fate_judge(t, denied.why);
    if (is_kept(t))
        return PHASE_KEEP;
    if (makes_bundle(t))
        return PHASE_UNWRAP;
    t->headers = arena_printf(t->arena, "content-type: %.*s\n", STR_ARG(r->content_type));
    t->body = r->reply;
    return transform_end(t, TRANSFORM_DONE);
}

static void transform_asked(struct transform_request *r, enum render_why why)
{
    struct page_transform *t = CONTAINER_OF(r, struct page_transform, ask);
    t->asking = false;
    buf_fini(&t->sent);
    transform_go(t, asked_judge(t, why));
}

/* Loop, as `asking` and the cancel are. */
static enum transform_phase ask_enter(struct page_transform *t)
{
    static const enum transform_empty empty[] = {
        [HOLDS_NOTHING] = EMPTY_FINE, [HOLDS_ELEMENTS] = EMPTY_IF_NAMED, [HOLDS_TEXT] = EMPTY_NEVER
    };
    bool of_bundle = (t->kind == HTML_TO_WIKITEXT && t->has_original) || t->kind == HTML_TO_HTML;
    t->ask = (struct transform_request){ .origin = t->target.domain->origin,
                                         /* With its original a document goes as a bundle, so that
                                          * what was not touched comes back as it was. */
                                         .from = of_bundle ? "pagebundle" : kinds[t->kind].from,
                                         .to = makes_bundle(t) ? "pagebundle" : kinds[t->kind].to,
                                         .title = t->target.title,
                                         .rev = t->has_original ? t->original_name.name.rev
                                                                : t->target.name.rev,
                                         .body = buf_str(&t->sent),
                                         .empty = empty[t->holds],
                                         .accept = t->kind == HTML_TO_HTML ? t->accept : STR_NONE,
                                         .accept_language = t->accept_language,
                                         .cookie = cookie_of(t),
                                         .deadline = t->deadline,
                                         .arena = t->arena,
                                         .done = transform_asked };
    t->began = clock_store(t->service->clock);
    t->asking = true;
    transform_start(&t->ask);
    return PHASE_WAITS;
}

void page_transform_leave(struct page_transform *t)
{
    if (t->asking)
        transform_cancel(&t->ask);
}

/* Writes the body that the origin is asked with, once the original is there. */
static enum transform_phase write_enter(struct page_transform *t)
{
    t->holds = HOLDS_TEXT;
    if (t->kind == HTML_TO_WIKITEXT) {
        t->holds = transform_holds(t->fields.html);
        transform_body_html(&t->sent, t->fields.html, t->has_original ? &t->original : NULL);
    } else if (t->kind == HTML_TO_HTML) {
        transform_body_updates(&t->sent, &t->fields, &t->original);
    } else {
        transform_body_wikitext(&t->sent, t->fields.wikitext, t->fields.body_only);
    }
    err why = buf_status(&t->sent);
    return why == ERR_OK ? PHASE_ASK : transform_end_why(t, TRANSFORM_FAILED, why, NULL);
}

/* ---- before anything is looked for ---- */

static enum transform_phase user_judge(struct page_transform *t, enum render_why why)
{
    if (why != RENDER_FINE)
        return origin_failed(t, why, &t->meta.note, t->meta.retry_after_s);
    t->kept_title = page_preview_key(t->arena, t->meta.user_id, t->target.title);
    return t->kept_title.p != NULL ? PHASE_FIND
                                   : transform_end_why(t, TRANSFORM_FAILED, ERR_LIMIT, NULL);
}

static void user_told(struct render_request *r, enum render_why why)
{
    struct page_transform *t = CONTAINER_OF(r, struct page_transform, meta);
    transform_go(t, user_judge(t, why));
}

/* Finds out whose cookies these are: what is kept, or looked for, stands under that user. */
static enum transform_phase user_enter(struct page_transform *t)
{
    t->meta = (struct render_request){ .origin = t->target.domain->origin,
                                       .want = WANT_USER,
                                       .title = t->target.title,
                                       .rev = t->ask.rev,
                                       .cookie = cookie_of(t),
                                       .deadline = t->deadline,
                                       .arena = t->arena,
                                       .done = user_told };
    render_start(&t->meta);
    return PHASE_WAITS;
}

/* Goes on once the title is settled: by now it is known whether the origin transforms, or the rules
 * say so. */
static enum transform_phase transform_settled(struct page_transform *t)
{
    enum origin_transforms has = origin_transforms(t->target.domain->origin);
    if (has == TRANSFORMS_NONE) /* which the rules of titles told, too */
        return transform_end(t, TRANSFORM_NONE);
    if (has == TRANSFORMS_UNKNOWN) /* without a title nobody asked for the rules */
        return PHASE_RULES;
    t->kept_title = t->target.title;
    bool of_user = cookie_of(t).n > 0 && (t->has_original || is_kept(t));
    return of_user ? PHASE_USER : PHASE_FIND;
}

static void rules_told(struct siteinfo_waiter *s, enum render_why why, const struct err_note *note)
{
    struct page_transform *t = CONTAINER_OF(s, struct page_transform, title.siteinfo);
    transform_go(t, why == RENDER_FINE ? transform_settled(t) : origin_failed(t, why, note, 0));
}

static enum transform_phase rules_enter(struct page_transform *t)
{
    t->title.siteinfo =
        (struct siteinfo_waiter){ .deadline = t->deadline, .transforms = true, .got = rules_told };
    origin_siteinfo_wait(t->target.domain->origin, &t->title.siteinfo);
    return PHASE_WAITS;
}

static enum transform_phase title_judge(struct page_transform *t)
{
    const struct page_title_wait *w = &t->title;
    switch (w->end) {
    case TITLE_BAD:
        return transform_end_why(t, TRANSFORM_BAD_TITLE, w->why, &w->note);
    case TITLE_NO_RULES:
        return transform_end_why(t, TRANSFORM_ORIGIN_FAILED, w->why, &w->note);
    case TITLE_SETTLED:
        break;
    }
    return transform_settled(t);
}

static void title_done(struct page_title_wait *w)
{
    struct page_transform *t = CONTAINER_OF(w, struct page_transform, title);
    transform_go(t, title_judge(t));
}

static enum transform_phase settle_enter(struct page_transform *t)
{
    t->title = (struct page_title_wait){ .target = &t->target,
                                         .arena = t->arena,
                                         .deadline = t->deadline,
                                         .home = t->home,
                                         .done = title_done };
    if (page_title_settle(&t->title))
        return title_judge(t);
    page_title_wait(&t->title);
    return PHASE_WAITS;
}

void page_transform_start(struct page_transform *t)
{
    buf_init(&t->sent, t->service->arena_bytes_max);
    transform_go(t, PHASE_SETTLE);
}

/* ---- what may be asked ---- */

enum transform_kind page_transform_kind(str from, str to)
{
    enum transform_kind kind = 0;
    while (kind < TRANSFORM_KINDS &&
           !(str_eq(from, str_of(kinds[kind].from)) && str_eq(to, str_of(kinds[kind].to))))
        kind++;
    return kind;
}

enum transform_refusal page_transform_can(const struct page_transform *t)
{
    struct origin *origin = t->target.domain->origin;
    bool updates = t->kind == HTML_TO_HTML,
         saves = t->kind == HTML_TO_WIKITEXT && t->target.name.rev > 0;
    if (t->kind == TRANSFORM_KINDS)
        return TRANSFORM_NO_KIND;
    if (origin == NULL || origin_transforms(origin) == TRANSFORMS_NONE)
        return TRANSFORM_NO_ORIGIN;
    return !has_bundles(t) && (updates || saves) ? TRANSFORM_NO_BUNDLES : TRANSFORM_ALLOWED;
}

/* Finds out which render the document was made from: by the tag, else by the HTML's head and the
 * revision. */
static enum transform_refusal name_original(struct page_transform *t)
{
    struct page_edited *name = &t->original_name;
    bool of_html = t->kind == HTML_TO_WIKITEXT || t->kind == HTML_TO_HTML;
    if (!of_html || !has_bundles(t) || t->target.title.n == 0)
        return TRANSFORM_ALLOWED;
    if (t->tag.n > 0) {
        t->has_original = page_edited_parse(t->tag, name);
    } else if (t->target.name.rev > 0) {
        t->has_original = render_head_tid(t->fields.html, &name->name.tid);
        name->name.rev = t->target.name.rev;
    }
    return t->has_original || (t->tag.n == 0 && t->target.name.rev == 0) ? TRANSFORM_ALLOWED
                                                                         : TRANSFORM_BAD_TAG;
}

/* Is there enough to bring a render up to date: its name, and which update? */
static enum transform_refusal check_updates(const struct page_transform *t)
{
    const struct transform_fields *f = &t->fields;
    if (t->target.title.n == 0 || t->target.name.rev == 0)
        return TRANSFORM_NO_RENDER;
    if (!f->redlinks && f->variant_target.n == 0)
        return TRANSFORM_NO_UPDATES;
    return f->html.p == NULL && t->tag.n == 0 ? TRANSFORM_NO_NAME : TRANSFORM_ALLOWED;
}

static enum transform_refusal check_wikitext(const struct page_transform *t)
{
    if (t->fields.wikitext.p == NULL)
        return TRANSFORM_NO_WIKITEXT;
    if (!is_kept(t))
        return TRANSFORM_ALLOWED;
    if (!has_bundles(t))
        return TRANSFORM_NO_DATA;
    if (t->target.title.n == 0)
        return TRANSFORM_KEEPS_NO_PAGE;
    return t->fields.body_only ? TRANSFORM_KEEPS_PART : TRANSFORM_ALLOWED;
}

enum transform_refusal page_transform_check(struct page_transform *t)
{
    enum transform_refusal refusal = TRANSFORM_ALLOWED;
    if (t->kind == HTML_TO_HTML)
        refusal = check_updates(t);
    else if (t->kind != HTML_TO_WIKITEXT)
        refusal = check_wikitext(t);
    else if (t->fields.html.p == NULL)
        refusal = TRANSFORM_NO_HTML;
    return refusal != TRANSFORM_ALLOWED ? refusal : name_original(t);
}
