/* lane.h - ready answers without the library. Private to http.
 *
 * Model. Where the early hook may have answers, accepted connections belong to lanes first: one
 * thread a worker, with an epoll set of its own. A lane looks
 * at what has come without taking it (MSG_PEEK). A plain head (head_plain) for which the early hook
 * has a ready answer is answered with one sendmsg, and taken later, with others. Anything else, and
 * so whatever must be judged, goes to the library with the connection, unread and for good.
 *
 *   connection   READING -> SENDING -> READING     its kernel had no room; nothing is read
 *                meanwhile READING -> a worker's
 *
 *   The first lane that is not full (loop/busy.h) gets what is accepted. A full one gives every
 * second connection of a turn to one that has much less to do, after each window in which it was:
 * there are no more threads at work than were needed once. What was given away stays where it is.
 *
 * Lanes' connections stand in the table of all (conns.c) with the phases IDLE and SEND: the sweep
 * cuts the idle and the slow there as everywhere, and the limit and the drain count them. Why:
 * docs/adr/0011. */
#ifndef HTTP_LANE_H
#define HTTP_LANE_H

#include "http/server.h"

/* Takes l's listening socket into count lanes; l's workers run. False: they do not start. */
MUST_CHECK bool lanes_start(struct listener *l, unsigned count);
/* The threads end, and with them accepting and all connections that are theirs. Twice is once; none
 * is none. */
void lanes_quit(struct listener *l);
/* Frees all. */
void lanes_stop(struct listener *l);

#endif
