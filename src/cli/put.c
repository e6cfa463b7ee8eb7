/* put.c - palimpsest put: stores a render, its contents from files. */
#include "base/tid.h"
#include "base/utf8.h"
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "codec/base64.h"
#include "http/negotiate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

enum { PUT_CONTENTS_MAX = 16, PUT_FILE_BYTES_MAX = 64 << 20 };

struct put_part {
    str content;
    const char *file;
    const char *type;
    struct buf bytes;
};
struct put_call {
    const char *name[2];
    struct put_part parts[PUT_CONTENTS_MAX];
    unsigned count;
};

static const char *type_of(str content, const char *file)
{
    static const struct {
        const char *suffix, *type;
    } types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".htm", "text/html; charset=utf-8" },
        { ".json", "application/json" },
        { ".txt", "text/plain; charset=utf-8" },
        { ".md", "text/markdown; charset=utf-8" },
        { ".xml", "application/xml" },
        { ".svg", "image/svg+xml" },
    };
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_ends(str_of(file), str_of(types[i].suffix)))
            return types[i].type;
    return str_eq(content, STR("html")) ? "text/html; charset=utf-8" : "application/octet-stream";
}

/* TYPE/SUBTYPE, and behind a semicolon what is text (RFC 9110, 8.3.1). */
static bool is_media_type(str s)
{
    str rest = s, essence = str_trim(str_split(&rest, ';'));
    str type = str_split(&essence, '/');
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return http_is_token(type) && http_is_token(essence);
}

