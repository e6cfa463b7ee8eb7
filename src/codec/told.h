/* told.h - what servers that share a Redis tell each other of titles: a message, its text, and
 * back.
 *
 *   purge NODE BUCKET DOMAIN REV TID TITLE               REV 0: all; TID -: all of the revision
 *   mark NODE BUCKET DOMAIN STATE FIRST LAST AT TITLE    what a wiki said of these revisions at AT
 *                                                        (ns, UTC)
 *   look NODE BUCKET DOMAIN WORD REV TOUCHED TITLE       the wiki may say something else of it
 *   word NODE BUCKET DOMAIN WORD REV TOUCHED AT ID TITLE    the same, of a word that NODE heard
 *                                                        with AT, ID for newest
 *   made NODE BUCKET DOMAIN ASKED REV TID TITLE          this render was made anew
 *   newest NODE BUCKET DOMAIN AT ID -                    the wiki's newest change that NODE knows
 *                                                        of (s, UTC), by its number there
 *
 * WORD: a hash of what it said to NODE; -: NODE has not asked (only in look). REV, TOUCHED (s,
 * UTC): what its word must reach; 0: nothing is known. ASKED: the revision that was asked for; 0:
 * the latest.
 *
 * One space between the parts; the title goes to the end and may hold spaces, the others may not.
 * Servers of another version may say more: what is not known is passed over. The other messages
 * between servers are flights (flight/share_impl.h), and renders that travel. Pure. Thread: any. */
#ifndef CODEC_TOLD_H
#define CODEC_TOLD_H

#include "base/buf.h"
#include "base/tid.h"
#include "base/times.h"
#include "codec/newest.h"

enum { TOLD_BYTES_MAX = 2048 };
enum told_kind { TOLD_PURGE, TOLD_MARK, TOLD_LOOK, TOLD_WORD, TOLD_MADE, TOLD_NEWEST, TOLD_KINDS };
enum told_state { TOLD_CURRENT, TOLD_DELETED, TOLD_SUPPRESSED, TOLD_STATES };

struct told {
    enum told_kind kind;
    str node;           /* who tells it */
    str bucket, domain; /* names */
    str title;          /* not empty */
    union {
        struct {
            uint64_t rev; /* 0: all */
            bool has_tid; /* not with all */
            struct tid tid;
        } purge;
        struct {
            enum told_state state;
            uint64_t first, last; /* first <= last */
            store_time said_at;
        } mark;
        struct {
            bool has_word;
            uint64_t word, rev;
            int64_t touched;
            struct wiki_newest newest; /* of WORD; id not 0 */
        } look;                        /* WORD: has_word */
        struct {
            uint64_t asked, rev; /* rev: not 0 */
            struct tid tid;
        } made;
        struct wiki_newest newest; /* id not 0 */
    };
};

#define TOLD_NO_TITLE "-" /* of NEWEST */

/* Appends the text. Revisions are INT64_MAX at most. */
void told_encode(struct buf *out, const struct told *t);
/* Slices of text. False: no message that is known here. */
MUST_CHECK bool told_decode(str text, struct told *out);

#endif
