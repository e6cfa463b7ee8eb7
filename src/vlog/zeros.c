/* zeros.c - decides from what the log counted whether zeros are written ahead of its tail. */
#include "vlog/zeros.h"

void zeros_count(struct zeros *z, uint64_t n, bool all_synced)
{
    if (all_synced && z->unsynced > 0) {
        z->of_sync[z->syncs++ % VLOG_ZEROS_SYNCS] = z->unsynced;
        z->unsynced = 0;
    }
    z->unsynced += n;
}

bool zeros_pay(const struct zeros *z)
{
    if (z->when != ZEROS_BEHIND_SMALL)
        return z->when == ZEROS_ALWAYS;
    uint64_t sum = 0;
    for (int i = 0; i < VLOG_ZEROS_SYNCS; i++)
        sum += z->of_sync[i];
    return z->syncs >= VLOG_ZEROS_SYNCS &&
           sum <= (uint64_t)VLOG_ZEROS_SYNCS * VLOG_ZEROS_SYNC_BYTES_MAX;
}
