/* segment.h - version 5's framing: envelopes in segments with checksums, stored or in LZ4; and the
 * LZ4 bodies of version 4.
 *
 * Source: Cassandra's doc/native_protocol_v5.spec, section 2. A segment has a header with a CRC24,
 * a payload of at most CQL_SEGMENT_BYTES_MAX bytes, and the payload's CRC32. Whole envelopes share
 * a self-contained segment; an envelope that is larger is cut over segments of its own. Private to
 * cql. Pure. Thread: any. */
#ifndef CQL_SEGMENT_H
#define CQL_SEGMENT_H

#include "base/buf.h"

enum { CQL_SEGMENT_BYTES_MAX = (1 << 17) - 1 };

uint32_t cql_crc24(str bytes); /* polynomial 0x1974f0b, begun with 0x875060 */
uint32_t cql_crc32(str bytes); /* zlib's, begun with the bytes FA 2D 55 CA */

/* envelopes: whole ones, one behind the other; appends the segments. lz4: payloads are compressed
 * where that makes them smaller. */
void cql_segments_put(struct buf *out, str envelopes, bool lz4);

struct cql_segment {
    str payload;         /* borrowed from the input, or from room */
    bool self_contained; /* holds whole envelopes; else a piece of one */
    size_t used;         /* bytes of the input */
};
enum cql_segment_state { CQL_SEGMENT_WHOLE, CQL_SEGMENT_SHORT, CQL_SEGMENT_BAD };
/* The first segment of in. SHORT: it is not all there, *out untouched. BAD: a checksum or a length
 * is wrong, the note says which; nothing behind it can be read, so close the connection. room: for
 * what is unpacked, CQL_SEGMENT_BYTES_MAX bytes; NULL without lz4. */
enum cql_segment_state cql_segment_take(str in, bool lz4, char *room, struct cql_segment *out,
                                        struct err_note *note);

/* Version 4: a body as LZ4 with its size before it. False: it would not be smaller; out is as
 * before. */
bool cql_body_pack(struct buf *out, str body);
/* The size that a packed body claims; false: too short, or more than bytes_max. */
MUST_CHECK bool cql_body_unpacked_bytes(str packed, size_t bytes_max, size_t *out);
/* Into exactly that many bytes. False: it is no such body. */
MUST_CHECK bool cql_body_unpack(str packed, char *out, size_t bytes);

#endif
