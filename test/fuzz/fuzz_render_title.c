/* Goal: titles of any bytes are refused with a note or become keys that are their own keys,
 * whatever a wiki says its rules are. The first line is siteinfo, or empty for rules that are given
 * here; the rest is the title. */
#include "../unit/render/sites.h"

#include "base/check.h"
#include "base/utf8.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct siteinfo *here; /* read once: most inputs are titles */

static void check(const struct siteinfo *s, struct arena *a, str title, bool ours)
{
    struct err_note note = { .text = "" };
    struct title_key k, again;
    err e = title_normalise(s, a, title, &k, &note);
    INVARIANT(e == ERR_OK || (e == ERR_BAD && note.text[0] != 0));
    if (e != ERR_OK)
        return;
    INVARIANT(k.key.n > 0);
    INVARIANT(utf8_valid(k.key));
    INVARIANT(!ours || str_find(k.key, ' ') == k.key.n);
    INVARIANT(!ours || str_find(k.key, '#') == k.key.n);
    if (!ours) /* a wiki whose names are no names may say what it likes */
        return;
    /* A capital may be longer than its small letter and so pass the limit. */
    e = title_normalise(s, a, k.key, &again, NULL);
    INVARIANT(e == ERR_OK || k.key.n > 255);
    INVARIANT(e != ERR_OK || str_eq(again.key, k.key));
    INVARIANT(e != ERR_OK || !again.changed);
    INVARIANT(e != ERR_OK || again.namespace_id == k.namespace_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct siteinfo *s = NULL;
    char *copy = malloc(size + 1);
    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    str title = { .p = copy, .n = size };
    str rules = str_split(&title, '\n');
    arena_init(&a, 8 << 20);
    if (title.p == NULL)
        title = STR("x");
    if (here == NULL)
        INVARIANT(siteinfo_json_parse(STR(SITE_JSON("de")), &here, NULL) == ERR_OK);
    if (rules.n == 0) {
        check(here, &a, title, true);
    } else if (siteinfo_json_parse(rules, &s, NULL) == ERR_OK) {
        check(s, &a, title, false);
        siteinfo_unref(&s);
    }
    arena_fini(&a);
    free(copy);
    return 0;
}
