#include "ring_golden.h"

#include "base/check.h"

#include <stdio.h>

enum { TEXT_BYTES_MAX = 1 << 20 };

str golden_text(const char *path)
{
    static char text[TEXT_BYTES_MAX];
    FILE *f = fopen(path, "re");
    INVARIANT(f != NULL);
    size_t n = fread(text, 1, sizeof text, f);
    INVARIANT(n > 0);
    INVARIANT(n < sizeof text);
    (void)fclose(f); /* it was only read */
    return (str){ text, n };
}

bool golden_line(str *text, str *line)
{
    if (text->n == 0)
        return false;
    *line = str_split(text, '\n');
    return true;
}

str golden_word(str *line)
{
    return str_split(line, ' ');
}

int64_t golden_number(str word)
{
    int64_t n;
    INVARIANT(str_to_i64(word, &n));
    return n;
}
