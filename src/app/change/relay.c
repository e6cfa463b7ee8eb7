/* relay.c - see relay.h. The members have an order that tests and clients may rely on. */
#include "app/change/relay.h"

#include "base/date.h"
#include "change/change.h"
#include "codec/json_text.h"
#include "event/log.h"
#include "loop/entropy.h"

void relay_event_put(struct buf *out, struct clock *clock, str id, str domain, str uri)
{
    char dt[DATE_RFC3339_BYTES + 1];
    date_format_ms(clock_store(clock).ns, dt);
    buf_printf(out, "{\"meta\":{\"stream\":\"%s\",\"id\":", CHANGE_PURGES);
    if (id.n > 0) {
        json_text_append(out, id);
    } else {
        uint64_t random[2];
        entropy_bytes(random, sizeof random);
        buf_put_c(out, '"');
        event_id_put(out, random[0], random[1]);
        buf_put_c(out, '"');
    }
    buf_printf(out, ",\"dt\":\"%s\",\"domain\":", dt);
    json_text_append(out, domain);
    buf_put(out, STR("},\"uri\":"));
    json_text_append(out, uri);
    buf_put_c(out, '}');
}
