/* kept.c - lists what is kept for editors, and takes it away, for operators.
 *
 * A token is the index of the bucket in a byte, and the store's own token behind it. Index
 * buckets_count is the bucket of previews. */
#include "page/kept.h"

#include "base/log.h"
#include "codec/json_text.h"
#include "page/json.h"
#include "page/stash.h"

#include <string.h>

_Static_assert((int)PAGE_KEPT_STEPS_MAX > (int)PAGE_DAMAGED_MAX, "a walk comes further each time");

static bool is_preview(const struct page_kept_list *l)
{
    return l->at == l->service->buckets_count;
}

/* Takes an item into the listing. False: the listing is full, and the item comes with the next. */
static bool kept_item(void *ctx, str key, const struct page_render *r)
{
    struct page_kept_list *l = ctx;
    str user = STR(""), title = key;
    if (is_preview(l))
        page_preview_split(key, &user, &title);
    /* Previews of all users are walked, as their keys begin with the user. */
    if (l->title.n > 0 && !str_eq(title, l->title))
        return true;
    if (l->count == l->limit)
        return false;
    struct page_kept *k = &l->items[l->count++];
    *k = (struct page_kept){ .bucket = l->list.bucket,
                             .key = arena_copy(l->arena, key),
                             .name = r->name,
                             .until = r->stash_until,
                             .bytes = page_render_bytes(r) };
    l->starved = l->starved || k->key.p == NULL;
    /* Slices of the copy: user and title lie at its ends. */
    k->title = str_skip(k->key, key.n - title.n);
    k->user = str_take(k->key, user.n);
    if (!is_preview(l))
        k->bucket_name = page_settings_now(l->service)[l->at].opts->name;
    else
        /* As the editor knows it (stash.h). */
        k->name.rev -= PAGE_PREVIEW_REVS;
    return true;
}

static bool kept_damaged(void *ctx, str title, const struct page_name *name)
{
    struct page_kept_list *l = ctx;
    (void)title; /* palimpsest check names it */
    (void)name;
    l->damaged++;
    return true;
}

/* Ends the listing of one bucket. False: it is listed to its end, and another bucket is next.
 * True: the call is over, and l->next says where to go on. */
static bool bucket_over(struct page_kept_list *l)
{
    l->call.why = l->list.call.why;
    if (l->call.why == ERR_OK && l->list.next.n == 0 && !is_preview(l)) {
        l->at++;
        l->list.from = STR("");
        return false;
    }
    if (l->list.next.n > 0) {
        char *bytes = arena_alloc(l->arena, 1 + l->list.next.n);
        l->starved = l->starved || bytes == NULL;
        if (bytes != NULL) {
            bytes[0] = (char)l->at;
            memcpy(bytes + 1, l->list.next.p, l->list.next.n);
            l->next = (str){ .p = bytes, .n = 1 + l->list.next.n };
        }
    }
    /* Without memory nothing is half told. */
    if (l->call.why == ERR_OK && l->starved)
        l->call.why = ERR_LIMIT;
    if (l->damaged > 0)
        log_event(l->service->log, LOG_ERROR, "page.damaged", LOG_STR("domain", l->domain->name),
                  LOG_INT("rows", l->damaged),
                  LOG_CSTR("what", "left out of stashes; palimpsest check names all damage"));
    return true;
}

static void bucket_listed(struct store_call *c);

/* Goes on with the bucket at which l is. There is no bucket of previews where no domain has an
 * origin. */
static enum store_start list_on(struct page_kept_list *l)
{
    const struct page_service *s = l->service;
    do {
        l->list.bucket = is_preview(l) ? s->previews : page_settings_now(s)[l->at].bucket;
        l->list.title = is_preview(l) ? STR("") : l->title; /* titles stand behind users */
        l->list.call = (struct store_call){ .home = l->call.home, .done = bucket_listed };
        l->list.next = STR("");
        if (l->list.bucket != NULL && page_store_list(s->store, &l->list) == STORE_LATER)
            return STORE_LATER;
    } while (!bucket_over(l));
    return STORE_DONE;
}

/* At home. The bucket was LATER. */
static void bucket_listed(struct store_call *c)
{
    struct page_kept_list *l = CONTAINER_OF(c, struct page_kept_list, list.call);
    if (bucket_over(l) || list_on(l) == STORE_DONE)
        l->call.done(&l->call);
}

