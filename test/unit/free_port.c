#include "free_port.h"

#include "cmocka_all.h"

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_MIN = 10000, PORTS = 20000, TRIES = 1000 }; /* net.ipv4.ip_local_port_range begins at 32768 */

uint16_t free_port(void)
{
    for (int i = 0; i < TRIES; i++) {
        uint16_t any = 0;
        assert_int_equal(getrandom(&any, sizeof any, 0), sizeof any);
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT_MIN + any % PORTS)),
                                  .sin_addr = { htonl(INADDR_LOOPBACK) } };
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        int taken = bind(fd, (const struct sockaddr *)&at, sizeof at);
        close(fd);
        if (taken == 0)
            return ntohs(at.sin_port);
    }
    fail_msg("no port is free");
    return 0;
}
