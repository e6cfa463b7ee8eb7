/* words.h - words of the wiki as stores keep them: the bytes of one, and the last of those that
 * several servers kept beside each other.
 *
 * Model. A store whose servers decide one after the other keeps one word of a title, the last. A
 * store of many servers keeps each word that a server took for news, and never overwrites one: the
 * write that comes last need not be of the word that was asked for last. Which is the last word is
 * worked out: words in the order in which the wiki was asked, each judged by the one before it, as
 * the server judged it that heard it. So the order in which words arrive does not matter.
 *
 * A word's bytes: version u8, flags u8 (1 missing, 2 redirect, 4 there), page id and revision as
 * varints; touched, said, asked at, of 8 bytes each; with flag 4 what is there as a varint. One
 * word has one encoding, and is fuzzed. Pure. */
#ifndef TITLE_WORDS_H
#define TITLE_WORDS_H

#include "base/err.h"
#include "title/word.h"

enum { TITLE_WORD_BYTES_MAX = 2 + 10 + 10 + 3 * 8 + 10 };
/* out has TITLE_WORD_BYTES_MAX bytes. */
str title_word_encode(const struct title_word *w, char *out);
/* ERR_CORRUPT: *out undefined. */
MUST_CHECK err title_word_decode(str value, struct title_word *out);

/* A word that a server took for news, or that says more of what is there. */
struct title_said {
    struct title_word word;
    store_time at; /* when it was kept; with the server and word.asked_at it names the word */
    uint32_t srv;
    bool believed; /* it counts although it lags */
    bool doubted;  /* it counts only when it is surely later (title_word_is_later) */
};
/* How it stands to the last word before it; NULL: there is none. */
enum title_word_is title_said_judge(const struct title_word *last, const struct title_said *s);
/* The order of the fold: 0 only for one word. */
int title_said_cmp(const struct title_said *a, const struct title_said *b);
/* Leaves the words that count in front, in their order, each with what is known to be there by
 * then, and returns how many they are. The last of them is the last word. all: in any order, any of
 * them any number of times. What is before one that counts may be deleted: the first counts always.
 */
size_t title_words_fold(struct title_said *all, size_t count);

#endif
