/* token.h - the `next` tokens of listings: opaque bytes of whoever lists, in base64url.
 *
 * They are not secret and not signed: a forged one names a position the client could have
 * reached. */
#ifndef APP_TOKEN_H
#define APP_TOKEN_H

enum { TOKEN_TEXT_BYTES_MAX = 1024 };

#endif
