/* router.c - builds a trie from route tables and finds the row for a path and a method.
 * Invariant: the trie is complete before the first match, so matching takes no lock. */
#include "http/router.h"
#include "http/filter.h"
#include "http/percent.h"

#include <stdlib.h>
#include <string.h>

/* Invariants.
 * 1. A node lies at the depth that equals the number of segments before it; the root at 0.
 * 2. A node has at most one {name} child and one {+rest} child; literal children differ in text.
 * 3. A row stands at every node where its pattern may end. */
struct node {
    str literal; /* of a literal child; borrowed from the pattern */
    struct node *parent;
    struct node *literals, *next; /* children, and the next child of the parent */
    struct node *param, *rest;
    bool is_param, is_rest;
    const struct router_row *rows[HTTP_METHODS];
};

struct router {
    uint32_t magic;
    struct arena memory;
    struct node *root;
    struct router_row *rows;
};
#define ROUTER_MAGIC 0x7207e401u
enum { ROUTER_BYTES_MAX = 4 << 20, API_DEPTH = 2 /* behind /{domain}/v1 */ };

static void *router_calloc(struct router *r, size_t size)
{
    void *at = arena_calloc(&r->memory, 1, size);
    INVARIANT(at != NULL); /* tables are ours and small */
    return at;
}

static struct node *node_new(struct router *r, struct node *parent)
{
    struct node *n = router_calloc(r, sizeof *n);
    n->parent = parent;
    return n;
}

static struct node *literal_child(const struct node *n, str text)
{
    for (struct node *c = n->literals; c != NULL; c = c->next)
        if (c->literal.n == text.n && memcmp(c->literal.p, text.p, text.n) == 0)
            return c;
    return NULL;
}

static struct node *literal_add(struct router *r, struct node *n, str text)
{
    struct node *c = literal_child(n, text);
    if (c != NULL)
        return c;
    c = node_new(r, n);
    c->literal = text;
    c->next = n->literals;
    n->literals = c;
    return c;
}

/* ---- reading a pattern ---- */

static bool name_is_plain(str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return name.n > 0;
}

static bool row_name_add(struct router_row *row, str name)
{
    if (!name_is_plain(name) || row->names_count == ROUTER_PARAMS_MAX)
        return false;
    for (unsigned i = 0; i < row->names_count; i++)
        if (str_eq(row->names[i], name))
            return false;
    row->names[row->names_count++] = name;
    return true;
}

/* The child for one segment of a pattern; NULL when it makes no sense. */
static struct node *segment_add(struct router *r, struct node *n, str segment,
                                struct router_row *row)
{
    bool braces = segment.n >= 2 && segment.p[0] == '{' && segment.p[segment.n - 1] == '}';
    if (!braces) {
        bool odd = str_find(segment, '{') < segment.n || str_find(segment, '}') < segment.n ||
                   str_find(segment, '%') < segment.n;
        return odd ? NULL : literal_add(r, n, segment);
    }
    bool rest = segment.p[1] == '+';
    str name = str_take(str_skip(segment, rest ? 2 : 1), segment.n - (rest ? 3 : 2));
    if (!row_name_add(row, name))
        return NULL;
    struct node **child = rest ? &n->rest : &n->param;
    if (*child == NULL)
        *child = node_new(r, n);
    (*child)->is_rest = rest;
    (*child)->is_param = !rest;
    return *child;
}

static bool row_put(struct node *n, const struct router_row *row)
{
    const struct router_row **slot = &n->rows[row->route->method];
    if (*slot != NULL)
        return false;
    *slot = row;
    return true;
}

