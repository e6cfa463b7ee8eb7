/* free_port.h - ports of 127.0.0.1 for programs that tests start and that cannot choose their
 * own. */
#ifndef TEST_FREE_PORT_H
#define TEST_FREE_PORT_H

#include <stdint.h>

/* Below those that the kernel gives away, so that nobody is given it before it is used. Each is
 * given once. Fails the test when none is. */
uint16_t free_port(void);

#endif
