/* entropy.h - bytes from the kernel's generator, for keys, tokens, seeds. Thread: any. */
#ifndef LOOP_ENTROPY_H
#define LOOP_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fills n bytes. Dies when the kernel has no generator. */
void entropy_bytes(void *dst, size_t n);
uint64_t entropy_u64(void);

#endif