/* Walks "/a/{b}[/{c}[/{d}]]"; NULL: fine, else what is wrong. */
static const char *pattern_add(struct router *r, struct router_row *row)
{
    str rest = str_of(row->route->pattern);
    struct node *n = r->root;
    unsigned depth = 0, open = 0;
    while (rest.n > 0 && rest.p[0] != ']') {
        if (rest.p[0] == '[') {
            open++;
            if (!row_put(n, row))
                return "another row has this path and method";
            rest = str_skip(rest, 1);
        }
        if (rest.n == 0 || rest.p[0] != '/' || ++depth > ROUTER_SEGMENTS_MAX || n->is_rest)
            return "segments start with '/', are not too many, and none follows {+rest}";
        rest = str_skip(rest, 1);
        size_t end = 0;
        while (end < rest.n && strchr("/[]", rest.p[end]) == NULL)
            end++;
        n = segment_add(r, n, str_take(rest, end), row);
        if (n == NULL)
            return "a segment is a literal, {name} or {+rest}; names are plain, few and differ";
        rest = str_skip(rest, end);
    }
    for (; rest.n > 0 && rest.p[0] == ']' && open > 0; open--)
        rest = str_skip(rest, 1);
    if (rest.n > 0 || open > 0 || depth == 0)
        return "brackets enclose tails, at the end of the pattern";
    return row_put(n, row) ? NULL : "another row has this path and method";
}

bool router_is_health(const struct http_route *route)
{
    return route->label != NULL && strcmp(route->label, "health") == 0;
}

static bool is_everywhere(const struct http_route *route)
{
    static const char *const labels[] = { "metrics", "spec" };
    bool is = router_is_health(route);
    for (size_t i = 0; route->label != NULL && i < COUNT_OF(labels); i++)
        is = is || strcmp(route->label, labels[i]) == 0;
    return is;
}

err router_new(const struct http_route *const *tables, unsigned tables_count, struct router **out,
               struct err_note *note)
{
    struct router *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->magic = ROUTER_MAGIC;
    arena_init(&r->memory, ROUTER_BYTES_MAX);
    r->root = node_new(r, NULL);
    for (unsigned t = 0; t < tables_count; t++) {
        for (const struct http_route *route = tables[t]; route->pattern != NULL; route++) {
            struct router_row *row = router_calloc(r, sizeof *row);
            row->route = route;
            row->everywhere = is_everywhere(route);
            row->next = r->rows;
            r->rows = row;
            bool known = route->method < HTTP_METHODS && route->handle != NULL;
            const char *wrong =
                known ? pattern_add(r, row) : "a row needs a method we know and a handler";
            if (wrong != NULL) {
                err_note_set(note, "route \"%s\": %s", route->pattern, wrong);
                router_free(&r);
                return ERR_BAD;
            }
        }
    }
    *out = r;
    return ERR_OK;
}

void router_free(struct router **rp)
{
    if (*rp == NULL)
        return;
    MAGIC_CHECK(*rp, ROUTER_MAGIC);
    (*rp)->magic = 0;
    arena_fini(&(*rp)->memory);
    free(*rp);
    *rp = NULL;
}

void router_hide(struct router *r, const struct http_listen *l)
{
    MAGIC_CHECK(r, ROUTER_MAGIC);
    INVARIANT(l->number < 8 * sizeof r->rows->hidden);
    for (struct router_row *row = r->rows; row != NULL; row = row->next)
        if (!http_filter_route(l->filter, row->route))
            row->hidden |= (uint16_t)BIT(l->number);
}

/* ---- matching ---- */

struct split {
    str raw[ROUTER_SEGMENTS_MAX]; /* from the segment to the end of the path, for {+rest} */
    str decoded[ROUTER_SEGMENTS_MAX];
    unsigned count;
    bool deeper; /* the path has more segments than any pattern */
};

static enum router_result path_split(str path, struct arena *a, struct split *s)
{
    s->count = 0;
    s->deeper = false;
    str rest = str_skip(path, 1);
    for (;;) {
        if (s->count == ROUTER_SEGMENTS_MAX) {
            s->deeper = true;
            return percent_valid(rest) ? ROUTER_FOUND : ROUTER_BROKEN;
        }
        size_t end = str_find(rest, '/');
        str segment = str_take(rest, end);
        s->raw[s->count] = rest;
        if (memchr(segment.p, '%', segment.n) == NULL)
            s->decoded[s->count] = segment;
        else if (!percent_valid(segment))
            return ROUTER_BROKEN;
        else if (http_decode(a, segment, false, &s->decoded[s->count]) != ERR_OK)
            return ROUTER_NO_MEMORY;
        s->count++;
        if (end == rest.n)
            return ROUTER_FOUND;
        rest = str_skip(rest, end + 1);
    }
}

