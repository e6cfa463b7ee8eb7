/* cluster.c - see cluster.h. The password is wiped when the client is gone, which borrows it. */
#include "server/cluster.h"

#include "base/log.h"
#include "cql/cql.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "server/secret.h"

#include <stdlib.h>
#include <string.h>

enum { STOP_WAIT_MS = 5000 };

static const char *said(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static err tls_open(struct cluster *c, const struct cluster_opts *o, struct err_note *note)
{
    const struct config_cassandra *k = o->config;
    if (k->tls == TLS_OFF)
        return ERR_OK;
    const struct cql_tls_opts opts = { .ca_path = said(k->ca_file),
                                       .cert_path = said(k->cert_file),
                                       .key_path = said(k->key_file),
                                       .name = said(k->tls_name),
                                       .unverified = k->tls == TLS_UNVERIFIED };
    struct err_note why;
    c->tls = cql_tls_new(&opts, &why);
    if (c->tls == NULL)
        return err_bad(note, "%s.tls: %s", o->section, why.text);
    if (k->tls == TLS_UNVERIFIED && o->log != NULL)
        log_event(o->log, LOG_WARN, "cluster.tls_unverified",
                  LOG_CSTR("what", "any certificate will do, so anybody may be the node"));
    return ERR_OK;
}

static err client_new(struct cluster *c, const struct cluster_opts *o, struct err_note *note)
{
    const struct config_cassandra *k = o->config;
    struct cql_opts opts = { .loop = o->loop,
                             .clock = o->clock,
                             .log = o->log,
                             .seed = entropy_u64(),
                             .contact_points_count = k->contact_points_count,
                             .local_dc = k->local_dc,
                             .remote_dcs = k->remote_dcs,
                             .user = said(k->user),
                             .password = c->password,
                             .plain_anywhere = k->plain_anywhere,
                             .tls = c->tls,
                             .lz4 = true,
                             .schema = o->schema,
                             .ctx = o->ctx };
    for (unsigned i = 0; i < k->contact_points_count; i++)
        opts.contact_points[i] = k->contact_points[i];
    struct err_note why;
    c->client = cql_new(&opts, &why);
    return c->client != NULL ? ERR_OK : err_bad(note, "%s.*: %s", o->section, why.text);
}

err cluster_open(struct cluster *c, const struct cluster_opts *o, struct err_note *note)
{
    *c = (struct cluster){ .loop = o->loop, .clock = o->clock };
    struct err_note why;
    err e = tls_open(c, o, note);
    if (e == ERR_OK && said(o->config->password_file) != NULL &&
        secret_read(o->config->password_file, &c->password, &why) != ERR_OK)
        e = err_bad(note, "%s.auth.password_file: %s", o->section, why.text);
    return e == ERR_OK ? client_new(c, o, note) : e;
}

static void client_stopped(void *ctx)
{
    struct cluster *c = ctx;
    cql_free(&c->client);
    loop_stop(c->loop);
}

void cluster_close(struct cluster *c)
{
    if (c->client != NULL) {
        cql_stop(c->client, mono_add_ms(clock_mono(c->clock), STOP_WAIT_MS), client_stopped, c);
        loop_run(c->loop);
    }
    cql_tls_free(&c->tls);
    if (c->password != NULL)
        explicit_bzero(c->password, strlen(c->password));
    free(c->password);
    c->password = NULL;
}
