/* secret.c - read once, checked, and wiped where it was read. */
#include "server/secret.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -1: it cannot be read, as errno says. */
static ssize_t file_bytes(const char *path, char *room, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t n = 0;
    ssize_t got;
    do {
        got = read(fd, room + n, size - n);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0 && n < size);
    int why = errno;
    (void)close(fd); /* was only read */
    errno = why;
    return got < 0 ? -1 : (ssize_t)n;
}

static bool is_line(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || (unsigned char)s.p[i] >= 0x7f)
            return false;
    return s.n > 0;
}

err secret_read(const char *path, char **out, struct err_note *note)
{
    char room[SECRET_BYTES_MAX + 2];
    ssize_t n = file_bytes(path, room, sizeof room - 1);
    if (n < 0)
        return err_bad(note, "%.100s cannot be read: %s", path, strerror(errno));
    str s = str_trim((str){ .p = room, .n = (size_t)n });
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r'))
        s = str_trim(str_take(s, s.n - 1));
    bool fine = (size_t)n <= SECRET_BYTES_MAX && is_line(s);
    if (fine) {
        *out = malloc(s.n + 1);
        INVARIANT(*out != NULL);
        (void)str_to_cstr(s, *out, s.n + 1); /* fits */
    }
    explicit_bzero(room, sizeof room);
    return fine ? ERR_OK
                : err_bad(note,
                          "%.100s does not hold one line of printable ASCII, of %d bytes at most",
                          path, SECRET_BYTES_MAX);
}
