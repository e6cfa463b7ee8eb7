/* Goal: replies of any bytes to a question for words give each title and revision a whole word or
 * none, and never another one's. */
#include "../unit/render/sites.h"

#include "base/check.h"
#include "render/api_words.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct siteinfo *german; /* read once */

static void check_title(const struct words_title *t, enum render_why why)
{
    bool there = t->state == WORDS_TITLE_THERE;
    INVARIANT(why == RENDER_FINE || t->state == WORDS_TITLE_UNANSWERED);
    INVARIANT(there == (t->page_id > 0));
    INVARIANT(there == (t->rev > 0));
    INVARIANT(there == (t->touched_s > 0));
    INVARIANT(there || !t->redirect);
    INVARIANT((t->state == WORDS_TITLE_ELSEWHERE) == (t->moved_to.n > 0));
    INVARIANT(!str_eq(t->moved_to, t->title));
}

static void check_titles(struct arena *a, str json, const struct siteinfo *s)
{
    struct err_note note = { .text = "" };
    struct words_title titles[] = { { .title = STR("Plain_page") },     { .title = STR("Way") },
                                    { .title = STR("Caf\xc3\xa9") },    { .title = STR("a[b") },
                                    { .title = STR("Benutzer:Admin") }, { .title = STR("x") } };
    struct words w = { .titles = titles, .titles_count = COUNT_OF(titles) };
    enum render_why why = api_words_parse(a, json, s, &w, &note);
    INVARIANT((why == RENDER_FINE) == (note.text[0] == 0));
    INVARIANT((why == RENDER_FINE) == (w.said_s > 0));
    for (size_t i = 0; i < COUNT_OF(titles); i++)
        check_title(&titles[i], why);
}

static void check_revisions(struct arena *a, str json, const struct siteinfo *s)
{
    struct err_note note = { .text = "" };
    struct words_revision revisions[] = {
        { .rev = 3 }, { .rev = 7 }, { .rev = 17 }, { .rev = 999 }
    };
    struct words w = { .revisions = revisions, .revisions_count = COUNT_OF(revisions) };
    enum render_why why = api_words_parse(a, json, s, &w, &note);
    INVARIANT((why == RENDER_FINE) == (note.text[0] == 0));
    INVARIANT((why == RENDER_FINE) == (w.said_s > 0));
    for (size_t i = 0; i < COUNT_OF(revisions); i++) {
        const struct words_revision *v = &revisions[i];
        bool told = v->state == WORDS_REVISION_SHOWN || v->state == WORDS_REVISION_HIDDEN;
        INVARIANT(why == RENDER_FINE || v->state == WORDS_REVISION_UNANSWERED);
        INVARIANT(told == (v->page_id > 0));
        INVARIANT(told == (v->title.n > 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    char *copy = malloc(size + 1);
    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    str json = { .p = copy, .n = size };
    if (german == NULL)
        INVARIANT(siteinfo_json_parse(STR(SITE_JSON("de")), &german, NULL) == ERR_OK);
    arena_init(&a, 8 << 20);
    check_titles(&a, json, german);
    check_titles(&a, json, NULL);
    check_revisions(&a, json, german);
    check_revisions(&a, json, NULL);
    arena_fini(&a);
    free(copy);
    return 0;
}
