/* verify.c - reads renders back that were put, and compares digests.
 *
 * Compared are SHA-256 of each content's bytes. A render that is not there is judged by what
 * explain says of it; where it knows nothing of it, the newest render of that revision may be the
 * same one. */
#include "cli/verify.h"

#include "codec/json.h"
#include "codec/sha256.h"
#include "store/bundle.h"

#include <string.h>

enum { PATH_BYTES_MAX = 16384 };

static void name_of(const struct upload_item *item, char rev[24], char tid[TID_TEXT_BYTES + 1])
{
    (void)snprintf(rev, 24, "%llu", (unsigned long long)item->rev); /* fits */
    tid_format(item->tid, tid);
}

/* With only its revision: the newest render of that. */
static err verify_ask(struct client *c, const struct upload_item *item, str what, bool exact,
                      struct client_answer *out, struct err_note *note)
{
    char rev[24], tid[TID_TEXT_BYTES + 1];
    name_of(item, rev, tid);
    struct buf path;
    buf_init(&path, PATH_BYTES_MAX);
    client_path_render(c, &path, what, item->title,
                       (const char *const[]){ rev, exact ? tid : NULL });
    buf_put(&path, STR("?redirect=false"));
    err e = client_send(c,
                        &(struct client_request){
                            .method = "GET", .path = client_path(&path), .only_stored = true },
                        out, note);
    buf_fini(&path);
    return e;
}

static void plain_add(void *ctx, str bytes)
{
    sha256_add(ctx, bytes);
}

static void digest_of(str bytes, bool plain, unsigned char out[SHA256_BYTES])
{
    struct evp_md_ctx_st *h = sha256_begin();
    if (plain)
        bundle_plain(bytes, plain_add, h);
    else
        sha256_add(h, bytes);
    sha256_end(h, out);
}

static bool digests_equal(str a, str b, bool plain)
{
    unsigned char of_a[SHA256_BYTES], of_b[SHA256_BYTES];
    digest_of(a, plain, of_a);
    digest_of(b, plain, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

/* What explain knows of a render that is not there. */
static err judge_absent(struct client *c, const struct upload_item *item, bool *known,
                        struct err_note *note)
{
    struct client_answer a;
    err e = verify_ask(c, item, STR("explain"), true, &a, note);
    if (e == ERR_OK && a.status == 200) {
        json_t *doc = json_body_read(buf_str(&a.body));
        const char *state = json_string_value(json_object_get(doc, "state"));
        *known = state != NULL && strcmp(state, "unknown") != 0;
        json_decref(doc);
    }
    client_answer_fini(&a);
    return e;
}

static err verify_same(struct client *c, const struct upload_item *item,
                       const struct upload_part *part, enum verdict *out, struct err_note *note)
{
    struct client_answer a;
    bool html = str_starts(str_of(part->type), STR("text/html"));
    err e = verify_ask(c, item, str_of(part->content), false, &a, note);
    *out = e == ERR_OK && a.status == 200 && digests_equal(part->bytes, buf_str(&a.body), html)
               ? VERDICT_SAME
               : VERDICT_MISSING;
    client_answer_fini(&a);
    return e;
}

static err verify_part(struct client *c, const struct upload_item *item,
                       const struct upload_part *part, enum verdict *out, struct err_note *note)
{
    struct client_answer a;
    bool known = false;
    err e = verify_ask(c, item, str_of(part->content), true, &a, note);
    bool there = e == ERR_OK && a.status == 200;
    if (e == ERR_OK && (a.status == 401 || a.status >= 500) && a.status != 504) {
        e = ERR_UNAVAILABLE;
        (void)client_explain(c, &a, note);
    }
    if (there)
        *out = digests_equal(part->bytes, buf_str(&a.body), false) ? VERDICT_EQUAL : VERDICT_DIFFER;
    client_answer_fini(&a);
    if (e != ERR_OK || there)
        return e;
    e = judge_absent(c, item, &known, note);
    *out = VERDICT_LET_GO;
    return e == ERR_OK && !known ? verify_same(c, item, part, out, note) : e;
}

static err item_judge(struct client *c, const struct upload_item *item, enum verdict *out,
                      struct err_note *note)
{
    *out = VERDICT_EQUAL;
    for (unsigned i = 0; i < item->parts_count; i++) {
        enum verdict of_part = VERDICT_EQUAL;
        err e = verify_part(c, item, &item->parts[i], &of_part, note);
        if (e != ERR_OK)
            return e;
        *out = of_part > *out ? of_part : *out;
    }
    return ERR_OK;
}

/* It is not there: does the server refuse it? */
static err item_again(struct import *im, const struct upload_item *item, enum verdict *out,
                      struct err_note *note)
{
    uint64_t refused = uploads_counts(im->uploads).refused;
    err e = uploads_put(im->uploads, item, note);
    if (e == ERR_OK)
        e = uploads_finish(im->uploads, note);
    if (e == ERR_OK && uploads_counts(im->uploads).refused > refused)
        *out = VERDICT_REFUSED;
    return e;
}

err verify_item(struct verify *v, struct import *im, const struct upload_item *item,
                struct err_note *note)
{
    enum verdict verdict;
    err e = item_judge(&im->client, item, &verdict, note);
    if (e == ERR_OK && verdict == VERDICT_MISSING)
        e = item_again(im, item, &verdict, note);
    if (e != ERR_OK)
        return e;
    v->of[verdict]++;
    if (verdict == VERDICT_MISSING)
        import_warned(im, item->title, "a render was not there, and is stored now");
    else if (verdict == VERDICT_DIFFER)
        import_warned(im, item->title, "a render is stored with other bytes");
    return ERR_OK;
}

bool verify_failed(const struct verify *v)
{
    return v->of[VERDICT_DIFFER] + v->of[VERDICT_MISSING] > 0;
}

static const struct {
    const char *name, *text;
} verdicts[VERDICTS] = {
    [VERDICT_EQUAL] = { "equal", "equal" },
    [VERDICT_SAME] = { "same", "the same render under another tid" },
    [VERDICT_LET_GO] = { "let_go", "let go since" },
    [VERDICT_REFUSED] = { "refused", "refused" },
    [VERDICT_DIFFER] = { "differ", "with other bytes" },
    [VERDICT_MISSING] = { "missing", "were missing and are stored now" },
};

void verify_print(const struct verify *v)
{
    printf("verified: %llu equal", (unsigned long long)v->of[VERDICT_EQUAL]);
    for (unsigned i = VERDICT_EQUAL + 1; i < VERDICTS; i++)
        if (v->of[i] > 0)
            printf(", %llu %s", (unsigned long long)v->of[i], verdicts[i].text);
    fputc('\n', stdout);
}

json_t *verify_json(const struct verify *v)
{
    json_t *doc = json_object();
    for (unsigned i = 0; i < VERDICTS; i++)
        (void)json_object_set_new(doc, verdicts[i].name, json_integer((json_int_t)v->of[i]));
    return doc;
}
