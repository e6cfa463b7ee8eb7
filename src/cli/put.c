/* put.c - palimpsest put: stores a render, its contents from files. */
#include "base/tid.h"
#include "base/utf8.h"
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "codec/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

enum { PUT_CONTENTS_MAX = 16, PUT_FILE_BYTES_MAX = 64 << 20 };

struct put_part { str content; const char *file; const char *type; struct buf bytes; };
struct put_call { const char *name[2]; struct put_part parts[PUT_CONTENTS_MAX]; unsigned count; };

static const char *type_of(str content, const char *file)
{
    static const struct { const char *suffix, *type; } types[] = {
        { ".html", "text/html; charset=utf-8" }, { ".htm", "text/html; charset=utf-8" },
        { ".json", "application/json" }, { ".txt", "text/plain; charset=utf-8" },
        { ".md", "text/markdown; charset=utf-8" }, { ".xml", "application/xml" }, { ".svg", "image/svg+xml" },
    };
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_ends(str_of(file), str_of(types[i].suffix)))
            return types[i].type;
    return str_eq(content, STR("html")) ? "text/html; charset=utf-8" : "application/octet-stream";
}

/* "data-parsoid=file.json" names its content; a plain name is the content of --content. */
static bool add_part(const struct cli_call *call, const char *word, struct put_call *p)
{
    if (p->count == PUT_CONTENTS_MAX) {
        cli_error("put: more than %d contents", PUT_CONTENTS_MAX);
        return false;
    }
    str all = str_of(word);
    size_t equals = str_find(all, '=');
    bool named = equals > 0 && equals < all.n && str_find(all, '/') > equals;
    if (named && !utf8_valid(str_take(all, equals))) {
        cli_error("put: the name of a content is not UTF-8");
        return false;
    }
    const char *content = cli_value(call, "content");
    struct put_part *part = &p->parts[p->count++];
    part->content = named ? str_take(all, equals) : content != NULL ? str_of(content) : STR("html");
    part->file = named ? word + equals + 1 : word;
    const char *type = cli_value(call, "type");
    part->type = type != NULL ? type : type_of(part->content, part->file);
    buf_init(&part->bytes, PUT_FILE_BYTES_MAX);
    return true;
}

static bool read_file(FILE *from, struct buf *out)
{
    char chunk[16384];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, from)) > 0)
        buf_put(out, (str){ .p = chunk, .n = n });
    return !ferror(from);
}

static bool read_part(struct put_part *part)
{
    bool is_stdin = strcmp(part->file, "-") == 0;
    FILE *from = is_stdin ? stdin : fopen(part->file, "rb");
    if (from == NULL || !read_file(from, &part->bytes)) {
        cli_error("cannot read %s: %s", part->file, strerror(errno));
        if (from != NULL && !is_stdin)
            fclose(from);
        return false;
    }
    if (!is_stdin)
        fclose(from);
    if (part->bytes.failed)
        cli_error("%s has more than %d bytes", part->file, PUT_FILE_BYTES_MAX);
    return !part->bytes.failed;
}

static json_t *part_json(const struct put_part *part)
{
    str bytes = part->bytes.n > 0 ? buf_str(&part->bytes) : STR(""); /* an empty buffer has no memory */
    json_t *headers = json_pack("{s:s}", "content-type", part->type);
    if (u8_check((const uint8_t *)bytes.p, bytes.n) == NULL && memchr(bytes.p, 0, bytes.n) == NULL)
        return json_pack("{s:o, s:o}", "headers", headers, "body", json_stringn(bytes.p, bytes.n));
    struct arena a;
    arena_init(&a, (size_t)PUT_FILE_BYTES_MAX * 2);
    str text;
    err e = base64_encode(&a, bytes, &text);
    INVARIANT(e == ERR_OK); /* the arena is twice the largest file */
    json_t *part_doc = json_pack("{s:o, s:s, s:s%}", "headers", headers, "encoding", "base64", "body", text.p, text.n);
    arena_fini(&a);
    return part_doc;
}

static json_t *send_bundle(struct client *c, const struct cli_call *call, const struct put_call *p)
{
    json_t *bundle = json_object();
    for (unsigned i = 0; i < p->count; i++)
        json_object_setn_new(bundle, p->parts[i].content.p, p->parts[i].content.n, part_json(&p->parts[i]));
    char *body = json_dumps(bundle, JSON_COMPACT);
    json_decref(bundle);
    INVARIANT(body != NULL);
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(c, &path, STR("all"), str_of(call->operands[0]), p->name);
    json_t *doc = client_ask_json(c, &(struct client_request){
        .method = "PUT", .path = buf_str(&path), .has_body = true, .body = str_of(body) });
    buf_fini(&path);
    free(body);
    return doc;
}

static json_t *send_one(struct client *c, const struct cli_call *call, const struct put_call *p)
{
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(c, &path, p->parts[0].content, str_of(call->operands[0]), p->name);
    json_t *doc = client_ask_json(c, &(struct client_request){
        .method = "PUT", .path = buf_str(&path), .has_body = true, .body = buf_str(&p->parts[0].bytes),
        .content_type = p->parts[0].type });
    buf_fini(&path);
    return doc;
}

static void print_stored(const struct client *c, const json_t *doc)
{
    if (c->json) {
        out_json(stdout, doc);
        return;
    }
    const char *title = json_string_value(json_object_get(doc, "title"));
    const char *tid = json_string_value(json_object_get(doc, "tid"));
    out_text(stdout, str_of(title != NULL ? title : "?"));
    printf(" %lld/%s %s%s\n", (long long)json_integer_value(json_object_get(doc, "rev")), tid != NULL ? tid : "?",
           json_is_true(json_object_get(doc, "applied")) ? "stored" : "already there",
           json_is_true(json_object_get(doc, "latest")) ? ", the latest" : "");
}

static bool read_call(const struct cli_call *call, struct put_call *p)
{
    p->name[0] = call->operands[1];
    unsigned at = 2;
    struct tid tid;
    if (call->operands_count > 3 && tid_parse(str_of(call->operands[2]), &tid))
        p->name[1] = call->operands[at++];
    for (; at < call->operands_count; at++)
        if (!add_part(call, call->operands[at], p))
            return false;
    for (unsigned i = 0; i < p->count; i++)
        for (unsigned k = 0; k < i; k++)
            if (str_eq(p->parts[i].content, p->parts[k].content)) {
                cli_error("put: content %.*s is given twice; name them as CONTENT=FILE",
                          STR_ARG(p->parts[i].content));
                return false;
            }
    return true;
}

enum cli_exit verb_put(struct cli_call *call)
{
    struct put_call p = { .count = 0 };
    struct client c;
    if (!read_call(call, &p))
        return CLI_USAGE;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    bool ok = true;
    for (unsigned i = 0; ok && i < p.count; i++)
        ok = read_part(&p.parts[i]);
    json_t *doc = NULL;
    if (ok)
        doc = p.count == 1 ? send_one(&c, call, &p) : send_bundle(&c, call, &p);
    if (doc != NULL)
        print_stored(&c, doc);
    json_decref(doc);
    for (unsigned i = 0; i < p.count; i++)
        buf_fini(&p.parts[i].bytes);
    client_close(&c);
    return doc != NULL ? CLI_OK : CLI_FAILED;
}
