/* stage.h - a page service with all it stands on: a store on disk, flights, one worker, and Redis
 * when it is asked for; in front of a wiki that says what the test says. For tests.
 *
 * The wiki is the functions of render.h that ask: they are defined in stage_wiki.c, before the real
 * ones would be linked. A render comes as from the real ones: asked for on the loop, parsed on the
 * pool. Hand-overs between threads are counted: each task that a thread posts to another, and each
 * update that goes to the committer. */
#ifndef TEST_PAGE_STAGE_H
#define TEST_PAGE_STAGE_H

#include "lib/folder.h"
#include "lib/wait.h"
#include "page/get.h"
#include "redis_server.h"
#include "render/words.h"

#include "../cmocka_all.h"

#define STAGE_RECHECK_NS (10 * NS_PER_S)

struct bare_worker {
    struct home home;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct task_list tasks;
    bool stopping;
};

/* What the wiki answers from here on. */
struct wiki_says {
    enum render_why why;
    uint64_t rev;
    const char *html, *type; /* type NULL: text/html */
    const char *redirect;    /* key of the target; NULL: it is none */
    const char *title;       /* OTHER_TITLE: that */
    uint64_t user_id;        /* whose the cookies are */
    int64_t revised_s;       /* when the newest revision was made; 0: not said */
};
/* What it answers to a transform, and what it was asked; texts of asked until the next. */
struct wiki_transforms {
    enum origin_transforms has, told; /* told: what its rules say of that when it is UNKNOWN */
    enum render_why why;
    int status;
    const char *type, *reply; /* reply NULL: nothing comes until it is canceled */
    /* asked */
    const char *from, *to;
    uint64_t rev;
    char body[1024], cookie[64];
};

struct stage {
    char dir[FOLDER_PATH_BYTES];
    struct redis_server redis;
    struct engine *engine;
    struct pages *pages;
    struct sysclock *sysclock;
    struct log *log;
    struct loop *loop;
    pthread_t loop_thread;
    struct bare_worker worker;
    struct origin *origin;
    struct page_domain domains[2]; /* "en.test", with the wiki; "plain.test", without */
    struct page_settings settings;
    struct page_service service;
    _Atomic int64_t busy_until_ns;
    atomic_bool closed;
    struct page_failures failures[ERR_CODES];
    bool checked;
    unsigned ups; /* Redis came */
    bool was_idle;
};
void stage_begin(struct stage *s, bool has_redis);
/* Its titles are checked: page 3 stands under each, as wiki_word says. */
void stage_begin_checked(struct stage *s);
void stage_end(struct stage *s);
/* Its clock is moved, and the wiki's with it. */
void stage_advance(struct stage *s, int64_t seconds);

void wiki_say(struct stage *s, struct wiki_says says);
/* What is asked waits, until false. */
void wiki_hold(struct stage *s, bool hold);
/* What waits goes on waiting; what comes is answered. */
void wiki_hold_no_more(struct stage *s);
/* Who waits for it leaves no room to who has time. */
void wiki_full(struct stage *s, bool full);
/* Its rules of titles; NULL: unknown, and asked for in vain. */
void wiki_rules(struct stage *s, const char *siteinfo_json);
void wiki_kind(struct stage *s, enum origin_kind kind);
struct wiki_transforms *wiki_transforms(struct stage *s);
unsigned wiki_asked(struct stage *s); /* how often */
/* What it says of all titles, in words and before renders. */
struct wiki_word {
    enum render_why why; /* of words; not FINE: they fail, to be asked again in 7 s */
    enum words_title_state state;
    uint64_t page_id, rev;
    int64_t touched_s;
    enum words_revision_state shown; /* of every revision but rev */
    void (*meanwhile)(void *ctx);    /* while it is asked for words; NULL */
    void *ctx;
};
void wiki_word(struct stage *s, struct wiki_word word);
struct wiki_word wiki_word_now(struct stage *s);
unsigned wiki_words_asked(struct stage *s); /* calls */
/* A call for words waits, until false; then it is told what the wiki says by now. */
void wiki_hold_words(struct stage *s, bool hold);
/* Of those that it answered. */
struct wiki_words_counts {
    unsigned titles, revisions;
};
struct wiki_words_counts wiki_words_counts(struct stage *s);
/* Waits until it was asked so often. */
void wiki_wait(struct stage *s, unsigned asked);

/* Since the last call. */
unsigned stage_hand_overs(void);

/* A read, at the worker; the fields of get in "in" may be set before. */
struct asked {
    struct stage *stage;
    struct page_get get;
    struct arena arena;
    struct task task;
    int wants_shape; /* -1 */
    bool drains;     /* it must not wait */
    void *offers;    /* to those who ask the same */
    bool offered;
    void (*before_wait)(struct asked *a); /* inside wait; NULL */
    struct awaited over;
    /* as they were inside done */
    char body[256];
    unsigned hand_overs;
};
void asked_init(struct asked *a, struct stage *s, const char *title);
void asked_start(struct asked *a);
/* Waits until it is done. */
enum page_outcome asked_wait(struct asked *a);
void asked_fini(struct asked *a);
/* All of it. */
enum page_outcome ask(struct stage *s, const char *title, unsigned flags, char body[256]);

/* Puts text as html of that revision of "en.test" (or of the title's own). */
struct page_name stage_put(struct stage *s, const char *title, uint64_t rev, const char *text);
/* The same with data-parsoid; NULL: without. */
struct page_name stage_put_bundle(struct stage *s, const char *title, uint64_t rev,
                                  const char *text, const char *parsoid);
err stage_order(struct stage *s, struct page_order *o, const char *title);
/* How a look into the store for that revision ends; rev 0: for the latest. */
err stage_look(struct stage *s, const char *title, uint64_t rev);
/* Of the latest, which is there. */
enum title_dated stage_dated(struct stage *s, const char *title);

#endif
