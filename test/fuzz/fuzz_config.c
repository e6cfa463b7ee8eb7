/* Goal: no configuration breaks the reader; what is refused is one line with a file in it, and what
 * is taken is within the limits of the table. */
#include "server/options.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct config *c)
{
    INVARIANT(c->listens_count >= 1 && c->listens_count <= CONFIG_LISTENS_MAX);
    INVARIANT(c->domains_count >= 1 && c->domains_count <= CONFIG_DOMAINS_MAX);
    INVARIANT(c->buckets_count >= 1 && c->buckets_count <= CONFIG_BUCKETS_MAX);
    INVARIANT(c->drain_timeout_ms >= 0 && c->drain_timeout_ms <= 3600 * 1000);
    INVARIANT(c->http.connections_max >= 16);
    INVARIANT(strlen(c->data_dir) > 0);
    for (unsigned i = 0; i < c->listens_count; i++)
        INVARIANT(c->auth == AUTH_INTERNAL || options_is_loopback(c->listens[i].address));
    for (unsigned i = 0; i < c->domains_count; i++)
        INVARIANT(strchr(c->domains[i].name, '/') == NULL);
    for (unsigned i = 0; i < c->buckets_count; i++)
        INVARIANT(c->buckets[i].page.policy.kind < POLICY_KINDS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options *o = options_new();
    struct err_note note = { .text = "" };
    err why = options_yaml(o, (str){ .p = (const char *)data, .n = size }, "fuzz.yaml", &note);
    if (why == ERR_OK)
        why = options_finish(o, &note);
    if (why == ERR_OK) {
        look_at(options_config(o));
    } else {
        INVARIANT(strlen(note.text) > 0);
        INVARIANT(strchr(note.text, '\n') == NULL);
    }
    options_free(&o);
    return 0;
}
