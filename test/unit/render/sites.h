/* sites.h - what a wiki says of itself, shortened; for tests. */
#ifndef TEST_RENDER_SITES_H
#define TEST_RENDER_SITES_H

#define SITE_NAMESPACES                                                                            \
    "\"namespaces\":{\"-2\":{\"id\":-2,\"case\":\"first-letter\",\"name\":\"Medium\","             \
    "\"canonical\":\"Media\"},"                                                                    \
    "\"-1\":{\"id\":-1,\"case\":\"first-letter\",\"name\":\"Spezial\",\"canonical\":\"Special\"}," \
    "\"0\":{\"id\":0,\"case\":\"first-letter\",\"name\":\"\",\"content\":true},"                   \
    "\"1\":{\"id\":1,\"case\":\"first-letter\",\"name\":\"Diskussion\",\"canonical\":\"Talk\"},"   \
    "\"2\":{\"id\":2,\"case\":\"first-letter\",\"name\":\"Benutzer\",\"canonical\":\"User\"},"     \
    "\"3\":{\"id\":3,\"case\":\"first-letter\",\"name\":\"Benutzer "                               \
    "Diskussion\",\"canonical\":\"User talk\"},"                                                   \
    "\"4\":{\"id\":4,\"case\":\"first-letter\",\"name\":\"Wiki\",\"canonical\":\"Project\"},"      \
    "\"6\":{\"id\":6,\"case\":\"first-letter\",\"name\":\"Datei\",\"canonical\":\"File\"},"        \
    "\"100\":{\"id\":100,\"case\":\"case-sensitive\",\"name\":\"Ähre\",\"canonical\":\"Ear\"}},"
#define SITE_ALIASES                                                                               \
    "\"namespacealiases\":[{\"id\":2,\"alias\":\"Benutzerin\"},{\"id\":3,\"alias\":\"Benutzerin "  \
    "Diskussion\"},{\"id\":6,\"alias\":\"Image\"},"                                                \
    "{\"id\":4,\"alias\":\"WP\"},{\"id\":999,\"alias\":\"Nowhere\"}],"
#define SITE_INTERWIKIS                                                                            \
    "\"interwikimap\":[{\"prefix\":\"en\",\"url\":\"https://en/$1\"},{\"prefix\":\"mw\"}]"
#define SITE_GENERAL(lang)                                                                         \
    "\"general\":{\"lang\":\"" lang "\",\"server\":\"//wiki.example\",\"case\":\"first-letter\","  \
    "\"legaltitlechars\":\" "                                                                      \
    "%!\\\"$&'()*,\\\\-.\\\\/0-9:;=?@A-Z\\\\\\\\^_`a-z~\\\\x80-\\\\xFF+\"},"
#define SITE_JSON(lang)                                                                            \
    "{\"batchcomplete\":true,\"query\":{" SITE_GENERAL(lang)                                       \
        SITE_NAMESPACES SITE_ALIASES SITE_INTERWIKIS "}}"

#endif