/* "data-parsoid=file.json" names its content; a plain name is the content of --content. */
static bool add_part(const struct cli_call *call, const char *word, struct put_call *p)
{
    if (p->count == PUT_CONTENTS_MAX) {
        (void)cli_fail(call, CLI_USAGE, "put: more than %d contents", PUT_CONTENTS_MAX);
        return false;
    }
    str all = str_of(word);
    size_t equals = str_find(all, '=');
    bool named = equals > 0 && equals < all.n && str_find(all, '/') > equals;
    if (named && !utf8_valid(str_take(all, equals))) {
        (void)cli_fail(call, CLI_USAGE, "put: the name of a content is not UTF-8");
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
    while (buf_status(out) == ERR_OK && (n = fread(chunk, 1, sizeof chunk, from)) > 0)
        buf_put(out, (str){ .p = chunk, .n = n });
    return !ferror(from);
}

static bool read_part(const struct cli_call *call, struct put_part *part)
{
    bool is_stdin = strcmp(part->file, "-") == 0;
    FILE *from = is_stdin ? stdin : fopen(part->file, "rb");
    if (from == NULL || !read_file(from, &part->bytes)) {
        (void)cli_fail(call, CLI_FAILED, "put: cannot read %s: %s", part->file, strerror(errno));
        if (from != NULL && !is_stdin)
            fclose(from);
        return false;
    }
    if (!is_stdin)
        fclose(from);
    if (part->bytes.failed)
        (void)cli_fail(call, CLI_FAILED, "put: %s has more than %d bytes", part->file,
                       PUT_FILE_BYTES_MAX);
    return !part->bytes.failed;
}

static json_t *part_json(const struct put_part *part)
{
    str bytes =
        part->bytes.n > 0 ? buf_str(&part->bytes) : STR(""); /* an empty buffer has no memory */
    json_t *headers = json_pack("{s:s}", "content-type", part->type);
    if (u8_check((const uint8_t *)bytes.p, bytes.n) == NULL && memchr(bytes.p, 0, bytes.n) == NULL)
        return json_pack("{s:o, s:o}", "headers", headers, "body", json_stringn(bytes.p, bytes.n));
    struct arena a;
    arena_init(&a, (size_t)PUT_FILE_BYTES_MAX * 2);
    str text;
    err e = base64_encode(&a, bytes, &text);
    INVARIANT(e == ERR_OK); /* the arena is twice the largest file */
    json_t *part_doc = json_pack("{s:o, s:s, s:s%}", "headers", headers, "encoding", "base64",
                                 "body", text.p, text.n);
    arena_fini(&a);
    return part_doc;
}

static json_t *send_bundle(struct client *c, const struct cli_call *call, const struct put_call *p)
{
    json_t *bundle = json_object();
    for (unsigned i = 0; i < p->count; i++)
        json_object_setn_new(bundle, p->parts[i].content.p, p->parts[i].content.n,
                             part_json(&p->parts[i]));
    char *body = json_dumps(bundle, JSON_COMPACT);
    json_decref(bundle);
    INVARIANT(body != NULL);
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(c, &path, STR("all"), str_of(call->operands[0]), p->name);
    json_t *doc = client_ask_json(c, &(struct client_request){ .method = "PUT",
                                                               .path = client_path(&path),
                                                               .has_body = true,
                                                               .body = str_of(body),
                                                               .member = "tid" });
    buf_fini(&path);
    free(body);
    return doc;
}

static json_t *send_one(struct client *c, const struct cli_call *call, const struct put_call *p)
{
    struct buf path;
    buf_init(&path, 8192);
    client_path_render(c, &path, p->parts[0].content, str_of(call->operands[0]), p->name);
    json_t *doc = client_ask_json(c, &(struct client_request){ .method = "PUT",
                                                               .path = client_path(&path),
                                                               .has_body = true,
                                                               .body = buf_str(&p->parts[0].bytes),
                                                               .content_type = p->parts[0].type,
                                                               .member = "tid" });
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
    printf(" %lld/", (long long)json_integer_value(json_object_get(doc, "rev")));
    out_text(stdout, str_of(tid != NULL ? tid : "?"));
    printf(" %s%s\n", json_is_true(json_object_get(doc, "applied")) ? "stored" : "already there",
           json_is_true(json_object_get(doc, "latest")) ? ", the latest" : "");
}

/* Both files of a content that is given twice, and how to tell them apart. */
static void refuse_twice(const struct cli_call *call, const struct put_part *a,
                         const struct put_part *b)
{
    struct tid tid;
    const char *word = call->operands[2];
    bool meant_as_tid = a->file == word && strcmp(word, "-") != 0 &&
                        !tid_parse(str_of(word), &tid) && access(word, F_OK) != 0;
    if (meant_as_tid)
        (void)cli_fail(call, CLI_USAGE, "put: \"%s\" is neither a TID nor a file", word);
    else
        (void)cli_fail(call, CLI_USAGE,
                       "put: content %.*s is given twice, as %s and as %s: name them CONTENT=FILE",
                       STR_ARG(a->content), a->file, b->file);
}

/* Standard input can be read once alone, and of one content there is one. */
static bool check_twice(const struct cli_call *call, const struct put_call *p)
{
    for (unsigned i = 0; i < p->count; i++)
        for (unsigned k = 0; k < i; k++) {
            const struct put_part *a = &p->parts[k], *b = &p->parts[i];
            if (str_eq(a->content, b->content)) {
                refuse_twice(call, a, b);
                return false;
            }
            if (strcmp(a->file, "-") == 0 && strcmp(b->file, "-") == 0) {
                (void)cli_fail(call, CLI_USAGE,
                               "put: - is standard input, which can be read once, not for %.*s and "
                               "for %.*s",
                               STR_ARG(a->content), STR_ARG(b->content));
                return false;
            }
        }
    return true;
}

static bool check_type(const struct cli_call *call)
{
    const char *type = cli_value(call, "type");
    if (type == NULL || is_media_type(str_of(type)))
        return true;
    (void)cli_fail(call, CLI_USAGE,
                   "put: --type wants a media type such as text/html; charset=utf-8, not \"%s\"",
                   type);
    return false;
}

static bool read_call(const struct cli_call *call, struct put_call *p)
{
    struct tid tid;
    unsigned at = 2;
    uint64_t rev;
    p->name[0] = call->operands[1];
    if (!str_to_u64(str_of(p->name[0]), &rev) || rev == 0 || rev > INT64_MAX) {
        (void)cli_fail(call, CLI_USAGE, "put: REV is a whole number from 1 on, not \"%s\"",
                       p->name[0]);
        return false;
    }
    if (call->operands_count > 3 && tid_parse(str_of(call->operands[2]), &tid))
        p->name[1] = call->operands[at++];
    for (; at < call->operands_count; at++)
        if (!add_part(call, call->operands[at], p))
            return false;
    return check_twice(call, p) && check_type(call);
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
        ok = read_part(call, &p.parts[i]);
    json_t *doc = NULL;
    if (ok)
        doc = p.count == 1 ? send_one(&c, call, &p) : send_bundle(&c, call, &p);
    if (doc != NULL)
        print_stored(&c, doc);
    json_decref(doc);
    for (unsigned i = 0; i < p.count; i++)
        buf_fini(&p.parts[i].bytes);
    client_close(&c);
    return doc != NULL ? CLI_OK : ok ? c.failed : CLI_FAILED;
}