static bool row_visible(const struct router_row *row, const struct http_listen *from)
{
    const struct http_route *route = row->route;
    if (from->purge || route->method == HTTP_PURGE)
        return from->purge && route->method == HTTP_PURGE;
    return row->everywhere || (route->admin ? from->admin : from->content);
}

static unsigned node_methods(const struct node *n, const struct http_listen *from)
{
    unsigned methods = 0;
    for (unsigned m = 0; m < HTTP_METHODS; m++)
        if (n->rows[m] != NULL && row_visible(n->rows[m], from))
            methods |= BIT(m);
    return methods;
}

/* The best node with a visible row, and its methods. Depth first, better children on top of the
 * stack. */
static const struct node *node_find(const struct node *root, const struct split *s,
                                    const struct http_listen *from, unsigned *methods)
{
    struct {
        const struct node *n;
        unsigned depth;
    } stack[2 * ROUTER_SEGMENTS_MAX + 4];
    unsigned top = 0;
    stack[top].n = root;
    stack[top++].depth = 0;
    while (top > 0) {
        const struct node *n = stack[--top].n;
        unsigned depth = stack[top].depth;
        if (n->is_rest || (depth == s->count && !s->deeper)) {
            *methods = node_methods(n, from);
            if (*methods != 0)
                return n;
            continue;
        }
        if (depth == s->count)
            continue;
        const struct node *literal = literal_child(n, s->decoded[depth]);
        const struct node *param = s->decoded[depth].n > 0 ? n->param : NULL;
        const struct node *children[] = { n->rest, param, literal };
        for (unsigned i = 0; i < COUNT_OF(children); i++) {
            if (children[i] == NULL)
                continue;
            INVARIANT(top < COUNT_OF(stack));
            stack[top].n = children[i];
            stack[top++].depth = depth + 1;
        }
    }
    return NULL;
}

/* Its methods that the listener's filter leaves at this path. */
static unsigned methods_shown(const struct node *n, const struct split *s,
                              const struct http_listen *from, unsigned methods)
{
    const struct node *first = n;
    while (first->parent != NULL && first->parent->parent != NULL)
        first = first->parent;
    bool domain = first->is_param;
    if (domain && !http_filter_domain(from->filter, s->decoded[0]))
        return 0;
    if (domain && s->count > API_DEPTH &&
        !http_filter_path(from->filter, s->decoded + API_DEPTH, s->count - API_DEPTH))
        return 0;
    for (unsigned m = 0; m < HTTP_METHODS; m++)
        if ((methods & BIT(m)) != 0 && (n->rows[m]->hidden & BIT(from->number)) != 0)
            methods &= ~BIT(m);
    return methods;
}

static void params_collect(const struct node *n, const struct split *s, struct router_match *out)
{
    unsigned depth = 0, count = 0;
    for (const struct node *up = n; up->parent != NULL; up = up->parent) {
        depth++;
        count += up->is_param || up->is_rest;
    }
    memset(out->params, 0, sizeof out->params);
    for (const struct node *up = n; up->parent != NULL; up = up->parent) {
        depth--;
        if (up->is_param)
            out->params[--count] = s->decoded[depth];
        else if (up->is_rest)
            out->params[--count] = s->raw[depth];
    }
}

enum router_result router_match(const struct router *r, str path, enum http_method method,
                                const struct http_listen *seen_from, struct arena *a,
                                struct router_match *out)
{
    MAGIC_CHECK(r, ROUTER_MAGIC);
    INVARIANT(path.n > 0 && path.p[0] == '/');
    struct split s;
    enum router_result split = path_split(path, a, &s);
    if (split != ROUTER_FOUND)
        return split;
    unsigned methods = 0;
    const struct node *n = node_find(r->root, &s, seen_from, &methods);
    if (n != NULL && seen_from->filter != NULL)
        methods = methods_shown(n, &s, seen_from, methods);
    if (n == NULL || methods == 0)
        return ROUTER_NO_PATH;
    out->allowed = methods;
    enum http_method wanted =
        method == HTTP_HEAD && !(methods & BIT(HTTP_HEAD)) ? HTTP_GET : method;
    if (wanted >= HTTP_METHODS || !(methods & BIT(wanted)))
        return ROUTER_NO_METHOD;
    out->row = n->rows[wanted];
    params_collect(n, &s, out);
    return ROUTER_FOUND;
}
