/* dump.c - exports of MediaWiki through expat: the leaves that matter are kept, cut at their
 * limits, until their revision ends. Only XML that cannot be read, and what would expand, ends the
 * parsing. */
#include "cli/dump.h"
#include "base/buf.h"
#include "base/date.h"

#include <expat.h>
#include <stdlib.h>
#include <string.h>

enum { DUMP_MAGIC = 0x50350a7e };

/* Where we are. What is not in the table is EL_OTHER, with all below it. */
enum element {
    EL_NONE,
    EL_OTHER,
    EL_MEDIAWIKI,
    EL_PAGE,
    EL_TITLE,
    EL_REVISION,
    EL_ID,
    EL_TIMESTAMP,
    EL_MODEL,
    EL_FORMAT,
    EL_TEXT,
    ELEMENTS
};
struct element_row {
    enum element parent;
    const char *name;
    enum element element;
    size_t bytes_max;
};
static const struct element_row rows[] = {
    { EL_NONE, "mediawiki", EL_MEDIAWIKI, 0 },
    { EL_MEDIAWIKI, "page", EL_PAGE, 0 },
    { EL_PAGE, "title", EL_TITLE, DUMP_TITLE_BYTES_MAX },
    { EL_PAGE, "revision", EL_REVISION, 0 },
    { EL_REVISION, "id", EL_ID, DUMP_FIELD_BYTES_MAX },
    { EL_REVISION, "timestamp", EL_TIMESTAMP, DUMP_FIELD_BYTES_MAX },
    { EL_REVISION, "model", EL_MODEL, DUMP_FIELD_BYTES_MAX },
    { EL_REVISION, "format", EL_FORMAT, DUMP_FIELD_BYTES_MAX },
    { EL_REVISION, "text", EL_TEXT, DUMP_TEXT_BYTES_MAX },
};

struct dump {
    uint32_t magic;
    struct dump_opts opts;
    XML_Parser parser;
    const struct element_row *stack[DUMP_DEPTH_MAX]; /* NULL: other */
    unsigned depth;
    struct buf fields[ELEMENTS]; /* text of the leaves */
    bool no_text, text_promised;
    bool too_long[ELEMENTS]; /* the leaf had more than its limit, and was cut */
    uint64_t fed;
    err failed;
    struct err_note why;
};

static void dump_fail(struct dump *d, err code, const char *what)
{
    if (d->failed != ERR_OK)
        return;
    d->failed = code;
    err_note_set(&d->why, "line %lu: %s", (unsigned long)XML_GetCurrentLineNumber64(d->parser),
                 what);
    XML_StopParser(d->parser, XML_FALSE);
}

static str field(const struct dump *d, enum element el)
{
    return buf_str(&d->fields[el]);
}

static void clear_fields(struct dump *d, enum element from)
{
    for (unsigned el = from; el < ELEMENTS; el++) {
        buf_clear(&d->fields[el]);
        d->too_long[el] = false;
    }
    d->no_text = d->text_promised = false;
}

static const struct element_row *find_row(const struct dump *d, const char *name)
{
    const struct element_row *top = d->depth > 0 ? d->stack[d->depth - 1] : NULL;
    if (d->depth > 0 && top == NULL)
        return NULL;
    enum element parent = top != NULL ? top->element : EL_NONE;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].parent == parent && strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* Hidden texts are marked; exports without texts say how many bytes are missing. */
static void take_text_attributes(struct dump *d, const XML_Char **attributes)
{
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        if (strcmp(attributes[i], "deleted") == 0)
            d->no_text = true;
        if (strcmp(attributes[i], "bytes") == 0)
            d->text_promised = strcmp(attributes[i + 1], "0") != 0;
    }
}

static void XMLCALL on_start(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct dump *d = ctx;
    MAGIC_CHECK(d, DUMP_MAGIC);
    if (d->failed != ERR_OK)
        return;
    if (d->depth == DUMP_DEPTH_MAX) {
        dump_fail(d, ERR_LIMIT, "elements are nested too deep");
        return;
    }
    const struct element_row *row = find_row(d, name);
    if (d->depth == 0 && row == NULL) {
        dump_fail(d, ERR_BAD, "this is no MediaWiki export: its root is not <mediawiki>");
        return;
    }
    d->stack[d->depth++] = row;
    if (row == NULL)
        return;
    if (row->element == EL_PAGE)
        clear_fields(d, EL_NONE);
    if (row->element == EL_REVISION)
        clear_fields(d, EL_REVISION);
    if (row->bytes_max > 0) {
        buf_clear(&d->fields[row->element]);
        d->too_long[row->element] = false;
    }
    if (row->element == EL_TEXT)
        take_text_attributes(d, attributes);
}

static void XMLCALL on_text(void *ctx, const XML_Char *p, int n)
{
    struct dump *d = ctx;
    const struct element_row *row = d->depth > 0 ? d->stack[d->depth - 1] : NULL;
    if (row == NULL || row->bytes_max == 0)
        return;
    struct buf *b = &d->fields[row->element];
    if (b->n + (size_t)n > row->bytes_max)
        d->too_long[row->element] = true;
    buf_put(b, str_take((str){ .p = p, .n = (size_t)n }, row->bytes_max - b->n));
}

