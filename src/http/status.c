/* status.c - the words of HTTP for its status codes, and of ours. */
#include "http/status.h"

#include "base/check.h"

static const struct {
    int status;
    const char *text;
} phrases[] = {
    { 200, "OK" },
    { 201, "Created" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 304, "Not Modified" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 422, "Unprocessable Content" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 453, "Request Failed" },
    { 500, "Internal Server Error" },
    { 499, "Client Closed Request" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < COUNT_OF(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].text;
    return "Error";
}
