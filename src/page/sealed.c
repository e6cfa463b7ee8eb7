/* sealed.c - seals a render for its way through Redis, and believes only one that is sealed for
 * just what was asked. For make_travel.c. */
#include "page/sealed.h"

#include "peer/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VERSION_SEALED = 3 }; /* behind those of travel.h, which read no such one */
enum { SEAL_AT = 9, SEALED_HEAD = SEAL_AT + PEER_SEAL_BYTES };

/* The seal over what was asked for, when it was sealed, and the bytes. */
static void seal_of(const struct page_sealing *s, int64_t sealed_s, str bytes,
                    char out[PEER_SEAL_BYTES + 1])
{
    const struct page_target *t = s->target;
    char rev[24];
    (void)snprintf(rev, sizeof rev, "%" PRIu64, t->has_rev ? t->name.rev : 0); /* fits */
    const str of[] = { STR("render"), str_of(t->settings->opts->name), t->domain->name, t->title,
                       str_of(rev) };
    const struct peer_value value = {
        .of = of, .of_count = COUNT_OF(of), .sealed_s = sealed_s, .bytes = bytes
    };
    peer_value_seal(s->peers, &value, out);
}

void page_sealed_put(struct buf *out, const struct page_sealing *s, const struct page_travel *t)
{
    if (s->peers == NULL) {
        page_travel_put(out, t);
        return;
    }
    /* The seal is over what follows it: room is kept, and filled in last. */
    static const char room[PEER_SEAL_BYTES];
    int64_t sealed_s = peer_now_s(s->peers);
    size_t begin = out->n;
    buf_put_u8(out, VERSION_SEALED);
    buf_put_be64(out, (uint64_t)sealed_s);
    buf_put(out, (str){ .p = room, .n = sizeof room });
    page_travel_put(out, t);
    if (buf_status(out) != ERR_OK)
        return;
    char seal[PEER_SEAL_BYTES + 1];
    seal_of(s, sealed_s, str_skip(buf_str(out), begin + SEALED_HEAD), seal);
    memcpy(out->p + begin + SEAL_AT, seal, PEER_SEAL_BYTES);
}

/* Compares by peer_value_is_sealed, which takes equally long for each wrong seal and looks at
 * the age. */
static bool is_sealed(const struct page_sealing *s, str bytes)
{
    if (bytes.n < SEALED_HEAD || (unsigned char)bytes.p[0] != VERSION_SEALED)
        return false;
    char ours[PEER_SEAL_BYTES + 1];
    int64_t sealed_s = (int64_t)get_be64(bytes.p + 1);
    seal_of(s, sealed_s, str_skip(bytes, SEALED_HEAD), ours);
    return peer_value_is_sealed(s->peers, sealed_s, ours,
                                str_take(str_skip(bytes, SEAL_AT), PEER_SEAL_BYTES));
}

err page_sealed_get(const struct page_sealing *s, str bytes, struct page_travel *out)
{
    /* Without a shared secret renders go unsealed, and sealed ones cannot be read. */
    if (s->peers == NULL)
        return page_travel_get(bytes, out);
    if (is_sealed(s, bytes))
        return page_travel_get(str_skip(bytes, SEALED_HEAD), out);
    peer_refused(s->peers);
    return ERR_CORRUPT;
}