/* What of a revision cannot be right; NULL: nothing. Its id and time are read into r. */
static const char *read_fields(const struct dump *d, struct dump_revision *r)
{
    if (!str_to_u64(str_trim(field(d, EL_ID)), &r->id) || r->id > INT64_MAX)
        r->id = 0;
    if (r->title.n == 0)
        return "its page has no title before it";
    if (d->too_long[EL_TITLE])
        return "the title of its page is too long";
    if (r->id == 0)
        return "it has no proper id";
    if (!date_parse_rfc3339(str_trim(field(d, EL_TIMESTAMP)), &r->time_ns))
        return "it has no proper timestamp: wanted is " DATE_WANTED;
    if (d->too_long[EL_MODEL] || d->too_long[EL_FORMAT])
        return "its model or format is too long";
    return NULL;
}

static void end_revision(struct dump *d)
{
    struct dump_revision r = { .title = field(d, EL_TITLE),
                               .text = field(d, EL_TEXT),
                               .model = field(d, EL_MODEL),
                               .format = field(d, EL_FORMAT),
                               .no_text = d->no_text,
                               .too_large = d->too_long[EL_TEXT] };
    r.unfit = read_fields(d, &r);
    if (r.too_large)
        r.text = STR("");
    r.no_text = r.no_text || (d->text_promised && r.text.n == 0 && !r.too_large);
    struct err_note note = { .text = "" };
    err e = d->opts.revision(d->opts.ctx, &r, &note);
    if (e != ERR_OK)
        dump_fail(d, e, note.text);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    struct dump *d = ctx;
    (void)name; /* expat has matched it with its start */
    if (d->failed != ERR_OK)
        return;
    INVARIANT(d->depth > 0);
    const struct element_row *row = d->stack[--d->depth];
    if (row != NULL && row->element == EL_REVISION)
        end_revision(d);
}

static void XMLCALL on_doctype(void *ctx, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int internal)
{
    (void)name;
    (void)system;
    (void)public;
    (void)internal;
    dump_fail(ctx, ERR_BAD, "a document type declaration; exports have none, and it is refused");
}

struct dump *dump_new(const struct dump_opts *opts)
{
    struct dump *d = calloc(1, sizeof *d);
    INVARIANT(d != NULL);
    d->magic = DUMP_MAGIC;
    d->opts = *opts;
    d->parser = XML_ParserCreate(NULL);
    INVARIANT(d->parser != NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        buf_init(&d->fields[rows[i].element], rows[i].bytes_max);
    XML_SetUserData(d->parser, d);
    XML_SetElementHandler(d->parser, on_start, on_end);
    XML_SetCharacterDataHandler(d->parser, on_text);
    XML_SetStartDoctypeDeclHandler(d->parser, on_doctype);
    return d;
}

void dump_free(struct dump **dp)
{
    struct dump *d = *dp;
    if (d == NULL)
        return;
    MAGIC_CHECK(d, DUMP_MAGIC);
    XML_ParserFree(d->parser);
    for (unsigned el = 0; el < ELEMENTS; el++)
        buf_fini(&d->fields[el]);
    d->magic = 0;
    free(d);
    *dp = NULL;
}

static err parse_chunk(struct dump *d, str bytes, bool last, struct err_note *note)
{
    enum XML_Status status = XML_Parse(d->parser, bytes.n > 0 ? bytes.p : "", (int)bytes.n, last);
    d->fed += bytes.n;
    if (d->failed != ERR_OK) {
        *note = d->why;
        return d->failed;
    }
    if (status == XML_STATUS_ERROR)
        return err_bad(note, "line %lu: %s", (unsigned long)XML_GetCurrentLineNumber64(d->parser),
                       XML_ErrorString(XML_GetErrorCode(d->parser)));
    int64_t at = (int64_t)XML_GetCurrentByteIndex64(d->parser);
    if (!last && at >= 0 && d->fed - (uint64_t)at > DUMP_TOKEN_BYTES_MAX) {
        err_note_set(note, "line %lu: a tag or comment of more than %d bytes",
                     (unsigned long)XML_GetCurrentLineNumber64(d->parser), DUMP_TOKEN_BYTES_MAX);
        return ERR_LIMIT;
    }
    return ERR_OK;
}

enum { FEED_BYTES = 1 << 16 };

err dump_feed(struct dump *d, str bytes, bool last, struct err_note *note)
{
    MAGIC_CHECK(d, DUMP_MAGIC);
    INVARIANT(d->failed == ERR_OK);
    err e = ERR_OK;
    do {
        str part = str_take(bytes, FEED_BYTES);
        bytes = str_skip(bytes, part.n);
        e = parse_chunk(d, part, last && bytes.n == 0, note);
    } while (e == ERR_OK && bytes.n > 0);
    return e;
}
