#include "pg_many.h"

#include <string.h>

void many_begin(struct many *m)
{
    memset(m, 0, sizeof *m);
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->over, NULL);
}

static void many_done(struct queue_write *w, err why)
{
    struct many *m = w->ctx;
    pthread_mutex_lock(&m->lock);
    m->results[w - m->writes] = why;
    m->done++;
    pthread_cond_signal(&m->over);
    pthread_mutex_unlock(&m->lock);
}

void many_start(struct many *m, struct queue_store *s, unsigned i)
{
    m->writes[i].parts_count = 1;
    m->writes[i].done = many_done;
    m->writes[i].ctx = m;
    s->ops->write(s, &m->writes[i]);
}

void many_wait(struct many *m, unsigned count)
{
    pthread_mutex_lock(&m->lock);
    while (m->done < count)
        pthread_cond_wait(&m->over, &m->lock);
    pthread_mutex_unlock(&m->lock);
}
