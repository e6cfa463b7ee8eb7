/* reply.c - reads the head and the body of a reply for the client. Invariant: a reply whose
 * framing could be read in two ways is refused, and the limit of the body counts decompressed
 * bytes. */
#include "http/reply.h"

#include "http/negotiate.h"

#include <string.h>

void reply_init(struct reply *r, size_t body_bytes_max)
{
    *r = (struct reply){ .body_bytes_max = body_bytes_max };
    buf_init(&r->head, HTTP_REPLY_HEAD_BYTES_MAX + HTTP_REPLY_HEADERS_MAX);
    buf_init(&r->body, body_bytes_max);
}

void reply_fini(struct reply *r)
{
    buf_fini(&r->head);
    buf_fini(&r->body);
    if (r->has_coding)
        inflater_fini(&r->inflater);
}

static bool http_reply_fail(struct reply *r, err why, const char *fault)
{
    r->why = why;
    r->fault = fault;
    return false;
}

bool reply_is_value(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] == 0x7f)
            return false;
    return true;
}

/* ---- the head ---- */

static bool status_line(struct reply *r, str line)
{
    uint64_t status = 0;
    str rest = str_skip(line, str_find(line, ' ') + 1);
    if (rest.n < 3 || !str_to_u64(str_take(rest, 3), &status) || (rest.n > 3 && rest.p[3] != ' '))
        return http_reply_fail(r, ERR_BAD, "the status line names no status");
    if (status < 100 || status > 599)
        return http_reply_fail(r, ERR_BAD, "the status is none of 100 to 599");
    r->status = (int)status;
    r->head_done = r->has_length = false;
    r->lines_count = 0;
    buf_clear(&r->head);
    return true;
}

/* Which decoder; false: none that we know, or several. */
static bool take_coding(struct reply *r, str value)
{
    bool gzip = str_eq_nocase(value, STR("gzip")) || str_eq_nocase(value, STR("x-gzip"));
    if (value.n == 0 || str_eq_nocase(value, STR("identity")))
        return true;
    if (r->has_coding || (!gzip && !str_eq_nocase(value, STR("deflate"))))
        return http_reply_fail(r, ERR_BAD, "the body has a coding that was not asked for");
    r->has_coding = true;
    inflater_init(&r->inflater, gzip ? INFLATE_GZIP : INFLATE_DEFLATE);
    return true;
}

static bool take_length(struct reply *r, str value)
{
    uint64_t length = 0;
    if (!str_to_u64(value, &length))
        return http_reply_fail(r, ERR_BAD, "Content-Length is not a number");
    if (r->has_length && r->length != length)
        return http_reply_fail(r, ERR_BAD, "several lengths");
    r->has_length = true;
    r->length = length;
    return true;
}

/* The fields that say where the body ends and what it is; of a final head alone. */
static bool take_framing(struct reply *r, str name, str value)
{
    if (str_eq_nocase(name, STR("Content-Length")))
        return take_length(r, value);
    if (str_eq_nocase(name, STR("Transfer-Encoding")) && !str_eq_nocase(value, STR("chunked")))
        return http_reply_fail(r, ERR_BAD, "a transfer coding other than chunked");
    if (str_eq_nocase(name, STR("Content-Encoding")))
        return take_coding(r, value);
    return true;
}

static bool field_split(str line, str *name, str *value)
{
    size_t colon = str_find(line, ':');
    if (colon == line.n)
        return false;
    *name = str_take(line, colon);
    *value = str_trim(str_skip(line, colon + 1));
    return http_is_token(*name) && reply_is_value(*value);
}

static bool field_line(struct reply *r, str line)
{
    str name, value;
    if (!field_split(line, &name, &value))
        return http_reply_fail(r, ERR_BAD, "a header line is malformed");
    if (r->lines_count++ == HTTP_REPLY_HEADERS_MAX)
        return http_reply_fail(r, ERR_LIMIT, "too many header lines");
    buf_put(&r->head, name);
    buf_put_c(&r->head, ':');
    buf_put(&r->head, value);
    buf_put_c(&r->head, '\n');
    INVARIANT(buf_status(&r->head) == ERR_OK); /* head_bytes is within the limit */
    return r->status < 200 || take_framing(r, name, value);
}

bool reply_line(struct reply *r, str line)
{
    r->head_bytes += line.n;
    if (r->head_bytes > HTTP_REPLY_HEAD_BYTES_MAX)
        return http_reply_fail(r, ERR_LIMIT, "the reply's head is too large");
    if (line.n > 0 && line.p[line.n - 1] == '\n')
        line.n--;
    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (r->head_done && r->status >= 200) /* trailers: nobody asks for them */
        return true;
    if (r->status == 0 || r->head_done)
        return str_starts(line, STR("HTTP/")) ? status_line(r, line)
                                              : http_reply_fail(r, ERR_BAD, "no status line");
    if (line.n > 0)
        return field_line(r, line);
    r->head_done = true;
    return true;
}

/* ---- the body ---- */

bool reply_data(struct reply *r, str data)
{
    if (!r->head_done || r->status < 200)
        return http_reply_fail(r, ERR_BAD, "a body before its head");
    r->body_bytes += data.n;
    if (r->body_bytes > r->body_bytes_max)
        return http_reply_fail(r, ERR_LIMIT, "the reply is too large");
    if (!r->has_coding) {
        buf_put(&r->body, data);
        return buf_status(&r->body) == ERR_OK ||
               http_reply_fail(r, ERR_LIMIT, "no memory for the reply");
    }
    err why = inflater_push(&r->inflater, data, &r->body);
    if (why == ERR_OK)
        return true;
    return http_reply_fail(r, why,
                           why == ERR_LIMIT ? "the decoded reply is too large"
                                            : "the body is not in the coding it names");
}

/* ---- what has come ---- */

err reply_head(struct reply *r, struct arena *a, struct http_pair **headers,
               unsigned *headers_count)
{
    struct http_pair *pairs =
        arena_calloc(a, r->lines_count > 0 ? r->lines_count : 1, sizeof *pairs);
    str rest = arena_copy(a, buf_str(&r->head));
    if (pairs == NULL || rest.p == NULL) {
        (void)http_reply_fail(r, ERR_LIMIT,
                              "the reply finds no room in the caller's memory"); /* as below */
        return r->why;
    }
    for (unsigned i = 0; i < r->lines_count; i++) {
        str line = str_split(&rest, '\n');
        size_t colon = str_find(line, ':');
        pairs[i] =
            (struct http_pair){ .name = str_take(line, colon), .value = str_skip(line, colon + 1) };
    }
    *headers = pairs;
    *headers_count = r->lines_count;
    return ERR_OK;
}

err reply_finish(struct reply *r)
{
    if (r->why == ERR_OK && !r->head_done)
        (void)http_reply_fail(r, ERR_UNAVAILABLE,
                              "the connection ended within the head"); /* why is looked at below */
    if (r->why == ERR_OK && r->status < 200)
        (void)http_reply_fail(r, ERR_BAD, "no final head"); /* as above */
    if (r->why == ERR_OK && r->has_coding && inflater_end(&r->inflater) != ERR_OK)
        (void)http_reply_fail(r, ERR_BAD, "the body ends within its coding"); /* as above */
    return r->why;
}
