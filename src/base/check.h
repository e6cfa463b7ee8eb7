/* check.h - invariants that stay on in production, and the few macros everybody needs.
 *
 * A broken belief about our own state is not an error to handle: INVARIANT prints where and what,
 * then aborts. Bad input, full disks and dead peers are never an INVARIANT. Thread: any. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define BIT(n) (1u << (n))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Prints "file:line: what" to stderr and aborts. Never returns. */
_Noreturn void check_failed(const char *file, int line, const char *what);

#define INVARIANT(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
#define MAGIC_CHECK(obj, magic_value) INVARIANT((obj) != NULL && (obj)->magic == (magic_value))

#endif
