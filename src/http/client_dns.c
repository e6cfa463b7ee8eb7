/* client_dns.c - resolves host names for the client on the pool. Invariant: the loop never waits
 * for a name; calls to the host wait until the answer is there. */
#include "http/client_impl.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_ADDRESSES_MAX = 8 };

/* Outlives the client when a name server takes its time; client is NULL then. */
struct resolve_job {
    struct loop_job job;
    struct http_client *client;
    struct client_host *host;
    char name[HTTP_HOST_BYTES_MAX + 1];
    const char *fault; /* static; NULL: addresses are there */
    char addresses[CLIENT_ADDRESSES_MAX * (INET6_ADDRSTRLEN + 3)];
};

static bool address_format(const struct addrinfo *a, char text[INET6_ADDRSTRLEN])
{
    const void *at = NULL;
    if (a->ai_family == AF_INET)
        at = &((const struct sockaddr_in *)(const void *)a->ai_addr)->sin_addr;
    else if (a->ai_family == AF_INET6)
        at = &((const struct sockaddr_in6 *)(const void *)a->ai_addr)->sin6_addr;
    return at != NULL && inet_ntop(a->ai_family, at, text, INET6_ADDRSTRLEN) != NULL;
}

static void resolve_run(struct loop_job *j)
{
    struct resolve_job *job = CONTAINER_OF(j, struct resolve_job, job);
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int why = getaddrinfo(job->name, NULL, &hints, &found);
    if (why != 0) {
        job->fault = gai_strerror(why);
        return;
    }
    size_t n = 0;
    unsigned count = 0;
    for (const struct addrinfo *a = found; a != NULL && count < CLIENT_ADDRESSES_MAX;
         a = a->ai_next) {
        char text[INET6_ADDRSTRLEN];
        if (!address_format(a, text))
            continue;
        bool v6 = a->ai_family == AF_INET6;
        n += (size_t)snprintf(job->addresses + n, sizeof job->addresses - n, "%s%s%s%s",
                              count > 0 ? "," : "", v6 ? "[" : "", text, v6 ? "]" : "");
        count++;
    }
    freeaddrinfo(found);
    if (count == 0)
        job->fault = "the name has no address";
}

static void resolve_done(struct loop_job *j, bool canceled)
{
    struct resolve_job *job = CONTAINER_OF(j, struct resolve_job, job);
    struct http_client *c = job->client;
    struct client_host *h = job->host;
    if (c == NULL) {
        free(job);
        return;
    }
    MAGIC_CHECK(c, CLIENT_MAGIC);
    h->job = NULL;
    const char *fault = canceled ? "the program ends" : job->fault;
    if (fault == NULL) {
        size_t size = strlen(h->key) + strlen(job->addresses) + 2;
        free(h->addresses);
        h->addresses = malloc(size);
        INVARIANT(h->addresses != NULL);
        (void)snprintf(h->addresses, size, "%s:%s", h->key, job->addresses); /* it fits */
        h->addresses_until = mono_add_ms(clock_mono(c->opts.clock), c->opts.dns_ttl_ms);
    }
    free(job);
    host_resolved(h, fault);
}

bool host_resolve(struct http_client *c, struct client_host *h)
{
    if (h->numeric)
        return true;
    if (h->job != NULL)
        return false;
    if (h->addresses != NULL && clock_mono(c->opts.clock).ns < h->addresses_until.ns)
        return true;
    struct resolve_job *job = calloc(1, sizeof *job);
    INVARIANT(job != NULL);
    *job = (struct resolve_job){ .job = { .run = resolve_run, .done = resolve_done },
                                 .client = c,
                                 .host = h };
    memcpy(job->name, h->name, sizeof job->name);
    h->job = job;
    loop_job_start(c->opts.loop, &job->job);
    return false;
}

void host_resolve_forget(struct client_host *h)
{
    if (h->job == NULL)
        return;
    h->job->client = NULL;
    h->job->host = NULL;
    h->job = NULL;
}
