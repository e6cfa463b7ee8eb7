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

/* What a thread is at work for, in words for whoever looks at a crash: print writes to stderr, and
 * neither allocates nor locks. print NULL: nothing to say. */
struct check_note {
    void (*print)(const void *ctx);
    const void *ctx;
};
/* The calling thread's, from here on. Returns the one before, to be set again. */
struct check_note check_note_set(struct check_note note);

/* Prints "file:line: what" and this thread's note to stderr and aborts. Never returns. */
_Noreturn void check_failed(const char *file, int line, const char *what);

#define INVARIANT(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))
#define MAGIC_CHECK(obj, magic_value) INVARIANT((obj) != NULL && (obj)->magic == (magic_value))

#endif
