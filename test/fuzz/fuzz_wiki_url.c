/* Goal: what a PURGE asks for names a title or none, whatever bytes it has. Method: the input is
 * hosts, article path and URL, each on a line; a title that an article path names is found again
 * when it is put there. */
#include "http/percent.h"
#include "page/wiki_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_and_find(struct arena *a, const struct wiki_place *p, str title)
{
    size_t hole = str_find_str(p->article_path, STR("$1"));
    str raw = http_encode(a, title), again;
    str path = arena_printf(a, "%.*s%.*s%.*s", STR_ARG(str_take(p->article_path, hole)),
                            STR_ARG(raw), STR_ARG(str_skip(p->article_path, hole + 2)));
    INVARIANT(raw.p != NULL && path.p != NULL);
    INVARIANT(wiki_url_title(a, p, path, STR(""), &again) == ERR_OK);
    INVARIANT(str_eq(again, title));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str rest = { .p = (const char *)data, .n = size }, title, domain;
    struct wiki_place p = { .hosts = str_split(&rest, '\n') };
    struct wiki_url u;
    struct arena a;
    p.article_path = str_split(&rest, '\n');
    arena_init(&a, 1 << 20);
    if (str_find(p.article_path, '\0') < p.article_path.n || !wiki_article_path_is(p.article_path))
        p.article_path = STR(WIKI_ARTICLE_PATH);
    if (wiki_url_parse(rest, &u)) {
        INVARIANT(u.authority.n > 0 && u.path.n > 0 && u.path.p[0] == '/');
        (void)wiki_place_has(&p, u.authority);
        if (wiki_url_title(&a, &p, u.path, u.query, &title) == ERR_OK && title.n > 0 &&
            title.n < 4096)
            put_and_find(&a, &p, title);
        if (wiki_url_own(&a, u.path, &domain, &title) == ERR_OK)
            INVARIANT(domain.n > 0 || title.n == 0);
    }
    arena_fini(&a);
    return 0;
}
