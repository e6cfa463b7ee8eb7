#include "fake_pg.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

void fake_pg_init(struct fake_pg *f)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof(a);
    *f = (struct fake_pg){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    assert_true(f->fd >= 0);
    assert_int_equal(bind(f->fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(f->fd, 8), 0);
    assert_int_equal(getsockname(f->fd, (struct sockaddr *)&a, &n), 0);
    (void)snprintf(f->url, sizeof(f->url),
                   "postgresql://u@127.0.0.1:%u/d?sslmode=disable&gssencmode=disable",
                   ntohs(a.sin_port));
    buf_init(&f->hello, FAKE_BYTES_MAX);
    buf_init(&f->answer, FAKE_BYTES_MAX);
}

static void send_all(int fd, const struct buf *b)
{
    str rest = buf_str(b);
    while (rest.n > 0) {
        ssize_t n = send(fd, rest.p, rest.n, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client has had enough */
        rest = str_skip(rest, (size_t)n);
    }
}

static void *serve(void *ctx)
{
    struct fake_pg *f = ctx;
    char bytes[65536];
    int fd = accept(f->fd, NULL, NULL);
    if (fd < 0)
        return NULL;
    bool started = recv(fd, bytes, sizeof(bytes), 0) > 0; /* it is short, and comes in one piece */
    if (started)
        send_all(fd, &f->hello);
    if (started && f->answer.n > 0 && recv(fd, bytes, sizeof(bytes), 0) > 0)
        send_all(fd, &f->answer);
    if (!f->holds)
        (void)shutdown(fd, SHUT_WR);
    while (recv(fd, bytes, sizeof(bytes), 0) > 0)
        continue; /* what is not read when this closes would cut off what was sent */
    close(fd);
    return NULL;
}

void fake_pg_serve(struct fake_pg *f)
{
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

void fake_pg_fini(struct fake_pg *f)
{
    (void)shutdown(f->fd, SHUT_RDWR); /* should nobody have come */
    pthread_join(f->thread, NULL);
    close(f->fd);
    buf_fini(&f->hello);
    buf_fini(&f->answer);
}

void fake_message(struct buf *b, char type, str payload)
{
    buf_put_c(b, type);
    buf_put_be32(b, (uint32_t)payload.n + 4);
    buf_put(b, payload);
}

void fake_welcome(struct buf *b)
{
    fake_message(b, 'R', (str){ .p = "\0\0\0\0", .n = 4 });
    fake_ready(b);
}

void fake_ready(struct buf *b)
{
    fake_message(b, 'Z', STR("I"));
}

void fake_row(struct buf *b, uint64_t value)
{
    static const char column[] = /* one, its name, table, number, type, size, modifier, binary */
        "\0\1"
        "n\0"
        "\0\0\0\0"
        "\0\0"
        "\0\0\0\24"
        "\0\10"
        "\377\377\377\377"
        "\0\1";
    char row[14] = "\0\1\0\0\0\10";
    put_be64(row + 6, value);
    fake_message(b, '1', STR_NONE);
    fake_message(b, '2', STR_NONE);
    fake_message(b, 'T', (str){ .p = column, .n = sizeof(column) - 1 });
    fake_message(b, 'D', (str){ .p = row, .n = sizeof(row) });
    fake_message(b, 'C', (str){ .p = "SELECT 1", .n = 9 });
}

static void put_field(struct buf *b, char type, const char *text)
{
    buf_put_c(b, type);
    buf_put(b, str_of(text));
    buf_put_c(b, '\0');
}

void fake_error(struct buf *b, const char *severity, const char *state)
{
    struct buf e;
    buf_init(&e, FAKE_BYTES_MAX);
    put_field(&e, 'S', severity);
    put_field(&e, 'V', severity);
    if (state != NULL)
        put_field(&e, 'C', state);
    put_field(&e, 'M', "it is\nso");
    buf_put_c(&e, '\0');
    fake_message(b, 'E', buf_str(&e));
    buf_fini(&e);
}
