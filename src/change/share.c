/* share.c - see share.h. One target at least runs no more than its part: all parts are the whole.
 */
#include "change/share.h"

enum { TURN = 1 << 20 }; /* of weight 1 */

unsigned change_share_turn(struct change_shares *s, const struct change_share *of, unsigned count)
{
    uint64_t running = 1, weights = 0, first = UINT64_MAX;
    unsigned turn = count;
    for (unsigned i = 0; i < count; i++) {
        running += of[i].takes ? of[i].running : 0;
        weights += of[i].takes ? (uint64_t)of[i].weight : 0;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t next = s->next[i] > s->now ? s->next[i] : s->now;
        if (of[i].takes && of[i].running * weights < running * (uint64_t)of[i].weight &&
            next < first) {
            first = next;
            turn = i;
        }
    }
    if (turn < count) {
        s->now = first;
        s->next[turn] = first + TURN / (uint64_t)of[turn].weight;
    }
    return turn;
}