enum store_start page_kept_list(struct page_kept_list *l)
{
    /* A token's first byte names the bucket. */
    l->at = l->from.n > 0 ? (unsigned char)l->from.p[0] : 0;
    if (l->at > l->service->buckets_count)
        return store_call_done(&l->call, ERR_BAD);
    l->items = arena_calloc(l->arena, l->limit, sizeof *l->items);
    if (l->items == NULL)
        return store_call_done(&l->call, ERR_LIMIT);
    l->list =
        (struct page_list){ .what = LIST_STASHES,
                            .domain = l->domain->number,
                            .from = str_skip(l->from, l->from.n > 0),
                            .steps = PAGE_KEPT_STEPS_MAX,
                            .each = { .render = kept_item, .damaged = kept_damaged, .ctx = l },
                            .arena = l->arena };
    return list_on(l);
}

void page_kept_json(struct buf *b, const struct page_kept *k)
{
    buf_printf(b, "{\"kind\":\"%s\",\"bucket\":", k->bucket_name == NULL ? "preview" : "pin");
    if (k->bucket_name == NULL)
        buf_put(b, STR("null"));
    else
        json_text_append(b, str_of(k->bucket_name));
    buf_put(b, STR(",\"title\":"));
    json_text_append(b, k->title);
    buf_put_c(b, ',');
    pagejson_name(b, k->name);
    buf_printf(b, ",\"user\":%.*s", STR_ARG(k->user.n == 0 ? STR("null") : k->user));
    pagejson_time(b, "until", k->until);
    buf_printf(b, ",\"bytes\":%llu}", (unsigned long long)k->bytes);
}

/* ---- taking away ---- */

static enum store_start remove_next(struct page_kept_removal *r);

/* Counts the item that was just taken away, and frees its part of the quota. */
static void give_back(struct page_kept_removal *r)
{
    const struct page_service *s = r->list.service;
    const struct page_kept *k = &r->list.items[r->removed++];
    int64_t ttl_ns = page_store_bucket_policy(s->store, k->bucket)->stash_ttl_ns;
    r->bytes += k->bytes;
    page_stash_keep(s, page_stash_part(k->bytes, r->order.pinned_ns, ttl_ns), 0);
}

/* At home. An error ends the removal; what is taken away by then stays counted. */
static void unstashed(struct store_call *c)
{
    struct page_kept_removal *r = CONTAINER_OF(c, struct page_kept_removal, order.call);
    r->call.why = c->why;
    if (c->why == ERR_OK)
        give_back(r);
    if (c->why != ERR_OK || remove_next(r) == STORE_DONE)
        r->call.done(&r->call);
}

/* Unstashes the next item. DONE: the listing failed, or nothing is left. */
static enum store_start remove_next(struct page_kept_removal *r)
{
    const struct page_service *s = r->list.service;
    if (r->list.call.why != ERR_OK || r->removed == r->list.count)
        return STORE_DONE;
    const struct page_kept *k = &r->list.items[r->removed];
    bool preview = k->bucket_name == NULL;
    r->order = (struct page_order){
        .call = { .deadline = page_write_deadline(s), .home = r->call.home, .done = unstashed },
        .bucket = k->bucket,
        .kind = ORDER_UNSTASH,
        .domain = r->list.domain->number,
        .title = k->key,
        .has_rev = true,
        .has_tid = true,
        .name = k->name,
        .drop = preview
    };
    /* A preview lies under the next revision (stash.h), and goes with its stash. */
    if (preview)
        r->order.name.rev += PAGE_PREVIEW_REVS;
    /* Never inside the start: a long listing must not nest a call in each. */
    store_call_post(page_store_order(s->store, &r->order), &r->order.call);
    return STORE_LATER;
}

static void removal_listed(struct store_call *c)
{
    struct page_kept_removal *r = CONTAINER_OF(c, struct page_kept_removal, list.call);
    if (remove_next(r) == STORE_DONE)
        r->call.done(&r->call);
}

enum store_start page_kept_remove(struct page_kept_removal *r)
{
    r->list.call = (struct store_call){ .home = r->call.home, .done = removal_listed };
    r->call.why = ERR_OK;
    return page_kept_list(&r->list) == STORE_LATER ? STORE_LATER : remove_next(r);
}
