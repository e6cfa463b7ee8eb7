#include "lib/free_port.h"

#include "unit/cmocka_all.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_MIN = 10000, PORTS_MIN = 1000, PORTS_END = 1 << 16, TRIES = 1000 };

/* The first of the ports that the kernel gives away. */
static unsigned kernel_first(void)
{
    unsigned first = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &first), 1);
    fclose(f);
    assert_true(first > PORTS_MIN);
    assert_true(first < PORTS_END);
    return first;
}

static bool may_be_had(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int taken = bind(fd, (const struct sockaddr *)&at, sizeof at);
    close(fd);
    return taken == 0;
}

uint16_t free_port(void)
{
    static bool given[PORTS_END];
    unsigned end = kernel_first(), first = end - PORTS_MIN < PORT_MIN ? end - PORTS_MIN : PORT_MIN;
    for (int i = 0; i < TRIES; i++) {
        unsigned any = 0;
        assert_int_equal(getrandom(&any, sizeof any, 0), sizeof any);
        uint16_t port = (uint16_t)(first + any % (end - first));
        if (given[port] || !may_be_had(port))
            continue;
        given[port] = true;
        return port;
    }
    fail_msg("no port is free");
    return 0;
}
