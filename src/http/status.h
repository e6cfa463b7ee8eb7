/* status.h - reason phrases (RFC 9110 15). Pure. */
#ifndef HTTP_STATUS_H
#define HTTP_STATUS_H

/* "Not Found"; "Error" for what has none. Static. */
const char *http_status_text(int status);

#endif
