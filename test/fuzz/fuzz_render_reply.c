/* Goal: replies of any bytes from an origin give metadata and contents that are whole, or a note of
 * why not. */
#include "base/check.h"
#include "base/utf8.h"
#include "render/api.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_lines(str headers)
{
    for (size_t i = 0; i < headers.n; i++)
        if (headers.p[i] != '\n' &&
            ((unsigned char)headers.p[i] < 0x20 || (unsigned char)headers.p[i] >= 0x7f))
            return false;
    return headers.n > 0 && headers.p[headers.n - 1] == '\n';
}

static void check_bundle(struct arena *a, str json)
{
    struct err_note note = { .text = "" };
    struct render_content c[4];
    unsigned count = 0;
    bool has_html = pagebundle_html(json, a, &c[0], &note) == ERR_OK;
    INVARIANT(has_html || note.text[0] != 0);
    INVARIANT(!has_html || (is_lines(c[0].headers) && utf8_valid(c[0].raw)));
    note.text[0] = 0;
    if (pagebundle_parse(json, a, c, COUNT_OF(c), &count, &note) != ERR_OK) {
        INVARIANT(note.text[0] != 0);
        return;
    }
    INVARIANT(count >= 1 && count <= COUNT_OF(c));
    INVARIANT((count == 1) != render_head_is(c[0].raw));
    for (unsigned i = 0; i < count; i++) {
        INVARIANT(is_lines(c[i].headers));
        INVARIANT(utf8_valid(c[i].raw));
    }
}

static void check_meta(struct arena *a, str json, const struct api_asked *asked)
{
    struct err_note note = { .text = "" };
    struct render_meta m;
    enum render_why why = api_parse(a, json, asked, NULL, &m, &note);
    INVARIANT(why == RENDER_FINE || note.text[0] != 0);
    INVARIANT(why != RENDER_OTHER_TITLE || (m.title.n > 0 && asked->rev == 0));
    if (why != RENDER_FINE && why != RENDER_SUPPRESSED)
        return;
    INVARIANT(m.rev > 0 && m.rev <= INT64_MAX);
    INVARIANT(asked->rev == 0 || m.rev == asked->rev);
    INVARIANT(asked->title.n == 0 || str_eq(m.title, asked->title));
    INVARIANT(m.text_hidden == (why == RENDER_SUPPRESSED));
    INVARIANT(!m.user_hidden || (m.user_text.n == 0 && m.user_id == 0));
    INVARIANT(!m.comment_hidden || m.comment.n == 0);
    INVARIANT(utf8_valid(m.comment));
}

static void check_leave(str json)
{
    struct err_note note = { .text = "" };
    bool may = true;
    enum render_why why = api_parse_leave(json, true, &may, &note);
    INVARIANT(why == RENDER_FINE || (note.text[0] != 0 && !may));
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
    arena_init(&a, 8 << 20);
    check_bundle(&a, json);
    check_meta(&a, json, &(struct api_asked){ .title = STR("A_b") });
    check_meta(&a, json, &(struct api_asked){ .rev = 9 });
    check_meta(&a, json, &(struct api_asked){ .title = STR("A_b"), .rev = 9 });
    check_leave(json);
    arena_fini(&a);
    free(copy);
    return 0;
}
