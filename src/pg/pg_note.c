/* pg_note.c - what libpq and the server say, as notes of one line. */
#include "pg/conn.h"

#include <string.h>

/* Text of libpq in one line: line ends, tabs and what stands beside them are one blank. */
void pg_note_of(struct err_note *note, const char *what, const char *text)
{
    if (note == NULL)
        return;
    err_note_set(note, "%s: %s", what, text == NULL ? "" : text);
    char *to = note->text;
    for (const char *p = note->text; *p != '\0'; p++) {
        bool blank = (unsigned char)*p <= ' ';
        if (!blank)
            *to++ = *p;
        else if (to > note->text && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
    str trimmed = str_trim(str_of(note->text));
    note->text[trimmed.n] = '\0'; /* it began with a letter */
}

enum { SQL_SHOWN_BYTES = 48 };

void pg_note_of_result(struct err_note *note, const PGresult *result, const char *sql)
{
    struct err_note said;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    pg_note_of(&said, "PostgreSQL", PQresultErrorMessage(result));
    *note = said;
    if (sql != NULL && state != NULL && strcmp(state, PG_DENIED_STATE) == 0)
        err_note_set(note, "%s; '%.*s...' needs SELECT, INSERT, UPDATE or DELETE there", said.text,
                     SQL_SHOWN_BYTES, sql);
}

/* Where "SQLSTATE: " stands in what is said of a connection, with PQERRORS_VERBOSE; text.n:
 * nowhere. */
static size_t state_at(str text)
{
    for (size_t i = 0; i + PG_STATE_BYTES + 1 <= text.n; i++) {
        size_t n = 0;
        while (n < PG_STATE_BYTES - 1 && ((text.p[i + n] >= '0' && text.p[i + n] <= '9') ||
                                          (text.p[i + n] >= 'A' && text.p[i + n] <= 'Z')))
            n++;
        bool begins =
            i > 1 && text.p[i - 1] == ' ' && text.p[i - 2] == ' '; /* FATAL, before it, has one */
        if (begins && n == PG_STATE_BYTES - 1 && str_starts(str_skip(text, i + n), STR(": ")))
            return i;
    }
    return text.n;
}

err pg_note_of_refusal(PGconn *conn, struct err_note *note)
{
    str text = str_of(PQerrorMessage(conn));
    text = str_take(text, str_find_str(text, STR("\nLOCATION:"))); /* in the server's source */
    text = str_take(text, str_find_str(text, STR("\n\t")));        /* libpq asks whether it runs */
    size_t state = state_at(text);
    str behind = str_skip(text, state == text.n ? text.n : state + PG_STATE_BYTES + 1);
    struct err_note said;
    err_note_set(&said, "%.*s%.*s", STR_ARG(str_take(text, state)), STR_ARG(behind));
    pg_note_of(note, "PostgreSQL refuses", said.text);
    bool password = PQconnectionUsedPassword(conn) && str_starts(str_skip(text, state), STR("28"));
    return password || PQconnectionNeedsPassword(conn) ? ERR_DENIED : ERR_UNAVAILABLE;
}
