/* golden.c - reads golden.txt: a line each, of words behind one space each. */
#include "golden.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *file_read(const char *path, size_t *n)
{
    enum { FILE_BYTES_MAX = 1 << 20 };
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = malloc(FILE_BYTES_MAX);
    assert_non_null(text);
    *n = fread(text, 1, FILE_BYTES_MAX, f);
    assert_true(*n > 0 && *n < FILE_BYTES_MAX);
    assert_int_equal(fclose(f), 0);
    return text;
}

static str unhex(str hex)
{
    assert_int_equal(hex.n % 2, 0);
    char *bytes = malloc(hex.n == 0 ? 1 : hex.n / 2);
    assert_non_null(bytes);
    for (size_t i = 0; i < hex.n / 2; i++)
        bytes[i] = (char)(str_hex_digit(hex.p[2 * i]) << 4 | str_hex_digit(hex.p[2 * i + 1]));
    return (str){ .p = bytes, .n = hex.n / 2 };
}

void golden_read(struct golden *g, const char *path)
{
    size_t n;
    *g = (struct golden){ .text = file_read(path, &n) };
    str left = { .p = g->text, .n = n };
    while (left.n > 0) {
        str line = str_split(&left, '\n');
        if (line.n == 0 || line.p[0] == '#')
            continue;
        assert_true(g->count < GOLDEN_LINES_MAX);
        struct golden_line *at = &g->at[g->count++];
        at->kind = str_split(&line, ' ');
        at->name = str_split(&line, ' ');
        at->bytes = unhex(str_split(&line, ' '));
        at->text = line;
    }
}

void golden_fini(struct golden *g)
{
    for (unsigned i = 0; i < g->count; i++)
        free((void *)(uintptr_t)g->at[i].bytes.p);
    free(g->text);
}

struct golden_line *golden_find(struct golden *g, const char *kind, const char *name)
{
    for (unsigned i = 0; i < g->count; i++)
        if (str_eq(g->at[i].kind, str_of(kind)) && str_eq(g->at[i].name, str_of(name)))
            return &g->at[i];
    fail_msg("no line %s %s", kind, name);
    return NULL;
}
