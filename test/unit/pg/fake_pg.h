/* fake_pg.h - a server that speaks as much of PostgreSQL's protocol as a test tells it to. */
#ifndef TEST_PG_FAKE_PG_H
#define TEST_PG_FAKE_PG_H

#include "base/buf.h"

#include <pthread.h>

enum { FAKE_URL_BYTES = 96, FAKE_BYTES_MAX = 1 << 20 };
struct fake_pg {
    int fd;
    pthread_t thread;
    char url[FAKE_URL_BYTES];
    struct buf hello,
        answer; /* sent after the start-up message; after the first bytes of a statement */
    bool holds; /* does not close its side behind them */
};

/* Listens; fill hello and answer, then serve. hello is empty: never a word. */
void fake_pg_init(struct fake_pg *f);
/* One client, on a thread of its own. */
void fake_pg_serve(struct fake_pg *f);
/* The client has closed. */
void fake_pg_fini(struct fake_pg *f);

/* Messages of the server. */
void fake_message(struct buf *b, char type, str payload);
void fake_welcome(struct buf *b);
/* What answers SELECT of one int8. */
void fake_row(struct buf *b, uint64_t value);
/* ErrorResponse; state may be NULL. */
void fake_error(struct buf *b, const char *severity, const char *state);
void fake_ready(struct buf *b);

#endif
