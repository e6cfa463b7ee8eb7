/* words.h - asks a wiki for its words: what stands under titles, and which revisions may be shown.
 * Part of render.h.
 *
 * A request is one call of api.php. It asks for up to WORDS_MAX titles (prop=info), or for as many
 * revisions of any titles (prop=revisions). The call is a GET while its URL has at most
 * WORDS_URL_BYTES_MAX bytes, else a POST that promises to write nothing. A server that finds the
 * GET too long all the same (414) gets the POST. No cookies are sent: a word is what anybody may
 * know.
 *
 * Each title and each revision has an answer of its own. It is UNANSWERED when the reply lacks it,
 * has it twice, or tells half of it. UNANSWERED says nothing of the title, and nothing of the
 * others in the call: ask again.
 *
 * All instants are the wiki's own, in whole seconds since 1970. A word can be a little older than
 * its instant: the wiki's transaction may have begun a moment before, and a database that is a copy
 * may be up to WORDS_LAG_S_MAX behind (maxlag), or more where the wiki does not notice it. So each
 * call asks for the newest change, too: a reply that lacks one seen before comes from a copy that
 * is behind.
 *
 * Words wait for each other alone: WORDS_AT_ONCE of a domain and 8 of a host run at once, whatever
 * renders of that host are under way. Only client.connections_max holds for both. A caller who
 * wants a turn kept for the words that somebody waits for starts the others one at a time.
 *
 * Seen on MediaWiki 1.39:
 *  - rvprop=ids does not say what is hidden. rvprop=sha1 does: a hidden revision has sha1hidden,
 *    also where the account may read it.
 *  - An account with the right deletedhistory hears nothing of a deleted revision, neither among
 *    pages nor among badrevids: UNANSWERED. The server's account should not have that right.
 *  - The name of a user's namespace follows the gender of the user. The wiki's rules of titles tell
 *    which names mean one namespace. Until the rules are known such titles are UNANSWERED, and the
 *    rules are asked for.
 *  - A title that is asked for in two forms is one page in the reply. */
#ifndef RENDER_WORDS_H
#define RENDER_WORDS_H

#include "render/render.h"

enum {
    WORDS_MAX = 50, /* what api.php takes of an account without apihighlimits */
    WORDS_AT_ONCE = 2,
    WORDS_LAG_S_MAX = 5,
    WORDS_URL_BYTES_MAX = 6 << 10 /* nginx takes 8 KiB with the headers around it */
};

enum words_title_state {
    WORDS_TITLE_UNANSWERED,
    WORDS_TITLE_THERE,
    WORDS_TITLE_MISSING,  /* never made, or deleted */
    WORDS_TITLE_INVALID,  /* no page can have it: also special pages and other wikis' */
    WORDS_TITLE_ELSEWHERE /* the wiki makes another title of it: moved_to. No redirect */
};
struct words_title {
    str title; /* in: a key */
    /* out */
    enum words_title_state state;
    int64_t namespace_id; /* THERE, MISSING */
    /* THERE: */
    uint64_t page_id, rev; /* rev: the latest */
    int64_t touched_s;
    bool redirect;
    str moved_to; /* ELSEWHERE: a key */
};

enum words_revision_state {
    WORDS_REVISION_UNANSWERED,
    WORDS_REVISION_SHOWN,
    WORDS_REVISION_HIDDEN, /* its text is: deleted for readers, or suppressed */
    WORDS_REVISION_MISSING /* there is none, or its page is deleted */
};
struct words_revision {
    uint64_t rev; /* in */
    /* out */
    enum words_revision_state state;
    str title; /* SHOWN, HIDDEN: the key of its page now */
    uint64_t page_id;
};

struct words {
    /* The caller's, one of the two; never both. Neither: a plain question, to which no title can be
     * the reason for a no */
    struct words_title *titles;
    struct words_revision *revisions;
    unsigned titles_count, revisions_count;
    /* out: when the wiki said all this, and how far its database had come */
    int64_t said_s;
    struct wiki_newest newest;
};

struct words_request {
    /* in; borrowed until done */
    struct origin *origin;
    struct words words;
    mono deadline;
    struct arena *arena;
    void (*done)(struct words_request *r, enum render_why why);
    void *ctx;
    /* out; strings in the arena. Not FINE: everything is UNANSWERED, said_s is 0 */
    bool barred;           /* REFUSED: by 401 or 403 */
    int64_t retry_after_s; /* BUSY: 0 when not said */
    struct err_note note;  /* not FINE: a sentence without addresses */
    struct words_work *work;
};
/* done gets FINE, or why there is no word at all:
 *   BUSY      408, 425, 429, 503; the API's maxlag, ratelimited, readonly; too many wait already
 *   DENIED    api.php itself says that it is not for us to read (readapidenied): the wiki is closed
 *   REFUSED   another 4xx or error of the API; 401 and 403 that a server before the wiki may have
 *             said; an origin without api.php
 *   FAILED    5xx, no JSON, no instant, a reply that is not whole
 * and TIMEOUT, LIMIT, CANCELED as of renders. What failed is tried again as a GET is, by POST too.
 * The reply is parsed on the pool. Thread: any; done on the loop, later. */
void words_start(struct words_request *r);
/* done comes soon, with CANCELED unless it is on its way already. Thread: the loop's. */
void words_cancel(struct words_request *r);

#endif
