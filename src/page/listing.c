/* listing.c - writes listings as JSON while the store walks, for the API. An empty history is
 * looked at once more, to say why the title has none. */
#include "page/listing.h"

#include "base/log.h"
#include "codec/json_text.h"
#include "page/json.h"

void page_tell_damage(const struct page_service *s, const struct page_target *t, unsigned rows)
{
    if (rows > 0)
        log_event(s->log, LOG_ERROR, "page.damaged", LOG_STR("domain", t->domain->name),
                  LOG_STR("title", t->title), LOG_INT("rows", rows),
                  LOG_CSTR("what", "left out of a listing; palimpsest check names all damage"));
}

/* Inside the store's walk. False: the page is full, and this item begins the next. */
static bool listing_item(void *ctx, str title, const struct page_render *r)
{
    struct page_listing *l = ctx;
    if (l->text.count == l->limit)
        return false;
    struct buf *b = json_list_item(&l->text);
    if (l->what == LIST_TITLES) { /* RESTBase's items are bare titles */
        json_text_append(b, title);
        return true;
    }
    buf_put_c(b, '{');
    pagejson_render(b, r);
    buf_put_c(b, '}');
    return true;
}

static bool listing_damaged(void *ctx, str title, const struct page_name *name)
{
    struct page_listing *l = ctx;
    if (l->text.count == l->limit)
        return false;
    pagejson_damaged(json_list_damaged(&l->text), l->arena, title, name);
    return true;
}

/* The title has no history: the trace of its latest says why, if there is one. */
static enum store_start look_over(struct page_listing *l)
{
    l->trace = l->read.trace;
    err why = l->read.call.why;
    return store_call_done(&l->call, why == ERR_OK ? ERR_NOT_FOUND : why);
}

static void listing_looked(struct store_call *c)
{
    struct page_listing *l = CONTAINER_OF(c, struct page_listing, read.call);
    store_call_then(look_over(l), &l->call);
}

static enum store_start list_over(struct page_listing *l)
{
    err why = l->list.call.why;
    /* A page that is not the first may be empty without a reason. */
    bool none = l->text.count == 0 && l->text.damaged_count == 0 && l->from.n == 0;
    page_tell_damage(l->service, l->target, l->text.damaged_count);
    if (why == ERR_OK && !(none && l->what == LIST_HISTORY)) {
        l->json = json_list_end(&l->text, l->arena, l->list.next,
                                l->what == LIST_TITLES ? JSON_LIST_LINKS : JSON_LIST_PLAIN);
        return store_call_done(&l->call, ERR_OK);
    }
    /* The text is not needed: the answer is an error. */
    json_list_fini(&l->text);
    if (why != ERR_OK)
        return store_call_done(&l->call, why);
    l->read = (struct page_read){ .call = { .home = l->call.home, .done = listing_looked },
                                  .bucket = l->target->settings->bucket,
                                  .which = page_target_which(l->target),
                                  .arena = l->arena };
    enum store_start start = page_store_read(l->service->store, &l->read);
    return start == STORE_DONE ? look_over(l) : STORE_LATER;
}

static void listed(struct store_call *c)
{
    struct page_listing *l = CONTAINER_OF(c, struct page_listing, list.call);
    store_call_then(list_over(l), &l->call);
}

enum store_start page_listing(struct page_listing *l)
{
    json_list_init(&l->text, PAGE_JSON_BYTES_MAX);
    l->list = (struct page_list){
        .call = { .home = l->call.home, .done = listed },
        .bucket = l->target->settings->bucket,
        .what = l->what,
        .domain = l->target->domain->number,
        .title = l->target->title,
        .from = l->from,
        .each = { .render = listing_item, .damaged = listing_damaged, .ctx = l },
        .arena = l->arena
    };
    enum store_start start = page_store_list(l->service->store, &l->list);
    return start == STORE_DONE ? list_over(l) : STORE_LATER;
}
