/* Reads messages in one encoding and writes them in both, for test_wire.py: on stdin "NAME
 * json|protobuf SIZE\n" and SIZE bytes; on stdout "ok SIZE SIZE\n" with the JSON and the protobuf,
 * or "bad SIZE\n" with why. */
#include "codec/wire.h"
#include "codec/wire_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 256, BODY_BYTES_MAX = 16 << 20 };

static const ProtobufCMessageDescriptor *type_of(const char *name)
{
    for (unsigned i = 0; i < wire_messages_count; i++)
        if (strcmp(wire_messages[i]->type->short_name, name) == 0)
            return wire_messages[i]->type;
    check_failed(__FILE__, __LINE__, name);
}

static void put(str s)
{
    INVARIANT(s.n == 0 || fwrite(s.p, 1, s.n, stdout) == s.n);
}

static void echo(const char *name, enum wire_encoding encoding, str body)
{
    struct arena a;
    struct err_note note = { "" };
    ProtobufCMessage *m;
    str json, protobuf;
    arena_init(&a, 64 << 20);
    if (wire_decode(&a, type_of(name), encoding, body, &m, &note) != ERR_OK) {
        printf("bad %zu\n", strlen(note.text));
        put(str_of(note.text));
    } else {
        INVARIANT(wire_encode(&a, m, WIRE_JSON, &json) == ERR_OK);
        INVARIANT(wire_encode(&a, m, WIRE_PROTOBUF, &protobuf) == ERR_OK);
        printf("ok %zu %zu\n", json.n, protobuf.n);
        put(json);
        put(protobuf);
    }
    INVARIANT(fflush(stdout) == 0);
    arena_fini(&a);
}

int main(void)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char name[64], encoding[16];
        size_t n;
        INVARIANT(sscanf(line, "%63s %15s %zu", name, encoding, &n) == 3);
        INVARIANT(n <= BODY_BYTES_MAX);
        char *body = malloc(n + 1);
        INVARIANT(body != NULL);
        INVARIANT(fread(body, 1, n, stdin) == n);
        echo(name, strcmp(encoding, "json") == 0 ? WIRE_JSON : WIRE_PROTOBUF,
             (str){ .p = body, .n = n });
        free(body);
    }
    return 0;
}
