/* words_said.h - what MediaWiki 1.39.17 said to questions for words, without members that nobody
 * reads; for tests. The same replies are seeds of test/fuzz/fuzz_render_words.c. */
#ifndef TEST_RENDER_WORDS_SAID_H
#define TEST_RENDER_WORDS_SAID_H

/* Asked for Plain_page, No_such, Way, Gone2, a[b, Special:Version, Media:X.jpg, wikipedia:Y,
 * plain_page, Talk: */
#define SAID_TITLES                                                                                \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:37Z\",\"query\":{"                \
    "\"normalized\":[{\"fromencoded\":false,\"from\":\"Plain_page\",\"to\":\"Plain page\"},{"      \
    "\"fromencoded\":false,\"from\":\"No_such\",\"to\":\"No such\"},{\"fromencoded\":false,"       \
    "\"from\":\"plain_page\",\"to\":\"Plain page\"}],\"interwiki\":[{"                             \
    "\"title\":\"wikipedia:Y\"}],\"pages\":[{\"ns\":0,\"title\":\"Gone2\",\"missing\":true},{"     \
    "\"ns\":0,\"title\":\"No such\",\"missing\":true},{\"ns\":-2,\"title\":\"Media:X.jpg\","       \
    "\"special\":true,\"missing\":true},{\"ns\":-1,\"title\":\"Special:Version\","                 \
    "\"special\":true},{\"title\":\"Talk:\",\"invalid\":true},{\"title\":\"a[b\","                 \
    "\"invalid\":true},{\"pageid\":2,\"ns\":0,\"title\":\"Plain page\","                           \
    "\"touched\":\"2026-11-26T12:57:22Z\",\"lastrevid\":3},{\"pageid\":4,\"ns\":0,"                \
    "\"title\":\"Way\",\"touched\":\"2026-11-26T12:57:23Z\",\"lastrevid\":5,"                      \
    "\"redirect\":true}]}}"

/* For three spellings of one title. */
#define SAID_NFC                                                                                   \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:38Z\",\"query\":{"                \
    "\"normalized\":[{\"fromencoded\":true,\"from\":\"cafe%CC%81\",\"to\":\"café\"},{"            \
    "\"fromencoded\":true,\"from\":\"Cafe%CC%81\",\"to\":\"Café\"},{\"fromencoded\":false,"       \
    "\"from\":\"café\",\"to\":\"Café\"}],\"pages\":[{\"pageid\":7,\"ns\":0,\"title\":\"Café\"," \
    "\"touched\":\"2026-11-26T12:57:24Z\",\"lastrevid\":11}]}}"

/* Of a German wiki whose user Admin is a woman. */
#define SAID_GENDER                                                                                \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:38Z\",\"query\":{"                \
    "\"normalized\":[{\"fromencoded\":false,\"from\":\"Benutzer:Admin\","                          \
    "\"to\":\"Benutzerin:Admin\"},{\"fromencoded\":false,"                                         \
    "\"from\":\"Benutzer_Diskussion:Admin\",\"to\":\"Benutzerin Diskussion:Admin\"},{"             \
    "\"fromencoded\":false,\"from\":\"Benutzer:Anna_B\",\"to\":\"Benutzer:Anna B\"}],"             \
    "\"pages\":[{\"ns\":3,\"title\":\"Benutzerin Diskussion:Admin\",\"missing\":true},{"           \
    "\"ns\":2,\"title\":\"Benutzerin:Admin\",\"missing\":true},{\"pageid\":3,\"ns\":2,"            \
    "\"title\":\"Benutzer:Anna B\",\"touched\":\"2026-11-26T12:57:22Z\",\"lastrevid\":4}]}}"

/* For wikipedia:Y alone. */
#define SAID_OTHER_WIKI                                                                            \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:38Z\",\"query\":{"                \
    "\"interwiki\":[{\"title\":\"wikipedia:Y\"}]}}"

/* rvprop=ids|sha1. 7 is hidden and 8 suppressed; of 9 the user is hidden; the page of 17 is
 * deleted; 999 never was. */
#define SAID_REVISIONS                                                                             \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:38Z\",\"query\":{"                \
    "\"badrevids\":{\"17\":{\"revid\":17,\"missing\":true},\"999\":{\"revid\":999,"                \
    "\"missing\":true}},\"pages\":[{\"pageid\":2,\"ns\":0,\"title\":\"Plain page\","               \
    "\"revisions\":[{\"revid\":3,\"sha1\":\"ad782ecdac770fc6eb9a62e44f90873fb97fb26b\"}]},{"       \
    "\"pageid\":6,\"ns\":0,\"title\":\"Hidden\",\"revisions\":[{\"revid\":7,"                      \
    "\"sha1hidden\":true},{\"revid\":8,\"sha1hidden\":true,\"suppressed\":true},{\"revid\":9,"     \
    "\"sha1\":\"e540c57ec9d812f74e707a6d4c545c305f482bdb\"}]},{\"pageid\":8,\"ns\":0,"             \
    "\"title\":\"Part\",\"revisions\":[{\"revid\":12,"                                             \
    "\"sha1\":\"9cabb3ab77279b82a13fb9a39651d69792e21072\"}]}]}}"

/* Of rvprop=ids: 7 is hidden. */
#define SAID_IDS                                                                                   \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:38Z\",\"query\":{\"pages\":[{"    \
    "\"pageid\":2,\"ns\":0,\"title\":\"Plain page\",\"revisions\":[{\"revid\":3}]},{"              \
    "\"pageid\":6,\"ns\":0,\"title\":\"Hidden\",\"revisions\":[{\"revid\":7}]}]}}"

/* To an account that may see what is deleted: 17 is nowhere. */
#define SAID_RIGHT                                                                                 \
    "{\"batchcomplete\":true,\"curtimestamp\":\"2026-11-26T13:07:39Z\",\"query\":{"                \
    "\"badrevids\":{\"999\":{\"revid\":999,\"missing\":true}},\"pages\":[{\"ns\":0,"               \
    "\"title\":\"Gone2\",\"missing\":true},{\"pageid\":6,\"ns\":0,\"title\":\"Hidden\","           \
    "\"revisions\":[{\"revid\":7,\"sha1hidden\":true,"                                             \
    "\"sha1\":\"66b9e5aef98ced908e577140bccee56bcf4d29b9\"},{\"revid\":8,\"sha1hidden\":true,"     \
    "\"sha1\":\"607b090f46d6af21cf362596b2850c91582bea95\",\"suppressed\":true}]}]}}"

#define SAID_MAXLAG                                                                                \
    "{\"error\":{\"code\":\"maxlag\",\"host\":\"db2\",\"lag\":7.25,\"type\":\"db\"},"              \
    "\"curtimestamp\":\"2026-11-26T13:07:38Z\"}"

#define SAID_DENIED                                                                                \
    "{\"error\":{\"code\":\"readapidenied\"},\"curtimestamp\":\"2026-11-26T13:07:38Z\"}"

#define SAID_TOO_MANY                                                                              \
    "{\"error\":{\"code\":\"toomanyvalues\",\"limit\":50,\"lowlimit\":50,\"highlimit\":500},"      \
    "\"curtimestamp\":\"2026-11-26T13:07:38Z\"}"

#endif
