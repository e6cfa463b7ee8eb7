/* policies_impl.h - what the files of policies.h share. Private to this folder. */
#ifndef CASSANDRA_POLICIES_IMPL_H
#define CASSANDRA_POLICIES_IMPL_H

#include "cassandra/policies.h"

#include "base/buf.h"

enum { POLICIES_ARENA_BYTES_MAX = 64 << 20, POLICY_VALUE_BYTES_MAX = 128 };

/* False: it does not fit. */
bool policy_key_put(struct buf *b, str bucket, uint32_t number);
void policy_put(struct buf *b, const struct title_plan *p);

#endif
