/* Goal: no text in RESTBase's tables breaks the readers of schemas and headers; what they give has
 * names that fit and headers once each, and is the same each time. */
#include "cassandra/restbase.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_schema(str text)
{
    struct restbase_table t = { .keyspace = "k" }, again = { .keyspace = "k" };
    struct err_note note = { .text = "" };
    err why = restbase_schema_read(text, &t, &note);
    INVARIANT(why == ERR_OK || why == ERR_NOT_FOUND || why == ERR_BAD);
    INVARIANT(why == ERR_OK || note.text[0] != '\0');
    INVARIANT(why == ERR_OK || t.table[0] == '\0');
    INVARIANT(why != ERR_OK || t.table[0] != '\0');
    INVARIANT(strcmp(t.keyspace, "k") == 0);
    INVARIANT(restbase_schema_read(text, &again, &note) == why);
    INVARIANT(memcmp(&t, &again, sizeof t) == 0);
}

static void check_headers(str text)
{
    struct restbase_header headers[RESTBASE_HEADERS_MAX];
    unsigned count = 0;
    struct arena a;
    arena_init(&a, 4 << 20);
    err why = restbase_headers_read(&a, text, headers, &count);
    INVARIANT(why == ERR_OK || why == ERR_BAD || why == ERR_LIMIT);
    INVARIANT(count <= RESTBASE_HEADERS_MAX);
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < i; k++)
            INVARIANT(!str_eq(headers[i].name, headers[k].name));
        for (size_t n = 0; n < headers[i].name.n; n++)
            INVARIANT(headers[i].name.p[n] < 'A' || headers[i].name.p[n] > 'Z');
        INVARIANT(headers[i].value.n <= text.n);
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = { (const char *)data, size };
    check_schema(text);
    check_headers(text);
    return 0;
}
